"""This module compares the column statistics of a manifest entry with what the footer of its file says, and
with those of the files whose row groups were copied into it: no value is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from lakecore.format.bounds import ColumnBounds
from lakecore.format.statistics import recorded_bounds
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, RowKind
from lakecore.metadata.schema import TableSchema

__all__ = ["float_problems", "footer_problems", "keyed_problems", "splice_problems"]


def footer_problems(stated: Mapping[str, ColumnBounds], file: DataFile, schema: TableSchema) -> Iterator[str]:
    """Yield what the statistics of `file` say otherwise than those of its footer, which are `stated`. What
    one of them does not say is not compared. Bounds of numbers must be the same, because readers take them
    for values; those of text and floats may be wider.
    """
    for name, recorded in recorded_bounds(file, schema.row_type).items():
        footer = stated.get(name, ColumnBounds())
        counts = recorded.null_count, footer.null_count
        if None not in counts and counts[0] != counts[1]:
            yield f"statistics of column {name} count {counts[0]} nulls, its footer {counts[1]}"
        ends = (recorded.minimum, footer.minimum), (footer.maximum, recorded.maximum)
        if any(_above(left, right) or _differ(left, right) for left, right in ends):
            mine, theirs = (f"{one.minimum!r} to {one.maximum!r}" for one in (recorded, footer))
            yield f"statistics of column {name} give the range {mine}, its footer {theirs}"


def keyed_problems(stated: Mapping[str, ColumnBounds], file: DataFile) -> Iterator[str]:
    """Yield what the manifest entry of a file with a key says of sequence numbers and deletes otherwise than
    the footer, whose statistics are `stated`. How many deletes there are, a footer does not say.
    """
    numbers = stated.get(SEQUENCE_NAME, ColumnBounds())
    recorded = file.min_sequence_number, file.max_sequence_number
    if numbers.minimum is not None and recorded != (numbers.minimum, numbers.maximum):
        yield f"it has sequence numbers {recorded}, its footer {numbers.minimum} to {numbers.maximum}"
    last_kind = stated.get(KIND_NAME, ColumnBounds()).maximum
    if (last_kind == RowKind.INSERT and file.delete_row_count) or (
        last_kind == RowKind.DELETE and not file.delete_row_count
    ):
        yield f"it has {file.delete_row_count} deletes, its footer says otherwise"


def splice_problems(
    file: DataFile, schema: TableSchema, copied: Sequence[tuple[DataFile, TableSchema]]
) -> Iterator[str]:
    """Yield what the statistics of `file` leave out of those of the files that were copied into it: bounds
    that do not enclose theirs, or fewer nulls.
    """
    parts = [(one, recorded_bounds(one, schema_then.row_type)) for one, schema_then in copied]
    for name, recorded in recorded_bounds(file, schema.row_type).items():
        nulls = 0
        for one, bounds in parts:
            part = bounds.get(name, ColumnBounds())
            nulls += part.null_count or 0
            if part.null_count == one.row_count:
                continue
            for end, ours, theirs in (
                ("smallest", recorded.minimum, part.minimum),
                ("largest", recorded.maximum, part.maximum),
            ):
                if ours is not None and theirs is None:
                    yield f"statistics of column {name} have a {end} value, {one.file_name} has none"
            if _above(recorded.minimum, part.minimum) or _above(part.maximum, recorded.maximum):
                yield f"statistics of column {name} do not enclose those of {one.file_name}"
        if recorded.null_count is not None and recorded.null_count < nulls:
            yield f"statistics of column {name} count {recorded.null_count} nulls, its parts {nulls}"


def float_problems(
    file: DataFile, schema: TableSchema, copied: Sequence[tuple[DataFile, TableSchema]]
) -> Iterator[str]:
    """Yield which bounds of floats of `file` leave out those of the files `copied`, of which it has some row
    groups. Footers, with which other bounds are compared, tell neither NaN nor the sign of a zero.
    """
    parts = [(one, recorded_bounds(one, schema_then.row_type)) for one, schema_then in copied]
    for name, ours in recorded_bounds(file, schema.row_type).items():
        if not isinstance(ours.minimum, float) or not isinstance(ours.maximum, float):
            continue
        for one, bounds in parts:
            part = bounds.get(name, ColumnBounds())
            if part.maximum is None and part.null_count != one.row_count:
                yield f"statistics of column {name} have bounds, {one.file_name} has none"
            if _above(ours.minimum, part.minimum) or _above(part.maximum, ours.maximum):
                yield f"statistics of column {name} do not enclose those of {one.file_name}"


def _above(left: Any, right: Any) -> bool:
    return left is not None and right is not None and bool(comparable(left) > comparable(right))


def _differ(left: Any, right: Any) -> bool:
    return isinstance(left, int | Decimal) and right is not None and bool(left != right)
