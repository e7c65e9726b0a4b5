"""Numbers are folded as values where that is the same as picking rows, and only there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakecore.merge.engines import events as steps
from lakecore.merge.engines.aggregation import Aggregation
from lakecore.merge.engines.functions import field_rule
from lakecore.merge.groups import Groups, fold
from lakecore.merge.plain_values import plain_array, plain_values
from lakecore.metadata.row_kind import KIND_NAME
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataField, TypeRoot

KINDS = {
    "int": AtomicType(TypeRoot.INT),
    "bigint": AtomicType(TypeRoot.BIGINT),
    "double": AtomicType(TypeRoot.DOUBLE),
    "date": AtomicType(TypeRoot.DATE),
    "ts": AtomicType(TypeRoot.TIMESTAMP, precision=6),
    "decimal": AtomicType(TypeRoot.DECIMAL, precision=18, scale=2),
    "boolean": AtomicType(TypeRoot.BOOLEAN),
}
SPECIAL = [0.0, -0.0, float("nan"), 1.5, -1.5]


def column(name: str, rows: int, dice: np.random.Generator, nulls: bool) -> pa.Array:
    kind = arrow_type(KINDS[name])
    if name == "double":
        values = pa.array(dice.choice(SPECIAL, rows) if nulls else dice.normal(size=rows))
    elif name == "boolean":
        values = pa.array(dice.integers(0, 2, rows).astype(bool))
    elif name == "decimal":
        values = pa.array(dice.integers(-500, 500, rows)).cast(pa.decimal128(19, 0)).cast(kind)
    else:
        values = (
            pa.array(dice.integers(-500, 500, rows))
            .cast(pa.int32() if name == "date" else pa.int64())
            .cast(kind)
        )
    mask = pa.array(dice.random(rows) < 0.2)
    return pc.if_else(mask, pa.scalar(None, kind), values) if nulls else values


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("longest", [3, 40])
def test_values_and_picked_rows_are_the_same(
    longest: int, nulls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = np.random.default_rng(longest)
    sizes = dice.integers(1, longest + 1, 300)
    rows = int(sizes.sum())
    names = [(name, function) for name in KINDS for function in ("min", "max", "sum", "last_value")]
    names = [(n, f) for n, f in names if f != "sum" or n not in ("date", "ts", "boolean")]
    names = [(n, {"min": "bool_and", "max": "bool_or"}.get(f, f) if n == "boolean" else f) for n, f in names]
    rules = {}
    arrays = {KIND_NAME: pa.array(np.zeros(rows, np.int8))}
    for i, (name, function) in enumerate(names):
        field = DataField(i, f"{name}_{function}", KINDS[name])
        rules[field.name] = field_rule(field, {}, function)
        arrays[field.name] = column(name, rows + 5, dice, nulls).slice(5)
    last = np.zeros(rows, bool)
    last[np.cumsum(sizes) - 1] = True
    groups = Groups(batch=pa.RecordBatch.from_pydict(arrays), order=dice.permutation(rows), last=last)
    found = fold(groups, Aggregation("t", rules, False))
    monkeypatch.setattr(steps, "_MOST_ROUNDS", 0)
    monkeypatch.setattr("lakecore.merge.groups.plain_values", lambda _: None)
    wanted = fold(groups, Aggregation("t", rules, False))
    for name in found.batch.schema.names:
        made, picked = found.batch.column(name), wanted.batch.column(name)
        made.validate(full=True)
        assert repr(made.to_pylist()) == repr(picked.to_pylist()), name


def test_plain_values_come_and_go() -> None:
    dice = np.random.default_rng(0)
    for name in KINDS:
        array = column(name, 50, dice, nulls=False).slice(7, 20)
        values = plain_values(array)
        assert values is not None
        assert plain_array(values[np.arange(20)], array.type).equals(array), name
    assert plain_values(pa.array([1, None])) is None
    assert plain_values(pa.array(["a"])) is None
