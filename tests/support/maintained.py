"""A table in memory with a history worth maintaining, and what must hold whenever a chore stops."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import LakeError
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs import compact
from lakecore.jobs.runner.chore import Safety
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of

__all__ = ["NONE", "OWNER", "History", "Views", "history", "views"]

NONE = "(?!)"
"""A pattern that matches nothing."""

OWNER = Safety(owner="test")
"""One owner: a second try need not wait for the lease of the first."""

Views = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class History:
    """A table, every byte of its warehouse and the rows at each of its snapshots and tags."""

    catalog: FilesystemCatalog
    table: Table
    image: dict[str, bytes]
    rows: Views

    @classmethod
    def of(cls, catalog: FilesystemCatalog, table: Table) -> History:
        image = {path: catalog.file_io.read(path) for path in _all_paths(catalog)}
        return cls(catalog, table, image, views(table))

    def reset(self) -> None:
        storage = self.catalog.file_io
        assert isinstance(storage, MemoryFileIO)
        storage.clear()
        for path, data in self.image.items():
            storage.write_new(path, data)

    def through(self, storage: Any) -> FilesystemCatalog:
        return replace(self.catalog, file_io=storage)

    def untouched(self) -> bool:
        """Whether nothing has changed but leases and the ledger of attempts."""
        own = ("/.lakecore/leases/", "/.lakecore/ledger/")
        paths = {path for path in _all_paths(self.catalog) if not any(part in path for part in own)}
        old = {path for path in self.image if not any(part in path for part in own)}
        return paths == old and all(self.catalog.file_io.read(path) == self.image[path] for path in old)

    def files(self) -> set[str]:
        """Of the table, not of `.lakecore`."""
        return paths_of(self.table, "")

    def state(self) -> frozenset[tuple[str, bytes]]:
        """The table, byte by byte: what was checked once need not be again."""
        return frozenset((path, self.catalog.file_io.read(path)) for path in self.files())

    def quarantined(self) -> int:
        """Files in the quarantine."""
        return sum("/kept/" in path for path in _all_paths(self.catalog))

    def check_views(self, where: str, after: Views | None = None) -> None:
        """What can be seen reads as it did before the chore, or as it does after it: `after`."""
        for name, rows in views(self.table).items():
            right = (self.rows.get(name), (after or {}).get(name))
            assert rows in right, f"{where}: {name} reads {rows}, not one of {right}"

    def check_whole(self, where: str, *, orphans: bool, damage: str = NONE) -> None:
        """Nothing is damaged, but for problems that match `damage`; with `orphans`, nothing is left over either."""
        table = self.catalog.load_table(self.table.name)
        report = fsck(
            table._stores.file_io, table._stores.paths, now_ms=self.catalog.clock.now_ms(), deep=orphans
        )
        allowed = set() if orphans else {FindingKind.ORPHAN, FindingKind.HINT}
        found = [f for f in report.findings if f.kind not in allowed and not re.search(damage, f.problem)]
        assert [f for f in found if orphans or "are missing before it" not in f.problem] == [], where


def views(table: Table) -> Views:
    """The rows at every snapshot and tag there is, of every branch; the error where they cannot be read."""
    found = {}
    branches = [name for name in table._stores.branches.list() if _begun(table, name)]
    for branch in ("", *branches):
        at = table.at_branch(branch) if branch else table
        of = f" of {branch}" if branch else ""
        found |= {f"snapshot {i}{of}": _seen(at, snapshot=i) for i in at._stores.snapshots.list_ids()}
        found |= {f"tag {name}{of}": _seen(at, tag=name) for name in at._stores.tags.list()}
    return found


def _begun(table: Table, branch: str) -> bool:
    """Whether the branch has a schema: without one it cannot be opened, and has no rows to see."""
    return any("/schema-" in path for path in paths_of(table, f"/branch/branch-{branch}/schema/"))


def _seen(table: Table, **at: Any) -> list[tuple[Any, ...]]:
    try:
        return rows_of(table, **at)
    except LakeError as err:
        return [(type(err).__name__,)]


def history(where: str | FilesystemCatalog, **options: str) -> History:
    """Six snapshots of a changelog-producing table, one of them a compaction, tags `a` (2) and `b` (4).

    `where`: the name of a new warehouse in memory, or an empty one.
    """
    catalog = memory_catalog(where) if isinstance(where, str) else where
    table = key_table(catalog, changelog_producer="input", **options)
    for number in range(5):
        put(table, [{"k": number, "v": f"v{number}"}, {"k": 0, "v": f"new{number}"}])
        if number == 3:
            job = compact.Job(table=table.name, strategy=compact.Strategy.FULL, commit_identifier=number)
            compact.run(job, catalog, clock=catalog.clock)
    for tag, snapshot in (("a", 2), ("b", 4)):
        catalog.file_io.write_new(
            table._stores.paths.tag(tag), catalog.file_io.read(table._stores.paths.snapshot(snapshot))
        )
    return History.of(catalog, table)


def _all_paths(catalog: FilesystemCatalog) -> set[str]:
    found: set[str] = set()
    folders = [catalog.warehouse]
    while folders:
        for status in catalog.file_io.list(folders.pop()):
            if status.is_dir:
                folders.append(status.path)
            else:
                found.add(status.path)
    return found
