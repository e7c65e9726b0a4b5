"""This module reads postponed rows and what was written for them as hashes: two of the key, one of the
whole row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.row_kind import KEY_FIELD_ID_START, KIND_FIELD_ID, SEQUENCE_FIELD_ID, RowKind
from lakecore.row.bucket import assign_buckets
from lakecore.verify.digest.bytes_hash import Words
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import Tally, hash_rows
from lakecore.verify.proof.rescaled import BucketRule
from lakecore.verify.rules.replay_order import replay_order
from lakecore.verify.rules.table_rules import TableRules
from lakecore.verify.sample.postponed_sample import SampledRows

__all__ = ["KeyedRows", "Part", "PostponedReader", "ignored_kinds"]

_OTHER_IDS = 1 << 40
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """These are the hashes of rows: for each, two hashes of its key, its digest and its kind."""

    keys: Words
    others: Words
    digests: Words
    kinds: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def tally(self) -> Tally:
        return Tally(len(self), int(self.digests.sum()) & _MASK)

    @property
    def key_tally(self) -> Tally:
        return Tally(len(self), int(self.keys.sum()) & _MASK)

    def last(self) -> KeyedRows:
        """Return the last row of each key."""
        order = np.lexsort((self.others, self.keys))
        keys, others = self.keys[order], self.others[order]
        ends = np.ones(len(order), bool)
        ends[:-1] = (keys[1:] != keys[:-1]) | (others[1:] != others[:-1])
        picked = order[ends]
        return self.take(picked)

    def without(self, kinds: frozenset[RowKind]) -> KeyedRows:
        """Return the rows of other kinds."""
        return self.take(np.flatnonzero(~np.isin(self.kinds, [int(kind) for kind in kinds])))

    def take(self, rows: npt.NDArray[Any]) -> KeyedRows:
        return KeyedRows(self.keys[rows], self.others[rows], self.digests[rows], self.kinds[rows])


@dataclass(frozen=True, slots=True)
class Part:
    """It says which rows are read: those whose buckets leave `remainder` when divided by `steps`, and of
    these those whose keys' hashes leave `number` when divided by `passes`.
    """

    rule: BucketRule
    steps: int
    remainder: int
    passes: int
    number: int


def ignored_kinds(rules: TableRules) -> frozenset[RowKind]:
    """Return the kinds of rows that the table does not accept."""
    if rules.ignore_delete:
        return frozenset((RowKind.UPDATE_BEFORE, RowKind.DELETE))
    return frozenset((RowKind.UPDATE_BEFORE,)) if rules.ignore_update_before else frozenset()


@dataclass(frozen=True, slots=True)
class PostponedReader:
    """It reads the rows of a part. `firsts` are the sequence numbers of the first new row of each bucket,
    0 by default.

    Digests cover key, values, sequence number and row kind.
    """

    context: ProofContext
    name: str
    part: Part
    rules: TableRules
    firsts: Mapping[int, int]

    def postponed(self, files: Sequence[StoredFile], sample: SampledRows | None = None) -> KeyedRows:
        """Return rows in the order of the format, whatever that of `files`; those that the table accepts are
        numbered.

        `sample`: collects rows that the table takes. Raises ProofError, NotFoundError, CorruptDataError.
        """
        parts, places = [_empty()], {stored.file.file_name: stored for stored in files}
        numbers = _Numbers(self.firsts, self.part.rule.total)
        ignored = [int(kind) for kind in ignored_kinds(self.rules)]
        for file in replay_order(
            (stored.file for stored in files), snapshot_ordering=self.rules.snapshot_ordering
        ):
            for columns, buckets in self._columns(places[file.file_name]):
                mine = buckets % self.part.steps == self.part.remainder
                is_chosen = mine & ~np.isin(columns[-1].to_numpy(zero_copy_only=False), ignored)
                numbered = [*columns[:-2], pa.array(numbers.following(buckets, is_chosen)), columns[-1]]
                parts.append(self._hash(numbered, mine, is_chosen, sample))
        return _concatenate(parts)

    def written(
        self, files: Iterable[tuple[StoredFile, int]], sample: SampledRows | None = None
    ) -> KeyedRows:
        """Return the rows of new files, each with its bucket. Raises ProofError for a row of another
        bucket.
        """
        parts = [_empty()]
        for stored, bucket in files:
            for columns, buckets in self._columns(stored):
                if (buckets != bucket).any():
                    raise ProofError(self.name, f"{stored.path} has rows of other buckets than {bucket}")
                mine = np.ones(len(buckets), bool)
                parts.append(self._hash(columns, mine, mine, sample))
        return _concatenate(parts)

    def _columns(self, stored: StoredFile) -> Iterator[tuple[Sequence[pa.Array], npt.NDArray[Any]]]:
        """Yield covered columns, and the bucket of each row."""
        context, rule, rows = self.context, self.part.rule, 0
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

    def _hash(
        self,
        columns: Sequence[pa.Array],
        mine: npt.NDArray[np.bool_],
        sampled: npt.NDArray[np.bool_],
        sample: SampledRows | None,
    ) -> KeyedRows:
        """Return the hashes of the rows that `mine` marks; those of `sampled` go into the sample too."""
        rows, part = _hash(self.context, columns), self.part
        here = rows.keys % np.uint64(part.passes) == np.uint64(part.number)
        if sample is not None:
            sample.add(columns, rows.keys, sampled & here)
        mine = mine & here
        return rows if mine.all() else rows.take(np.flatnonzero(mine))


class _Numbers:
    """The next sequence number of each bucket. Rule of the format: every row that is taken gets one."""

    def __init__(self, firsts: Mapping[int, int], total: int) -> None:
        self._next = np.array([firsts.get(bucket, 0) for bucket in range(total)], np.int64)

    def following(self, buckets: npt.NDArray[Any], accepted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the numbers of the next rows; -1 for those that are not accepted."""
        numbers = np.full(len(buckets), -1, np.int64)
        rows = np.flatnonzero(accepted)
        own = buckets[rows]
        order = np.argsort(own, kind="stable")
        ordered = own[order]
        places = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
        numbers[rows[order]] = self._next[ordered] + places
        self._next += np.bincount(own, minlength=len(self._next))
        return numbers


def _hash(context: ProofContext, columns: Sequence[pa.Array]) -> KeyedRows:
    shape = context.shape
    ids = [KEY_FIELD_ID_START + field.id for field in shape.key]
    key = list(columns[: len(ids)])
    keys = hash_rows(key, ids)
    others = hash_rows(key, [_OTHER_IDS + field_id for field_id in ids])
    kinds = columns[-1].to_numpy(zero_copy_only=False).astype(np.int8)
    value_ids = [*ids, *(field.id for field in shape.values), SEQUENCE_FIELD_ID, KIND_FIELD_ID]
    return KeyedRows(keys, others, hash_rows(columns, value_ids), kinds)


def _empty() -> KeyedRows:
    none = np.zeros(0, np.uint64)
    return KeyedRows(none, none, none, np.zeros(0, np.int8))


def _concatenate(parts: Sequence[KeyedRows]) -> KeyedRows:
    joined: list[Any] = [np.concatenate(words) for words in zip(*map(_words, parts), strict=True)]
    return KeyedRows(*joined)


def _words(rows: KeyedRows) -> tuple[npt.NDArray[Any], ...]:
    return rows.keys, rows.others, rows.digests, rows.kinds
