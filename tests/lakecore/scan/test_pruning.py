"""Pruning by predicates: no file with a matching row is ever left out, and the ones without often are."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.format.manifest import manifests as codec
from lakecore.metadata.manifest.data_file import EMPTY_STATS, DataFile, SimpleStats
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import (
    And,
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    NotIn,
    Or,
    Predicate,
    StartsWith,
)
from lakecore.row.binary_row import encode_row
from lakecore.row.bucket import assign_buckets
from lakecore.row.values import rows_batch
from lakecore.scan.pruning import prune_buckets, prune_files, prune_partitions
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, parse_type
from tests.support.builders import data_file, manifest_entry, table_schema

TYPES = {
    "a": "BIGINT",
    "s": "STRING",
    "d": "DECIMAL(12, 2)",
    "t": "TIMESTAMP(6)",
    "m": "TIMESTAMP(3)",
    "x": "DOUBLE",
    "b": "BOOLEAN",
    "y": "DATE",
    "i": "TINYINT",
}
VALUES: dict[str, list[Any]] = {
    "a": [None, -5, 0, 7, 1 << 40],
    "s": [None, "", "abcdefg", "abcdefgh", "ünder a longer name", "z"],
    "d": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")],
    "t": [None, -1_000, 0, 1_700_000_000_123_456_000],
    "m": [None, -1_000_000, 0, 1_700_000_000_123_000_000],
    "x": [None, -1.5, 0.0, 1e300],
    "b": [None, False, True],
    "y": [None, -1, 0, 20000],
    "i": [None, -128, 0, 127],
}


def schema_of(names: str = "asdtmxbyi", **changes: Any) -> TableSchema:
    fields = tuple(
        DataField.from_json({"id": list(TYPES).index(name), "name": name, "type": TYPES[name]})
        for name in names
    )
    base = table_schema(primary_keys=())
    return replace(base, fields=fields, **{"options": {"bucket": "-1"}, **changes})


def described(rows: list[dict[str, Any]], schema: TableSchema, *, dense: bool = False) -> DataFile:
    """A file whose statistics are those of `rows`."""
    names = [field.name for field in schema.fields]
    listed = [name for name in names if any(row[name] is not None for row in rows)] if dense else names
    kind = schema.row_type.select(listed)
    known = [[row[name] for row in rows if row[name] is not None] for name in listed]
    low, high = ([pick(values) if values else None for values in known] for pick in (min, max))
    stats = SimpleStats(
        encode_row(low, kind), encode_row(high, kind), tuple(len(rows) - len(values) for values in known)
    )
    return replace(
        data_file("f", rows=len(rows)),
        value_stats=stats,
        value_stats_cols=tuple(listed) if dense else None,
        schema_id=schema.id,
    )


def lazily(entries: ManifestEntries) -> ManifestEntries:
    """The same entries, lying in compressed blocks."""
    before, codec.MANY_ENTRIES = codec.MANY_ENTRIES, 0
    try:
        return codec.decode_manifest(codec.encode_manifest(entries), "m")
    finally:
        codec.MANY_ENTRIES = before


def kept(files: list[DataFile], predicate: Predicate, schema: TableSchema, *older: TableSchema) -> list[bool]:
    """Which files stay; the same whatever holds their statistics."""
    named = [replace(file, file_name=str(i)) for i, file in enumerate(files)]
    entries = ManifestEntries.from_rows([manifest_entry(file) for file in named])
    schemas = {known.id: known for known in (schema, *older)}
    found = [
        prune_files(source, predicate, schema, schemas.__getitem__).names()
        for source in (entries, lazily(entries))
    ]
    assert found[0] == found[1]
    return [str(i).encode() in found[0] for i in range(len(files))]


def matches(rows: list[dict[str, Any]], predicate: Predicate, schema: TableSchema) -> bool:
    kind = schema.row_type
    batch = rows_batch([[row[name] for name in kind.names] for row in rows], kind, arrow_schema(kind))
    return bool(np.any(mask(predicate, batch).fill_null(False).to_numpy(zero_copy_only=False)))


_rows = st.lists(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}),
    min_size=1,
    max_size=3,
)


def _leaves() -> st.SearchStrategy[Predicate]:
    def of(name: str) -> st.SearchStrategy[Predicate]:
        value = st.sampled_from([value for value in VALUES[name] if value is not None])
        some = st.lists(value, min_size=1, max_size=3).map(tuple)
        kinds: list[st.SearchStrategy[Predicate]] = [
            st.builds(Compare, st.just(name), st.sampled_from(Comparison), value),
            st.builds(In, st.just(name), some),
            st.builds(NotIn, st.just(name), some),
            st.builds(IsNull, st.just(name)),
            st.builds(IsNotNull, st.just(name)),
        ]
        if name == "s":
            kinds.append(st.builds(StartsWith, st.just(name), st.sampled_from(["", "abc", "ü", "zz"])))
        return st.one_of(kinds)

    return st.sampled_from(list(VALUES)).flatmap(of)


_predicates = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=2).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=2).map(lambda parts: Or(tuple(parts))),
        st.builds(Not, inner),
    ),
    max_leaves=3,
)


@settings(max_examples=60)
@given(st.lists(_rows, min_size=1, max_size=4), _predicates, st.booleans())
def test_no_file_with_a_matching_row_is_left_out(
    files: list[list[dict[str, Any]]], predicate: Predicate, dense: bool
) -> None:
    schema = schema_of()
    stay = kept([described(rows, schema, dense=dense) for rows in files], predicate, schema)
    for rows, stays in zip(files, stay, strict=True):
        assert stays or not matches(rows, predicate, schema)


def row(**values: Any) -> dict[str, Any]:
    return {name: values.get(name) for name in TYPES}


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"b"}))
def test_files_beyond_the_value_are_left_out(name: str) -> None:
    """For every type with an order: otherwise the test above would pass by keeping everything."""
    schema = schema_of()
    low, high = VALUES[name][1], VALUES[name][-1]
    files = [described([row(**{name: low})], schema), described([row(**{name: high})], schema)]
    assert kept(files, Compare(name, Comparison.EQ, low), schema) == [True, False]
    assert kept(files, Compare(name, Comparison.GT, low), schema) == [False, True]
    assert kept([described([row()], schema)], Compare(name, Comparison.EQ, low), schema) == [False]


def test_missing_statistics_keep_the_file() -> None:
    schema = schema_of()
    predicate = Compare("a", Comparison.EQ, 3)
    none = replace(described([row(a=9)], schema), value_stats=EMPTY_STATS, value_stats_cols=())
    other = described([row(s="x")], schema, dense=True)
    garbage = replace(none, value_stats=SimpleStats(b"\0\0\0\x09", b"x", (1,)), value_stats_cols=None)
    assert kept([none, other, garbage], predicate, schema) == [True, True, True]


def test_rows_may_have_more_columns_than_the_schema() -> None:
    """Compacted row-tracking files have statistics of two system columns as well."""
    small, wide = schema_of("a"), schema_of("as")
    file = described([row(a=1, s="x")], wide)
    assert kept([file, file], Compare("a", Comparison.GT, 1), small) == [False, False]
    assert kept([file], Compare("a", Comparison.EQ, 1), small) == [True]


def test_columns_are_found_by_id_in_the_schema_of_the_file() -> None:
    old = schema_of("sa")
    fields = {field.name: field for field in schema_of("asx").fields}
    renamed = replace(fields["a"], name="new")
    widened = replace(fields["s"], type=parse_type("VARCHAR(9)"))
    now = replace(old, id=1, fields=(renamed, widened, fields["x"]))
    files = [described([row(a=1, s="k")], old), described([row(a=9, s="k")], old)]
    assert kept(files, Compare("new", Comparison.EQ, 9), now, old) == [False, True]
    assert kept(files, Compare("s", Comparison.EQ, "q"), now, old) == [True, True]
    assert kept(files, Compare("x", Comparison.EQ, 1.0), now, old) == [False, False]
    assert kept(files, IsNull("x"), now, old) == [True, True]


def test_keyed_tables_use_only_their_key() -> None:
    """A file without the wanted value may hide an older row with it: it has to stay."""
    schema = replace(
        table_schema("p INT, k BIGINT NOT NULL, v INT", partition_keys=("p",)), primary_keys=("p", "k")
    )
    key = schema.key_type
    stats = SimpleStats(encode_row((10,), key), encode_row((20,), key), (0,))
    file = replace(data_file("f"), key_stats=stats)
    assert kept([file], Compare("k", Comparison.EQ, 9), schema) == [False]
    assert kept([file], Compare("k", Comparison.EQ, 15), schema) == [True]
    assert kept([file], Compare("v", Comparison.EQ, 9), schema) == [True]
    both = And((Compare("v", Comparison.EQ, 9), Compare("k", Comparison.LT, 10)))
    assert kept([file], both, schema) == [False]
    assert kept([file], Or(both.children), schema) == [True]


# --- partitions and buckets


def test_partitions_are_pruned_exactly() -> None:
    kind = table_schema("p INT, q STRING", primary_keys=(), partition_keys=("p", "q")).partition_type
    values = [(1, "a"), (2, "a"), (None, "b"), (2, "b")]
    entries = ManifestEntries.from_rows(
        [
            manifest_entry(data_file(str(i)), partition=encode_row(value, kind))
            for i, value in enumerate(values)
        ]
    )
    predicate = And((Compare("p", Comparison.GE, 2), Compare("q", Comparison.EQ, "b"), IsNull("v")))
    assert prune_partitions(entries, predicate, kind).names() == [b"3"]
    assert prune_partitions(entries, IsNull("p"), kind).names() == [b"2"]
    assert prune_partitions(entries, Or((IsNull("p"), IsNull("v"))), kind) is entries


def bucketed(schema: TableSchema, *totals: int) -> ManifestEntries:
    return ManifestEntries.from_rows(
        [
            manifest_entry(data_file(f"{total}/{bucket}"), bucket=bucket, total_buckets=total)
            for total in totals
            for bucket in range(total)
        ]
    )


def test_a_fixed_bucket_key_selects_buckets_by_the_total_of_each_file() -> None:
    schema = table_schema("k BIGINT NOT NULL, v INT", options={"bucket": "4"})
    entries = bucketed(schema, 4, 3)
    predicate = And((In("k", (1, 7)), Compare("v", Comparison.EQ, 1)))
    kind = schema.row_type.select(("k",))
    batch = rows_batch([(1,), (7,)], kind, arrow_schema(kind))
    wanted = {
        f"{total}/{bucket}".encode()
        for total in (4, 3)
        for bucket in assign_buckets(batch, kind, total, "default").tolist()
    }
    found = prune_buckets(entries, predicate, schema, lambda _: schema)
    assert set(found.names()) == wanted
    assert len(found) < len(entries)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_both_zeros_are_in_the_buckets_of_zero(kind: str) -> None:
    schema = table_schema(f"k {kind} NOT NULL, v INT", options={"bucket": "50"})
    entries = bucketed(schema, 50)
    key = schema.row_type.select(("k",))
    batch = rows_batch([(0.0,), (-0.0,), (7.0,)], key, arrow_schema(key))
    zero, other, seven = (
        f"50/{bucket}".encode() for bucket in assign_buckets(batch, key, 50, "default").tolist()
    )
    assert len({zero, other, seven}) == 3
    for value in (0.0, -0.0):
        found = prune_buckets(entries, Compare("k", Comparison.EQ, value), schema, lambda _: schema)
        assert set(found.names()) == {zero, other}
        found = prune_buckets(entries, In("k", (7.0, value)), schema, lambda _: schema)
        assert set(found.names()) == {zero, other, seven}


@pytest.mark.parametrize(
    "predicate", [Compare("k", Comparison.GT, 1), Compare("v", Comparison.EQ, 1), In("k", tuple(range(2000)))]
)
def test_buckets_stay_where_the_key_is_not_known(predicate: Predicate) -> None:
    schema = table_schema("k BIGINT NOT NULL, v INT", options={"bucket": "4"})
    entries = bucketed(schema, 4)
    assert prune_buckets(entries, predicate, schema, lambda _: schema) is entries


def test_buckets_stay_where_rows_were_hashed_as_another_type() -> None:
    old = table_schema("k INT NOT NULL, v INT", options={"bucket": "4"})
    now = table_schema("k BIGINT NOT NULL, v INT", options={"bucket": "4"})
    entries = bucketed(now, 4)
    assert prune_buckets(entries, Compare("k", Comparison.EQ, -7), now, lambda _: old) is entries


def test_dynamic_buckets_stay() -> None:
    schema = table_schema("k BIGINT NOT NULL, v INT", options={"bucket": "-1"})
    entries = bucketed(schema, 4)
    assert prune_buckets(entries, Compare("k", Comparison.EQ, 1), schema, lambda _: schema) is entries
