"""This module stores what the last runs of each job took: `<warehouse>/.lakecore/history/<table>/<job>.json`,
one file each.

A run adds its estimate and its outcome, and drops the oldest beyond `MOST_RUNS`: one read and one write. Two
runs that end at once may lose one of the two lines; only estimates depend on them.
"""

from __future__ import annotations

import json
import logging
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field, fields
from typing import Any, ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError, UnavailableError
from lakecore.maintain.deletion.runs import LATEST_MS
from lakecore.maintain.forecast.plan import PastRun, Work
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.table_key import file_name
from lakecore.metadata.json_record import json_value

__all__ = ["HistoryLine", "HistoryStore"]

logger = logging.getLogger(__name__)

MOST_RUNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """This is the record of one run. `work` is as in `Work`; `estimate` and `outcome` have seconds, memory
    and figures of the job.

    `run`: its line in the ledger of removals, if it removed anything.
    """

    table: str
    job: str
    started_ms: int
    engine: str
    work: Mapping[str, int]
    estimate: Mapping[str, Any] = field(default_factory=dict)
    outcome: Mapping[str, Any] = field(default_factory=dict)
    run: str | None = None

    def past(self) -> PastRun:
        """Return what an estimate learns from the run."""
        memory = self.outcome.get("memory")
        return PastRun(
            work=Work(**{one.name: int(self.work.get(one.name, 0)) for one in fields(Work)}),
            seconds=float(self.outcome.get("seconds", 0.0)),
            memory=None if memory is None else int(memory),
            lost=bool(self.outcome.get("lost", False)),
        )


def _line(raw: Mapping[str, Any]) -> HistoryLine:
    """Return a line whose fields have the right types. Raises ValueError, TypeError, ArithmeticError."""
    line = HistoryLine(**raw)
    for name in ("table", "job", "engine"):
        if not isinstance(getattr(line, name), str):
            raise TypeError(f"{name} is not a string")
    for value in (line.work, line.estimate, line.outcome):
        if not isinstance(value, Mapping):
            raise TypeError("work, estimate or outcome is not an object")
    if type(line.started_ms) is not int or not 0 <= line.started_ms < LATEST_MS:
        raise ValueError("started_ms is not a time in milliseconds")
    if not isinstance(line.run, str | None):
        raise TypeError("run is not a string")
    line.past()
    return line


@dataclass(frozen=True)
class HistoryStore(ServiceStore):
    """It stores the histories of a warehouse."""

    directory: ClassVar[str] = "history"

    def lines(self, table: str, job: str) -> tuple[HistoryLine, ...]:
        """Return the lines, oldest first. What cannot be read is left out."""
        return self._read(self._path(table, job))

    def of(self, table: str | None = None) -> Iterator[HistoryLine]:
        """Yield all lines of a table, or of the warehouse. It costs a read for each table and job."""
        if table is None:
            folders = [status.path for status in self.file_io.list(self.root) if status.is_dir]
        else:
            folders = [self._folder(table)]
        for folder in folders:
            for status in self.file_io.list(folder):
                yield from self._read(status.path)

    def past(self, table: str, job: str, engine: str) -> list[PastRun]:
        """Return the earlier runs of a job on the same kind of engine."""
        return [line.past() for line in self.lines(table, job) if line.engine == engine]

    def add(self, line: HistoryLine) -> None:
        """Remember a run. A failure is logged: the run itself is done."""
        path = self._path(line.table, line.job)
        try:
            lines = (*self._read(path, strict=True), line)[-MOST_RUNS:]
            text = json.dumps([asdict(one) for one in lines], default=str)
            self.file_io.overwrite(path, text.encode())
        except LakeError as err:
            logger.warning(
                "%s of %s succeeded, but could not be added to the history of runs: %s",
                line.job,
                line.table,
                err,
            )

    def _read(self, path: str, *, strict: bool = False) -> tuple[HistoryLine, ...]:
        """Return the lines of a file; damaged lines are left out. With `strict` it raises UnavailableError,
        because whoever then writes would lose the rest.
        """
        try:
            return tuple(_line(raw) for raw in json_value(self.file_io.read(path)))
        except NotFoundError:
            return ()
        except (LakeError, ValueError, TypeError, ArithmeticError) as err:
            if strict and isinstance(err, UnavailableError):
                raise
            logger.warning("%s is ignored: %s", path, err)
            return ()

    def _folder(self, table: str) -> str:
        return f"{self.root}/{file_name(table)}"

    def _path(self, table: str, job: str) -> str:
        return f"{self._folder(table)}/{urllib.parse.quote(job, safe='')}.json"
