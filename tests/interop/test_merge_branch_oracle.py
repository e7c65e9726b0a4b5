"""Branches merged by lakecore and by Java 2.0.0 (older ones cannot) read the same to both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import UnsupportedError
from lakecore.jobs.versions import merge_branch
from lakecore.verify.fsck.check import fsck
from tests.support.oracle import Oracle, OracleError, findings
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

KINDS: dict[str, dict[str, Any]] = {
    "unaware": {},
    "buckets": {"options": {"bucket": "2", "bucket-key": "v"}},
    "partitions": {"partitionKeys": ["p"]},
    "tracked": {"options": {"row-tracking.enabled": "true"}},
}


def _rows(low: int, count: int = 3) -> list[dict[str, Any]]:
    return [{"v": number, "p": "ab"[number % 2]} for number in range(low, low + count)]


@pytest.fixture(scope="module", params=KINDS)
def branched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, oracle2: Oracle
) -> Path:
    """Main and branch `b` with two commits each; the table's folder."""
    warehouse = tmp_path_factory.mktemp("branched")
    schema = {"columns": ["v INT", "p STRING"], **KINDS[request.param]}
    oracle2.create(warehouse, "d.t", schema)
    oracle2.call("create-branch", warehouse, "d.t", "b")
    for number in range(2):
        oracle2.write(warehouse, "d.t", _rows(10 * number), "--identifier", number)
        oracle2.write(warehouse, "d.t$branch_b", _rows(100 + 10 * number), "--identifier", number)
    return warehouse / "d.db" / "t"


def _merge(twins: Twins, source: str = "b", target: str = "main", **other: Any) -> Any:
    job = merge_branch.Job(table="d.t", source_branch=source, target_branch=target, **other)
    return merge_branch.run(job, twins.lake)


def _whole(twins: Twins, *judges: Oracle) -> None:
    for judge in judges:
        assert findings(judge.fsck(twins.ours, "d.t")) == findings(judge.fsck(twins.java, "d.t"))
    report = fsck(
        twins.opened._stores.file_io, twins.opened._stores.paths, now_ms=0, deep=True, read_data=True
    )
    assert report.findings == ()


def test_a_merged_branch_is_what_java_makes_of_it(
    branched: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(branched, "d.t", tmp_path)
    assert "6 rows would be appended" in _merge(twins, dry_run=True).notes[0]
    assert twins.difference() == (set(), set())
    oracle2.call("merge-branch", twins.java, "d.t", "b", "main")
    report = _merge(twins)
    for judge in (oracle, oracle2):
        expected = judge.read(twins.java, "d.t")
        assert judge.read(twins.ours, "d.t") == expected
        assert len(expected) == 12
    assert report.snapshot == 3
    made = [json.loads((twins.path(w) / "snapshot/snapshot-3").read_text()) for w in (twins.java, twins.ours)]
    for key in ("commitKind", "totalRecordCount", "deltaRecordCount", "nextRowId"):
        assert made[0].get(key) == made[1].get(key), key
    _whole(twins, oracle, oracle2)
    assert _merge(twins).nothing_to_do
    oracle2.write(twins.ours, "d.t$branch_b", _rows(500), "--identifier", 9)
    assert "3 rows" in _merge(twins).notes[0]
    assert "12 rows" not in _merge(twins, "main", "b").notes[0]  # back: only what the branch lacks
    assert oracle2.read(twins.ours, "d.t", branch="b") == oracle2.read(twins.ours, "d.t")


def test_a_branch_of_a_tag_is_merged_by_the_snapshot_they_share(
    branched: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    """Java wants both histories from their first snapshot; a common one proves as much."""
    source = tmp_path / "source" / "d.db" / "t"
    shutil.copytree(branched, source)
    warehouse = source.parents[1]
    oracle2.call("compact", warehouse, "d.t", "--full")
    oracle2.call("create-tag", warehouse, "d.t", "now")
    oracle2.call("create-branch", warehouse, "d.t", "c", "--tag", "now")
    oracle2.write(warehouse, "d.t$branch_c", _rows(900), "--identifier", 90)
    oracle2.write(warehouse, "d.t", _rows(700), "--identifier", 91)
    twins = Twins.of(source, "d.t", tmp_path)
    with pytest.raises(OracleError, match="append-only snapshot history"):
        oracle2.call("merge-branch", twins.java, "d.t", "c", "main")
    before = set(oracle2.read(twins.ours, "d.t"))
    assert "3 rows" in _merge(twins, "c").notes[0]
    for judge in (oracle, oracle2):
        assert set(judge.read(twins.ours, "d.t")) - before == {
            line for line in judge.read(twins.ours, "d.t", branch="c") if line not in before
        }
        assert len(judge.read(twins.ours, "d.t")) == len(before) + 3
    _whole(twins)
    oracle2.call(
        "drop-partitions" if twins.opened.schema.partition_keys else "truncate", twins.ours, "d.t", *_a(twins)
    )
    with pytest.raises(UnsupportedError, match="has kind OVERWRITE"):
        _merge(twins, "c")


def _a(twins: Twins) -> list[str]:
    return ["p=a"] if twins.opened.schema.partition_keys else []
