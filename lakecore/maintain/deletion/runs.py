"""The ledger of what chores did and are about to do: `<warehouse>/.lakecore/runs/<table>/<run>/`.

Each run has one folder: `run.json` (the line of the ledger: job, parameters, estimate, outcome, state),
`files.jsonl.gz` (every file it removes, and why) and `kept/` (the files of a quarantine). `run.json` is
written last, so a visible run is complete; its state is the only part that changes.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError, reason
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.table_key import file_name, table_key
from lakecore.maintain.target import in_threads
from lakecore.metadata.file_names import checked_name
from lakecore.metadata.json_record import json_object, json_value

__all__ = ["LATEST_MS", "Removal", "RunRecord", "RunState", "RunStore", "quoted_table"]

logger = logging.getLogger(__name__)

_MOST_LINE = 64 << 10
LATEST_MS = 253_402_300_800_000
"""This is the end of the year 9999."""


class RunState(Enum):
    PLANNED = "planned"
    """Written down; whether all of it happened is not known: the next run on the table finishes it."""
    DONE = "done"
    QUARANTINED = "quarantined"
    """Done, and `undo` can take it back."""
    UNDONE = "undone"
    PURGED = "purged"
    """Was quarantined; its files are gone for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """This is one line of the ledger. Times are in milliseconds since the epoch."""

    id: str
    table: str
    """This is the table, without its branch."""
    job: str
    state: RunState
    keeps: bool
    """It tells whether removed files are moved to the quarantine."""
    started_ms: int
    finished_ms: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    estimate: Mapping[str, Any] = field(default_factory=dict)
    outcome: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"state": self.state.value}

    @classmethod
    def from_json(cls, data: bytes, path: str) -> RunRecord:
        """Parse a record. Raises CorruptDataError, also for a record of another folder than its own."""
        try:
            raw = json_object(data)
            record = cls(**raw | {"state": RunState(raw["state"])})
            _check_fields(record)
            folder, _, run = path.rpartition("/")[0].rpartition("/")
            if (quoted_table(record.table), record.id) != (folder.rpartition("/")[2], run):
                raise ValueError(f"it names run {record.id!r} of table {record.table!r}")
        except (ValueError, KeyError, TypeError) as err:
            raise CorruptDataError(path, f"is not a run of the ledger: {reason(err)}") from err
        return record


@dataclass(frozen=True, slots=True)
class Removal:
    """These are the files that a run removes: root files in this order, then the files that only they
    needed.
    """

    roots: tuple[PlannedDeletion, ...] = ()
    files: tuple[PlannedDeletion, ...] = ()

    def __iter__(self) -> Iterator[PlannedDeletion]:
        yield from self.roots
        yield from self.files

    def __len__(self) -> int:
        return len(self.roots) + len(self.files)

    @property
    def size(self) -> int:
        """Return the size in bytes, as far as it is recorded."""
        return sum(deletion.size for deletion in self)


@dataclass(frozen=True)
class RunStore(ServiceStore):
    """It stores the runs of a warehouse."""

    directory: ClassVar[str] = "runs"

    clock: Clock

    def folder(self, record: RunRecord) -> str:
        return f"{self._table(record.table)}/{record.id}"

    def begin(
        self,
        table: str,
        job: str,
        removal: Removal,
        *,
        quarantine: bool = False,
        parameters: Mapping[str, Any] | None = None,
        estimate: Mapping[str, Any] | None = None,
    ) -> RunRecord:
        """Record what will be removed, durably, before any of it is."""
        now = self.clock.now_ms()
        stamp = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        record = RunRecord(
            id=f"{stamp}-{job}-{self.clock.fresh_id().replace('-', '')[:16]}",
            table=table_key(table),
            job=job,
            state=RunState.PLANNED,
            keeps=quarantine,
            started_ms=now,
            parameters=dict(parameters or {}),
            estimate=dict(estimate or {}),
        )
        if len(removal):
            lines = (json.dumps([0, *_fields(deletion)]) for deletion in removal.roots)
            more = (json.dumps([1, *_fields(deletion)]) for deletion in removal.files)
            text = "\n".join([*lines, *more])
            self.file_io.write_new(self._files(record), gzip.compress(text.encode(), 3, mtime=0))
        self._save(record)
        return record

    def finish(
        self, record: RunRecord, state: RunState, outcome: Mapping[str, Any] | None = None
    ) -> RunRecord:
        """Store the record with its new state and return it."""
        record_done = replace(
            record,
            state=state,
            finished_ms=self.clock.now_ms(),
            outcome={**record.outcome, **(outcome or {})},
        )
        self._save(record_done)
        return record_done

    def removal(self, record: RunRecord) -> Removal:
        """Return what the run removes. Raises CorruptDataError."""
        path = self._files(record)
        try:
            data = self.file_io.read(path)
        except NotFoundError:
            return Removal()
        try:
            parts: Sequence[list[PlannedDeletion]] = ([], [])
            for part, deletion in _lines(data):
                parts[part].append(deletion)
        except (OSError, EOFError, ValueError, TypeError, IndexError, zlib.error) as err:
            raise CorruptDataError(path, f"is not a list of files: {reason(err)}") from err
        return Removal(tuple(parts[0]), tuple(parts[1]))

    def quarantine_path(self, record: RunRecord, number: int, path: str) -> str:
        """Return where the quarantine keeps entry `number` of the removal."""
        return f"{self.folder(record)}/kept/{number:08d}-{path.rpartition('/')[2]}"

    def find(self, run_id: str) -> RunRecord:
        """Find a run. Raises NotFoundError that names how to list runs."""
        for record in self.list():
            if record.id == run_id:
                return record
        raise NotFoundError(f"run {run_id!r} is not in {self.root}; `lakecore runs` lists all runs")

    def list(self, table: str | None = None) -> tuple[RunRecord, ...]:
        """List the runs of one table or all, oldest first. Folders without `run.json` are ignored: their run
        never began.
        """
        if table is not None:
            return tuple(self._of_table(self._table(table)))
        folders = sorted(status.path for status in self.file_io.list(self.root) if status.is_dir)
        records = [record for folder in folders for record in self._of_table(folder)]
        return tuple(sorted(records, key=lambda record: (record.started_ms, record.id)))

    def forget(self, table: str, keep: int = 200) -> None:
        """Delete the oldest lines of the ledger, of runs that are finished and have nothing in the
        quarantine.
        """
        over = (RunState.DONE, RunState.UNDONE, RunState.PURGED)
        ended = [record for record in self.list(table) if record.state in over]
        for record in ended[:-keep]:
            self.file_io.delete(self._files(record))
            self.file_io.delete(f"{self.folder(record)}/run.json")

    def pending(self, table: str) -> tuple[RunRecord, ...]:
        """Return the runs on the table that did not finish."""
        return tuple(record for record in self.list(table) if record.state is RunState.PLANNED)

    def _of_table(self, folder: str) -> Iterator[RunRecord]:
        paths = [f"{status.path}/run.json" for status in self.file_io.list(folder)]
        yield from (record for record in in_threads(self._load, paths) if record is not None)

    def _load(self, path: str) -> RunRecord | None:
        try:
            return RunRecord.from_json(self.file_io.read(path), path)
        except NotFoundError:
            return None
        except (CorruptDataError, UnsupportedError) as err:
            # half a line of the ledger: before anything was removed, or after everything was; or a link
            logger.warning("%s is ignored: %s", path, err)
            return None

    def _table(self, table: str) -> str:
        return f"{self.root}/{quoted_table(table)}"

    def _files(self, record: RunRecord) -> str:
        return f"{self.folder(record)}/files.jsonl.gz"

    def _save(self, record: RunRecord) -> None:
        text = json.dumps(record.to_json(), indent=2, default=str)
        self.file_io.overwrite(f"{self.folder(record)}/run.json", text.encode())


def quoted_table(table: str) -> str:
    """Return the table, without its branch, as a name of a folder."""
    return file_name(table_key(table))


def _check_fields(record: RunRecord) -> None:
    """Check the types of the fields, because whoever can write into the warehouse can write a record.

    Raises TypeError, ValueError.
    """
    for name in ("id", "table", "job"):
        if not isinstance(getattr(record, name), str):
            raise TypeError(f"{name} is not a string")
    checked_name(record.id, "id")
    if not isinstance(record.keeps, bool):
        raise TypeError("keeps is neither true nor false")
    if record.started_ms is None:
        raise TypeError("started_ms is missing")
    for value in (record.started_ms, record.finished_ms):
        if value is not None and (type(value) is not int or not 0 <= value < LATEST_MS):
            raise ValueError(f"{value!r} is not a time in milliseconds")
    for name in ("parameters", "estimate", "outcome"):
        if not isinstance(getattr(record, name), Mapping):
            raise TypeError(f"{name} is not an object")


def _lines(data: bytes) -> Iterator[tuple[int, PlannedDeletion]]:
    """Yield the lines one by one, so that a small file cannot become a large one in memory before it is
    checked.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
        while line := unpacked.readline(_MOST_LINE):
            if len(line) >= _MOST_LINE:
                raise ValueError(f"a line has {_MOST_LINE} bytes or more")
            part, path, size, why = json_value(line)
            if type(part) is not int or part not in (0, 1):
                raise ValueError("a line belongs neither to a root nor to a file")
            if not isinstance(path, str) or not isinstance(why, str):
                raise TypeError("a path is not a string")
            if type(size) is not int or not 0 <= size < 1 << 63:
                raise ValueError("a size is not a number of bytes")
            yield part, PlannedDeletion(path, size, why)


def _fields(deletion: PlannedDeletion) -> Iterable[Any]:
    return deletion.path, deletion.size, deletion.why
