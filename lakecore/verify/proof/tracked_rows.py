"""This module tallies whole rows together with their row ids and sequence numbers, whatever their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyroaring import BitMap

from lakecore.errors import ProofError
from lakecore.metadata.row_kind import ROW_ID_FIELD_ID, SEQUENCE_FIELD_ID
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import ZERO, Tally, tally
from lakecore.verify.digest.file_tally import FileTally
from lakecore.verify.digest.rows import without_rows
from lakecore.verify.proof.row_ids import read_ids

__all__ = ["tally_tracked"]


def tally_tracked(
    context: ProofContext, unit: str, stored: StoredFile, deleted: BitMap | None = None
) -> Tally:
    """Return count and digest of the live rows of a file: covered columns, row id and sequence number of
    each.

    `deleted` are positions that do not count. Raises ProofError, CorruptDataError. It reads the file once,
    its covered columns and its ids side by side.
    """
    shape = context.shape
    covered = read_covered(context.file_io, stored.path, shape, context.schemas[stored.file.schema_id])
    whole, position = ZERO, 0
    for left, right in _side_by_side(covered, read_ids(context.file_io, unit, stored)):
        columns: Sequence[pa.Array] = [*left, *right]
        count = len(columns[0])
        live = columns if deleted is None else without_rows(columns, deleted, position)
        position += count
        whole += tally(live, (*shape.field_ids, ROW_ID_FIELD_ID, SEQUENCE_FIELD_ID))
    if position != stored.file.row_count:
        raise ProofError(
            unit, f"{stored.path} has {position} rows, but its description says {stored.file.row_count}"
        )
    return FileTally(whole.rows, whole.digest, (stored.file,))


Columns = Sequence[pa.Array]


def _side_by_side(left: Iterator[Columns], right: Iterator[Columns]) -> Iterator[tuple[Columns, Columns]]:
    """Yield pieces of one length of two readings of the same rows; it ends with the shorter one."""
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        count = min(len(a[0]), len(b[0]))
        yield [column.slice(0, count) for column in a], [column.slice(0, count) for column in b]
        a = [column.slice(count) for column in a] if count < len(a[0]) else next(left, None)
        b = [column.slice(count) for column in b] if count < len(b[0]) else next(right, None)
