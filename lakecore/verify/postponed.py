"""Proof that postponed rows got into real buckets: what was written is the last row of every key, no other.

Shares nothing with the writer: rows are read from bytes, and the last of each key is found by hashes of its
key (128 bits). Where rows of a key do not simply replace each other, only keys and counts are compared.
Memory: 32 bytes a postponed row of one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import ProofError
from lakecore.metadata.row_kind import KEY_FIELD_ID_START, KIND_FIELD_ID
from lakecore.verify.bytes_hash import Words
from lakecore.verify.columns import StoredFile, read_covered
from lakecore.verify.digest import ZERO, Tally, hash_rows
from lakecore.verify.proof import PickProof
from lakecore.verify.proof_context import ProofContext

__all__ = ["prove_fold"]

_OTHER_IDS = 1 << 40
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Rows:
    """Of each row: two hashes of its key, its digest."""

    keys: Words
    others: Words
    digests: Words

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def tally(self) -> Tally:
        return Tally(len(self), int(self.digests.sum()) & _MASK)

    def last(self) -> _Rows:
        """The last row of each key."""
        order = np.lexsort((self.others, self.keys))
        keys, others = self.keys[order], self.others[order]
        ends = np.ones(len(order), bool)
        ends[:-1] = (keys[1:] != keys[:-1]) | (others[1:] != others[:-1])
        picked = order[ends]
        return _Rows(self.keys[picked], self.others[picked], self.digests[picked])


def prove_fold(
    context: ProofContext,
    name: str,
    postponed: Sequence[StoredFile],
    written: Sequence[StoredFile],
    *,
    replaces: bool,
) -> PickProof:
    """Compare what was written with the last rows of the `postponed` files, given in order of their rows.

    `replaces`: the last row of a key is the one that counts (merge engine deduplicate without sequence
    fields). Raises ProofError naming `name`. Cost: reads the covered columns of both sides once.
    """
    before = _read(context, name, postponed, whole=replaces)
    after = _read(context, name, written, whole=replaces)
    wanted = before.last()
    if len(after.last()) != len(after):
        raise ProofError(name, f"{len(after)} rows were written for {len(after.last())} keys")
    if wanted.tally != after.tally:
        raise ProofError(
            name,
            f"the postponed rows have as last rows of their keys {wanted.tally}; written were {after.tally}",
        )
    covered = tuple(field.name for field in context.shape.values) if replaces else ()
    return PickProof(
        pick=name,
        mode=context.shape.mode.value,
        inputs=before.tally,
        outputs=after.tally,
        lost=before.tally - wanted.tally,
        dropped=ZERO,
        keyed=True,
        covered=covered,
        uncompared=context.shape.uncompared,
    )


def _read(context: ProofContext, name: str, files: Iterable[StoredFile], *, whole: bool) -> _Rows:
    parts = [_empty()]
    for stored in files:
        rows = 0
        schema = context.schemas[stored.file.schema_id]
        for columns in read_covered(context.file_io, stored.path, context.shape, schema):
            rows += len(columns[0])
            parts.append(_hashed(context, columns, whole=whole))
        if rows != stored.file.row_count:
            raise ProofError(name, f"{stored.path} has {rows} rows, not {stored.file.row_count}")
    joined: list[Any] = [np.concatenate(words) for words in zip(*map(_words, parts), strict=True)]
    return _Rows(*joined)


def _hashed(context: ProofContext, columns: Sequence[pa.Array], *, whole: bool) -> _Rows:
    shape = context.shape
    ids = [KEY_FIELD_ID_START + field.id for field in shape.key]
    key = list(columns[: len(ids)])
    keys = hash_rows(key, ids)
    others = hash_rows(key, [_OTHER_IDS + field_id for field_id in ids])
    if not whole:
        return _Rows(keys, others, keys)
    values = [*key, *columns[len(ids) : -2], columns[-1]]
    value_ids = [*ids, *(field.id for field in shape.values), KIND_FIELD_ID]
    return _Rows(keys, others, hash_rows(values, value_ids))


def _empty() -> _Rows:
    return _Rows(*(np.zeros(0, np.uint64) for _ in range(3)))


def _words(rows: _Rows) -> tuple[Words, Words, Words]:
    return rows.keys, rows.others, rows.digests
