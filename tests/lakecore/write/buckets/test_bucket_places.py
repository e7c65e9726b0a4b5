"""Keys of dynamic buckets: placed once, for ever, in the first bucket with room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import InvalidOptionError
from lakecore.write.buckets.assigners import Assigners
from lakecore.write.buckets.bucket_places import BucketPlaces, BucketShare, PlaceRules

Hash = st.integers(-(2**31), 2**31 - 1)
Batches = st.lists(st.lists(st.one_of(st.integers(0, 40), Hash), max_size=40), max_size=6)


def one_by_one(known: dict[int, list[int]], target: int, batches: list[list[int]]) -> list[list[int]]:
    """The rule of the format, a row at a time, without a limit of buckets."""
    where = {value: bucket for bucket, hashes in known.items() for value in hashes}
    counts = {bucket: len(hashes) for bucket, hashes in known.items()}
    placed = []
    for batch in batches:
        for value in batch:
            if value not in where:
                room = [bucket for bucket in sorted(counts) if counts[bucket] < target]
                bucket = room[0] if room else next(b for b in range(1000) if b not in counts)
                where[value] = bucket
                counts[bucket] = counts.get(bucket, 0) + 1
        placed.append([where[value] for value in batch])
    return placed


@given(st.sets(Hash, max_size=30), st.integers(1, 9), Batches)
def test_batches_are_placed_as_rows_one_by_one(
    start: set[int], target: int, batches: list[list[int]]
) -> None:
    values = sorted(start)
    known = {
        bucket: values[at : at + 7]
        for at, bucket in zip(range(0, len(values), 7), (3, 0, 1, 7, 9), strict=False)
    }
    places = BucketPlaces(PlaceRules(target, -1), {b: np.array(h, np.int32) for b, h in known.items()})
    expected = one_by_one(known, target, batches)
    assert [places.place(np.array(batch, np.int32)).tolist() for batch in batches] == expected
    for bucket in range(20):
        where = {value for batch, row in zip(batches, expected, strict=True)
                 for value, b in zip(batch, row, strict=True) if b == bucket}  # fmt: skip
        assert places.hashes(bucket).tolist() == sorted(where | set(known.get(bucket, [])))
        assert (bucket in places.changed) == bool(where - set(known.get(bucket, [])))


def test_full_buckets_take_more_once_there_may_be_no_other() -> None:
    places = BucketPlaces(PlaceRules(2, 3), {})
    hashes = np.arange(-50, 50, dtype=np.int32)
    first = places.place(hashes)
    assert sorted(set(first.tolist())) == [0, 1, 2]
    assert places.place(hashes).tolist() == first.tolist()
    again = BucketPlaces(PlaceRules(2, 3), {})
    assert again.place(hashes).tolist() == first.tolist()


@given(st.sets(Hash, max_size=60), st.integers(1, 5), st.integers(1, 4), st.sampled_from([-1, 6]))
def test_assigners_divide_a_partition(values: set[int], target: int, count: int, most: int) -> None:
    """The hashes of a share get buckets of the share; those that have a bucket keep it, whosever it is."""
    hashes = np.array(sorted(values), np.int32)
    known = BucketPlaces(PlaceRules(target, most), {})
    old, new = hashes[::2], hashes[1::2]
    bucket_of = dict(zip(old.tolist(), known.place(old).tolist(), strict=True))
    there = {bucket: known.hashes(bucket) for bucket in sorted(set(bucket_of.values()))}
    for number in range(count):
        share = BucketShare(number, count)
        mine = share.select(hashes)
        assert {abs(one) % count for one in mine.tolist()} <= {number}
        places = BucketPlaces(PlaceRules(target, most), there, share)
        placed = dict(zip(mine.tolist(), places.place(mine).tolist(), strict=True))
        for value, bucket in placed.items():
            assert bucket == bucket_of[value] if value in bucket_of else bucket % count == number
        again = BucketPlaces(PlaceRules(target, most), there, share)
        assert [again.place(mine[i : i + 1]).item() for i in range(len(mine))] == list(placed.values())
        sizes = {b: len(there.get(b, ())) for b in placed.values()}
        for value, bucket in placed.items():
            sizes[bucket] += value not in bucket_of
        assert most > 0 or all(size <= target for b, size in sizes.items() if b % count == number)
    assert sum(len(BucketShare(number, count).select(new)) for number in range(count)) == len(new)


def test_buckets_of_a_share_fill_alike_when_there_may_be_no_more() -> None:
    places = BucketPlaces(PlaceRules(1, 4), {}, BucketShare(1, 2))
    _, counts = np.unique(places.place(np.arange(1, 201, 2, dtype=np.int32)), return_counts=True)
    assert len(counts) == 2
    assert counts.min() > 40


@pytest.mark.parametrize(
    ("options", "assigners"),
    [
        ({}, (6, 1)),
        ({"assigner-parallelism": "4"}, (4, 4)),
        ({"assigner-parallelism": "4", "initial-buckets": "2"}, (4, 2)),
        ({"initial-buckets": "9"}, (6, 6)),
        ({"assigner-parallelism": "4", "max-buckets": "3"}, (4, 3)),
    ],
    ids=["default", "tasks", "shares", "many", "limit"],
)
def test_how_many_assigners(options: dict[str, str], assigners: tuple[int, int]) -> None:
    raw = {f"dynamic-bucket.{key}": value for key, value in options.items()}
    found = Assigners.from_options(raw, 6)
    assert (found.tasks, found.shares) == assigners
    tasks = found.task_of(np.array([-9] * 50, np.int32), np.arange(-25, 25, dtype=np.int32))
    assert len(set(tasks.tolist())) == found.shares


@pytest.mark.parametrize("key", ["assigner-parallelism", "initial-buckets"])
def test_no_assigners_are_refused(key: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"dynamic-bucket.{key}=0: must be at least 1"):
        Assigners.from_options({f"dynamic-bucket.{key}": "0"}, 4)


@pytest.mark.parametrize(
    "options", [{"dynamic-bucket.target-row-num": "0"}, {"dynamic-bucket.max-buckets": "0"}]
)
def test_impossible_sizes_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match="dynamic-bucket"):
        PlaceRules.from_options(options)


def test_there_are_no_more_buckets_than_the_format_has() -> None:
    places = BucketPlaces(PlaceRules(1, -1), {})
    places.place(np.arange(32_767, dtype=np.int32))
    with pytest.raises(InvalidOptionError, match="full"):
        places.place(np.array([-1], np.int32))
