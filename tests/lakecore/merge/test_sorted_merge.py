"""The streaming merge against a plain dict, over key types, sequence fields, window sizes and deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError
from lakecore.merge.sorted_merge import MergedWindow, MergeSpec, merge_runs

KINDS = st.sampled_from([0, 0, 0, 2, 1, 3])
KEY_TYPES: dict[str, tuple[tuple[pa.DataType, Callable[[int], Any]], ...]] = {
    "int": ((pa.int64(), lambda k: k - 5),),
    "string": ((pa.string(), lambda k: f"k{k:03d}é"),),
    "decimal": ((pa.decimal128(10, 2), lambda k: Decimal(k - 7) / 4),),
    "long decimal": ((pa.decimal128(30, 2), lambda k: Decimal(k - 7) * 10**20),),
    "double": ((pa.float64(), lambda k: (k - 7) / 3 if k != 15 else float("nan")),),
    "timestamp": ((pa.timestamp("us"), lambda k: k * 1000),),
    "bool+date": ((pa.bool_(), lambda k: k >= 8), (pa.date32(), lambda k: k)),
    "wide ints": ((pa.int64(), lambda k: (k // 4) * 2**60), (pa.int64(), lambda k: -(2**62) + (k % 4))),
    "string+int": ((pa.string(), lambda k: "ab"[k // 8]), (pa.int32(), lambda k: k)),
}


def spec(**overrides: Any) -> MergeSpec:
    return MergeSpec(**({"key_columns": ("_KEY_a",), "evidence": True} | overrides))


def batches(rows: Sequence[tuple[Any, ...]], schema: pa.Schema, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = list(zip(*rows[start : start + size], strict=True))
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


def merged_rows(windows: Sequence[MergedWindow]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for window in windows for row in window.batch.to_pylist()]


@st.composite
def runs_of_rows(draw: st.DrawFn) -> list[list[tuple[int, int, int, int | None]]]:
    """Runs of (key number, sequence number, kind, sequence field), strictly increasing in the key."""
    count = draw(st.integers(1, 5))
    sequence = draw(st.permutations(range(80)))
    used = iter(sequence)
    runs = []
    for _ in range(count):
        keys = sorted(draw(st.sets(st.integers(0, 15), max_size=12)))
        runs.append(
            [(k, next(used), draw(KINDS), draw(st.one_of(st.none(), st.integers(0, 3)))) for k in keys]
        )
    return runs


def before(a: tuple[Any, ...], b: tuple[Any, ...], *, by_field: bool, descending: bool) -> int:
    """Order of two rows of one key: field (nulls first), then sequence number."""
    left, right = a[3], b[3]
    if by_field and left != right:
        if left is None or right is None:
            return -1 if left is None else 1
        return (-1 if left < right else 1) * (-1 if descending else 1)
    return a[1] - b[1]


FLOATS = [None, float("-inf"), -1.0, -0.0, 0.0, 1.0, float("inf"), float("nan")]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_floats_of_a_sequence_are_in_total_order(kind: pa.DataType, descending: bool, first: int) -> None:
    """Whether there are nulls in the window or not."""
    values = FLOATS[first:]
    pairs = [(a, b) for a in range(len(values)) for b in range(len(values))]
    numbers = pa.array(range(len(pairs)), pa.int64())
    runs = [
        pa.record_batch(
            {
                "_KEY_a": numbers,
                "_SEQUENCE_NUMBER": pa.array([run] * len(pairs), pa.int64()),
                "_VALUE_KIND": pa.array([0] * len(pairs), pa.int8()),
                "f": pa.array([values[pair[run]] for pair in pairs], kind),
            }
        )
        for run in range(2)
    ]
    rule = spec(sequence_columns=("f",), descending=descending)
    got = [
        row for window in merge_runs([iter([run]) for run in runs], rule) for row in window.batch.to_pylist()
    ]

    def rank(place: int) -> int:
        return -len(FLOATS) if values[place] is None else -place if descending else place

    wins = [0 if rank(a) > rank(b) else 1 for a, b in pairs]
    assert [row["_SEQUENCE_NUMBER"] for row in got] == wins


def expected(
    runs: Sequence[Sequence[tuple[Any, ...]]], *, by_field: bool, descending: bool, drop: bool, ignore: bool
) -> list[tuple[Any, ...]]:
    groups: dict[int, list[tuple[Any, ...]]] = {}
    for run in runs:
        for row in run:
            groups.setdefault(row[0], []).append(row)
    out = []
    for key in sorted(groups):
        rows = groups[key]
        if ignore and len(rows) > 1:
            rows = [row for row in rows if row[2] not in (1, 3)]
        ranked = sorted(
            rows, key=cmp_to_key(lambda a, b: before(a, b, by_field=by_field, descending=descending))
        )
        if ranked and not (drop and ranked[-1][2] in (1, 3)):
            out.append(ranked[-1])
    return out


@settings(max_examples=25)
@pytest.mark.parametrize("name", KEY_TYPES)
@given(
    runs=runs_of_rows(), size=st.integers(1, 6), by_field=st.booleans(), descending=st.booleans(),
    drop=st.booleans(), ignore=st.booleans(),
)  # fmt: skip
def test_merge_equals_a_dict(
    name: str, runs: Any, size: int, by_field: bool, descending: bool, drop: bool, ignore: bool
) -> None:
    types = KEY_TYPES[name]
    keys = tuple(f"_KEY_{i}" for i in range(len(types)))
    schema = pa.schema(
        [pa.field(key, kind) for key, (kind, _) in zip(keys, types, strict=True)]
        + [
            pa.field("_SEQUENCE_NUMBER", pa.int64()),
            pa.field("_VALUE_KIND", pa.int8()),
            pa.field("f", pa.int32()),
        ]
    )

    def physical(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*(make(row[0]) for _, make in types), *row[1:])

    got = list(
        merge_runs(
            [batches([physical(row) for row in run], schema, size) for run in runs],
            spec(
                key_columns=keys, sequence_columns=("f",) if by_field else (), descending=descending,
                drop_retracts=drop, ignore_retracts=ignore,
            ),
        )
    )  # fmt: skip
    want = expected(runs, by_field=by_field, descending=descending, drop=drop, ignore=ignore)
    numbers = [(row[len(types)], row[len(types) + 1]) for row in merged_rows(got)]
    assert numbers == [(row[1], row[2]) for row in want]
    assert sum(window.rows_in for window in got) == sum(map(len, runs))
    for window in got:
        evidence = window.evidence
        assert evidence is not None
        assert len(evidence.kinds) == window.rows_in
        kept = ~(evidence.lost | evidence.dropped)
        assert not (evidence.lost & evidence.dropped).any()
        assert evidence.sequence[-1].filter(pa.array(kept)).equals(window.batch.column("_SEQUENCE_NUMBER"))
        assert all(evidence.kinds[evidence.dropped] % 2 == 1)


SCHEMA = pa.schema([("_KEY_a", pa.int64()), ("_SEQUENCE_NUMBER", pa.int64()), ("_VALUE_KIND", pa.int8())])


def test_a_full_tie_goes_to_the_later_run() -> None:
    schema = SCHEMA.append(pa.field("v", pa.string()))
    runs = [batches([(1, 7, 0, value)], schema, 10) for value in ("older", "newer")]
    assert merged_rows(list(merge_runs(runs, spec()))) == [(1, 7, 0, "newer")]


def test_only_the_asked_columns_come_back() -> None:
    window = next(merge_runs([batches([(1, 7, 0)], SCHEMA, 10)], spec(columns=("_VALUE_KIND",))))
    assert window.batch.schema.names == ["_VALUE_KIND"]


@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize("keys", [[1, 3, 3], [2, 1]])
def test_a_run_out_of_order_is_corrupt(keys: list[int], size: int) -> None:
    rows = [(key, number, 0) for number, key in enumerate(keys)]
    with pytest.raises(CorruptDataError, match="sorted run 1"):
        list(merge_runs([batches([(0, 9, 0)], SCHEMA, 1), batches(rows, SCHEMA, size)], spec()))


def test_no_runs_and_empty_runs_merge_to_nothing() -> None:
    assert list(merge_runs([], spec())) == []
    assert list(merge_runs([iter(())], spec())) == []
