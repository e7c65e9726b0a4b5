"""A writer that commits as Java Paimon does on a local disk: it looks whether the name is free, then renames over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakecore.fs.file_io import FileIO
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind, Snapshot
from tests.support.commit_table import CommitTable
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO

__all__ = ["RenamingWriter", "SteppingClock", "SteppingFileIO", "Steps"]

Step = Callable[[], None]


class RenamingWriter:
    """One append of one file, in two steps. `look` plans on the newest snapshot and finds the next name free; `rename` publishes.

    Where `rename` comes without `look`, it looks first. `over`: what it renamed over, if anything.
    """

    def __init__(self, table: CommitTable, name: str = "rival", kind: CommitKind = CommitKind.APPEND) -> None:
        self._table = table
        self._name = name
        self._kind = kind
        self.planned: Snapshot | None = None
        self.renamed = False
        self.over: Snapshot | None = None

    def look(self) -> None:
        """The name is free now, because the plan is made on the newest snapshot."""
        table, latest = self._table, self._table.snapshots.latest()
        assert latest is not None
        entry = ManifestEntry(
            kind=EntryKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=table.file(self._name)
        )
        base = table.manifests.write_list(table.manifests.data_manifests(latest))
        delta = table.manifests.write_list(table.manifests.write(ManifestEntries.from_rows([entry])))
        self.planned = next_metadata_only(
            latest,
            base,
            delta,
            self._kind,
            latest.time_millis + 1,
            commit_user="rival",
            commit_identifier=1,
            total_record_count=(latest.total_record_count or 0) + entry.file.row_count,
            delta_record_count=entry.file.row_count,
        )

    def rename(self) -> None:
        """Publish over whatever is there by now."""
        if self.planned is None:
            self.look()
        assert self.planned is not None
        self.renamed = True
        table = self._table
        self.over = table.snapshots.find(self.planned.id)
        table.storage.overwrite(table.paths.snapshot(self.planned.id), self.planned.to_json().encode())
        table.storage.overwrite(table.paths.latest_hint, str(self.planned.id).encode())


class Steps:
    """What others do before operation 1, 2, 3, … of a committer, storage and waiting taken together."""

    def __init__(self) -> None:
        self._steps: dict[int, list[Step]] = {}
        self._at: tuple[str, str, Step] | None = None
        self.count = 0
        self.log: list[str] = []

    def settled(self, snapshot_id: int) -> int:
        """The operation that looked at this snapshot after its settle time; a large number where none did."""
        waits = [number for number, entry in enumerate(self.log, 1) if entry == "sleep "]
        name = f"read snapshot-{snapshot_id}"
        looks = [number for number, entry in enumerate(self.log, 1) if entry == name]
        return next((look for look in looks if any(wait < look for wait in waits)), 1 << 30)

    def add(self, number: int, step: Step) -> None:
        """Before operation `number`; in the order of the calls."""
        self._steps.setdefault(number, []).append(step)

    def on(self, name: str, part: str, step: Step) -> None:
        """Before the first operation `name` on a path that contains `part`."""
        self._at = (name, part, step)

    def reached(self, name: str, path: str = "") -> None:
        self.count += 1
        self.log.append(f"{name} {path.rpartition('/')[2]}")
        for step in self._steps.pop(self.count, ()):
            step()
        if self._at is not None and name == self._at[0] and self._at[1] in path:
            step, self._at = self._at[2], None
            step()


class SteppingFileIO(FaultyFileIO):
    """Lets the others do their steps between its operations. Their storage is `inner`."""

    def __init__(self, inner: FileIO, steps: Steps) -> None:
        super().__init__(inner)
        self._steps = steps

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        self._steps.reached(name, path)
        return super().operation(name, path, effect, torn)


class SteppingClock(FakeClock):
    """Waiting is an operation, too."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    def sleep(self, seconds: float) -> None:
        self._steps.reached("sleep")
        super().sleep(seconds)
