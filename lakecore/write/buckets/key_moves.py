"""This module moves of rows whose keys may change partitions: the key lacks partition columns. It is pure.

Spec: a key that is in another partition already is deleted there and inserted here (deduplicate), or its row
goes to where the key is, with that partition's values (partial-update, aggregation), or is left out
(first-row). New keys go to the first bucket of their partition with room.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.metadata.options import MergeEngine, TableOptions
from lakecore.metadata.row_kind import RowKind
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_text
from lakecore.row.values import values_array
from lakecore.write.buckets.bucket_places import PlaceRules
from lakecore.write.buckets.key_places import KeyHashes, KeyPlaces
from lakecore.write.buckets.routing import Share, partition_codes
from lakecore.write.rows.incoming import Rows

__all__ = ["KeyMoves", "TaskShare"]

Ints = npt.NDArray[np.int64]

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class _Moves:
    """The rows that a batch becomes: per outgoing row its source row, its place, and whether it retracts
    there.
    """

    sources: Ints
    places: Ints
    retracts: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TaskShare:
    """It is what one of `count` assigners may fill of the room in each bucket. The shares of all assigners
    together are the room.
    """

    number: int = 0
    count: int = 1

    def of(self, bucket: int, room: int) -> int:
        """Return the share of `room` keys in a bucket; a rest goes to other assigners in the next bucket."""
        return room // self.count + int((self.number - bucket) % self.count < room % self.count)


_WHOLE = TaskShare()


class KeyMoves:
    """A router that splits batches of one table and counts the keys of its buckets. `table` names it in
    errors. With a `share` it is one of several assigners, each of which has keys of its own.
    """

    def __init__(self, table: str, schema: TableSchema, share: TaskShare = _WHOLE) -> None:
        options = TableOptions.from_schema(schema)
        self.table = table
        self.schema = schema
        self._share = share
        self._engine = options.merge_engine
        self._stays = options.ignore_delete
        self._target = PlaceRules.from_options(schema.options).target_rows
        self._partitions: dict[bytes, int] = {}
        self._serialised: list[bytes] = []
        self._values: list[tuple[Any, ...]] = []
        self._places: dict[tuple[int, int], int] = {}
        self._of_place: list[tuple[int, int]] = []
        self._counts: list[int] = []
        self._added: list[int] = []

    def occupied(self, partition: bytes, bucket: int, keys: int) -> int:
        """Return the number of a place, after adding `keys` to what the table has there."""
        place = self._place(self._partition(partition), bucket)
        self._counts[place] += keys
        return place

    def split(self, rows: Rows, prints: KeyHashes, index: KeyPlaces) -> list[Share]:
        """Return shares of one place each, rows of a key in their order; `index` is updated to the new
        places.

        `prints` are those of the keys of the rows. Raises UnsupportedError for a key that cannot leave its
        partition.
        """
        if rows.batch.num_rows == 0:
            return []
        codes, serialised = partition_codes(rows.batch, self.schema.partition_type)
        partitions = np.array([self._partition(row) for row in serialised], np.int64)[codes]
        order = prints.order
        moves = self._moves(prints.take(order), partitions[order], order, index)
        return list(self._shares(rows, moves))

    def _moves(self, prints: KeyHashes, partitions: Ints, sources: Ints, index: KeyPlaces) -> _Moves:
        """Return the rows in order of their keys, and in order of arrival for one key."""
        first = prints.firsts
        heads = np.flatnonzero(first)
        group = np.cumsum(first) - 1
        there = index.find(prints.take(heads)).astype(np.int64)
        if self._engine is MergeEngine.DEDUPLICATE:
            places, moves = self._replace(partitions, sources, (heads, there))
            index.put(prints.take(heads), places)
            return moves
        fresh = np.flatnonzero(there == _NOWHERE)
        there[fresh] = self._room(partitions[heads[fresh]], sources[heads[fresh]])
        index.put(prints.take(heads[fresh]), there[fresh].astype(np.int32))
        places = there[group]
        keeps = np.ones(len(prints), bool)
        if self._engine is MergeEngine.FIRST_ROW:
            keeps = self._partition_of(places) == partitions
        return _Moves(sources[keeps], places[keeps], np.zeros(int(keeps.sum()), bool))

    def _replace(
        self, partitions: Ints, sources: Ints, heads: tuple[Ints, Ints]
    ) -> tuple[npt.NDArray[np.int32], _Moves]:
        """Place each key where its last row is and retract it from its old place. Also returns the new place
        of each key.
        """
        starts, there = heads
        before = np.empty(len(sources), np.int64)
        before[1:] = partitions[:-1]
        before[starts] = self._partition_of(there)
        moves = before != partitions
        begins = moves.copy()
        begins[starts] = True
        segment = np.cumsum(begins) - 1
        places = np.empty(int(segment[-1]) + 1, np.int64)
        places[segment[starts]] = there  # of segments that go on where the key was
        new = np.flatnonzero(moves)
        places[segment[new]] = self._room(partitions[new], sources[new])
        staying = np.flatnonzero(moves & (before != _NOWHERE))
        if self._stays and len(staying):
            raise self._cannot_leave(int(before[staying[0]]), int(partitions[staying[0]]), len(staying))
        is_head = np.zeros(len(sources), bool)
        is_head[starts] = True
        old = np.empty(len(sources), np.int64)
        old[starts] = there
        inner = staying[~is_head[staying]]
        old[inner] = places[segment[inner] - 1]
        for place, count in zip(*np.unique(old[staying], return_counts=True), strict=True):
            self._added[int(place)] -= int(count)
        ends = np.append(starts[1:], len(sources)) - 1
        return places[segment[ends]].astype(np.int32), _Moves(
            np.concatenate([sources[staying], sources]),
            np.concatenate([old[staying], places[segment]]),
            np.arange(len(staying) + len(sources)) < len(staying),
        )

    def _cannot_leave(self, old: int, new: int, keys: int) -> UnsupportedError:
        partition_type = self.schema.partition_type
        was, goes = (partition_text(self._values[number], partition_type) for number in (old, new))
        return UnsupportedError(
            f"table {self.table}: option ignore-delete=true: {keys} rows would move their keys to another "
            f"partition (one from {was} to {goes}), but the deletes that remove them from the old one are "
            "ignored: the keys would be in both, and Java's next writer would stop, for the table contains "
            "duplicates; write them with the partition that they have"
        )

    def _room(self, partitions: Ints, arrival: Ints) -> Ints:
        """Return a place for each new key of these partitions, in order of arrival."""
        buckets_of_rows = np.empty(len(partitions), np.int64)
        by_arrival = np.argsort(arrival, kind="stable")
        for partition in np.unique(partitions).tolist():
            rows = by_arrival[partitions[by_arrival] == partition]
            start = bucket = 0
            while start < len(rows):
                place = self._place(partition, bucket)
                room = self._share.of(bucket, self._target - self._counts[place]) - self._added[place]
                size = min(max(room, 0), len(rows) - start)
                buckets_of_rows[rows[start : start + size]] = place
                self._added[place] += size
                start += size
                bucket += 1
        return buckets_of_rows

    def _shares(self, rows: Rows, moves: _Moves) -> Iterator[Share]:
        """Yield the shares; a retraction comes just before the row that takes the key away."""
        order = np.lexsort((~moves.retracts, moves.sources, moves.places))
        places = moves.places[order]
        bounds = np.flatnonzero(np.diff(places, prepend=-1, append=-1))
        for start, stop in pairwise(bounds.tolist()):
            picked = order[start:stop]
            partition, bucket = self._of_place[int(places[start])]
            batch = rows.batch.take(pa.array(moves.sources[picked]))
            row_kinds = np.int8(0) if rows.kinds is None else rows.kinds[moves.sources[picked]]
            kinds = np.where(moves.retracts[picked], np.int8(RowKind.DELETE), row_kinds).astype(np.int8)
            part = Rows(self._in_partition(batch, partition), kinds if kinds.any() else None)
            yield Share(self._serialised[partition], self._values[partition], bucket, part)

    def _in_partition(self, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        """Set that partition's values, also where the rows came with others."""
        columns = list(batch.columns)
        for field, value in zip(self.schema.partition_type.fields, self._values[partition], strict=True):
            at = batch.schema.get_field_index(field.name)
            column = pa.repeat(values_array([value], field.type)[0], batch.num_rows)
            columns[at] = column.cast(columns[at].type)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _partition(self, serialised: bytes) -> int:
        if serialised not in self._partitions:
            self._partitions[serialised] = len(self._values)
            self._serialised.append(serialised)
            self._values.append(tuple(decode_row(serialised, self.schema.partition_type, "partition")))
        return self._partitions[serialised]

    def _place(self, partition: int, bucket: int) -> int:
        number = self._places.setdefault((partition, bucket), len(self._of_place))
        if number == len(self._of_place):
            self._of_place.append((partition, bucket))
            self._counts.append(0)
            self._added.append(0)
        return number

    def _partition_of(self, places: Ints) -> Ints:
        """Return the partition of each place; -1 for nowhere."""
        table = np.array([*(partition for partition, _ in self._of_place), _NOWHERE], np.int64)
        return np.asarray(table[places])
