from __future__ import annotations

import pickle

import pytest

from lakecore.errors import InvalidInputError
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import (
    And,
    AtKey,
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Or,
    Predicate,
    StartsWith,
    columns_of,
    conjuncts,
    negated,
    restricted,
)
from lakecore.types.datatypes import DataField, RowType, parse_type

KINDS = {
    "a": "INT", "b": "STRING", "c": "DOUBLE", "d": "DATE", "e": "TIMESTAMP(3)", "f": "DECIMAL(10, 2)", "g": "BOOLEAN",
    "m": {"type": "MAP", "key": "STRING", "value": "INT"}, "w": {"type": "MAP", "key": "BIGINT", "value": "STRING"},
    "h": "BYTES", "t": "TINYINT", "odd name": "BIGINT", "i": {"type": "ARRAY", "element": "INT"},
}  # fmt: skip
TYPE = RowType(tuple(DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(KINDS.items())))
EQ, NE, LT, LE, GT, GE = Comparison
NOON = 1_704_103_200 * 10**9


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", Compare("a", EQ, 1)),
        ("5 < a", Compare("a", GT, 5)),
        ("a == -3", Compare("a", EQ, -3)),
        ("a <> 1 AND b != 'it''s'", And((Compare("a", NE, 1), Compare("b", NE, "it's")))),
        ("a = 1 or a = 2 and b is null", Or((Compare("a", EQ, 1), And((Compare("a", EQ, 2), IsNull("b")))))),
        ("(a = 1 or a = 2) and b is not null", And((Or((Compare("a", EQ, 1), Compare("a", EQ, 2))), IsNotNull("b")))),
        ("not (a < 1 or b like 'x%')", And((Compare("a", GE, 1), Like("b", "x%", matches=False)))),
        ("a in (1, 2, 2)", In("a", (1, 2))),
        ("a not in (1)", NotIn("a", (1,))),
        ("a between 1 and 5", And((Compare("a", GE, 1), Compare("a", LE, 5)))),
        ("a not between 1 and 5", Or((Compare("a", LT, 1), Compare("a", GT, 5)))),
        ("b like 'x%'", StartsWith("b", "x")),
        ("b like 'x'", Compare("b", EQ, "x")),
        ("b like '_x%'", Like("b", "_x%")),
        ("d >= date '2024-01-01'", Compare("d", GE, 19723)),
        ("e = '2024-01-01T10:00:00Z'", Compare("e", EQ, NOON)),
        ("`odd name` = 1", Compare("odd name", EQ, 1)),
        ('"odd name" = 1', Compare("odd name", EQ, 1)),
        ("g = TRUE", Compare("g", EQ, True)),
        ("m['x y'] = 1", AtKey("x y", Compare("m", EQ, 1))),
        ("1.5 < m['a']", AtKey("a", Compare("m", GT, 1))),
        ("not (m['a'] is null or w[7] like 'x%')", And((AtKey("a", IsNotNull("m")), AtKey(7, Like("w", "x%", matches=False))))),
        ("m['a'] between 1 and 2", And((AtKey("a", Compare("m", GE, 1)), AtKey("a", Compare("m", LE, 2))))),
        ("h = 0x01ff", Compare("h", EQ, b"\1\xff")),
        ("h = X'01FF'", Compare("h", EQ, b"\1\xff")),
        ("c = 1e3", Compare("c", EQ, 1000.0)),
        ("a = '7'", Compare("a", EQ, 7)),
    ],
)  # fmt: skip
def test_grammar(text: str, predicate: Predicate) -> None:
    assert parse_where(text, TYPE) == predicate
    assert pickle.loads(pickle.dumps(predicate)) == predicate


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a < 1.5", Compare("a", LE, 1)),
        ("a > 1.5", Compare("a", GT, 1)),
        ("a >= -1.5", Compare("a", GT, -2)),
        ("a = 1.5", In("a", ())),
        ("a <> 1.5", NotIn("a", ())),
        ("t < 1000", IsNotNull("t")),
        ("t > 1000", In("t", ())),
        ("t > -1000", IsNotNull("t")),
        ("t in (1, 1000)", In("t", (1,))),
        ("a not in (2.5)", NotIn("a", ())),
        ("e < '2024-01-01 10:00:00.0004'", Compare("e", LE, NOON)),
    ],
)  # fmt: skip
def test_literals_between_and_beyond_the_values_of_a_type(text: str, predicate: Predicate) -> None:
    assert parse_where(text, TYPE) == predicate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at its end"), ("a", "comparison"), ("a =", "value is missing"), ("a = 'x'", "'x' is not a number"), ("a = null", "IS [NOT] NULL"),
        ("zz = 1", "no column 'zz'"), ("b = 1", "in quotes"), ("(a = 1", ") is missing"), ("a = 1 b = 2", "AND or OR"), ("i = 1", "nested"),
        ("a in ()", "value is missing"), ("g = 1", "BOOLEAN"), ("a ~ 1", "cannot read"), ("a = 1 and", "column name"), ("a > 'x", "cannot read"),
        ("b like 5", "LIKE needs"), ("a like '1%'", "LIKE needs"), ("d = '2024-13-01'", "this day does not exist"), ("f = 'nan'", "finite"),
        ("(" * 300 + "a = 1" + ")" * 300, "levels of parentheses"), ("not " * 300 + "a = 1", "levels"), ("a not = 1", "IN, BETWEEN or LIKE"),
        ("m['a'] = 'x'", "'x' is not a number"), ("a['x'] = 1", "not a map"), ("m[1] = 1", "in quotes"), ("w[1.5] = 'x'", "no such key"),
        ("m['a' = 1", "] is missing"), ("m = 1", "m['key']"),
        ("a = true", "BOOLEAN"), ("a = 0x00", "in quotes"), ("a = 1e9999", "cannot read"),
    ],
)  # fmt: skip
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_where(text, TYPE)
    assert message in str(caught.value)


def test_parts_of_a_predicate() -> None:
    predicate = parse_where(
        "a = 1 and (b = 'x' or d > 5) and not (c = 1 or a = 2)".replace("d > 5", "g = true"), TYPE
    )
    assert columns_of(predicate) == {"a", "b", "c", "g"}
    assert len(conjuncts(predicate)) == 4
    assert restricted(predicate, ("a",)) == And((Compare("a", EQ, 1), Compare("a", NE, 2)))
    assert restricted(predicate, ("h",)) is None
    assert restricted(None, ("a",)) is None
    assert negated(Not(IsNull("a"))) == IsNull("a")
    assert negated(negated(Like("b", "x%"))) == Like("b", "x%")
