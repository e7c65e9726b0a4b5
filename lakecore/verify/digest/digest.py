"""This module defines the digest of a set of rows: their number, and a wrapping sum of row hashes. No IO.

A sum does not depend on the order of rows, adds up over files, windows and units, and (unlike xor) does not
lose pairs. The hash of a row combines its columns, each under an odd constant made from its field id, so that
exchanging values between rows or between columns changes it. The hash guards against faults, not against
forgers.

The version is part of what a snapshot records: digests of different versions cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.verify.digest.array_hash import hash_array
from lakecore.verify.digest.bytes_hash import Words, fold

__all__ = ["DIGEST_VERSION", "ZERO", "Tally", "column_constant", "hash_rows", "tally", "total"]

DIGEST_VERSION = 2
_BLOCK_ROWS = 16384
"""Rows hashed at once: a column of words is 128 kB, so that all steps stay in the cache."""
_MASK = 0xFFFFFFFFFFFFFFFF
_SEED = np.uint64(0x1D8E4E27C47D124F)
_FINAL = np.uint64(0xEB44ACCAB455D165)
_LAST_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Tally:
    """A tally is the count and digest (modulo 2^64) of a set of rows. Tallies can be added."""

    rows: int
    digest: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.rows + other.rows, (self.digest + other.digest) & _MASK)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.rows - other.rows, (self.digest - other.digest) & _MASK)

    def __str__(self) -> str:
        return f"{self.rows} rows, digest {self.digest:016x}"


ZERO = Tally(0, 0)


def total(parts: Iterable[Tally]) -> Tally:
    """Return the sum of all tallies."""
    rows = digest = 0
    for part in parts:
        rows += part.rows
        digest += part.digest
    return Tally(rows, digest & _MASK)


def column_constant(field_id: int) -> int:
    """Return the odd 64-bit constant of a column: its field id through the finaliser of splitmix64."""
    x = (field_id * 2 + 1) * 0x9E3779B97F4A7C15 & _MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return (x ^ x >> 31) | 1


def hash_rows(columns: Sequence[pa.Array], field_ids: Sequence[int]) -> Words:
    """Return one hash per row. Columns are arrays without chunks, all of one length, made canonical where
    needed.
    """
    hashes = np.full(len(columns[0]), _SEED, np.uint64)
    for column, field_id in zip(columns, field_ids, strict=True):
        fold(hashes)
        hashes += hash_array(column, column_constant(field_id))
    fold(hashes)
    hashes *= _FINAL
    hashes ^= hashes >> _LAST_SHIFT
    return hashes


def tally(columns: Sequence[pa.Array], field_ids: Sequence[int]) -> Tally:
    """Return count and digest of the rows of `columns`. Cost: 3 ns an integer, 20-30 ns a 24-byte string."""
    rows = len(columns[0])
    digest = 0
    for start in range(0, rows, _BLOCK_ROWS):
        block = [column.slice(start, _BLOCK_ROWS) for column in columns]
        digest += int(hash_rows(block, field_ids).sum())
    return Tally(rows, digest & _MASK)
