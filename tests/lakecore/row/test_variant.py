from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError, InvalidInputError
from lakecore.row.variant import parse_variant, variant_text

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(TREES)
def test_json_comes_back(tree: Any) -> None:
    assert json.loads(variant_text(*parse_variant(json.dumps(tree)))) == tree


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("1.50", "1.5"), ("1e3", "1000.0"), ("-0.001", "-0.001"), ('{"b":1,"a":[1.5,2]}', '{"a":[1.5,2],"b":1}'), ("1e400", '"Infinity"'),
        ("123456789012345678901234567890", "123456789012345678901234567890"), (json.dumps(list(range(300))), json.dumps(list(range(300)), separators=(",", ":"))),
    ],
)  # fmt: skip
def test_numbers_and_order(text: str, back: str) -> None:
    assert variant_text(*parse_variant(text)) == back


@settings(max_examples=300)
@given(st.binary(max_size=60), st.binary(max_size=20))
def test_random_bytes_are_corrupt_or_text(value: bytes, metadata: bytes) -> None:
    with contextlib.suppress(CorruptDataError):
        variant_text(value, b"\1" + metadata)


@pytest.mark.parametrize("text", ["", "{", "nope", "[" * 5000])
def test_what_is_not_json(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_variant(text)
