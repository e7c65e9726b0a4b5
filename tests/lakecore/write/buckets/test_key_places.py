"""The global index of keys: where each is, and what it refuses to confuse."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError
from lakecore.types.datatypes import RowType
from lakecore.write.buckets.key_places import KeyHashes, KeyPlaces, hash_keys
from tests.support.builders import table_schema

KEY: RowType = table_schema("k BIGINT NOT NULL, s STRING NOT NULL", primary_keys=("k", "s")).row_type


def prints_of(keys: list[int]) -> KeyHashes:
    batch = pa.RecordBatch.from_pydict(
        {"k": pa.array(keys, pa.int64()), "s": pa.array([f"key {k}" for k in keys])}
    )
    return hash_keys(batch, KEY)


@given(
    st.sampled_from([None, 1, 3]),
    st.sets(st.integers(0, 60)),
    st.lists(st.dictionaries(st.integers(0, 60), st.integers(0, 9), max_size=30), max_size=6),
)
def test_it_is_a_dict(weak: int | None, start: set[int], changes: list[dict[int, int]]) -> None:
    """Also where many keys agree in their first hash: `weak`, it has so many values."""

    def prints(keys: list[int]) -> KeyHashes:
        found = prints_of(keys)
        return found if weak is None else KeyHashes(found.high % np.uint64(weak), found.low)

    index = KeyPlaces.of("t", [(prints(sorted(start)), 7)])
    model = dict.fromkeys(start, 7)
    for change in changes:
        index.put(prints(list(change)), np.array(list(change.values()), np.int32))
        model |= change
        assert index.find(prints(list(range(61)))).tolist() == [model.get(key, -1) for key in range(61)]


def test_a_key_in_two_places_is_refused_and_all_keys_can_be_had_again() -> None:
    prints = prints_of
    with pytest.raises(CorruptDataError, match="two partitions or buckets"):
        KeyPlaces.of("t", [(prints([1, 2]), 0), (prints([2]), 1)])
    index = KeyPlaces.of("t", [(prints([1, 2]), 0), (prints([5]), np.array([4], np.int32))])
    index.put(prints([2, 3]), np.array([1, 2], np.int32))
    again = KeyPlaces.of("t", index.all_keys())
    assert (len(index), len(again)) == (4, 4)
    assert again.find(prints([1, 2, 3, 4, 5])).tolist() == [0, 1, 2, -1, 4]
