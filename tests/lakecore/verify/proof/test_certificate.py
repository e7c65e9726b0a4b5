"""The certificate, window by window: order, verdicts, and what composes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakecore.errors import ProofError
from lakecore.types.datatypes import DataField, parse_type
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.proof.certificate import Certifier, UnitEvidence, join_evidence

KEY = (DataField(0, "k", parse_type("BIGINT NOT NULL")),)
FIELD = (DataField(1, "s", parse_type("INT")),)
SHAPE = RowShape(mode=ProofMode.KEYS, key=KEY)
SEQUENCED = replace(SHAPE, sequence=FIELD, values=FIELD)


def certify(
    keys: list[Any],
    numbers: list[int],
    lost: str,
    *,
    shape: RowShape = SHAPE,
    fields: list[Any] | None = None,
    kinds: list[int] | None = None,
    may_drop: bool = False,
    certifier: Certifier | None = None,
) -> UnitEvidence:
    """`lost`: a letter a row: `.` kept, `l` lost, `d` dropped."""
    made = certifier or Certifier("unit", shape, may_drop=may_drop)
    order = ([] if fields is None else [pa.array(fields, pa.int32())]) + [pa.array(numbers)]
    verdict = np.array(list(lost))
    column = keys if isinstance(keys, pa.Array) else pa.array(keys)
    made.window(
        [column], order, np.array(kinds or [0] * len(numbers), np.int8), verdict == "l", verdict == "d"
    )
    return made.evidence


def refuse(problem: str, *args: Any, **kwargs: Any) -> None:
    with pytest.raises(ProofError, match=problem) as caught:
        certify(*args, **kwargs)
    assert caught.value.unit == "unit"


def test_what_it_adds_up() -> None:
    seen = certify([1, 1, 2, 3, 3], [5, 6, 1, 2, 9], "l.dl.", kinds=[0, 0, 3, 0, 0], may_drop=True)
    assert (seen.rows, seen.lost.rows, seen.dropped.rows, seen.ties) == (5, 2, 1, 0)
    assert (seen.first_key, seen.last_key) == ((1,), (3,))
    assert pickle.loads(pickle.dumps(seen)) == seen


def test_windows_compose_and_must_rise() -> None:
    made = Certifier("unit", SHAPE, may_drop=False)
    certify([1, 1, 2], [1, 2, 3], "l..", certifier=made)
    certify([], [], "", certifier=made)
    whole = certify([3, 3], [1, 2], "l.", certifier=made)
    assert whole == certify([1, 1, 2, 3, 3], [1, 2, 3, 1, 2], "l..l.")
    for key in (3, 2):
        with pytest.raises(ProofError, match="comes after key"):
            certify([key], [7], ".", certifier=made)
    parts = [certify([1], [1], "."), UnitEvidence(), certify([5], [2], ".")]
    assert join_evidence("u", parts).rows == 2
    with pytest.raises(ProofError):
        join_evidence("u", parts[::-1])


@pytest.mark.parametrize(
    "keys",
    [
        [2, 1],
        ["b", "a"],
        ["ü", "z"],
        [b"\xff", b"\x7f"],
        [Decimal("1.10"), Decimal("1.09")],
        [True, False],
        [0.0, -0.0],
        [float("nan"), float("inf")],
        [-1.0, -2.0],
        pa.array([5, 4], pa.timestamp("us")),
        pa.array([1, 0], pa.date32()),
        pa.array(["b", "a"]).dictionary_encode(),
    ],
    ids=str,
)
def test_keys_out_of_order(keys: Any) -> None:
    refuse("which is out of order", keys, [1, 2], "..")
    column = keys if isinstance(keys, pa.Array) else pa.array(keys)
    assert certify(column.take(pa.array([1, 0])), [1, 2], "..").rows == 2


def test_composite_keys_compare_column_by_column() -> None:
    shape = replace(SHAPE, key=(*KEY, DataField(7, "t", parse_type("STRING NOT NULL"))))

    def run(left: list[int], right: list[str], lost: list[bool]) -> UnitEvidence:
        made = Certifier("unit", shape, may_drop=False)
        columns = [pa.array(left), pa.array(right)]
        made.window(columns, [pa.array([1, 2, 3])], np.zeros(3, np.int8), np.array(lost), np.zeros(3, bool))
        return made.evidence

    assert run([1, 1, 2], ["a", "b", "a"], [False] * 3).first_key == (1, b"a")
    assert run([1, 1, 2], ["a", "a", "a"], [True, False, False]).lost.rows == 1
    for left, right in (([1, 1, 2], ["b", "a", "a"]), ([2, 1, 3], ["a", "b", "c"])):
        with pytest.raises(ProofError, match="which is out of order"):
            run(left, right, [False] * 3)


def test_rows_of_a_key_are_in_sequence() -> None:
    refuse("not in the order of their sequence", [1, 1], [2, 1], "l.")
    refuse("not in the order of their sequence", [1, 1], [1, 2], "l.", shape=SEQUENCED, fields=[5, 4])
    assert certify([1, 1], [2, 1], "l.", shape=SEQUENCED, fields=[4, 5]).lost.rows == 1
    refuse("not in the order of their sequence", [1, 1], [2, 1], "l.", shape=SEQUENCED, fields=[4, 4])
    assert certify([1, 1], [4, 4], "l.", shape=SEQUENCED, fields=[4, 4]).ties == 1


def test_descending_fields_and_nulls_first() -> None:
    falling = replace(SEQUENCED, descending=True)
    assert certify([1, 1], [2, 1], "l.", shape=falling, fields=[5, 4]).ties == 0
    refuse("not in the order of their sequence", [1, 1], [1, 2], "l.", shape=falling, fields=[4, 5])
    refuse("not in the order of their sequence", [1, 1], [2, 1], "l.", shape=falling, fields=[4, 4])
    for shape in (SEQUENCED, falling):
        assert certify([1, 1], [2, 1], "l.", shape=shape, fields=[None, 4]).lost.rows == 1
        refuse("not in the order of their sequence", [1, 1], [1, 2], "l.", shape=shape, fields=[4, None])
        assert certify([1, 1], [1, 2], "l.", shape=shape, fields=[None, None]).ties == 0
        refuse("not in the order of their sequence", [1, 1], [2, 1], "l.", shape=shape, fields=[None, None])


def test_fields_of_decimals_may_be_null() -> None:
    made = Certifier("unit", SEQUENCED, may_drop=False)
    field = pa.array([None, Decimal("-1.50"), Decimal("0.25")], pa.decimal128(10, 2))
    none = np.zeros(3, bool)
    made.window(
        [pa.array([1, 1, 1])],
        [field, pa.array([3, 2, 1])],
        none.view(np.int8),
        ~np.eye(3, dtype=bool)[2],
        none,
    )
    assert made.evidence.lost.rows == 2


def test_verdicts() -> None:
    refuse("is the last row of its key", [1, 2], [1, 2], "l.")
    refuse("is the last row of its key", [1, 1], [1, 2], "ll")
    refuse("another row of its key replaces", [1, 1], [1, 2], "..")
    refuse("not a delete", [1, 2], [1, 2], "d.", may_drop=True)
    refuse("outside this pick", [1, 2], [1, 2], "d.", kinds=[3, 0])
    refuse("not the last row", [1, 1], [1, 2], "d.", kinds=[3, 0], may_drop=True)
    assert certify([1, 1], [1, 2], "ld", kinds=[0, 1], may_drop=True).dropped.rows == 1
    assert certify([1, 1], [1, 2], "l.", kinds=[0, 3], may_drop=True).dropped.rows == 0


def test_ignored_deletes() -> None:
    """Rule of the format: a retracting row counts only when it is the only row of its key."""
    ignoring = replace(SHAPE, ignore_retracts=True)
    assert certify([1, 1, 1], [1, 2, 3], "l.d", shape=ignoring, kinds=[0, 0, 3]).dropped.rows == 1
    assert certify([1, 1, 1], [1, 2, 3], "l.l", shape=ignoring, kinds=[0, 0, 3]).lost.rows == 2
    assert certify([1, 1], [1, 2], "dd", shape=ignoring, kinds=[3, 3]).dropped.rows == 2
    assert certify([1, 2], [1, 2], "..", shape=ignoring, kinds=[3, 3]).rows == 2
    refuse("replaces", [1, 1], [1, 2], "..", shape=ignoring, kinds=[3, 3])
    refuse("is the last row of its key", [1, 1], [1, 2], "l.", shape=ignoring, kinds=[0, 3])
    refuse("outside this pick", [1, 2], [1, 2], "d.", shape=ignoring, kinds=[3, 0])


def test_few_pairs_in_a_large_window() -> None:
    keys = sorted([*range(1000), 10, 500, 500])
    lost = "".join("l" if k == after else "." for k, after in zip(keys, [*keys[1:], None], strict=True))
    numbers = list(range(len(keys)))
    assert certify(keys, numbers, lost).lost.rows == 3
    numbers[502], numbers[501] = numbers[501], numbers[502]
    refuse("rows of key \\(500,\\)", keys, numbers, lost)


def test_the_full_mode_asks_for_whole_rows() -> None:
    made = Certifier("unit", replace(SHAPE, mode=ProofMode.FULL, values=FIELD), may_drop=False)
    with pytest.raises(ValueError, match="all columns"):
        certify([1, 1], [1, 2], "l.", certifier=made)
