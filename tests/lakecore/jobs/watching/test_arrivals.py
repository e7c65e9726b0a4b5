"""What is new data in a table, and when it is enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.jobs.watching.arrivals import ArrivalCondition, Arrivals
from lakecore.jobs.watching.new_snapshots import SnapshotRange
from lakecore.metadata.snapshot import CommitKind, Snapshot
from tests.support.golden import GoldenTable

KINDS = {1: "APPEND", 2: "COMPACT", 3: "APPEND", 4: "OVERWRITE", 5: "COMPACT", 6: "ANALYZE"}
PARTED = "g1.a_pk_dedup_b3_part"


def _load(snapshot_id: int) -> Snapshot:
    if snapshot_id not in KINDS:
        raise NotFoundError(f"snapshot {snapshot_id}")
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=snapshot_id,
        commit_kind=CommitKind(KINDS[snapshot_id]),
        time_millis=snapshot_id * 100,
        watermark=snapshot_id * 1000,
    )


def _arrivals(ids: Sequence[int] = tuple(KINDS), **wanted: Any) -> Arrivals:
    store = SimpleNamespace(list_ids=lambda: tuple(ids), load=_load, latest=lambda: _load(6))
    return Arrivals(
        SimpleNamespace(_stores=SimpleNamespace(snapshots=store)), ArrivalCondition.from_json(wanted)
    )


@pytest.mark.parametrize(
    ("position", "wanted", "expected"),
    [
        (0, {}, (1, 4, 3)),
        (1, {}, (3, 4, 2)),
        (3, {}, (4, 4, 1)),
        (4, {}, None),
        (6, {}, None),
        (0, {"count": "3"}, (1, 4, 3)),
        (1, {"count": 3}, None),
        (0, {"kinds": "overwrite"}, (4, 4, 1)),
        (0, {"kinds": ["COMPACT", "analyze"]}, (2, 6, 3)),
        (0, {"watermark": 6000}, (1, 4, 3)),
        (4, {"watermark": "1970-01-01T00:00:06Z"}, (6, 6, 0)),
        (0, {"watermark": "6001000"}, None),
        (4, {"watermark": 6000, "count": 1}, None),
    ],
)
def test_what_is_enough(position: int, wanted: dict[str, Any], expected: tuple[int, int, int] | None) -> None:
    assert _arrivals(**wanted).after(position) == (None if expected is None else SnapshotRange(*expected))


@pytest.mark.parametrize(
    "wanted", [{"count": "some"}, {"kinds": "merge"}, {"rows": -1}, {"watermark": "soon"}]
)
def test_what_cannot_be_asked_is_said(wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wanted))):
        ArrivalCondition.from_json(wanted)


def test_a_snapshot_expired_meanwhile_is_passed_over() -> None:
    assert _arrivals((*KINDS, 7, 8)).after(3) == SnapshotRange(4, 4, 1)


def test_an_interval_holds_its_start_and_not_its_end() -> None:
    assert _arrivals().within(300, 400) == SnapshotRange(3, 3, 1)
    assert _arrivals().within(300, 401) == SnapshotRange(3, 4, 2)
    assert _arrivals().within(500, 900) is None


def test_rows_and_partitions_are_those_that_the_commits_added(
    tmp_path: Path, golden: Callable[[str], GoldenTable]
) -> None:
    """Judged by the manifests' own totals: per partition they add up to what all partitions got."""
    golden(PARTED).copy_to(tmp_path)
    table = load_catalog(tmp_path).load_table(PARTED)
    snapshots = [table._stores.snapshots.load(one) for one in table._stores.snapshots.list_ids()]
    appended = [one for one in snapshots if one.commit_kind is CommitKind.APPEND]
    total = sum(one.delta_record_count or 0 for one in appended)

    def found(**wanted: Any) -> SnapshotRange | None:
        return Arrivals(table, ArrivalCondition.from_json(wanted)).after(0)

    whole = found(rows=total)
    assert whole == SnapshotRange(appended[0].id, appended[-1].id, len(appended))
    assert found(rows=total + 1) is None
    days = ("2024-01-01", "2024-01-02", "2024-01-03")
    counts = []
    for day in days:
        low, high = 0, total
        while low < high:  # the most rows that are still enough
            middle = (low + high + 1) // 2
            enough = found(partitions=f"dt={day}", rows=middle) is not None
            low, high = (middle, high) if enough else (low, middle - 1)
        counts.append(low)
    assert sum(counts) == total
    assert all(counts)
    assert found(partitions="dt=1999-01-01") is None
