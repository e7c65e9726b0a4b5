"""Java and lakecore do the same chore on copies of one table: the same files, snapshots and tags are left."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from lakecore.jobs import expire_changelogs, expire_snapshots
from lakecore.verify.fsck import fsck
from tests.support.golden import GoldenTable, golden_tables
from tests.support.oracle import Oracle
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

LONG = 20
MANY = 2**31 - 1


def _sampled() -> list[GoldenTable]:
    """Tables with a history: every tenth, and those with tags, branches or changelogs of their own."""
    found = [table for table in golden_tables() if len(table.facts["snapshots"]) > 2]
    return [t for n, t in enumerate(found) if n % 10 == 0 or "tag" in t.table or "branch" in t.table]


def expire(twins: Twins, oracle: Oracle, *, changelogs: int | None = None, **limits: int) -> Any:
    """Both expire with the same limits; Java's changes what it forgets of changelogs only when told."""
    limits = {"retain_max": MANY, "retain_min": 1, "max_deletes": MANY, "older_than_ms": _now(), **limits}
    flags = [
        part
        for name, value in limits.items()
        for part in (f"--{name.removesuffix('_ms').replace('_', '-')}", value)
    ]
    options = {}
    if changelogs is not None:
        flags += ["--changelog-retain-max", changelogs]
        options = {"changelog.num-retained.max": str(changelogs)}
    oracle.call("expire-snapshots", twins.java, twins.table, *flags)
    return expire_snapshots.run(
        expire_snapshots.Job(table=twins.table, options=options, **limits), twins.lake
    )


def check_equal(twins: Twins) -> None:
    """Java forgets the index files that lie beside changelog files: these alone may be left by it."""
    java, ours = twins.difference()
    assert ours == set()
    assert [name for name in java if not re.search(r"/changelog-[^/]*\.index$", name)] == []
    hints = [f"{folder}/{name}" for folder in ("snapshot", "changelog") for name in ("EARLIEST", "LATEST")]
    assert twins.content(twins.ours, hints) == twins.content(twins.java, hints)


@pytest.mark.parametrize("golden", _sampled(), ids=lambda table: table.name)
def test_expired_golden_tables(golden: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]) -> None:
    twins = Twins.of_golden(golden, tmp_path)
    oracle = oracles["2.0.0" if golden.version == "2.0.0" else "1.4.2"]
    keep = max(1, len(golden.facts["snapshots"]) // 3)
    decoupled = MANY if "changelog.num-retained.min" in golden.options else None
    report = expire(twins, oracle, retain_max=keep, changelogs=decoupled)
    check_equal(twins)
    assert report.snapshots or report.nothing_to_do


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> Path:
    """Two partitions, lookup changelogs, compactions in between, three tags, a consumer; the table's folder."""
    warehouse = tmp_path_factory.mktemp("long")
    schema = {
        "columns": ["p STRING NOT NULL", "k BIGINT NOT NULL", "v STRING"],
        "partitionKeys": ["p"],
        "primaryKeys": ["p", "k"],
        "options": {
            "bucket": "1",
            "changelog-producer": "lookup",
            "num-sorted-run.compaction-trigger": "3",
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "1 b",
        },
    }
    oracle.create(warehouse, "d.t", schema)
    for number in range(LONG // 2):
        rows = [{"p": "ab"[k % 2], "k": k, "v": f"{number}"} for k in range(number % 3, 6)]
        oracle.write(warehouse, "d.t", rows, "--identifier", number + 1)
    for tag, snapshot in (("early", 3), ("middle", 8), ("late", 15)):
        oracle.call("create-tag", warehouse, "d.t", tag, "--snapshot", snapshot)
    return warehouse / "d.db" / "t"


def _now() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize(
    "limits",
    [
        {"retain_max": 4},
        {"retain_max": 5, "retain_min": 2, "max_deletes": 6},
        {"retain_min": 3},
        {"retain_max": 3, "changelogs": 9},
    ],
    ids=str,
)
def test_a_long_history_expires_alike(
    limits: dict[str, int], long_history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    expire(twins, oracle, **limits)
    check_equal(twins)
    # Java's own expiry takes the changelog of a tagged snapshot, of which its check then complains
    assert twins.new_findings(oracle, twins.java) == set()
    for snapshot in twins.opened.snapshots.list_ids():
        assert oracle.read(twins.ours, "d.t", snapshot=snapshot) == oracle.read(
            long_history.parents[1], "d.t", snapshot=snapshot
        )
    for tag in twins.opened.tags.list():
        assert oracle.read(twins.ours, "d.t", tag=tag) == oracle.read(long_history.parents[1], "d.t", tag=tag)
    if "changelogs" in limits:
        kept = ["--retain-max", 6, "--retain-min", 1, "--older-than", _now()]
        oracle.call("expire-changelogs", twins.java, "d.t", *kept)
        job = expire_changelogs.Job(table="d.t", retain_max=6, retain_min=1, older_than_ms=_now())
        expire_changelogs.run(job, twins.lake)
        check_equal(twins)


def test_a_consumer_holds_what_it_still_has_to_read(
    long_history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    for warehouse in (twins.java, twins.ours):
        oracle.call("reset-consumer", warehouse, "d.t", "reader", 6)
    report = expire(twins, oracle, retain_max=2)
    assert report.blocker == "consumer reader"
    assert twins.opened.snapshots.list_ids()[0] == 6
    check_equal(twins)


def test_data_streamed_from_deltas_outlives_its_snapshots_alike(tmp_path: Path, oracle: Oracle) -> None:
    """Producer none: the changelog of a snapshot is its delta, so data files stay for it."""
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    columns = ["k BIGINT NOT NULL", "v STRING"]
    source = tmp_path / "source"
    source.mkdir()
    oracle.create(source, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    for number in range(7):
        oracle.write(source, "d.t", [{"k": k, "v": f"{number}"} for k in range(number, number + 3)])
    twins = Twins.of(source / "d.db" / "t", "d.t", tmp_path)
    expire(twins, oracle, retain_max=2, changelogs=MANY)
    check_equal(twins)
    limits = ["--retain-max", 5, "--retain-min", 1, "--older-than", _now()]
    oracle.call("expire-changelogs", twins.java, "d.t", *limits)
    job = expire_changelogs.Job(table="d.t", retain_max=5, retain_min=1, older_than_ms=_now())
    expire_changelogs.run(job, twins.lake)
    # Java keeps a file until the snapshot that removed it is an expired changelog, although nothing reads it
    java, ours = twins.difference()
    assert ours == set()
    assert len(java) <= 1
    assert fsck(twins.opened.file_io, twins.opened.paths, now_ms=_now(), deep=True).findings == ()


def test_a_gap_in_the_ids_stops_nothing(long_history: Path, tmp_path: Path, oracle: Oracle) -> None:
    """Java gives up for good when the first snapshot to keep is missing; the files before the gap go here."""
    twins = Twins.of(long_history, "d.t", tmp_path)
    last = twins.opened.snapshots.list_ids()[-1]
    for missing in (last - 4, last - 3):
        (twins.path(twins.ours) / "snapshot" / f"snapshot-{missing}").unlink()
    shutil.rmtree(twins.path(twins.java))
    job = expire_snapshots.Job(table="d.t", retain_max=4, retain_min=1, older_than_ms=0, max_deletes=MANY)
    report = expire_snapshots.run(job, twins.lake)
    assert report.snapshots[-1] == last - 5
    found = twins.new_findings(oracle, long_history.parents[1])
    assert not {text for text in found if "error" in text and "tag middle: missing manifest list" not in text}
    for snapshot in twins.opened.snapshots.list_ids():
        assert oracle.read(twins.ours, "d.t", snapshot=snapshot) == oracle.read(
            long_history.parents[1], "d.t", snapshot=snapshot
        )
