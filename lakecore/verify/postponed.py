"""Proof that postponed rows got into real buckets: what was written is the last row of every key, no other.

Shares nothing with the writer: rows are read from bytes, and the last of each key is found by hashes of its
key (128 bits). Where rows of a key do not simply replace each other, only keys and counts are compared.
Memory: 33 bytes a postponed row of one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.errors import ProofError
from lakecore.metadata.row_kind import KEY_FIELD_ID_START, KIND_FIELD_ID, RowKind
from lakecore.verify.bytes_hash import Words
from lakecore.verify.columns import StoredFile, read_covered
from lakecore.verify.digest import Tally, hash_rows
from lakecore.verify.proof import PickProof
from lakecore.verify.proof_context import ProofContext

__all__ = ["prove_fold"]

_OTHER_IDS = 1 << 40
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Rows:
    """Of each row: two hashes of its key, its digest, its kind."""

    keys: Words
    others: Words
    digests: Words
    kinds: npt.NDArray[np.int8]

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
        return self._take(picked)

    def without(self, kinds: frozenset[RowKind]) -> _Rows:
        """Rows of other kinds."""
        return self._take(np.flatnonzero(~np.isin(self.kinds, [int(kind) for kind in kinds])))

    def _take(self, rows: npt.NDArray[Any]) -> _Rows:
        return _Rows(self.keys[rows], self.others[rows], self.digests[rows], self.kinds[rows])


def prove_fold(
    context: ProofContext,
    name: str,
    postponed: Sequence[StoredFile],
    written: Sequence[StoredFile],
    *,
    replaces: bool,
    ignored: frozenset[RowKind] = frozenset(),
) -> PickProof:
    """Compare what was written with the last rows of the `postponed` files, given in order of their rows.

    `replaces`: the last row of a key is the one that counts (merge engine deduplicate without sequence
    fields). `ignored`: kinds of rows that the table does not take (ignore-delete and the like). Raises
    ProofError naming `name`. Cost: reads the covered columns of both sides once.
    """
    everything = _read(context, name, postponed, whole=replaces)
    before = everything.without(ignored)
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
        inputs=everything.tally,
        outputs=after.tally,
        lost=before.tally - wanted.tally,
        dropped=everything.tally - before.tally,
        keyed=True,
        placed=replaces,
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
    kinds = columns[-1].to_numpy(zero_copy_only=False).astype(np.int8)
    if not whole:
        return _Rows(keys, others, keys, kinds)
    values = [*key, *columns[len(ids) : -2], columns[-1]]
    value_ids = [*ids, *(field.id for field in shape.values), KIND_FIELD_ID]
    return _Rows(keys, others, hash_rows(values, value_ids), kinds)


def _empty() -> _Rows:
    none = np.zeros(0, np.uint64)
    return _Rows(none, none, none, np.zeros(0, np.int8))


def _words(rows: _Rows) -> tuple[npt.NDArray[Any], ...]:
    return rows.keys, rows.others, rows.digests, rows.kinds
