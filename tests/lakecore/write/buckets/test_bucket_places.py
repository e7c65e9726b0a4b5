"""Keys of dynamic buckets: placed once, for ever, in the first bucket with room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import InvalidOptionError
from lakecore.write.buckets.bucket_places import BucketPlaces, PlaceRules

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
