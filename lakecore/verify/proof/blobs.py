"""This module proves blobs in files of their own through a compaction: the value of each row, by its bytes
and its place.

Rule of the format: of the files of a column the newest that has a row counts, unless it leaves the row as it
was; a row that none has is null.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.errors import CorruptDataError, ProofError
from lakecore.format.blob.file import OLDER, BlobSource, load_blob_index
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import Tally, tally
from lakecore.verify.proof.outputs import OutputEvidence

__all__ = ["check_blob_output", "tally_blobs"]

Words = npt.NDArray[np.int64]

_POSITION_ID, _SIZE_ID = -1, -2
_DIGEST_BYTES = 8


def tally_blobs(
    context: ProofContext, unit: str, files: Sequence[StoredFile], first: int, rows: int, column: int
) -> Tally:
    """Count and digest of the values of `rows` rows from row id `first` on. `column`: its field id.

    It reads the values that count, and no others, 1 MB at a time; memory: 40 bytes a row. Raises ProofError
    where a file has other rows than it says, CorruptDataError, UnavailableError.
    """
    starts, sizes = np.zeros(rows, np.int64), np.full(rows, OLDER, np.int64)
    owner = np.full(rows, -1, np.int64)
    for number, stored in sorted(enumerate(files), key=lambda item: item[1].file.max_sequence_number):
        index = load_blob_index(context.file_io, stored.path)
        low = (stored.file.first_row_id or 0) - first
        if len(index.sizes) != stored.file.row_count or not 0 <= low <= rows - len(index.sizes):
            raise ProofError(unit, f"{stored.path} has {len(index.sizes)} rows from row {first + low} on")
        there = low + np.flatnonzero(index.sizes != OLDER)
        starts[there], sizes[there] = index.starts[there - low], index.sizes[there - low]
        owner[there] = number
    sizes[sizes < 0] = -1
    hashes = np.zeros(rows, np.int64)
    for number, stored in enumerate(files):
        _hash(context, stored, np.flatnonzero((owner == number) & (sizes >= 0)), starts, sizes, hashes)
    columns = [pa.array(hashes), pa.array(sizes), pa.array(np.arange(rows))]
    return tally(columns, (column, _SIZE_ID, _POSITION_ID))


def _hash(
    context: ProofContext, stored: StoredFile, rows: Words, starts: Words, sizes: Words, hashes: Words
) -> None:
    source = BlobSource(context.file_io, stored.path)
    try:
        for row in rows.tolist():
            digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
            for piece in source.pieces(int(starts[row]), int(sizes[row])):
                digest.update(piece)
            hashes[row] = int.from_bytes(digest.digest(), "little", signed=True)
    finally:
        source.close()


def check_blob_output(
    context: ProofContext, unit: str, stored: StoredFile, first: int, column: int
) -> OutputEvidence:
    """Read an output back and compare it with its manifest entry. Raises ProofError, UnavailableError."""
    status = context.file_io.stat(stored.path)
    if status is None or status.size != stored.file.file_size:
        size = "does not exist" if status is None else f"has {status.size} bytes"
        raise ProofError(
            unit, f"output {stored.path} {size}; the expected size is {stored.file.file_size} bytes"
        )
    try:
        rows = tally_blobs(context, unit, [stored], first, stored.file.row_count, column)
    except CorruptDataError as err:
        raise ProofError(unit, f"output {stored.path}: {err}") from err
    return OutputEvidence(rows=rows, files=1, proven=(stored.file,))
