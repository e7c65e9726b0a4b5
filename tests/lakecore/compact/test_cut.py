"""Cutting one bucket into units: shares, tiling, and the same table as without a cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.compact.kinds.primary_key.cut import check_tiling, divide, stretch_size, unit_count
from lakecore.errors import ProofError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.lsm.sections import Section
from lakecore.read.file.key_range import KeyRange
from lakecore.read.split.key_cuts import boundaries, ranges
from lakecore.table import Table
from tests.support.builders import data_file
from tests.support.lake import key_table, live_files, memory_catalog, paths_of


@pytest.mark.parametrize(
    ("size", "target", "cores", "units"),
    [
        (1000, 100, 1, 1),
        (1000, 100, 2, 8),
        (1000, 100, 100, 20),
        (199, 100, 8, 3),
        (99, 100, 8, 1),
        (210, 128, 2, 2),
    ],
)
def test_unit_count(size: int, target: int, cores: int, units: int) -> None:
    assert unit_count(size, target, cores) == units


points = st.lists(st.tuples(st.tuples(st.integers(0, 30)), st.floats(0.1, 10)), max_size=60)


@given(points, st.integers(1, 9))
def test_cuts_tile_the_key_space(found: list[tuple[tuple[int], float]], count: int) -> None:
    cuts = boundaries(found, count)
    assert len(cuts) < count
    assert all(a < b for a, b in pairwise(cuts))
    check_tiling(ranges(cuts))


@given(st.integers(2, 8), st.integers(100, 300))
def test_shares_are_about_equal(count: int, pages: int) -> None:
    cuts = [0, *(cut[0] for cut in boundaries((((k,), 1.0) for k in range(pages)), count)), pages]
    sizes = [high - low for low, high in pairwise(cuts)]
    assert len(sizes) == count
    assert max(sizes) - min(sizes) <= 2


@pytest.mark.parametrize(
    "bounds",
    [
        [],
        [KeyRange((1,), None)],
        [KeyRange(None, (1,)), KeyRange((2,), None)],
        [KeyRange(None, (2,)), KeyRange((2,), (1,)), KeyRange((1,), None)],
        [KeyRange(None, None), KeyRange(None, None)],
    ],
)
def test_ranges_that_do_not_tile_are_refused(bounds: list[KeyRange]) -> None:
    with pytest.raises(ValueError, match="ranges"):
        check_tiling(bounds)


class Cores(SerialExecutor):
    """Runs units one by one, but says it has cores; keeps the units it saw."""

    name = "cores"

    def __init__(self, parallelism: int, spoil: Callable[[int, Any], Any] | None = None) -> None:
        super().__init__()
        self.parallelism = parallelism
        self.units: list[Any] = []
        self._spoil = spoil

    def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        def seen() -> Iterator[Any]:
            for number, task in enumerate(tasks):
                unit = getattr(task, "task", task)  # units come wrapped, to be measured
                self.units.append(unit)
                spoilt = unit if self._spoil is None else self._spoil(number, unit)
                yield spoilt if unit is task else replace(task, task=spoilt)

        return super().run(function, seen())


KEYS: dict[str, tuple[list[str], list[str], Callable[[np.ndarray], dict[str, pa.Array]]]] = {
    "bigint": (["k BIGINT"], ["k"], lambda k: {"k": pa.array(k - 50_000)}),
    "string": (["k STRING"], ["k"], lambda k: {"k": pa.array([f"ключ{n:07d}" for n in k])}),
    "composite": (
        ["a INT", "b STRING"],
        ["a", "b"],
        lambda k: {"a": pa.array((k // 40_000).astype(np.int32)), "b": pa.array([f"{n:07d}" for n in k])},
    ),
    "timestamp": (["k TIMESTAMP(3)"], ["k"], lambda k: {"k": pa.array(k * 7, pa.timestamp("ms"))}),
}


ENGINES: dict[str, dict[str, str]] = {
    "sums": {"merge_engine": "aggregation", "fields__v__aggregate_function": "sum"},
    "partial": {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "true"},
}


def big_table(kind: str, name: str, **more: str) -> tuple[Any, Table]:
    catalog = memory_catalog(name)
    columns, keys, make = KEYS[kind]
    options = {"target_file_size": "128 kb", "write_buffer_size": "512 mb", **more}
    table = key_table(catalog, columns=(*columns, "v BIGINT"), keys=keys, **options)
    random = np.random.default_rng(7)
    for _ in range(3):
        chosen = np.flatnonzero(random.random(120_000) < 0.5)
        values = pa.array(random.integers(0, 2**40, len(chosen)))
        kinds = pa.array(np.where(random.random(len(chosen)) < 0.1, "-D", "+I"))
        table.upsert(
            pa.table({**make(chosen), "v": values, "_kind": kinds}).take(random.permutation(len(chosen)))
        )
    return catalog, table


@pytest.mark.parametrize("name", [*KEYS, *ENGINES])
def test_a_cut_bucket_holds_the_same_rows(name: str) -> None:
    catalog, table = big_table(name if name in KEYS else "bigint", f"cut-{name}", **ENGINES.get(name, {}))
    before = (
        table.scan().to_arrow().sort_by([(name, "ascending") for name in table.schema.trimmed_primary_keys])
    )
    job = compact.Job(table="d.k", strategy=compact.Strategy.FULL)
    engine = Cores(3)
    report = compact.run(job, catalog, engine)
    assert len(engine.units) > 3
    assert all(unit.bounds is not None for unit in engine.units)
    assert report.after.sorted_runs == 1
    after = (
        table.scan().to_arrow().sort_by([(name, "ascending") for name in table.schema.trimmed_primary_keys])
    )
    assert after.equals(before)
    assert report.rows_in == report.before.rows
    assert {path.rpartition("/")[2] for path in paths_of(table)} >= {
        file.file_name for file in live_files(table)
    }


def test_units_that_do_not_tile_are_caught_by_the_counts() -> None:
    """Rows that two units read, or none: the pick is refused and nothing of it stays."""
    gap = {0: KeyRange(None, (-40_000,))}
    twice = {1: KeyRange(None, None)}
    for number, wrong in enumerate((gap, twice)):
        catalog, table = big_table("bigint", f"cut-wrong-{number}")
        stored = paths_of(table)
        engine = Cores(3, lambda at, unit, wrong=wrong: replace(unit, bounds=wrong.get(at, unit.bounds)))
        with pytest.raises(ProofError, match=r"rows|key"):
            compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, engine)
        assert paths_of(table) == stored


def test_small_buckets_are_not_cut() -> None:
    catalog = memory_catalog("cut-small")
    table = key_table(catalog)
    for _ in range(2):
        table.upsert(pa.table({"k": pa.array(range(100), pa.int32()), "v": ["x"] * 100}))
    engine = Cores(8)
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, engine)
    assert [unit.bounds for unit in engine.units] == [None]


def ordered_table(name: str, **options: str) -> tuple[Any, Table]:
    """A bucket of nine files whose keys do not overlap, and one that overlaps two of them."""
    catalog = memory_catalog(name)
    columns, options = ("k BIGINT", "v BIGINT"), {"target_file_size": "128 kb"} | options
    table = key_table(catalog, columns=columns, keys=["k"], **options)
    random = np.random.default_rng(7)
    for number in range(9):
        keys = np.arange(number * 10_000, (number + 1) * 10_000)
        table.upsert(pa.table({"k": keys, "v": random.integers(0, 2**40, len(keys))}))
    table.upsert(pa.table({"k": np.arange(35_000, 45_000, 7), "v": np.zeros(1_429, np.int64)}))
    return catalog, table


def test_a_bucket_whose_files_are_copied_is_divided_between_them() -> None:
    catalog, table = ordered_table("cut-copies")
    before = table.scan().to_arrow().sort_by("k")
    engine = Cores(3)
    report = compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, engine)
    assert len(engine.units) > 3
    assert report.files_copied >= 6, "one more may be merged, with a neighbour that must be"
    assert report.after.sorted_runs == 1
    assert table.scan().to_arrow().sort_by("k").equals(before)


def test_a_bucket_whose_new_files_have_indexes_is_cut_by_keys() -> None:
    """Nothing is copied into them, so that divided files would keep one core busy each for no gain."""
    catalog, _ = ordered_table("cut-indexes", file_index__bloom_filter__columns="v")
    engine = Cores(3)
    report = compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, engine)
    assert (len(engine.units) > 3, report.files_copied) == (True, 0)
    assert all(unit.bounds is not None for unit in engine.units)


def test_one_core_copies_in_one_unit() -> None:
    catalog = memory_catalog("cut-copies-alone")
    table = key_table(catalog, columns=("k BIGINT",), keys=["k"], target_file_size="128 kb")
    for number in range(3):
        table.upsert(pa.table({"k": np.arange(number * 10_000, (number + 1) * 10_000)}))
    engine = Cores(1)
    report = compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, engine)
    assert (len(engine.units), report.files_copied) == (1, 3)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 120))
def test_a_stretch_is_divided_into_ones_of_the_least_size(sizes: list[int], least: int) -> None:
    stretch = tuple(Section(((data_file(f"{number}", size=size),),)) for number, size in enumerate(sizes))
    divided = divide(stretch, least)
    assert tuple(one for group in divided for one in group) == stretch
    assert all(stretch_size(group) >= least for group in divided) or len(divided) == 1
    assert all(stretch_size(group[:-1]) < least for group in divided[:-1])
