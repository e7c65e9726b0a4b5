"""This module has the column statistics of a manifest entry: which columns have some, how exact they are,
and their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.format.bounds import ColumnBounds
from lakecore.metadata.manifest.data_file import DataFile, SimpleStats
from lakecore.metadata.row_kind import KEY_PREFIX
from lakecore.options import Option, parse_bool
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.types.datatypes import RowType, with_nullable

__all__ = [
    "DENSE_STORE",
    "ColumnBounds",
    "StatsKind",
    "StatsMode",
    "key_modes",
    "recorded_bounds",
    "recorded_key_bounds",
    "simple_stats",
    "stats_modes",
]

KEEP_FIRST = Option(
    "metadata.stats-keep-first-n-columns", int, -1, "Number of columns with statistics; -1 for all."
)
DENSE_STORE = Option(
    "metadata.stats-dense-store",
    parse_bool,
    True,
    "Whether columns without statistics are left out (_VALUE_STATS_COLS).",
)

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class StatsKind(Enum):
    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class StatsMode:
    """It says how much is kept of one column's bounds. `length` is the number of code points of a text
    that TRUNCATE keeps.
    """

    kind: StatsKind
    length: int = 0

    @classmethod
    def parse(cls, text: str) -> StatsMode:
        """Parse `none`, `counts`, `full` or `truncate(16)`. Raises ValueError."""
        clean = text.strip().lower()
        match = re.fullmatch(r"truncate\(\s*(\d+)\s*\)", clean)
        if match and int(match[1]) > 0:
            return cls(StatsKind.TRUNCATE, int(match[1]))
        if clean in ("none", "counts", "full"):
            return cls(StatsKind(clean))
        raise ValueError("must be none, counts, full or truncate(n) with n > 0")


_KEY_MODE = StatsMode(StatsKind.TRUNCATE, 128)
"""How key columns are kept, whatever the table says of the others (rule of the format; see `key_modes`)."""

_NONE = StatsMode(StatsKind.NONE)


def stats_modes(
    row_type: RowType, raw: Mapping[str, str], default: str, *, thin_keys: Collection[str] = ()
) -> tuple[StatsMode, ...]:
    """Return the mode of each column by table options. `default` is metadata.stats-mode or what stands for
    it.

    `thin_keys`: key columns of parquet and ORC files in thin mode, which keep 128 code points unless they
    have a mode of their own. Raises InvalidOptionError naming the option.
    """
    keep = KEEP_FIRST.read(raw)
    common = _mode("metadata.stats-mode", default)
    modes = []
    for i, field in enumerate(row_type.fields):
        otherwise = _KEY_MODE if field.name in thin_keys else _NONE if 0 <= keep <= i else common
        modes.append(_own_mode(field.name, raw, otherwise))
    return tuple(modes)


def key_modes(
    key_type: RowType, raw: Mapping[str, str], default: str, file_format: str, *, thin: bool = False
) -> tuple[StatsMode, ...]:
    """Return the modes of the key statistics of a file of `file_format`, as Java Paimon 1.4.2 chooses them.

    Avro files treat keys as the table treats its columns; others keep 128 code points of them. In thin mode
    there are no key columns, so a mode set for the value column counts.
    """
    otherwise = _mode("metadata.stats-mode", default) if file_format == "avro" else _KEY_MODE
    return tuple(_own_mode(field.name, raw if thin else {}, otherwise) for field in key_type.fields)


def _own_mode(column: str, raw: Mapping[str, str], otherwise: StatsMode) -> StatsMode:
    key = f"fields.{column}.stats-mode"
    return _mode(key, raw[key]) if key in raw else otherwise


def simple_stats(
    bounds: Mapping[str, ColumnBounds], row_type: RowType, modes: Sequence[StatsMode], *, dense: bool = True
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Return the statistics of the columns of `row_type` and the names of those that have some.

    Names are None when every column is covered. A key column of a thin file takes the bounds of its value
    column. `dense` false (key statistics, or metadata.stats-dense-store=false): no column is left out.
    """
    bounds_kept = [
        _apply(_bounds(bounds, field.name), mode) for field, mode in zip(row_type, modes, strict=True)
    ]
    fields = list(row_type.fields)
    names: tuple[str, ...] | None = None
    if dense and any(column == ColumnBounds() for column in bounds_kept):
        present = [i for i, column in enumerate(bounds_kept) if column != ColumnBounds()]
        bounds_kept, fields = [bounds_kept[i] for i in present], [fields[i] for i in present]
        names = tuple(field.name for field in fields)
    shape = RowType(tuple(type(f)(f.id, f.name, with_nullable(f.type, True)) for f in fields))
    stats = SimpleStats(
        encode_row([column.minimum for column in bounds_kept], shape),
        encode_row([column.maximum for column in bounds_kept], shape),
        tuple(column.null_count for column in bounds_kept),
    )
    return stats, names


def recorded_bounds(file: DataFile, row_type: RowType) -> dict[str, ColumnBounds]:
    """Return the statistics that a manifest entry has of the values of a file, by column; `row_type` has the
    columns of the file. Raises CorruptDataError for statistics that cannot be decoded.
    """
    kind = row_type if file.value_stats_cols is None else row_type.select(file.value_stats_cols)
    return _decode_stats(file.value_stats, kind, file.file_name)


def recorded_key_bounds(file: DataFile, key_type: RowType) -> dict[str, ColumnBounds]:
    """Return the statistics that a manifest entry has of the keys of a file, by stored column. Raises
    CorruptDataError for statistics that cannot be decoded.
    """
    bounds = _decode_stats(file.key_stats, key_type, file.file_name)
    return {KEY_PREFIX + name: bound for name, bound in bounds.items()}


def _decode_stats(stats: SimpleStats, data_type: RowType, name: str) -> dict[str, ColumnBounds]:
    if len(stats.null_counts) != len(data_type.fields):
        return {}
    lows, highs = (decode_row(row, data_type, name) for row in (stats.min_values, stats.max_values))
    return {
        column: ColumnBounds(low, high, None if nulls is None or nulls < 0 else nulls)
        for column, low, high, nulls in zip(data_type.names, lows, highs, stats.null_counts, strict=True)
    }


def _bounds(bounds: Mapping[str, ColumnBounds], name: str) -> ColumnBounds:
    return bounds.get(name) or bounds.get(name.removeprefix(KEY_PREFIX)) or ColumnBounds()


def _mode(key: str, text: str) -> StatsMode:
    try:
        return StatsMode.parse(text)
    except ValueError as err:
        raise InvalidOptionError(f"option {key}={text!r}: {err}") from err


def _apply(column: ColumnBounds, mode: StatsMode) -> ColumnBounds:
    if mode.kind is StatsKind.NONE:
        return ColumnBounds()
    if mode.kind is StatsKind.COUNTS:
        return ColumnBounds(null_count=column.null_count)
    if mode.kind is StatsKind.TRUNCATE and isinstance(column.minimum, str):
        upper = _round_up(column.maximum, mode.length)
        if upper is None:
            return ColumnBounds(null_count=column.null_count)
        return ColumnBounds(column.minimum[: mode.length], upper, column.null_count)
    return column


def _round_up(text: str, length: int) -> str | None:
    """Return the shortest text of at most `length` code points above or equal to `text`, or None when there
    is none.

    Cut text is raised by incrementing its last code point that can be, as the format asks.
    """
    if len(text) <= length:
        return text
    for at in range(length - 1, -1, -1):
        raised = ord(text[at]) + 1
        raised = _SURROGATES.stop if raised in _SURROGATES else raised
        if raised <= _LAST_CODE_POINT:
            return text[:at] + chr(raised)
    return None
