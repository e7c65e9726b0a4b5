"""This module decides which partitions a lookup table has (options `scan.partitions`, formerly
`lookup.dynamic-partition`). Pure.

Rules of Paimon's PartitionLoader: `max_pt()` and `max_two_pt()` name the one or two partitions with the
greatest values; `dt=max_pt()` names all partitions with the greatest value of the first partition columns;
and `dt=a,hh=b;dt=c` names fixed ones, in which a column that is left out is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.metadata.key_order import comparable
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option
from lakecore.row.partition_path import parse_partitions

__all__ = ["PARTITIONS", "LoadedPartitions", "parse_loaded", "partitions_of"]

PARTITIONS: Option[str | None] = Option(
    "scan.partitions", str, None, "The partitions of a lookup table.", ("lookup.dynamic-partition",)
)
_MAX = "max_pt()"
_COUNTS = {_MAX: 1, "max_two_pt()": 2}

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class LoadedPartitions:
    """It says which partitions are loaded. One of the three is set."""

    greatest: int = 0
    """So many of the partitions with the greatest values are loaded."""
    columns: int = 0
    """All partitions with the greatest values of so many first partition columns are loaded."""
    fixed: tuple[Values, ...] = ()
    """These partitions are loaded, given by their values."""

    @property
    def moves(self) -> bool:
        """Return whether other partitions may be loaded later."""
        return not self.fixed


def parse_loaded(schema: TableSchema, default_name: str, text: str) -> LoadedPartitions:
    """Parse the option of a table. Raises InvalidOptionError, InvalidInputError."""
    keys = schema.partition_keys
    if not keys:
        raise InvalidOptionError(
            f"option {PARTITIONS.key}={text!r}: the table is not partitioned; leave it out"
        )
    if (count := _COUNTS.get(text.strip().lower())) is not None:
        return LoadedPartitions(greatest=count)
    if _MAX in text.lower():
        return LoadedPartitions(columns=_first_columns(keys, text))
    specs = parse_partitions(text, schema.partition_type, default_name)
    return LoadedPartitions(fixed=tuple(tuple(spec.get(name) for name in keys) for spec in specs))


def partitions_of(loaded: LoadedPartitions, existing: Sequence[Values]) -> tuple[Values, ...]:
    """Return the partitions to load, the greatest first; fixed ones whether they exist or not. Null is
    least.
    """
    if loaded.fixed:
        return loaded.fixed
    ordered = sorted(set(existing), key=_order, reverse=True)
    if loaded.greatest:
        return tuple(ordered[: loaded.greatest])
    count = loaded.columns
    return tuple(one for one in ordered if _order(one[:count]) == _order(ordered[0][:count]))


def _order(values: Values) -> tuple[Any, ...]:
    return tuple((value is not None, None if value is None else comparable(value)) for value in values)


def _first_columns(keys: Sequence[str], text: str) -> int:
    first_columns = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        first_columns[key.strip()] = value.strip().lower()
    first = tuple(key for key in keys if key in first_columns)
    problem = f"option {PARTITIONS.key}={text!r}: "
    if set(first_columns) - set(keys) or set(first_columns.values()) != {_MAX}:
        raise InvalidOptionError(f"{problem}write {keys[0]}={_MAX}, or fixed values, but not both")
    if first != tuple(keys[: len(first)]):
        raise InvalidOptionError(f"{problem}the first partition columns must be named ({', '.join(keys)})")
    return len(first)
