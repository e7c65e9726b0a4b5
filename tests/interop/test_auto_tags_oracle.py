"""Automatic tags: Java and lakecore make and delete the same ones, given the same history and options."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore.jobs import compact, expire_snapshots
from lakecore.jobs.versions import auto_tags, batch_tags
from lakecore.table import Commit
from lakecore.verify.fsck.check import fsck
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, put
from tests.support.oracle import Oracle, OracleError, findings
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

HOUR = 3_600_000
FIRST = 1_774_650_600_000
"""2026-03-27 22:30 UTC; the clocks of Berlin leap at 01:00 UTC two days later."""
STEPS = (0, 0.25, 1, 1, 3, 26, 2, 0.5, 23, 49, 1, 1, 12, 5)
"""Hours from one snapshot to the next."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> Path:
    """Snapshots at those times, with watermarks an hour and a half behind; the first has none."""
    warehouse = tmp_path_factory.mktemp("auto")
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    columns = ["k BIGINT NOT NULL", "v STRING"]
    oracle.create(warehouse, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    path, number = warehouse / "d.db" / "t", 0
    while len(list((path / "snapshot").glob("snapshot-*"))) < len(STEPS):
        number += 1
        oracle.write(warehouse, "d.t", [{"k": k, "v": f"{number}"} for k in range(number, number + 3)])
    for number, hours in enumerate(_times(), 1):
        change = {"timeMillis": hours, **({"watermark": hours - HOUR * 3 // 2} if number > 1 else {})}
        _patch(path / "snapshot" / f"snapshot-{number}", change)
    return path


def _times() -> list[int]:
    return [FIRST + int(sum(STEPS[: n + 1]) * HOUR) for n in range(len(STEPS))]


def _patch(snapshot: Path, change: Mapping[str, int]) -> None:
    snapshot.write_text(json.dumps({**json.loads(snapshot.read_text()), **change}, indent=2))


def _tags(twins: Twins, warehouse: Path) -> dict[str, int]:
    folder = twins.path(warehouse) / "tag"
    files = [file for file in folder.glob("tag-*") if file.is_file()] if folder.exists() else []
    return {file.name[4:]: json.loads(file.read_text())["id"] for file in files}


def trigger(twins: Twins, oracle: Oracle, options: Mapping[str, str]) -> auto_tags.Report:
    """Both, with the options set in the table."""
    changes = json.dumps([{"op": "set", "key": key, "value": value} for key, value in options.items()])
    for warehouse in (twins.java, twins.ours):
        oracle.call("alter", warehouse, "d.t", changes)
    oracle.call("trigger-tag-automatic-creation", twins.java, "d.t")
    return auto_tags.run(auto_tags.Job(table="d.t"), twins.lake)


def _options(text: str) -> dict[str, str]:
    mode, *rest = text.split(", ")
    pairs = (pair.split("=") for pair in rest)
    return {"tag.automatic-creation": mode} | {
        (key if "." in key else f"tag.{key}"): value for key, value in pairs
    }


@pytest.mark.parametrize(
    "text",
    [
        "process-time, default-time-retained=30 d",
        "process-time, creation-period=hourly, period-formatter=without_dashes, creation-delay=20 min",
        "process-time, creation-period=hourly, period-formatter=without_dashes_and_spaces, num-retained-max=3",
        "process-time, creation-period=two-hours, period-formatter=without_dashes, automatic-completion=true",
        "process-time, creation-period-duration=90 min, automatic-completion=true, num-retained-max=4",
        "process-time, period-formatter=without_dashes, sink.process-time-zone=Europe/Berlin",
        "process-time, creation-period=hourly, sink.process-time-zone=Europe/Berlin, create-success-file=true",
        "process-time, creation-delay=5 h, sink.process-time-zone=GMT-08:00, automatic-completion=true",
        "watermark, creation-period=hourly",
        "watermark, sink.watermark-time-zone=Asia/Shanghai, automatic-completion=true, creation-delay=2 h",
        "none, default-time-retained=1 ms",
        "batch",
    ],
)
def test_the_same_tags_of_the_same_snapshots(
    text: str, history: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(history, "d.t", tmp_path)
    report = trigger(twins, oracle, _options(text))
    made = _tags(twins, twins.java)
    assert _tags(twins, twins.ours) == made
    assert report.names == tuple(sorted(made))
    assert bool(made) == (text[0] in "pw")
    assert twins.difference(["schema/"]) == (set(), set())
    # and once more, by the other version: nothing is left to do
    oracle2.call("trigger-tag-automatic-creation", twins.ours, "d.t")
    assert auto_tags.run(auto_tags.Job(table="d.t"), twins.lake).nothing_to_do
    assert _tags(twins, twins.ours) == made


def test_deleted_automatic_tags_free_the_files_that_java_frees(
    history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    """Tags whose snapshots have expired, then more snapshots: the oldest tags go, with what only they need."""
    twins = Twins.of(history, "d.t", tmp_path)
    options = _options("process-time, creation-period=hourly, automatic-completion=true, num-retained-max=20")
    trigger(twins, oracle, options)
    limits = {"retain_max": 2, "retain_min": 1, "max_deletes": 100, "older_than_ms": int(time.time() * 1000)}
    flags: Sequence[object] = [
        part for k, v in limits.items() for part in (f"--{k.removesuffix('_ms').replace('_', '-')}", v)
    ]
    oracle.call("expire-snapshots", twins.java, "d.t", *flags)
    expire_snapshots.run(expire_snapshots.Job(table="d.t", **limits), twins.lake)
    # the newest tag goes, so that the rule has one to make; then only two may stay
    for warehouse in (twins.java, twins.ours):
        newest = max(_tags(twins, warehouse))
        oracle.call("delete-tag", warehouse, "d.t", newest)
    before = twins.files(twins.ours)
    report = trigger(twins, oracle, {"tag.num-retained-max": "2"})
    assert _tags(twins, twins.ours) == _tags(twins, twins.java)
    assert len(_tags(twins, twins.ours)) == 2
    java, ours = twins.difference(["schema/"])
    assert (java, ours) == (set(), set())
    assert len(before - twins.files(twins.ours)) > report.files / 2 > 3
    assert twins.new_findings(oracle, twins.java) == set()
    opened = twins.opened
    assert (
        fsck(opened._stores.file_io, opened._stores.paths, now_ms=int(time.time() * 1000), deep=True).findings
        == ()
    )


@pytest.mark.parametrize("mode", ["process-time", "batch"])
def test_lakecores_commits_make_the_tags_that_javas_would(
    mode: str, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    """Writes and compactions over some days; then Java, on a copy without tags, and on ours."""
    twins = Twins(tmp_path / "java", tmp_path / "ours", "d.k")
    clock = FakeClock(FIRST)
    twins.ours.mkdir()
    lake = replace(twins.lake, clock=clock)
    options = {"tag.automatic-creation": mode, "sink.process-time-zone": "Europe/Berlin"}
    table = key_table(lake, write_only="false").with_options(options)
    for number in range(5):
        put(table, [{"k": number, "v": f"{number}"}, {"k": 0, "v": f"{number}"}])
        if number == 3:
            compact.run(compact.Job(table="d.k", options=options), lake, clock=clock)
        clock.sleep(14 * 3600)
    shutil.copytree(twins.path(twins.ours), twins.path(twins.java))
    ours = _tags(twins, twins.ours)
    changes = json.dumps([{"op": "set", "key": key, "value": value} for key, value in options.items()])
    for warehouse in (twins.java, twins.ours):
        oracle.call("alter", warehouse, "d.k", changes)
    shutil.rmtree(twins.path(twins.java) / "tag")
    command = "batch-tag" if mode == "batch" else "trigger-tag-automatic-creation"
    oracle.call(command, twins.java, "d.k")
    java = _tags(twins, twins.java)
    # a batch write tags its own day only, so Java knows the last one
    assert java == (ours if mode != "batch" else {max(ours): ours[max(ours)]})
    assert len(ours) == 4
    for judge in (oracle, oracle2):
        judge.call(command, twins.ours, "d.k")
        assert _tags(twins, twins.ours) == ours
    for judge in (oracle, oracle2):
        judge.write(twins.ours, "d.k", [{"k": 100, "v": judge.version}])
    assert twins.new_findings(oracle, twins.java) == set()


def test_tags_of_days_are_read_by_java_and_stop_no_writer(
    history: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    """Backfilled on a table that makes automatic tags too."""
    twins = Twins.of(history, "d.t", tmp_path)
    trigger(twins, oracle, _options("process-time"))
    job = batch_tags.Job(
        table="d.t",
        start="2026-03-27",
        end="2026-04-01",
        backfill=True,
        name="eod-{period}",
        date="2026-04-01",
    )
    report = batch_tags.run(job, twins.lake)
    times = _times()
    expected = {}
    for day, name in enumerate(report.names):
        before = [n for n, at in enumerate(times, 1) if at < FIRST + (1.5 + 24 * day) * HOUR]
        expected[name] = before[-1]
    made = {name: n for name, n in _tags(twins, twins.ours).items() if name.startswith("eod-")}
    assert made == expected
    assert sorted(made) == [f"eod-2026-03-{day}" for day in range(27, 32)] + ["eod-2026-04-01"]
    for judge in (oracle, oracle2):
        for name, snapshot in list(made.items())[:3]:
            assert judge.read(twins.ours, "d.t", tag=name) == judge.read(twins.java, "d.t", snapshot=snapshot)
        judge.write(twins.ours, "d.t", [{"k": 100, "v": judge.version}])
    assert {name: _tags(twins, twins.ours)[name] for name in made} == made
    # why a second automatic tag of a snapshot is refused
    folder = twins.path(twins.java) / "tag"
    shutil.copy(folder / f"tag-{max(_tags(twins, twins.java))}", folder / "tag-2026-03-01")
    with pytest.raises(OracleError, match="more than 1 auto-created tags of the same snapshot"):
        oracle.write(twins.java, "d.t", [{"k": 100, "v": "x"}])


WATERMARK = {"tag.automatic-creation": "watermark"}
FORCED: list[tuple[Mapping[str, str], bool]] = [
    ({}, False),
    ({"tag.automatic-creation": "process-time"}, True),
    ({"tag.automatic-creation": "process-time"}, False),  # the write before has made the tag that was due
    ({"commit.force-create-snapshot": "true"}, True),
    (WATERMARK, False),
    (WATERMARK | {"snapshot.watermark-idle-timeout": "1 h"}, True),
    (WATERMARK | {"snapshot.watermark-idle-timeout": "1 h", "write-only": "true"}, False),
    (WATERMARK | {"snapshot.watermark-idle-timeout": "3 h"}, False),
]


def test_writes_without_rows_make_snapshots_where_java_would(tmp_path: Path, oracle: Oracle) -> None:
    oracle.create(tmp_path, "d.t", {"columns": ["v INT"], "options": {}})
    now = int(time.time() * 1000)
    oracle.write(tmp_path, "d.t", [{"v": 1}], "--watermark", now - 2 * HOUR)
    lake = lakecore.load_catalog(str(tmp_path), **{"local.fsync": "false"})
    for options, forced in FORCED:
        flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
        assert oracle.call("forces-snapshot", tmp_path, "d.t", *flags) is forced, options
        written = (
            lake.load_table("d.t").with_options(options).append(pa.table({"v": pa.array([], pa.int32())}))
        )
        assert bool(written.snapshot_ids) is forced, options
    later = lake.load_table("d.t").with_options(dict(FORCED[5][0]))
    commit = Commit(watermark=now + 50 * HOUR)
    later.write(pa.table({"v": pa.array([], pa.int32())}), commit)
    assert len(later._stores.tags.list()) == 2  # by the time of the commit, then by the new watermark
    assert oracle.read(tmp_path, "d.t") == ['{"v": 1}']
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
