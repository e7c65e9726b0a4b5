"""This module reads the rows that a merge looked up in other files again, at the positions it names, and
searches for them anew.

A row that takes part in a merge without being an input, gives the old values of a change, or is marked as
deleted, must lie where the merge says, live, in a file of the bucket. The full mode also searches the levels
above for every key that the merge asked for: a row that it should have found and did not shows up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import ZERO, Tally, hash_rows, tally

__all__ = ["LookupFile", "check_lookup_files", "check_marks", "search_keys", "tally_positions"]


@dataclass(frozen=True, slots=True)
class LookupFile:
    """Rows are looked up in this file. The positions in `deleted` do not count; it is None if there are
    none.
    """

    stored: StoredFile
    deleted: BitMap | None = None


def check_marks(unit: str, before: Mapping[str, BitMap], after: Mapping[str, BitMap]) -> dict[str, BitMap]:
    """Return the positions by file that `after` adds to `before`. Raises ProofError if one was lost."""
    lost = [name for name, positions in before.items() if positions - after.get(name, BitMap())]
    if lost:
        raise ProofError(
            unit, f"deletion vector of {lost[0]}: rows that were deleted before would be live again"
        )
    new = {name: positions - before.get(name, BitMap()) for name, positions in after.items()}
    return {name: positions for name, positions in new.items() if positions}


def check_lookup_files(unit: str, file_names: Iterable[str], searched_names: Collection[str]) -> None:
    """Raise ProofError if rows were looked up in a file that is not in `searched_names`; both are given by
    name.
    """
    if strange := set(file_names) - set(searched_names):
        raise ProofError(
            unit, f"rows were looked up in {min(strange)}, in which no older rows are to be looked up"
        )


def tally_positions(context: ProofContext, unit: str, file: LookupFile, positions: BitMap) -> Tally:
    """Count and digest of the rows at `positions`. It reads the covered columns up to the last of them.

    Raises ProofError for positions outside the file or deleted before, CorruptDataError.
    """
    stored = file.stored
    if not positions:
        return ZERO
    if positions.max() >= stored.file.row_count:
        raise ProofError(
            unit, f"{stored.path} has {stored.file.row_count} rows, so row {positions.max()} does not exist"
        )
    if file.deleted is not None and positions & file.deleted:
        row = (positions & file.deleted).min()
        raise ProofError(unit, f"the row at {row} of {stored.path} was looked up, but it is deleted")
    row_numbers = np.array(positions.to_array(), np.int64)
    tally_sum, start = ZERO, 0
    schema = context.schemas[stored.file.schema_id]
    number = stored.number(context.shape)
    for columns in read_covered(context.file_io, stored.path, context.shape, schema, number=number):
        stop = start + len(columns[0])
        low, high = np.searchsorted(row_numbers, (start, stop))
        if high > low:
            rows = pa.array(row_numbers[low:high] - start)
            tally_sum += tally([column.take(rows) for column in columns], context.shape.field_ids)
        start = stop
        if high == len(row_numbers):
            break
    return tally_sum


def search_keys(
    context: ProofContext, levels: Iterable[Sequence[LookupFile]], key_hashes: npt.NDArray[np.uint64]
) -> Tally:
    """Count and digest of the rows that the keys with hashes `key_hashes` have, each on its nearest level.

    `levels`: files by level, nearest first. It reads the covered columns of all of them; memory is
    `key_hashes`.
    """
    open_hashes = np.sort(key_hashes)
    tally_sum = ZERO
    for level in levels:
        is_met = np.zeros(len(open_hashes), bool)
        for file in level:
            tally_sum += _search_file(context, file, open_hashes, is_met)
        open_hashes = open_hashes[~is_met]
    return tally_sum


def _search_file(
    context: ProofContext,
    file: LookupFile,
    key_hashes: npt.NDArray[np.uint64],
    matched: npt.NDArray[np.bool_],
) -> Tally:
    """Return the tally of the rows found in a file; `matched` becomes true for keys that the file has."""
    shape, stored = context.shape, file.stored
    count = len(shape.key)
    tally_sum, start = ZERO, 0
    if not len(key_hashes):
        return tally_sum
    schema, number = context.schemas[stored.file.schema_id], stored.number(shape)
    for columns in read_covered(context.file_io, stored.path, shape, schema, number=number):
        hashes = hash_rows(columns[:count], shape.field_ids[:count])
        places = np.minimum(np.searchsorted(key_hashes, hashes), len(key_hashes) - 1)
        hit = key_hashes[places] == hashes
        if file.deleted is not None:
            inside = file.deleted & BitMap(range(start, start + len(hashes)))
            hit[np.array(inside.to_array(), np.int64) - start] = False
        matched[places[hit]] = True
        if hit.any():
            rows = pa.array(np.flatnonzero(hit))
            tally_sum += tally([column.take(rows) for column in columns], shape.field_ids)
        start += len(hashes)
    return tally_sum
