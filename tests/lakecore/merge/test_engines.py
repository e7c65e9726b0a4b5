"""Merge engines over whole windows against the reference fold, row by row: every function, kinds and late rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakecore.errors import CorruptDataError, InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.merge.engines import sketches
from lakecore.merge.engines.choice import engine_of
from lakecore.merge.groups import Groups, fold
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, type_to_json
from tests.support.reference_merge import ReferenceMerge, RefusedError, Row

KIND, SEQUENCE = "_VALUE_KIND", "_SEQUENCE_NUMBER"
INTS = [None, -7, -1, 0, 1, 2, 3, 100]
DOUBLES = [None, -0.0, 0.0, 0.1, 0.2, 1e300, -3.5, math.inf, math.nan]
TEXTS = [None, "", " ", "a", "b", "a;b", "b;;c", "é😀", "￿"]
SHORT = [None, *map(Decimal, ("-9.99", "0.00", "0.01", "2.50", "9.99"))]
LONG = [
    None,
    *map(Decimal, ("-9" + "9" * 33 + ".9999", "-0.0001", "0.0000", "1" + "0" * 30, "8" * 34 + ".0001")),
]
LISTS = [None, [], [1], [1, 2, None], [2, 2, 17], [33, 1]]
ROW = {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate([("i", "INT"), ("t", "STRING"), ("q", "INT")])]}  # fmt: skip
ROWS: list[Any] = [None, [], [None], *([{"i": i, "t": t, "q": q}] for i, t, q in [(1, "a", 5), (1, None, 3), (2, "b", None), (None, "c", 1)])]  # fmt: skip
ROWS += [[*ROWS[3], *ROWS[5]], [*ROWS[4], None, *ROWS[3]]]
MAPS: list[Any] = [None, [], [("a", 1)], [("a", None), ("b", 2)], [("b", 3), ("c", 4)]]
TIMED: list[Any] = [None, [], *([(k, v)] for k in "ab" for v in [None, {"v": 1, "t": None}, {"v": 2, "t": "5"}, {"v": 3, "t": "7"}])]  # fmt: skip
TIMED_ROW = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "v", "type": "INT"}, {"id": 1, "name": "t", "type": "STRING"}],
}
ARRAY = {"type": "ARRAY", "element": "INT"}
NESTED = {"type": "ARRAY", "element": ROW}
BITMAPS = [None, *(BitMap(found).serialize() for found in ([], [1], [5, 70000], range(100)))]

CASES: dict[str, tuple[Any, list[Any], dict[str, str]]] = {
    "sum tinyint": ("TINYINT", INTS[:-1], {}),
    "sum smallint": ("SMALLINT", INTS, {}),
    "sum bigint": ("BIGINT", [None, -(1 << 62), 1 << 61, 1 << 33, -1], {}),
    "sum float": ("FLOAT", [None, -0.0, 0.5, 1e30, -1e30], {}),
    "sum double": ("DOUBLE", DOUBLES, {}),
    "sum decimal": ("DECIMAL(3, 2)", SHORT, {}),
    "sum long decimal": ("DECIMAL(38, 4)", LONG, {}),
    "product int": ("INT", INTS, {}),
    "product bigint": ("BIGINT", [*INTS, 1 << 40], {}),
    "product double": ("DOUBLE", DOUBLES, {}),
    "product decimal": ("DECIMAL(3, 2)", SHORT, {}),
    "max int": ("INT", INTS, {}),
    "max double": ("DOUBLE", DOUBLES, {}),
    "max string": ("STRING", TEXTS, {}),
    "max long decimal": ("DECIMAL(38, 4)", LONG, {}),
    "min short decimal": ("DECIMAL(3, 2)", SHORT, {}),
    "min date": ("DATE", [None, 1, 2, -5], {}),
    "bool_and": ("BOOLEAN", [None, True, False], {}),
    "bool_or": ("BOOLEAN", [None, True, False], {}),
    "last_value": ("STRING", TEXTS, {}),
    "last_non_null_value": ("STRING", TEXTS, {}),
    "first_value": ("STRING", TEXTS, {}),
    "first_non_null_value": ("STRING", TEXTS, {}),
    "first_not_null_value": ("INT", INTS, {}),
    "listagg": ("STRING", TEXTS, {}),
    "listagg distinct": ("STRING", TEXTS, {"distinct": "true", "list-agg-delimiter": ";"}),
    "collect": (ARRAY, LISTS, {}),
    "collect distinct": (ARRAY, LISTS, {"distinct": "true"}),
    "collect nested": ({"type": "ARRAY", "element": ARRAY}, [None, [[1]], [[1], [2]], [None, [2]]], {"distinct": "true"}),
    "merge_map": ({"type": "MAP", "key": "STRING", "value": "INT"}, MAPS, {}),
    "merge_map_with_keytime": ({"type": "MAP", "key": "STRING", "value": TIMED_ROW}, TIMED, {}),
    "nested_update": (NESTED, ROWS, {}),
    "nested_update limit": (NESTED, ROWS, {"count-limit": "2"}),
    "nested_update keyed": (NESTED, ROWS, {"nested-key": "i"}),
    "nested_update keyed limit": (NESTED, ROWS, {"nested-key": "i", "count-limit": "2", "nested-key-null-strategy": "ignore"}),
    "nested_update sequence": (NESTED, ROWS, {"nested-key": "i", "nested-sequence-field": "q,t"}),
    "nested_partial_update": (NESTED, ROWS, {"nested-key": "i"}),
    "primary-key": ("INT", INTS, {}),
}  # fmt: skip
HASHED = ("collect distinct", "nested_update keyed", "nested_update sequence", "nested_partial_update")


class Table:
    """A schema with key `k` and rows in merge order, folded by both."""

    def __init__(self, columns: Mapping[str, Any], options: Mapping[str, str]) -> None:
        kinds = {"k": "INT NOT NULL", **columns}
        fields = tuple(
            DataField.from_json({"id": i, "name": n, "type": t}) for i, (n, t) in enumerate(kinds.items())
        )
        self.schema = TableSchema(
            id=0, fields=fields, highest_field_id=99, primary_keys=("k",), options={"bucket": "1", **options}
        )
        types = {f.name: str(type_to_json(f.type)) for f in fields}
        self.reference = ReferenceMerge(types, ("k",), self.schema.options)
        system = [pa.field(SEQUENCE, pa.int64()), pa.field(KIND, pa.int8())]
        self.arrow = pa.schema([*system, *arrow_schema(self.schema.row_type)])

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(list(rows), schema=self.arrow)

    def folded(self, groups: Sequence[Sequence[Row]], columns: Sequence[str] | None = None) -> list[Row]:
        """By the engine: rows shuffled in the batch, put in order by indices."""
        rows = [row for group in groups for row in group]
        order = np.random.default_rng(len(rows)).permutation(len(rows))
        batch = self.batch([rows[i] for i in np.argsort(order)])
        last = np.zeros(len(rows), bool)
        last[np.cumsum([len(group) for group in groups]) - 1] = True
        engine = engine_of("db.t", self.schema, TableOptions.from_schema(self.schema))
        assert engine is not None
        whole = Groups(batch=batch, order=order, last=last)
        found = fold(whole, engine, columns)
        assert found.batch.schema.types == [
            batch.schema.field(name).type for name in found.batch.schema.names
        ]
        assert found.kinds.tolist() == fold(whole, engine, [KIND]).batch.column(0).to_pylist()
        return found.batch.to_pylist()

    def expected(self, groups: Sequence[Sequence[Row]]) -> list[Row]:
        plain = [self.batch(group).to_pylist() for group in groups]
        made = [row for group in plain if (row := self.reference.fold(group)) is not None]
        return self.batch(made).to_pylist()


def as_text(rows: Sequence[Row], hashed: bool = False) -> list[str]:
    """Bits of floats, and arrays of a hash order sorted."""
    sort = [
        {n: sorted(v, key=repr) if hashed and isinstance(v, list) else v for n, v in row.items()}
        for row in rows
    ]
    return [repr(sorted(row.items())) for row in sort]


def check(table: Table, groups: Sequence[Sequence[Row]], *, hashed: bool = False) -> None:
    try:
        wanted = table.expected(groups)
    except RefusedError:
        with pytest.raises(UnsupportedError, match=r"table db\.t: "):
            table.folded(groups)
        return
    assert as_text(table.folded(groups), hashed) == as_text(wanted, hashed)


def group_rows(draw: st.DrawFn, pools: Mapping[str, Sequence[Any]], kinds: Sequence[int]) -> list[list[Row]]:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    number = iter(range(1000))
    return [
        [
            {"k": key, SEQUENCE: next(number), KIND: draw(st.sampled_from(kinds))}
            | {name: draw(st.sampled_from(pool)) for name, pool in pools.items()}
            for _ in range(size)
        ]
        for key, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["adds", "retracts", "ignored", "removing", "late", "late ignored"])
@given(data=st.data())
@settings(max_examples=5)
def test_every_function_in_both_engines(name: str, mode: str, data: st.DataObject) -> None:
    kind, pool, extra = CASES[name]
    options = {f"fields.v.{key}": value for key, value in extra.items()}
    options["fields.v.aggregate-function"] = name.split(" ")[0]
    late = mode.startswith("late")
    options["merge-engine"] = "partial-update" if late else "aggregation"
    if "ignored" in mode:
        options["fields.v.ignore-retract"] = "true"
    if mode == "removing":
        options["aggregation.remove-record-on-delete"] = "true"
    if late:
        options["fields.g.sequence-group"] = "v"
    table = Table({"v": kind, "g": "INT"}, options)
    kinds = (0, 0, 2) if mode == "adds" else (0, 0, 2, 3) if mode == "removing" else (0, 0, 2, 1, 3)
    groups = group_rows(data.draw, {"v": pool, "g": [None, 1, 2, 3]}, kinds)  # type: ignore[arg-type]
    check(table, groups, hashed=name.startswith(HASHED))


PARTIAL = {"merge-engine": "partial-update"}
GROUPED = PARTIAL | {"fields.g.sequence-group": "a,b", "fields.h,i.sequence-group": "c", "fields.b.aggregate-function": "sum"}  # fmt: skip
ENGINES: dict[str, dict[str, str]] = {
    "first-row": {"merge-engine": "first-row"},
    "first-row, ignoring": {"merge-engine": "first-row", "ignore-delete": "true"},
    "partial": PARTIAL,
    "partial, ignoring": PARTIAL | {"ignore-delete": "true"},
    "partial, removing": PARTIAL | {"partial-update.remove-record-on-delete": "true"},
    "groups": GROUPED,
    "groups, ignoring": GROUPED | {"ignore-delete": "true"},
    "groups, removing": GROUPED | {"partial-update.remove-record-on-sequence-group": "i"},
    "groups, both removing": GROUPED | {"partial-update.remove-record-on-sequence-group": "g,h"},
    "aggregation": {
        "merge-engine": "aggregation",
        "sequence.field": "i",
        "fields.b.aggregate-function": "sum",
    },
}


@pytest.mark.parametrize("name", ENGINES)
@given(data=st.data())
@settings(max_examples=12)
def test_engines(name: str, data: st.DataObject) -> None:
    kinds = dict.fromkeys("abgh", "INT") | {"c": "STRING", "i": "DOUBLE", "z": "STRING"}
    small = [None, 1, 2, 3]
    pools = dict.fromkeys("abgh", small) | {"c": TEXTS[2:5], "i": DOUBLES, "z": [None, "x", "y"]}
    groups = group_rows(data.draw, pools, (0, 0, 2, 1, 3))  # type: ignore[arg-type]
    table = Table(kinds, ENGINES[name])
    check(table, groups)
    columns = data.draw(st.sets(st.sampled_from(sorted(kinds)), min_size=1).map(sorted))
    engine = engine_of("db.t", table.schema, TableOptions.from_schema(table.schema))
    assert engine is not None
    assert set(engine.needed(columns)) <= set(kinds)
    try:
        wanted = table.folded(groups)
    except UnsupportedError:
        return
    assert as_text(table.folded(groups, columns)) == as_text([{n: row[n] for n in columns} for row in wanted])


@given(st.lists(st.sampled_from(BITMAPS), min_size=2, max_size=5))
@settings(max_examples=30)
def test_bitmaps_are_united(values: list[bytes | None]) -> None:
    table = Table({"v": "BYTES"}, {"merge-engine": "aggregation", "fields.v.aggregate-function": "rbm32"})
    (found,) = table.folded([[{"k": 1, SEQUENCE: i, KIND: 0, "v": value} for i, value in enumerate(values)]])
    sets = [BitMap.deserialize(value) for value in values if value is not None]
    assert (found["v"] is None) == (not sets)
    assert not sets or BitMap.deserialize(found["v"]) == BitMap.union(BitMap(), *sets)


def test_floats_order_nested_rows_as_java_orders_them() -> None:
    """NaN is above every number and equal to itself, -0.0 below 0.0, and null below all."""
    row = {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate([("i", "INT"), ("x", "DOUBLE"), ("q", "INT")])]}  # fmt: skip
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "nested_update"}
    options |= {"fields.v.nested-key": "i", "fields.v.nested-sequence-field": "x"}
    table = Table({"v": {"type": "ARRAY", "element": row}}, options)
    pairs = [(math.nan, 1.5), (1.5, math.nan), (0.0, -0.0), (-0.0, 0.0), (None, math.nan), (-math.inf, None)]
    pairs += [(math.nan, math.nan), (None, None)]
    groups = [
        [{"k": k, SEQUENCE: q, KIND: 0, "v": [{"i": 1, "x": x, "q": q}]} for q, x in enumerate(pair)]
        for k, pair in enumerate(pairs)
    ]
    assert [found["v"][0]["q"] for found in table.folded(groups)] == [0, 1, 0, 1, 1, 0, 1, 1]


@pytest.mark.parametrize("size", [65, 3000])
def test_a_hot_key_is_added_in_order(size: int) -> None:
    values = np.random.default_rng(size).normal(size=size) * 10.0 ** np.arange(size).astype(float).__mod__(30)
    table = Table({"v": "DOUBLE"}, {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
    rows = [{"k": 1, SEQUENCE: i, KIND: 0, "v": float(value)} for i, value in enumerate(values)]
    check(table, [rows, rows[:3]])


class StoredTable(Table):
    """Its decimals may have more digits than their type, as in files of Java."""

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        batch = super().batch([row | {"v": None} for row in rows])
        place = batch.schema.get_field_index("v")
        values = pa.array([row["v"] for row in rows], pa.decimal128(38, 2))
        stored = pa.Array.from_buffers(batch.schema.field(place).type, len(values), values.buffers())
        return batch.set_column(place, batch.schema.field(place), stored)


def test_a_sum_that_java_stored_too_long_stays_alone_and_is_refused_with_others() -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = StoredTable({"v": "DECIMAL(4, 2)"}, options)

    def row(key: int, value: str | None) -> Row:
        return {"k": key, SEQUENCE: 0, KIND: 0, "v": None if value is None else Decimal(value)}

    groups = [[row(0, "100.99")], [row(1, None), row(1, "-100.99")], [row(2, "100.99"), row(2, "-50.00")]]
    assert [found["v"] for found in table.folded(groups)] == [*map(Decimal, ("100.99", "-100.99", "50.99"))]
    with pytest.raises(UnsupportedError, match=r"table db\.t: "):
        table.folded([[row(0, "100.99"), row(0, "0.01")]])


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
def test_values_that_are_no_sets_stay_alone_and_are_refused_together(name: str) -> None:
    table = Table({"v": "BYTES"}, {"merge-engine": "aggregation", "fields.v.aggregate-function": name})

    def row(key: int, value: bytes | None) -> Row:
        return {"k": key, SEQUENCE: 0, KIND: 0, "v": value}

    groups = [[row(0, b"x")], [row(1, None), row(1, b"y")]]
    assert [found["v"] for found in table.folded(groups)] == [b"x", b"y"]
    with pytest.raises(CorruptDataError, match=r"field v: not a"):
        table.folded([[row(0, b"x"), row(0, b"y")]])


@pytest.mark.parametrize("name", ["hll_sketch", "theta_sketch"])
def test_sketches_without_their_library_name_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "find_spec", lambda package: None)
    table = Table({"v": "BYTES"}, {"merge-engine": "aggregation", "fields.v.aggregate-function": name})
    with pytest.raises(UnsupportedError, match=rf"field v: function {name} .*lakecore\[sketches\]"):
        engine_of("db.t", table.schema, TableOptions.from_schema(table.schema))


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ('{"v": "INT"}', "merge-engine=aggregation;fields.v.aggregate-function=average"),
        ('{"v": "STRING"}', "merge-engine=aggregation;fields.v.aggregate-function=sum"),
        ('{"v": "INT"}', "merge-engine=aggregation;fields.v.aggregate-function=collect"),
        ('{"v": "INT"}', "merge-engine=aggregation;fields.v.aggregate-function=nested_update"),
        ('{"v": "INT"}', "merge-engine=aggregation;fields.v.ignore-retract=true;aggregation.remove-record-on-delete=true"),
        ('{"v": "INT"}', "merge-engine=partial-update;fields.v.aggregate-function=sum"),
        ('{"v": "INT"}', "merge-engine=partial-update;fields.x.sequence-group=v"),
        ('{"v": "INT", "g": "INT"}', "merge-engine=partial-update;fields.g.sequence-group=k"),
        ('{"v": "INT", "g": "INT", "h": "INT"}', "merge-engine=partial-update;fields.g.sequence-group=v;fields.h.sequence-group=v"),
        ('{"v": "INT"}', "merge-engine=partial-update;ignore-delete=true;partial-update.remove-record-on-delete=true"),
        ('{"v": "INT"}', "merge-engine=partial-update;partial-update.remove-record-on-sequence-group=v"),
    ],
)  # fmt: skip
def test_options_of_no_sense_are_named(columns: str, options: str) -> None:
    table = Table(json.loads(columns), dict(part.split("=") for part in options.split(";")))
    with pytest.raises(InvalidOptionError) as caught:
        engine_of("db.t", table.schema, TableOptions.from_schema(table.schema))
    assert isinstance(caught.value, InvalidInputError)
