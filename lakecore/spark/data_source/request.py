"""This module parses the options of the format `lakecore`. An option that nothing obeys is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from difflib import get_close_matches
from enum import Enum
from typing import Any

from lakecore.catalog.catalog_options import catalog_option_keys
from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.fs.stores.registry import accepts_option
from lakecore.index.definition import READ_ENABLED
from lakecore.metadata.dedicated_columns import BLOB_AS_DESCRIPTOR, BLOB_VIEW_RESOLVE
from lakecore.metadata.options import DELETION_VECTORS_MERGE
from lakecore.options import Option, parse_bool, parse_enum, parse_list
from lakecore.read.source.batch import FALLBACK_BRANCH, PRIMARY_BRANCH
from lakecore.read.source.batch_limits import BatchLimits
from lakecore.read.source.stream import CONSUMER_MODE
from lakecore.scan.plan import OPEN_FILE_COST, SPLIT_TARGET
from lakecore.scan.startup import BETWEEN_MODE, SCAN_MODE, START_OPTIONS, TAG_TO_SNAPSHOT
from lakecore.spark.data_source.stream_options import (
    KINDS,
    LIMITS,
    SOURCE_OPTIONS,
    STREAM_ONLY,
    TABLE_OPTIONS,
    UPDATE_BEFORE,
    batch_limits,
    parse_count,
)
from lakecore.system.system_table import SHOW_SEQUENCE

__all__ = [
    "FORMAT",
    "PATH",
    "TABLE",
    "Nanoseconds",
    "Parallelism",
    "PushFilters",
    "SourceRequest",
    "TablePlace",
]

FORMAT = "lakecore"
"""Spark finds the format by this name."""


class Nanoseconds(Enum):
    """This enum says what becomes of times with more than six digits, which Spark's types cannot hold."""

    REFUSE = "refuse"
    TRUNCATE = "truncate"
    TEXT = "text"


class PushFilters(Enum):
    """This enum says whether conditions of Spark reach the scan, see `PushingScanReader`."""

    NEVER = "never"
    ONCE = "once"


def _limit(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("it must not be negative")
    return number


PATH: Option[str | None] = Option("path", str.strip, None, "The table, `db.t`; the argument of load().")
TABLE: Option[str | None] = Option("table", str.strip, None, "The table, for SQL.")
WAREHOUSE: Option[str | None] = Option("warehouse", str.strip, None, "The location of the warehouse.")
CATALOG: Option[str | None] = Option("catalog", str.strip, None, "The name of a configured catalog.")
BRANCH: Option[str | None] = Option("branch", str.strip, None, "The branch to read.")
COLUMNS: Option[tuple[str, ...] | None] = Option("columns", parse_list, None, "The columns to read: `a,b.c`.")
WHERE: Option[str | None] = Option("where", str, None, "A condition on rows, as in SQL.")
LIMIT: Option[int | None] = Option("limit", _limit, None, "The most rows; they are read in one task.")
PARALLELISM: Option[int | None] = Option("scan.parallelism", parse_count, None, "The number of partitions.")
INFER = Option("scan.infer-parallelism", parse_bool, True, "One partition for each split.")
INFER_MAX = Option("scan.infer-parallelism.max", parse_count, 1024, "The most partitions that are inferred.")
NANOSECONDS = Option(
    "nanoseconds", parse_enum(Nanoseconds), Nanoseconds.REFUSE, "Times with more than six digits."
)

PUSH_FILTERS = Option(
    "push-filters", parse_enum(PushFilters), PushFilters.NEVER, "Whether the scan takes conditions of Spark."
)

_MODES = (SCAN_MODE.key, *SCAN_MODE.old_keys)

_PLACE = (PATH, TABLE, WAREHOUSE, CATALOG)
_OWN: tuple[Option[Any], ...] = (BRANCH, COLUMNS, WHERE, LIMIT, PARALLELISM, INFER, INFER_MAX,
        NANOSECONDS, PUSH_FILTERS, *SOURCE_OPTIONS)  # fmt: skip
_OBEYED: tuple[Option[Any], ...] = (
    BETWEEN_MODE, TAG_TO_SNAPSHOT, FALLBACK_BRANCH, PRIMARY_BRANCH, SPLIT_TARGET, OPEN_FILE_COST,
    SHOW_SEQUENCE, DELETION_VECTORS_MERGE, BLOB_AS_DESCRIPTOR, BLOB_VIEW_RESOLVE, READ_ENABLED,
    *TABLE_OPTIONS,
)  # fmt: skip
_OF_TABLE = frozenset(START_OPTIONS) | {key for option in _OBEYED for key in option.keys}
_LOCATION_MARKS = "/\\:"


@dataclass(frozen=True, slots=True)
class Parallelism:
    """It says how many partitions a read has: `requested` where that is possible, or else at most `most`."""

    requested: int | None
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """It says where a table is. Secrets are in `catalog_options`, which is not printed."""

    table: str
    """The table is `db.t`, `db.t$branch_b` or `db.t$files`."""
    catalog: str | None
    """It is a location, the name of a configured catalog, or None for the configured default."""
    catalog_options: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(
        cls, raw: Mapping[str, str], other_options: Iterable[str], of_kind: frozenset[str] = frozenset()
    ) -> TablePlace:
        """Parse the place; `other_options` are those that are obeyed besides, `of_kind` those that only the
        kind of catalog has, and any further one is refused.
        """
        of_accounts = frozenset(key for key in raw if accepts_option(key))
        of_catalog = (catalog_option_keys() | of_accounts | of_kind) - {WAREHOUSE.key}
        _check_known(raw, of_catalog, other_options)
        return cls(
            table=_table(raw),
            catalog=_catalog(raw),
            catalog_options={key: value for key, value in raw.items() if key in of_catalog},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """It holds what the options of a DataFrame say."""

    place: TablePlace
    table_options: Mapping[str, str]
    branch: str | None
    columns: tuple[str, ...] | None
    where: str | None
    limit: int | None
    parallelism: Parallelism
    nanoseconds: Nanoseconds
    push_filters: PushFilters
    kinds: bool
    update_before: bool
    limits: BatchLimits
    stream_options: tuple[str, ...]
    """These of the options are for streams only."""

    @property
    def is_stream(self) -> bool:
        """Return whether options say where a stream begins, or are for streams only."""
        return bool(self.stream_options) or any(key in self.table_options for key in _MODES)

    @property
    def limit_options(self) -> tuple[str, ...]:
        """Return the names of the options that limit micro-batches."""
        keys = {key for option in LIMITS for key in option.keys}
        return tuple(key for key in self.stream_options if key in keys)

    @classmethod
    def parse(cls, options: Mapping[str, str], of_kind: frozenset[str] = frozenset()) -> SourceRequest:
        """Check the options; their keys are in lower case, as Spark hands them over. `of_kind` are those that
        only the kind of catalog has.

        Raises InvalidOptionError naming the option and what there is instead.
        """
        raw = dict(options)
        place = TablePlace.parse(raw, {option.key for option in _OWN} | _OF_TABLE, of_kind)
        CONSUMER_MODE.read(raw)  # its values are the same for a micro-batch; others are refused
        for option in TABLE_OPTIONS:
            option.read(raw)  # values that cannot be used are refused before the query starts
        return cls(
            place=place,
            table_options={key: value for key, value in raw.items() if key in _OF_TABLE},
            branch=BRANCH.read(raw),
            columns=COLUMNS.read(raw),
            where=WHERE.read(raw),
            limit=LIMIT.read(raw),
            parallelism=_parallelism(raw),
            nanoseconds=NANOSECONDS.read(raw),
            push_filters=PUSH_FILTERS.read(raw),
            kinds=KINDS.read(raw),
            update_before=UPDATE_BEFORE.read(raw),
            limits=batch_limits(raw),
            stream_options=tuple(key for key in STREAM_ONLY if key in raw),
        )


def _check_known(raw: Mapping[str, str], of_catalog: frozenset[str], others: Iterable[str]) -> None:
    keys = sorted({*others, *of_catalog, *(option.key for option in _PLACE)})
    for key in sorted(set(raw) - set(keys)):
        near = get_close_matches(key, keys, 3)
        hint = f"did you mean {' or '.join(near)}" if near else f"the known options are {', '.join(keys)}"
        raise InvalidOptionError(
            f"option {key}: the format {FORMAT} does not know it, and it would have no effect; {hint}"
        )


def _table(raw: Mapping[str, str]) -> str:
    path, table = PATH.read(raw), TABLE.read(raw)
    if path and table and path != table:
        raise InvalidOptionError(f"options path={path!r} and table={table!r} name two tables; give only one")
    name = path or table
    if not name:
        raise InvalidOptionError(
            'no table is given: write load("db.t") or save("db.t"), or the option table in SQL. A table of '
            "Spark's catalog can only be read, and must be created with OPTIONS (table 'db.t', …), without "
            "columns, a path and a LOCATION"
        )
    return name


def _catalog(raw: Mapping[str, str]) -> str | None:
    warehouse, catalog = WAREHOUSE.read(raw), CATALOG.read(raw)
    if warehouse is not None and catalog is not None:
        raise InvalidOptionError("options warehouse and catalog exclude each other; give only one")
    if catalog is not None and any(mark in catalog for mark in _LOCATION_MARKS):
        raise InvalidOptionError(f"option catalog={catalog!r} is a location; use the option warehouse for it")
    if warehouse is None:
        return catalog
    if not warehouse:
        raise InvalidOptionError("option warehouse is empty; give a directory or s3://bucket/path")
    # A bare word would be taken for the name of a catalog.
    return warehouse if any(mark in warehouse for mark in _LOCATION_MARKS) else f"./{warehouse}"


def _parallelism(raw: Mapping[str, str]) -> Parallelism:
    parallelism = PARALLELISM.read(raw)
    if parallelism is None and not INFER.read(raw):
        raise InvalidOptionError(
            f"option {INFER.key}=false: Spark has no parallelism of sources to use instead; give "
            f"{PARALLELISM.key} too, or leave the option out"
        )
    return Parallelism(parallelism, INFER_MAX.read(raw))
