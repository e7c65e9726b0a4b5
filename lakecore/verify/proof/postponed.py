"""Proof that postponed rows got into real buckets: what was written is the last row of every key, no other.

Shares nothing with the writer: rows are read from bytes, and the last of each key is found by hashes of its
key (128 bits). Where rows of a key do not simply replace each other, only keys and counts are compared. Every
row that was written is in the bucket of its key. Memory: 33 bytes a row of 4 million postponed rows (some 60
while they are sorted); where there are more, both sides are read again for each further 4 million.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KEY_FIELD_ID_START, KIND_FIELD_ID, RowKind
from lakecore.row.bucket import assign_buckets
from lakecore.verify.digest.bytes_hash import Words
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import ZERO, Tally, hash_rows
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.proof.pick_proof import PickProof
from lakecore.verify.proof.rescaled import BucketRule
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["FoldShare", "FoldTally", "check_fold", "ignored_kinds", "prove_fold"]

_OTHER_IDS = 1 << 40
_MOST_ROWS = 4_000_000
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
        return self.take(picked)

    def without(self, kinds: frozenset[RowKind]) -> _Rows:
        """Rows of other kinds."""
        return self.take(np.flatnonzero(~np.isin(self.kinds, [int(kind) for kind in kinds])))

    def take(self, rows: npt.NDArray[Any]) -> _Rows:
        return _Rows(self.keys[rows], self.others[rows], self.digests[rows], self.kinds[rows])


@dataclass(frozen=True, slots=True)
class FoldShare:
    """The postponed rows whose buckets have one remainder. `steps`: of how many; by default all rows."""

    rule: BucketRule
    steps: int = 1
    remainder: int = 0


@dataclass(frozen=True, slots=True)
class FoldTally:
    """Of a share: all postponed rows, those that the table takes, and what was written for them. Adds up.

    `read`: the postponed files. `made`: the new files, each with its bucket.
    """

    everything: Tally = ZERO
    taken: Tally = ZERO
    written: Tally = ZERO
    read: tuple[DataFile, ...] = ()
    made: tuple[tuple[int, DataFile], ...] = ()

    def __add__(self, other: FoldTally) -> FoldTally:
        return FoldTally(
            self.everything + other.everything,
            self.taken + other.taken,
            self.written + other.written,
            tuple(dict.fromkeys(self.read + other.read)),
            self.made + other.made,
        )


def check_fold(
    context: ProofContext,
    name: str,
    postponed: Sequence[StoredFile],
    written: Sequence[tuple[StoredFile, int]],
    share: FoldShare,
    *,
    replaces: bool,
    ignored: frozenset[RowKind] = frozenset(),
) -> FoldTally:
    """Compare what was written, files with their buckets, with the last rows of a share of the `postponed`
    files, given in order of their rows.

    `replaces`: the last row of a key is the one that counts (merge engine deduplicate without sequence
    fields). `ignored`: kinds of rows that the table does not take (ignore-delete and the like). Raises
    ProofError naming `name`. Cost: reads the covered columns of both sides, once for each 4 million rows of
    the share.
    """
    rows = sum(stored.file.row_count for stored in postponed)
    passes = max(1, -(-rows // (share.steps * _MOST_ROWS)))
    reader = _Reader(context, name, share, whole=replaces)
    found = FoldTally()
    for number in range(passes):
        everything = reader.postponed(postponed, passes, number)
        before = everything.without(ignored)
        after = reader.written(written, passes, number)
        wanted = before.last()
        if len(after.last()) != len(after):
            raise ProofError(name, f"{len(after)} rows were written for {len(after.last())} keys")
        if wanted.tally != after.tally:
            raise ProofError(
                name,
                f"the last rows of the keys of its postponed rows are {wanted.tally}, but its outputs hold "
                f"{after.tally}",
            )
        found += FoldTally(everything.tally, before.tally, after.tally)
    made = tuple((bucket, stored.file) for stored, bucket in written)
    return replace(found, read=tuple(stored.file for stored in postponed), made=made)


def ignored_kinds(rules: TableRules) -> frozenset[RowKind]:
    """Kinds of rows that the table does not take."""
    if rules.ignore_delete:
        return frozenset((RowKind.UPDATE_BEFORE, RowKind.DELETE))
    return frozenset((RowKind.UPDATE_BEFORE,)) if rules.ignore_update_before else frozenset()


def prove_fold(
    shape: RowShape, name: str, rows: int, shares: Iterable[FoldTally], *, replaces: bool
) -> PickProof:
    """All shares of the postponed files of a partition, which have so many `rows`. Raises ProofError."""
    whole = sum(shares, FoldTally())
    if whole.everything.rows != rows:
        raise ProofError(name, f"its units read {whole.everything.rows} rows, but its inputs have {rows}")
    return PickProof(
        pick=name,
        mode=shape.mode.value,
        inputs=whole.everything,
        outputs=whole.written,
        lost=whole.taken - whole.written,
        dropped=whole.everything - whole.taken,
        keyed=True,
        placed=replaces,
        covered=tuple(field.name for field in shape.values) if replaces else (),
        uncompared=shape.uncompared,
        read=whole.read,
        made=tuple(file for _, file in whole.made),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the rows of a share, in each of several passes those keys whose hashes have one remainder."""

    context: ProofContext
    name: str
    share: FoldShare
    whole: bool

    def postponed(self, files: Iterable[StoredFile], passes: int, number: int) -> _Rows:
        parts = [_empty()]
        for stored in files:
            for columns, buckets in self._columns(stored):
                mine = buckets % self.share.steps == self.share.remainder
                parts.append(self._hashed(columns, mine, passes, number))
        return _concatenated(parts)

    def written(self, files: Iterable[tuple[StoredFile, int]], passes: int, number: int) -> _Rows:
        parts = [_empty()]
        for stored, bucket in files:
            for columns, buckets in self._columns(stored):
                if (buckets != bucket).any():
                    raise ProofError(self.name, f"{stored.path} has rows of other buckets than {bucket}")
                parts.append(self._hashed(columns, np.ones(len(buckets), bool), passes, number))
        return _concatenated(parts)

    def _columns(self, stored: StoredFile) -> Iterator[tuple[Sequence[pa.Array], npt.NDArray[Any]]]:
        """Covered columns, and the bucket that each row belongs to."""
        context, rule, rows = self.context, self.share.rule, 0
        names = [field.name for field in context.shape.key]
        at = [names.index(name) for name in rule.key.names]
        for columns in read_covered(
            context.file_io, stored.path, context.shape, context.schemas[stored.file.schema_id]
        ):
            rows += len(columns[0])
            batch = pa.RecordBatch.from_arrays([columns[i] for i in at], names=list(rule.key.names))
            yield columns, assign_buckets(batch, rule.key, rule.total, rule.function)
        if rows != stored.file.row_count:
            raise ProofError(
                self.name, f"{stored.path} has {rows} rows, but its description says {stored.file.row_count}"
            )

    def _hashed(
        self, columns: Sequence[pa.Array], mine: npt.NDArray[np.bool_], passes: int, number: int
    ) -> _Rows:
        rows = _hashed(self.context, columns, whole=self.whole)
        if passes > 1:
            mine = mine & (rows.keys % np.uint64(passes) == np.uint64(number))
        return rows if mine.all() else rows.take(np.flatnonzero(mine))


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


def _concatenated(parts: Sequence[_Rows]) -> _Rows:
    joined: list[Any] = [np.concatenate(words) for words in zip(*map(_words, parts), strict=True)]
    return _Rows(*joined)


def _words(rows: _Rows) -> tuple[npt.NDArray[Any], ...]:
    return rows.keys, rows.others, rows.digests, rows.kinds
