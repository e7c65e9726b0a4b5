"""More chores that Java and lakecore do on copies of one table: going back by time and watermark, branches,
consumers, hints.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidInputError, NotFoundError, UnavailableError
from lakecore.jobs import partitions
from lakecore.jobs.repair import metadata as repair
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches, consumers, rollback
from tests.support.oracle import Oracle, OracleError
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

MARKS = (None, 100, 170, 250, 400, None, 900)
AT_ONCE = Safety(quarantine=False)


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> Path:
    """Seven commits, most with a watermark, a tag, a branch with a commit of its own; the table's folder."""
    warehouse = tmp_path_factory.mktemp("marked")
    columns = ["k BIGINT NOT NULL", "v STRING"]
    options = {"bucket": "1", "write-only": "true"}
    oracle.create(warehouse, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    for number, mark in enumerate(MARKS):
        flags = [] if mark is None else ["--watermark", mark]
        oracle.write(warehouse, "d.t", [{"k": number % 3, "v": f"{number}"}], "--identifier", number, *flags)
        time.sleep(0.003)
    oracle.call("create-tag", warehouse, "d.t", "five", "--snapshot", 5)
    oracle.call("create-branch", warehouse, "d.t", "b", "--tag", "five")
    oracle.write(warehouse, "d.t$branch_b", [{"k": 50, "v": "on the branch"}], "--identifier", 50)
    table = warehouse / "d.db" / "t"
    for folder, first in (("snapshot", 1), ("branch/branch-b/snapshot", 5)):
        (table / folder / "EARLIEST").write_text(f"{first}")  # as an expiry leaves it
    return table


def _time_of(table: Path, snapshot: int) -> int:
    return int(json.loads((table / "snapshot" / f"snapshot-{snapshot}").read_text())["timeMillis"])


def _same(twins: Twins) -> None:
    assert twins.difference() == (set(), set())
    hints = ["snapshot/EARLIEST", "snapshot/LATEST"]
    assert twins.content(twins.ours, hints) == twins.content(twins.java, hints)


@pytest.mark.parametrize("watermark", [100, 249, 250, 400, 899, 5000])
def test_a_rollback_to_a_watermark_is_javas(
    watermark: int, marked: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(marked, "d.t", tmp_path)
    job = rollback.RollbackTo(table="d.t", watermark=watermark, safety=AT_ONCE)
    oracle.call("rollback-to-watermark", twins.java, "d.t", watermark)
    rollback.run(job, twins.lake)
    _same(twins)
    assert oracle.read(twins.ours, "d.t") == oracle.read(twins.java, "d.t")


def test_what_has_no_watermark_is_not_gone_back_to(marked: Path, tmp_path: Path) -> None:
    """Snapshot 1 says that no watermark was seen: Java 1.4.2 takes that for a very old one."""
    twins = Twins.of(marked, "d.t", tmp_path)
    with pytest.raises(NotFoundError, match="watermark up to 99"):
        rollback.run(rollback.RollbackTo(table="d.t", watermark=99), twins.lake)


@pytest.mark.parametrize(("snapshot", "shift"), [(1, 0), (4, 0), (4, -1), (6, 1), (7, 60_000)])
def test_a_rollback_to_a_time_is_javas(
    snapshot: int, shift: int, marked: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(marked, "d.t", tmp_path)
    moment = _time_of(marked, snapshot) + shift
    oracle.call("rollback-to-timestamp", twins.java, "d.t", moment)
    report = rollback.run(rollback.RollbackTo(table="d.t", timestamp_ms=moment, safety=AT_ONCE), twins.lake)
    _same(twins)
    assert report.snapshot == twins.opened._stores.snapshots.latest_id()
    assert oracle.read(twins.ours, "d.t") == oracle.read(twins.java, "d.t")


def test_renamed_and_deleted_branches_leave_javas_files(marked: Path, tmp_path: Path, oracle: Oracle) -> None:
    twins = Twins.of(marked, "d.t", tmp_path)
    oracle.call("rename-branch", twins.java, "d.t", "b", "c")
    branches.run(branches.RenameBranch(table="d.t", branch="b", target_branch="c"), twins.lake)
    _same(twins)
    assert oracle.read(twins.ours, "d.t", branch="c") == oracle.read(twins.java, "d.t", branch="c")
    oracle.call("delete-branch", twins.java, "d.t", "c")
    branches.run(branches.DeleteBranch(table="d.t", branch="c", safety=AT_ONCE), twins.lake)
    _same(twins)
    assert twins.opened._stores.branches.list() == ()


PATTERNS: tuple[dict[str, str], ...] = (
    {},
    {"including": "a.*"},
    {"including": "a"},
    {"including": ".*", "excluding": "ab|c"},
    {"including": "b"},
)


def _with_consumers(twins: Twins) -> None:
    for warehouse in (twins.java, twins.ours):
        folder = twins.path(warehouse) / "consumer"
        folder.mkdir()
        for days, name in enumerate(("a", "ab", "bab", "c")):
            path = folder / f"consumer-{name}"
            path.write_text('{"nextSnapshot":3}')
            moment = time.time() - days * 86_400 - 60
            os.utime(path, (moment, moment))


@pytest.mark.parametrize("patterns", PATTERNS, ids=str)
def test_the_same_consumers_are_cleared(
    patterns: dict[str, str], marked: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(marked, "d.t", tmp_path)
    _with_consumers(twins)
    flags = [part for name, value in patterns.items() for part in (f"--{name}", value)]
    oracle.call("clear-consumers", twins.java, "d.t", *flags)
    consumers.run(consumers.ClearConsumers(table="d.t", **patterns, safety=AT_ONCE), twins.lake)
    _same(twins)


@pytest.mark.parametrize("days", [0, 1, 2, 9])
def test_the_same_consumers_expire(days: int, marked: Path, tmp_path: Path, oracle: Oracle) -> None:
    twins = Twins.of(marked, "d.t", tmp_path)
    _with_consumers(twins)
    idle = days * 86_400_000
    oracle.call("expire-consumers", twins.java, "d.t", int(time.time() * 1000) - idle)
    job: Any = consumers.ExpireConsumers(table="d.t", expiration_ms=idle, safety=AT_ONCE)
    report = consumers.run(job, twins.lake)
    _same(twins)
    assert len(report.names) == max(0, 4 - days)


def test_earliest_is_repaired_after_a_gap_as_java_does(marked: Path, tmp_path: Path, oracle2: Oracle) -> None:
    twins = Twins.of(marked, "d.t", tmp_path)
    for warehouse in (twins.java, twins.ours):
        (twins.path(warehouse) / "snapshot" / "snapshot-3").unlink()
    for wrong in (1, 2, 3, 5):
        with pytest.raises(OracleError):
            oracle2.call("repair-earliest-snapshot", twins.java, "d.t", wrong)
        with pytest.raises(InvalidInputError, match="cannot be the hint EARLIEST, which must be 4"):
            repair.run(repair.RepairEarliestSnapshot(table="d.t", snapshot=wrong), twins.lake)
    made = oracle2.call("repair-earliest-snapshot", twins.java, "d.t", 4)
    report = repair.run(repair.RepairEarliestSnapshot(table="d.t", snapshot=4), twins.lake)
    assert report.notes == (f"the earliest snapshot was {made['previous']}",)
    _same(twins)
    again = repair.run(repair.RepairEarliestSnapshot(table="d.t", snapshot=4), twins.lake)
    assert again.nothing_to_do
    assert repair.run(repair.RepairHints(table="d.t"), twins.lake).nothing_to_do


@pytest.mark.parametrize(
    "damage", [{"LATEST": "3"}, {"LATEST": None}, {"EARLIEST": "5"}, {"LATEST": "99"}], ids=str
)
def test_repaired_hints_are_what_java_would_write(
    damage: dict[str, str | None], marked: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(marked, "d.t", tmp_path)
    for name, text in damage.items():
        path = twins.path(twins.ours) / "snapshot" / name
        path.unlink() if text is None else path.write_text(text)
    repair.run(repair.RepairHints(table="d.t"), twins.lake)
    _same(twins)
    for judge in (oracle, oracle2):
        assert judge.read(twins.ours, "d.t") == judge.read(twins.java, "d.t")


class _Service:
    """A web service that keeps what is posted to it, and answers with `answer`."""

    def __init__(self) -> None:
        self.posted: list[tuple[str | None, dict[str, Any]]] = []
        self.answer, self.status = '{"result": "success", "more": 1}', 200
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.posted.append((self.headers["Content-Type"], json.loads(body)))
                self.send_response(service.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(service.answer.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/done?token=secret"


@pytest.fixture
def service() -> Iterator[_Service]:
    made = _Service()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_done_partitions_are_reported_as_java_reports_them(
    tmp_path: Path, oracle: Oracle, service: _Service
) -> None:
    options = {
        "partition.mark-done-action": "success-file,http-report",
        "partition.mark-done-action.http.url": service.url,
        "partition.mark-done-action.http.params": "a=1",
    }
    source = tmp_path / "source"
    columns = ["dt STRING", "hh INT", "v INT"]
    oracle.create(source, "d.t", {"columns": columns, "partitionKeys": ["dt", "hh"], "options": options})
    oracle.write(source, "d.t", [{"dt": "2026-01-01", "hh": 1, "v": 1}])
    twins = Twins.of(source / "d.db" / "t", "d.t", tmp_path)
    oracle.call("mark-partition-done", twins.java, "d.t", "dt=2026-01-01/hh=1/")
    job = partitions.MarkPartitionDone(table="d.t", partitions="dt=2026-01-01,hh=1")
    partitions.run(replace(job, dry_run=True), twins.lake)
    assert len(service.posted) == 1
    partitions.run(job, twins.lake)
    (_, java), (kind, ours) = service.posted
    assert kind == "application/json"  # Java 1.4.2 calls the same body text/plain
    assert java.pop("path").endswith("/d.db/t")
    assert ours.pop("path").endswith("/d.db/t")
    assert ours == java
    assert twins.difference() == (set(), set())
    for status, answer, problem in (
        (200, '{"result": "no"}', "the result in its answer is 'no'"),
        (200, "hello", "not JSON"),
        (302, '{"result": "SUCCESS"}', "status 302"),
        (500, '{"result": "SUCCESS"}', "status 500"),
    ):
        service.status, service.answer = status, answer
        with pytest.raises(
            UnavailableError, match=f"could not be reported to 127.0.0.1, because .*{problem}"
        ) as caught:
            partitions.run(job, twins.lake)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("action", ["done-partition", "mark-event", "custom", "http-report", "else"])
def test_marks_that_cannot_be_made_are_refused_before_any_is(
    action: str, tmp_path: Path, oracle: Oracle
) -> None:
    options = {"partition.mark-done-action": f"success-file,{action}"}
    schema = {"columns": ["dt STRING", "v INT"], "partitionKeys": ["dt"]}
    oracle.create(tmp_path, "d.t", schema)
    lake = load_catalog(str(tmp_path))
    job = partitions.MarkPartitionDone(table="d.t", partitions="dt=a", options=options)
    with pytest.raises(
        InvalidInputError, match=r"http\.url" if action == "http-report" else "keeps no list|Java|known"
    ):
        partitions.run(job, lake)
    assert list(tmp_path.rglob("_SUCCESS")) == []
