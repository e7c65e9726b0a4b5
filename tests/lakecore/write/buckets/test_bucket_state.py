"""Where sequence numbers go on."""

from __future__ import annotations

from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.write.buckets.bucket_state import BucketState
from tests.support.builders import data_file, manifest_entry


def test_an_empty_table_starts_at_zero() -> None:
    state = BucketState.of(ManifestEntries.empty())

    assert state.next_sequence(bytes(12), 0) == 0
    assert state.totals == {}


def test_highest_number_of_each_bucket() -> None:
    one, two = b"one", b"two"
    entries = [
        manifest_entry(data_file("a", sequence=(0, 9)), partition=one, total_buckets=2),
        manifest_entry(data_file("b", sequence=(3, 4)), partition=one, total_buckets=2),
        manifest_entry(data_file("c", sequence=(20, 21)), partition=one, bucket=1, total_buckets=2),
        manifest_entry(data_file("d", sequence=(5, 5)), partition=two, total_buckets=4),
        manifest_entry(data_file("e", sequence=(-1, -1)), partition=b"three", bucket=-2, total_buckets=-2),
    ]
    state = BucketState.of(ManifestEntries.from_rows(entries))

    numbers = [state.next_sequence(one, 0), state.next_sequence(one, 1), state.next_sequence(two, 0)]
    assert numbers == [10, 22, 6]
    assert state.next_sequence(two, 1) == 0
    assert state.totals == {one: 2, two: 4}
