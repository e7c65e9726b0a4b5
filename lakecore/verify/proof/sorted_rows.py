"""The proof of clustered rows: read back, they are in order and between the bounds of their unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import ProofError
from lakecore.row.sort_rule import SortRule
from lakecore.types.datatypes import DataField
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext

__all__ = ["Bound", "check_sorted"]

Bound = tuple[Any, ...]
"""These are the keys of one row (`SortRule.keys`), as Python values."""


def check_sorted(
    context: ProofContext,
    unit: str,
    files: Sequence[StoredFile],
    rule: SortRule,
    fields: tuple[DataField, ...],
    bounds: tuple[Bound | None, Bound | None] = (None, None),
) -> None:
    """Raise ProofError naming `unit` unless the rows of `files`, one file after the other, are in the order
    of `rule` (whose columns are `fields`), the first not before the lower bound, the last before the upper
    one. It reads those columns once.
    """
    shape = replace(context.shape, values=fields)
    low, high = bounds
    last: list[pa.Array] | None = None
    for stored in files:
        schema = context.schemas[stored.file.schema_id]
        for columns in read_covered(context.file_io, stored.path, shape, schema):
            keys = rule.keys(columns)
            if not len(keys[0]):
                continue
            if last is None and low is not None and _row(keys, 0) < low:
                raise ProofError(unit, f"output {stored.path} has rows that sort before those of the unit")
            chained = (
                keys if last is None else [pa.concat_arrays(pair) for pair in zip(last, keys, strict=True)]
            )
            if not _ascend(chained):
                raise ProofError(unit, f"output {stored.path} is not in the order of {rule}")
            last = [key.slice(len(key) - 1) for key in keys]
    if last is not None and high is not None and _row(last, 0) >= high:
        raise ProofError(unit, f"output {files[-1].path} has rows that sort after those of the unit")


def _row(keys: Sequence[pa.Array], row: int) -> Bound:
    return tuple(key[row].as_py() for key in keys)


def _ascend(keys: Sequence[pa.Array]) -> bool:
    """Return whether no row sorts before the row that precedes it."""
    tied = pa.repeat(True, len(keys[0]) - 1)
    for key in keys:
        after, before = key.slice(1), key.slice(0, len(key) - 1)
        same = pc.equal(after, before)
        in_order = pc.or_(pc.or_(pc.greater(after, before), same), pc.invert(tied))
        if not pc.all(in_order, min_count=0).as_py():
            return False
        tied = pc.and_(tied, same)
    return True
