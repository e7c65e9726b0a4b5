"""Keys that move between partitions: they leave the old one, and the room that they had is free again."""

from __future__ import annotations

import pyarrow as pa

from lakecore.metadata.row_kind import RowKind
from lakecore.types.datatypes import RowType
from lakecore.write.buckets.key_moves import KeyMoves
from lakecore.write.buckets.key_places import KeyPlaces, hash_keys
from lakecore.write.rows.incoming import Rows
from tests.support.builders import table_schema

Placed = dict[tuple[str, int], list[tuple[int, str, str]]]

OPTIONS = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}


class Table:
    """The rows of each partition and bucket, by what was written: key, partition of the row, kind."""

    def __init__(self, **options: str) -> None:
        raw = {name.replace("_", "-"): value for name, value in options.items()}
        schema = table_schema("k INT NOT NULL, p STRING", partition_keys=("p",), options={**OPTIONS, **raw})
        self._key = RowType(tuple(field for field in schema.row_type.fields if field.name == "k"))
        self._moves, self._index = KeyMoves("t", schema), KeyPlaces.of("t", [])

    def write(self, *rows: tuple[int, str]) -> Placed:
        keys, partitions = zip(*rows, strict=True)
        batch = pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int32()), "p": pa.array(partitions)})
        placed: Placed = {}
        for share in self._moves.split(Rows(batch), hash_keys(batch, self._key), self._index):
            found = share.rows
            kinds = [0] * found.batch.num_rows if found.kinds is None else found.kinds.tolist()
            names = [RowKind(kind).symbol for kind in kinds]
            lines = zip(*(column.to_pylist() for column in found.batch.columns), names, strict=True)
            placed[share.values[0], share.bucket] = list(lines)
        return placed


def test_a_key_is_deleted_where_it_was() -> None:
    table = Table()
    assert table.write((1, "a"), (2, "a")) == {("a", 0): [(1, "a", "+I"), (2, "a", "+I")]}
    assert table.write((1, "b")) == {("a", 0): [(1, "a", "-D")], ("b", 0): [(1, "b", "+I")]}
    assert table.write((1, "b")) == {("b", 0): [(1, "b", "+I")]}


def test_a_key_that_moves_twice_in_a_batch_is_deleted_in_between() -> None:
    table = Table()
    table.write((1, "a"))
    assert table.write((1, "b"), (1, "c")) == {
        ("a", 0): [(1, "a", "-D")],
        ("b", 0): [(1, "b", "+I"), (1, "b", "-D")],
        ("c", 0): [(1, "c", "+I")],
    }


def test_the_room_of_a_key_that_left_is_taken_by_the_next_one() -> None:
    table = Table()
    table.write((1, "a"), (2, "a"))
    assert list(table.write((3, "a"))) == [("a", 1)], "the first bucket has its two keys"
    table.write((1, "b"))
    assert list(table.write((4, "a"))) == [("a", 0)], "one of them has left"
    assert list(table.write((5, "a"))) == [("a", 1)]


def test_first_row_leaves_out_a_key_that_is_elsewhere_and_other_engines_keep_it_there() -> None:
    first = Table(merge_engine="first-row")
    first.write((1, "a"))
    assert first.write((1, "b"), (2, "b")) == {("b", 0): [(2, "b", "+I")]}
    partial = Table(merge_engine="partial-update")
    partial.write((1, "a"))
    assert partial.write((1, "b"), (2, "b")) == {("a", 0): [(1, "a", "+I")], ("b", 0): [(2, "b", "+I")]}
