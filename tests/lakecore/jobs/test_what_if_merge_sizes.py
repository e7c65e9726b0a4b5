"""What the merges of a history say of other merges: the keys that sorted runs have in common."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from lakecore.compact.engine.work import Place
from lakecore.jobs.what_if.merge_sizes import MergeSizes, PastMerge
from tests.support.builders import data_file

HERE, THERE = Place(b"", 0, 2), Place(b"", 1, 2)
WIDTH = 10


def runs_of(keys: int, *sizes: int) -> list[set[int]]:
    chance = random.Random(len(sizes))
    return [set(chance.sample(range(keys), size)) for size in sizes]


def merge(keys: int, *sizes: int, place: Place = HERE, time_ms: int = 0) -> PastMerge:
    """A merge of runs that chose their keys at random."""
    left = len(set().union(*runs_of(keys, *sizes)))
    return PastMerge(
        place=place,
        time_ms=time_ms,
        runs=sizes,
        rows_out=left,
        bytes_in=sum(sizes) * WIDTH,
        bytes_out=left * WIDTH,
    )


def rows_left(sizes: MergeSizes, *rows: int, place: Place = HERE, time_ms: int = 0) -> float:
    files = [replace(data_file("f", level=0), row_count=count) for count in rows]
    ratio = sizes.ratio(place, files, time_ms)
    assert ratio.bytes == pytest.approx(ratio.rows), "rows keep their width"
    return ratio.rows * sum(rows)


def test_small_runs_have_fewer_keys_in_common_than_a_small_and_a_large_one() -> None:
    sizes = MergeSizes([merge(10_000, 8_000, 1_000)], keyed=True)
    assert rows_left(sizes, 1_000, 1_000) == pytest.approx(
        len(set().union(*runs_of(10_000, 1_000, 1_000))), rel=0.02
    )
    assert rows_left(sizes, 9_000, 9_000) == pytest.approx(
        len(set().union(*runs_of(10_000, 9_000, 9_000))), rel=0.02
    )


def test_the_merge_of_the_bucket_that_is_nearest_in_time_counts() -> None:
    merges = [
        merge(2_000, 1_000, 1_000, time_ms=100),
        merge(8_000, 1_000, 1_000, time_ms=900),
        merge(1_000, 1_000, 1_000, place=THERE, time_ms=500),
    ]
    sizes = MergeSizes(reversed(merges), keyed=True)
    assert rows_left(sizes, 1_000, 1_000, time_ms=400) == pytest.approx(merges[0].rows_out, rel=0.001)
    assert rows_left(sizes, 1_000, 1_000, time_ms=2_000) == pytest.approx(merges[1].rows_out, rel=0.001)
    assert rows_left(sizes, 1_000, 1_000, place=THERE, time_ms=2_000) == 1_000
    elsewhere = Place(b"", 7, 8)
    assert rows_left(sizes, 1_000, 1_000, place=elsewhere, time_ms=550) == 1_000, (
        "no merge of this bucket: of any"
    )


def test_files_of_one_level_are_one_run_and_share_no_key() -> None:
    sizes = MergeSizes([merge(4_000, 2_000, 2_000)], keyed=True)
    files = [replace(data_file("f", level=3), row_count=1_000) for _ in range(2)]
    assert sizes.ratio(HERE, files, 0).rows == 1.0


def test_without_an_overlap_in_the_history_nothing_gets_smaller() -> None:
    sizes = MergeSizes([replace(merge(10**9, 10, 10), rows_out=20)], keyed=True)
    assert rows_left(sizes, 500, 500) == 1_000
    assert rows_left(MergeSizes([], keyed=True), 500, 500) == 1_000


def test_runs_larger_than_all_keys_of_the_history_are_all_keys() -> None:
    sizes = MergeSizes([merge(100, 100, 100)], keyed=True)
    assert rows_left(sizes, 700, 300) == 700
    assert not math.isnan(rows_left(sizes, 1, 1))


def test_without_a_key_all_merges_leave_the_same_part() -> None:
    sizes = MergeSizes([merge(1_000, 500, 500), merge(1_000, 900, 900)], keyed=False)
    assert rows_left(sizes, 10, 10) == pytest.approx(20 * sizes.average.rows)
    assert sizes.average.compactions == 1, "both are of one moment"
