"""Columns recomputed: what the merge makes of random rows, and what single rules say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.functions import field_rule
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.types.arrow import arrow_type
from lakecore.verify.digest.array_hash import hash_array, hash_unordered
from lakecore.verify.recompute.column_states import NotRecomputableError
from lakecore.verify.recompute.value_states import state_of
from lakecore.verify.rules.merge_rules import MergeRules, read_merge_rules
from tests.support.lake import key_table, memory_catalog

NESTED = "ARRAY<ROW<a INT, b STRING, c BIGINT>>"
KEYS = 40


@dataclass(frozen=True)
class Case:
    type: str
    function: str
    value: Callable[[random.Random], Any]
    options: dict[str, str]
    retracts: bool = True


def some(dice: random.Random, make: Callable[[], Any], most: int = 4) -> list[Any]:
    return [make() for _ in range(dice.randrange(most))]


def numbers(dice: random.Random) -> Any:
    return some(dice, lambda: dice.choice([None, 1, 2, 3, 70000]))


def rows(dice: random.Random) -> Any:
    def row() -> Any:
        if dice.random() < 0.1:
            return None
        part = (dice.choice([None, 1, 2, 3]), dice.choice([None, "x", "y"]), dice.choice([None, 1, 2]))
        return dict(zip("abc", part, strict=True))

    return some(dice, row)


def entries(dice: random.Random) -> Any:
    return list({dice.choice("abcd"): dice.choice([None, 1, 2]) for _ in range(dice.randrange(4))}.items())


def timed(dice: random.Random) -> Any:
    def row() -> Any:
        time = dice.choice([None, "1", "2", "\ufb00", "\U0001f600"])
        return None if dice.random() < 0.2 else {"v": dice.randrange(9), "t": time}

    return list({dice.choice("abc"): row() for _ in range(dice.randrange(4))}.items())


def decimals(dice: random.Random) -> Any:
    return Decimal(dice.choice([-999, -50, -15, -1, 1, 2, 15, 25, 500, 999])) / 100


def texts(dice: random.Random) -> Any:
    return dice.choice(["a", "b,c", "a,,b", " ", "", "\u00a0", "\u2028", "\x1c", "c;d", "a;b;a"])


CASES = {
    "sum of decimals": Case("DECIMAL(6, 2)", "sum", decimals, {}),
    "sum of decimals that are too long": Case("DECIMAL(19, 2)", "sum", lambda d: decimals(d) * 10**16, {}),
    "product of decimals": Case("DECIMAL(5, 2)", "product", decimals, {}, retracts=False),
    "product": Case("BIGINT", "product", lambda d: d.choice([-7, -2, 1, 3, 11, 1000]), {}),
    "product of doubles": Case("DOUBLE", "product", lambda d: d.choice([-0.3, 0.1, 7.0, 1e300]), {}),
    "collect": Case("ARRAY<INT>", "collect", numbers, {}),
    "collect, distinct": Case("ARRAY<INT>", "collect", numbers, {"distinct": "true"}),
    "collect, retracts ignored": Case("ARRAY<INT>", "collect", numbers, {"ignore-retract": "true"}),
    "collect of rows": Case(NESTED, "collect", rows, {}),
    "collect of rows, distinct": Case(NESTED, "collect", rows, {"distinct": "true"}),
    "collect of bytes": Case(
        "ARRAY<BYTES>", "collect", lambda d: some(d, lambda: d.choice([b"a", b"b"])), {}
    ),
    "collect of doubles": Case(
        "ARRAY<DOUBLE>",
        "collect",
        lambda d: some(d, lambda: d.choice([0.0, -0.0, float("nan")])),
        {"distinct": "true"},
    ),
    "merge_map": Case("MAP<STRING, INT>", "merge_map", entries, {}),
    "merge_map_with_keytime": Case(
        "MAP<STRING, ROW<v INT, t STRING>>", "merge_map_with_keytime", timed, {}, retracts=False
    ),
    "listagg": Case("STRING", "listagg", texts, {}, retracts=False),
    "listagg, distinct": Case("STRING", "listagg", texts, {"distinct": "true"}, retracts=False),
    "listagg, another delimiter": Case(
        "STRING", "listagg", texts, {"list-agg-delimiter": ";", "distinct": "true"}, retracts=False
    ),
    "nested_update": Case(NESTED, "nested_update", rows, {}),
    "nested_update, limited": Case(NESTED, "nested_update", rows, {"count-limit": "3"}),
    "nested_update by key": Case(NESTED, "nested_update", rows, {"nested-key": "a,b"}),
    "nested_update by key, nulls ignored": Case(
        NESTED, "nested_update", rows, {"nested-key": "a,b", "nested-key-null-strategy": "ignore"}
    ),
    "nested_update by key and sequence": Case(
        NESTED, "nested_update", rows, {"nested-key": "a", "nested-sequence-field": "c,b"}
    ),
    "nested_partial_update": Case(
        NESTED, "nested_partial_update", rows, {"nested-key": "a,b"}, retracts=False
    ),
}


def schema_of(case: Case) -> tuple[TableSchema, MergeRules]:
    options = {f"fields.x.{name}": value for name, value in case.options.items()}
    options |= {"merge-engine": "aggregation", "fields.x.aggregate-function": case.function}
    named = {key.replace("-", "_").replace(".", "__"): value for key, value in options.items()}
    schema = key_table(memory_catalog(), ("k INT", f"x {case.type}"), **named).schema
    return schema, read_merge_rules(schema, TableOptions.from_schema(schema))


def events_of(case: Case, dice: random.Random) -> list[list[Step]]:
    steps = [Step.ADD, Step.ADD, Step.ADD, Step.OLDER, Step.SET]
    if case.retracts:
        steps += [Step.RETRACT, Step.RETRACT]
    return [dice.choices(steps, k=dice.randrange(1, 7)) for _ in range(KEYS)]


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_that_the_merge_makes(name: str) -> None:
    case = CASES[name]
    schema, rules = schema_of(case)
    field = schema.fields[1]
    merged = field_rule(field, schema.options, case.function)
    for seed in range(12):
        dice = random.Random(seed)
        steps = events_of(case, dice)
        count = sum(map(len, steps))
        values = [None if dice.random() < 0.15 else case.value(dice) for _ in range(count)]
        column = pa.array([None, *values], arrow_type(field.type)).slice(1)
        starts = np.concatenate(([0], np.cumsum([len(one) for one in steps])))
        flat = np.array([step for one in steps for step in one], np.int8)
        state = state_of(rules.columns["x"], column, KEYS)
        for key in range(KEYS):
            for row in range(starts[key], starts[key + 1]):
                apply = (state.add, state.add_late, state.retract, state.set)[flat[row]]
                apply(np.array([key]), np.array([row]))
        made = merged.fold(column, Events(np.arange(count), flat, starts))
        expected = made if isinstance(made, pa.Array) else column.take(pa.array(made.rows))
        hashes = hash_unordered if "x" in rules.unordered else hash_array
        wrong = np.flatnonzero(hashes(state.values(), 1) != hashes(expected, 1))
        assert not len(wrong), (steps[wrong[0]], state.values()[wrong[0]], expected[wrong[0]])


def test_a_retraction_that_begins_a_key_takes_itself_back_but_for_its_bytes() -> None:
    for name, value, wanted in (
        ("collect of bytes", [b"a", None, b""], [b"a", b""]),
        ("collect", [1, None], []),
    ):
        case = CASES[name]
        schema, rules = schema_of(case)
        column = pa.array([value], arrow_type(schema.fields[1].type))
        state, first = state_of(rules.columns["x"], column, 1), np.zeros(1, np.int64)
        state.set(first, first)
        state.retract(first, first)
        merged = field_rule(schema.fields[1], schema.options, case.function)
        steps = np.array([Step.SET, Step.RETRACT], np.int8)
        made = merged.fold(column, Events(np.zeros(2, np.int64), steps, np.array([0, 2])))
        assert state.values().to_pylist() == made.to_pylist() == [wanted]


def value_of(case: Case, *steps: tuple[str, Any]) -> Any:
    schema, rules = schema_of(case)
    column = pa.array([value for _, value in steps], arrow_type(schema.fields[1].type))
    state = state_of(rules.columns["x"], column, 1)
    for row, (step, _) in enumerate(steps):
        getattr(state, step)(np.zeros(1, np.int64), np.array([row]))
    return state.values().to_pylist()[0]


def test_a_retraction_takes_out_one_of_equal_elements() -> None:
    made = value_of(CASES["collect"], ("add", [1, 2, 1, 1]), ("retract", [1, 3, 1]))
    assert made == [2, 1]


def test_a_retraction_takes_keys_out_of_a_map() -> None:
    made = value_of(CASES["merge_map"], ("add", [("a", 1), ("b", 2)]), ("retract", [("a", 7)]))
    assert made == [("b", 2)]


def test_what_the_order_of_a_hash_map_decides_is_not_recomputed() -> None:
    keyed = Case(NESTED, "nested_update", rows, {"nested-key": "a", "count-limit": "2"})
    one, two = [{"a": 1, "b": "x", "c": 1}, {"a": 2, "b": "x", "c": 1}], [{"a": 3, "b": "x", "c": 1}]
    assert len(value_of(keyed, ("add", one), ("add", two))) == 2
    with pytest.raises(NotRecomputableError):
        value_of(keyed, ("add", one), ("add_late", two))


def test_lists_in_any_order_differ_in_their_elements_only() -> None:
    lists = pa.array([None, [1, 2], [2, 1], [1, 1, 2], [3, 0], [None, 1, 2], []], pa.list_(pa.int32()))
    hashes = hash_unordered(lists.slice(1), 1)
    assert hashes[0] == hashes[1]
    assert len(set(hashes.tolist())) == 5
    assert hash_unordered(lists, 1)[0] not in hashes
