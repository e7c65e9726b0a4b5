"""Each option of the pickers gets to the field that it is for."""

from __future__ import annotations

import pytest

from lakecore.errors import InvalidOptionError
from lakecore.lsm.options import AppendPolicy, EarlyFullPolicy, OffPeak, TreePolicy, UniversalPolicy

TREE = {
    "num-sorted-run.compaction-trigger": "3",
    "num-levels": "7",
    "compaction.max-size-amplification-percent": "150",
    "compaction.size-ratio": "2",
    "compaction.offpeak.start.hour": "22",
    "compaction.offpeak.end.hour": "6",
    "compaction.offpeak-ratio": "30",
    "compaction.optimization-interval": "2 s",
    "compaction.total-size-threshold": "3 kb",
    "compaction.incremental-size-threshold": "5 kb",
    "compaction.force-up-level-0": "true",
}


def test_a_tree() -> None:
    assert TreePolicy.from_options(TREE, 1000) == TreePolicy(
        universal=UniversalPolicy(3, 150, 2, OffPeak(22, 6, 30)),
        early_full=EarlyFullPolicy(interval_ms=2000, total_size=3072, incremental_size=5120),
        num_levels=7,
        force_level_0=True,
        force_rewrite=False,
        small_file_size=700,
    )


def test_a_tree_without_options() -> None:
    assert TreePolicy.from_options({}, 1000) == TreePolicy(
        universal=UniversalPolicy(5, 200, 1, OffPeak(-1, -1, 0)),
        early_full=EarlyFullPolicy(),
        num_levels=6,
        force_level_0=False,
        force_rewrite=False,
        small_file_size=700,
    )


def test_files_that_are_rewritten_although_they_could_move() -> None:
    raw = {"compaction.force-rewrite-all-files": "true", "compaction.small-file-ratio": "0.5"}
    policy = TreePolicy.from_options(raw, 1001)
    assert (policy.force_rewrite, policy.force_level_0, policy.small_file_size) == (True, False, 500)


@pytest.mark.parametrize(
    ("raw", "files"),
    [
        ({}, 1),
        ({"lookup-compact": "gentle"}, 10),
        ({"lookup-compact": "gentle", "num-sorted-run.compaction-trigger": "3"}, 6),
        ({"lookup-compact": "gentle", "lookup-compact.max-interval": "7"}, 7),
        ({"lookup-compact": "gentle", "lookup-compact.max-interval": "2"}, 5),
        ({"lookup-compact": "gentle", "lookup-compact.max-interval": "0"}, 5),
        ({"lookup-compact": "radical", "lookup-compact.max-interval": "7"}, 1),
    ],
    ids=[
        "radical",
        "gentle",
        "trigger",
        "interval",
        "interval below the trigger",
        "interval 0",
        "radical interval",
    ],
)
def test_level_0_of_a_lookup(raw: dict[str, str], files: int) -> None:
    policy = TreePolicy.from_options(raw, 1000, lookup=True)
    assert (policy.level_0_files, policy.force_level_0) == (files, True)
    assert TreePolicy.from_options(raw, 1000).level_0_files == 1


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"num-levels": "1"}, "num-levels=1: must be at least 2"),
        ({"num-sorted-run.compaction-trigger": "0"}, "compaction-trigger=0: must be at least 1"),
    ],
    ids=["levels", "trigger"],
)
def test_what_no_tree_can_be(raw: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidOptionError, match=problem):
        TreePolicy.from_options(raw, 1000)


def test_append_files() -> None:
    raw = {
        "compaction.min.file-num": "3",
        "compaction.small-file-ratio": "0.5",
        "compaction.delete-ratio-threshold": "0.4",
        "source.split.open-file-cost": "1 kb",
    }
    assert AppendPolicy.from_options(raw, 1000) == AppendPolicy(
        target_file_size=1000, small_file_size=500, min_files=3, open_file_cost=1024, delete_ratio=0.4
    )
    assert AppendPolicy.from_options({}, 1000) == AppendPolicy(
        target_file_size=1000, small_file_size=700, min_files=5, open_file_cost=4 << 20, delete_ratio=0.2
    )
