"""Filters on partitions, buckets and levels: of manifests by their bounds, of entries exactly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import InvalidInputError
from lakecore.metadata.manifest.data_file import EMPTY_STATS
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.manifest.manifest_stats import describe_manifest
from lakecore.row.binary_row import encode_row
from lakecore.scan.filters import EVERYTHING, ScanFilter, keeps_manifest, select_entries
from tests.support.builders import data_file, manifest_entry, table_schema

KIND = table_schema("p INT, q STRING, k INT", primary_keys=(), partition_keys=("p", "q")).partition_type

Place = tuple[int | None, str | None, int, int]


def entries(*places: Place) -> ManifestEntries:
    """Each (p, q, bucket, level)."""
    return ManifestEntries.from_rows(
        [
            manifest_entry(data_file(f"f{i}", level=level), partition=encode_row((p, q), KIND), bucket=bucket)
            for i, (p, q, bucket, level) in enumerate(places)
        ]
    )


def manifest(*places: Place) -> ManifestFile:
    return describe_manifest(entries(*places), "m", 1, KIND)


def kept(where: ScanFilter, *places: Place) -> list[bytes]:
    return select_entries(entries(*places), where, KIND).names()


PLACES: tuple[Place, ...] = ((1, "a", 0, 0), (2, "b", 1, 5), (None, "a", 2, 0), (2, None, 0, 3))


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (EVERYTHING, "0123"),
        (ScanFilter(partitions=({"p": 2},)), "13"),
        (ScanFilter(partitions=({"p": 2, "q": "b"}, {"p": None})), "12"),
        (ScanFilter(partitions=({"q": None},)), "3"),
        (ScanFilter(partitions=({},)), "0123"),
        (ScanFilter(partitions=()), ""),
        (ScanFilter(serialized=frozenset([encode_row((2, "b"), KIND)])), "1"),
        (ScanFilter(buckets=frozenset([0, 2])), "023"),
        (ScanFilter(levels=(1, 5)), "13"),
        (ScanFilter(partitions=({"q": "a"},), buckets=frozenset([2])), "2"),
    ],
)
def test_entries(where: ScanFilter, wanted: str) -> None:
    assert kept(where, *PLACES) == [f"f{i}".encode() for i in wanted]


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (EVERYTHING, True),
        (ScanFilter(partitions=({"p": 2},)), True),
        (ScanFilter(partitions=({"p": 3},)), False),
        (ScanFilter(partitions=({"p": 3}, {"q": "aa"})), True),
        (ScanFilter(partitions=({"q": "c"},)), False),
        (ScanFilter(partitions=({"p": None},)), True),
        (ScanFilter(partitions=()), False),
        (ScanFilter(serialized=frozenset([encode_row((1, "zz"), KIND)])), False),
        (ScanFilter(buckets=frozenset([3])), False),
        (ScanFilter(buckets=frozenset([2, 9])), True),
        (ScanFilter(buckets=frozenset()), False),
        (ScanFilter(levels=(6, 9)), False),
        (ScanFilter(levels=(1, 2)), True),
    ],
)
def test_manifests(where: ScanFilter, wanted: bool) -> None:
    assert keeps_manifest(manifest(*PLACES), where, KIND) is wanted


def test_a_column_without_nulls_rules_out_null() -> None:
    found = manifest((1, "a", 0, 0), (2, "a", 0, 0))
    assert not keeps_manifest(found, ScanFilter(partitions=({"p": None},)), KIND)
    only_null = manifest((None, "a", 0, 0))
    assert not keeps_manifest(only_null, ScanFilter(partitions=({"p": 1},)), KIND)


def test_manifests_without_bounds_are_kept() -> None:
    """As 0.9 wrote them: no buckets, no levels; and where null counts are missing."""
    where = ScanFilter(buckets=frozenset([3]), levels=(6, 9))
    plain = ManifestFile(file_name="m", file_size=1, num_added_files=1, num_deleted_files=0)
    assert keeps_manifest(plain, where, table_schema().partition_type)
    unknown = encode_row((None, None), KIND)
    stats = type(EMPTY_STATS)(unknown, unknown, ())
    blank = ManifestFile(
        file_name="m", file_size=1, num_added_files=1, num_deleted_files=0, partition_stats=stats
    )
    assert keeps_manifest(blank, ScanFilter(partitions=({"p": 1},)), KIND)


def test_a_column_that_is_no_partition_is_named() -> None:
    with pytest.raises(
        InvalidInputError, match=r"'k' is not a partition column; the partition columns are: p, q"
    ):
        ScanFilter(partitions=({"k": 1},)).check(KIND)


_places = st.lists(
    st.tuples(
        st.sampled_from([None, -1, 0, 5]),
        st.sampled_from([None, "", "a", "ü"]),
        st.integers(-2, 3),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=5,
)
_specs = st.lists(
    st.dictionaries(st.sampled_from("pq"), st.none(), max_size=2).flatmap(
        lambda spec: st.fixed_dictionaries(
            {
                name: st.sampled_from([None, -1, 3, 5] if name == "p" else [None, "", "b", "ü"])
                for name in spec
            }
        )
    ),
    max_size=3,
)


@settings(max_examples=200)
@given(_places, _specs, st.frozensets(st.integers(-2, 3)))
def test_a_manifest_that_is_left_out_holds_nothing_wanted(
    places: list[Place], specs: list[dict[str, Any]], buckets: frozenset[int]
) -> None:
    where = ScanFilter(partitions=tuple(specs), buckets=buckets)
    if not keeps_manifest(manifest(*places), where, KIND):
        assert kept(where, *places) == []
