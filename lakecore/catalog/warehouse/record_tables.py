"""This module has the tables of the database `sys` that show lakecore's own records of a warehouse.

Paimon has no such tables, and other engines do not see them. Times are milliseconds since the epoch, sizes
are bytes. A record is what somebody wrote: texts come back printable and bounded, and a damaged record is
left out, with a warning in the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, TypeAlias

from lakecore.catalog.privileges.grants import Grants
from lakecore.clock import Clock
from lakecore.errors import printable
from lakecore.fs.file_io import FileIO
from lakecore.maintain.attempts.record import Attempt
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.survey.record import Figures, TableRecord
from lakecore.maintain.survey.store import SurveyStore
from lakecore.predicate.bounds import bounds_of
from lakecore.predicate.tree import Predicate
from lakecore.system.catalog_tables import CatalogTable
from lakecore.system.columns import columns
from lakecore.system.view import Row
from lakecore.types.datatypes import RowType

__all__ = ["RECORD_TABLES", "record_table"]

logger = logging.getLogger(__name__)

_LONGEST_NAME = 500
_LONGEST_ERROR = 4096
_MOST = (1 << 63) - 1
_NAME_COLUMNS = ("database_name STRING", "table_name STRING")
_HIDDEN = ("snapshot_key",)
"""These figures tell nothing to a person."""
_FIGURE_NAMES = tuple(one.name for one in fields(Figures) if one.name not in _HIDDEN)
_TYPES = {"has_key": "BOOLEAN"}

_RUNS = columns(
    "attempt_id STRING NOT NULL",
    *_NAME_COLUMNS,
    "job STRING NOT NULL",
    "state STRING NOT NULL",
    "started_at BIGINT NOT NULL",
    "finished_at BIGINT",
    "seconds DOUBLE",
    "core_seconds DOUBLE",
    "cpu_seconds DOUBLE",
    "peak_bytes BIGINT",
    "requests BIGINT",
    "bytes_read BIGINT",
    "bytes_written BIGINT",
    "expected_seconds DOUBLE",
    "error_class STRING",
    "error STRING",
    "figures STRING",
    "origin STRING",
)
_HEALTH = columns(
    *_NAME_COLUMNS,
    "state STRING NOT NULL",
    "score BIGINT NOT NULL",
    "due_in_days DOUBLE",
    "reasons STRING NOT NULL",
    "surveyed_at BIGINT NOT NULL",
    "figures_at BIGINT NOT NULL",
    *(f"{name} {_TYPES.get(name, 'BIGINT')}" for name in _FIGURE_NAMES),
)


def record_table(kind: str, file_io: FileIO, warehouse: str, clock: Clock, grants: Grants) -> CatalogTable:
    """Return a table of `RECORD_TABLES`, without the tables that a user with these `grants` may neither read
    nor change.

    `runs` has a row for each attempt of a job in the ledger, the oldest first; an attempt on the whole lake,
    such as a survey, has empty names. A scan costs two requests for each of the 400 days that the ledger
    keeps, and one for each attempt of a day that has no file of its own. A filter on `started_at` leaves out
    days; other filters and a limit do not make it cheaper. Its memory is that of all attempts of these days.
    `expected_seconds` is what the work was expected to take, from the runs before it. `figures` and `origin`
    are JSON, and null where a forged record is nested too deeply for it.

    `health` has a row for each table of the newest survey, and costs one read; without a survey it is empty.

    The errors of a scan are those of storage: UnavailableError.
    """
    row_type, maker = _KINDS[kind]
    make = partial(maker, file_io, warehouse, clock, grants.may_see)
    return CatalogTable(kind, row_type, make, make if kind == "runs" else None)


def _runs(
    file_io: FileIO,
    warehouse: str,
    clock: Clock,
    may_see: Callable[[str], bool],
    where: Predicate | None = None,
) -> Iterator[Row]:
    least, greatest = bounds_of(where, "started_at")
    attempts = AttemptStore(file_io, warehouse).read(max(0, least or 0), clock.now_ms(), greatest)
    _warn(attempts.damaged, "the ledger", warehouse)
    return (_run(one) for one in attempts.attempts if may_see(one.table))


def _run(one: Attempt) -> Row:
    return (
        printable(one.id, _LONGEST_NAME),
        *_names(one.table),
        printable(one.job, _LONGEST_NAME),
        one.state.value,
        one.started_ms,
        one.finished_ms,
        *(_fraction(one.cost.get(name)) for name in ("seconds", "core_seconds", "cpu_seconds")),
        *(_whole(one.cost.get(name)) for name in ("peak_bytes", "requests", "bytes_read", "bytes_written")),
        _fraction(one.forecast.get("seconds")),
        _text(one.error_class, _LONGEST_NAME),
        _text(one.error, _LONGEST_ERROR),
        _json(one.figures),
        _json(one.origin),
    )


def _health(file_io: FileIO, warehouse: str, _: Clock, may_see: Callable[[str], bool]) -> Iterable[Row]:
    survey = SurveyStore(file_io, warehouse).latest()
    if survey is None:
        return ()
    _warn(survey.damaged, "the survey", warehouse)
    return (_health_of(one) for one in survey.tables if may_see(one.table))


def _health_of(one: TableRecord) -> Row:
    return (
        *_names(one.table),
        one.state.value,
        one.score,
        one.due_in_days,
        one.reasons,
        one.surveyed_ms,
        one.figures_ms,
        *(getattr(one.figures, name) for name in _FIGURE_NAMES),
    )


_Maker: TypeAlias = Callable[..., Iterable[Row]]
"""It gets the storage, the warehouse, the clock and which tables are visible; one that can read less for a
filter gets that, too.
"""
_KINDS: Mapping[str, tuple[RowType, _Maker]] = {"health": (_HEALTH, _health), "runs": (_RUNS, _runs)}
RECORD_TABLES = tuple(_KINDS)
"""These are the tables of `sys` that lakecore adds."""


def _warn(damaged: int, what: str, warehouse: str) -> None:
    if damaged:
        logger.warning("%s of %s has %d damaged records, which are left out", what, warehouse, damaged)


def _names(table: str) -> tuple[str, str]:
    """Split `db.t` into its database and the table, which may name a branch."""
    database, _, name = printable(table, _LONGEST_NAME).partition(".")
    return database, name


def _text(text: str | None, most: int) -> str | None:
    return None if text is None else printable(text, most)


def _fraction(value: Any) -> float | None:
    """Return a cost, which its record has checked; None for one that no double holds."""
    return None if value is None or value > _MOST else float(value)


def _whole(value: Any) -> int | None:
    return None if value is None or value > _MOST else int(value)


def _json(value: Mapping[str, Any]) -> str | None:
    """Return JSON in ASCII; None for a forged record that is nested too deeply."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        return None
