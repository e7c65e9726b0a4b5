"""A dedicated compactor as a query of Structured Streaming: it is killed and goes on, and a table that fails does
not end it. Java reads the tables afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.cli.main import main
from lakecore.compact.engine.strategy import Strategy
from lakecore.errors import InvalidInputError
from lakecore.jobs import compact_database
from lakecore.jobs.definitions.compaction import CompactDatabase
from lakecore.spark import follow_query
from lakecore.spark.executor import SparkExecutor
from tests.support.lake import key_table, put, rows_of
from tests.support.oracle import Oracle, findings
from tests.support.slow_units import SlowExecutor
from tests.support.stream_kills import kill_all

pytestmark = pytest.mark.slow

FULL = CompactDatabase(strategy=Strategy.FULL)
COMMAND = ("--json", "compact-database", "--strategy", "full", "--follow", "--engine", "spark")


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})


def slow_rounds(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let each round begin with a pause; the event is set when one begins."""
    begun, run = threading.Event(), compact_database.run_on

    def slow(*arguments: Any) -> Any:
        begun.set()
        time.sleep(1)
        return run(*arguments)

    monkeypatch.setattr(compact_database, "run_on", slow)
    return begun


def test_a_failed_table_and_a_stop(
    session: SparkSession,
    oracle: Oracle,
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    damaged = catalog.create_table("d.damaged", {"columns": ["k INT"], "options": {"write-only": "true"}})
    put(damaged, [{"k": 1}], [{"k": 2}])
    for manifest in Path(damaged.path, "manifest").iterdir():
        manifest.write_bytes(b"")
    rounds: list[dict[str, Any]] = []
    compacted = threading.Event()

    def on_round(reports: tuple[Any, ...]) -> None:
        rounds.append({report.table: report for report in reports})
        if any(report.snapshots for report in reports):
            compacted.set()

    checkpoint = str(tmp_path / "checkpoint")
    query = lakecore_spark.follow(
        session, catalog, FULL, checkpoint, on_round=on_round, processingTime="200 milliseconds"
    )
    try:
        assert compacted.wait(180), query.exception()
        assert rounds[0]["d.k"].engine == "spark"
        assert rounds[0]["d.damaged"].error
        compacted.clear()
        begun = slow_rounds(monkeypatch)
        put(table, [{"k": 2, "v": "c"}])
        assert begun.wait(60), query.exception()
    finally:
        query.stop()  # the round that runs is ended
    assert compacted.is_set()
    (metrics,) = lakecore_spark.stream_metrics(query.recentProgress[0])
    assert metrics == {"round": 1, "tables": 2, "restingTables": 0}
    assert query.exception() is None
    assert not query.isActive
    assert oracle.read(catalog.warehouse, "d.k") == ['{"k": 1, "v": "b"}', '{"k": 2, "v": "c"}']
    assert findings(oracle.fsck(catalog.warehouse, "d.k")) == set()
    assert [snapshot.commit_kind.value for snapshot in table.snapshots()].count("COMPACT") == 2
    for wrong in (CompactDatabase(dry_run=True), CompactDatabase(until_ms=1)):
        with pytest.raises(InvalidInputError, match="one run"):
            lakecore_spark.follow(session, catalog, wrong, checkpoint)


class Kill(Exception):
    """It is what the signal handler of a task raises."""


def test_a_kill_in_the_middle_of_units_stops_the_query(
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    session: SparkSession,
) -> None:
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    marker = tmp_path / "a unit is at work"
    rounds = CompactDatabase(strategy=Strategy.FULL)

    def compact(names: Any, workers: Any) -> Any:
        return compact_database.run_on(names, rounds, catalog, MarkedExecutor(workers, str(marker)))

    queries: list[Any] = []
    start = follow_query.start_following

    def started(*arguments: Any) -> Any:
        queries.append(start(*arguments))
        return queries[0]

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if marker.exists():
                raise Kill
            return super().wait(timeout)

    monkeypatch.setattr(follow_query, "start_following", started)
    request = follow_query.FollowRequest(
        lake=catalog,
        names=compact_database.PatternNames(rounds, catalog),
        compact=compact,
        job="rounds",
        checkpoint=str(tmp_path / "checkpoint"),
    )
    capfd.readouterr()
    with SparkExecutor() as workers, pytest.raises(Kill):
        follow_query.follow_until(Stop(), workers, request, {"processingTime": "200 milliseconds"})
    [query] = queries
    assert not query.isActive
    assert query.exception() is None
    written = capfd.readouterr()
    assert "Traceback" not in written.err + written.out
    assert "\tat org.apache.spark" not in written.err + written.out
    assert [one.commit_kind.value for one in table.snapshots()].count("COMPACT") == 0
    assert rows_of(table) == [(1, "b")]


class MarkedExecutor(SlowExecutor):
    """Its units make a marker before they take their time."""

    def __init__(self, inner: Any, marker: str) -> None:
        super().__init__(inner)
        self._marker = marker

    def run(self, function: Any, tasks: Any) -> Any:
        return super().run(partial(_marked, self._marker, function), tasks)


def _marked(marker: str, function: Any, task: Any) -> Any:
    result = function(task)
    Path(marker).touch()
    return result


def test_a_query_that_was_killed_goes_on(
    session: SparkSession,
    oracle: Oracle,
    catalog: lakecore.FilesystemCatalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It is killed when the checkpoint has the tables of a micro-batch, which is not done."""
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}])
    checkpoint = tmp_path / "checkpoint"
    monkeypatch.setenv("LAKECORE_WAREHOUSE", catalog.warehouse)
    arguments = [*COMMAND, "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from lakecore.cli.main import main; sys.exit(main())",
            *arguments,
        ],
        env=os.environ,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 180
    while not (checkpoint / "offsets/0").exists():
        assert time.monotonic() < deadline, "the query has planned nothing"
        assert process.poll() is None, "the command has ended"
        time.sleep(0.01)
    kill_all(process)
    assert not (checkpoint / "commits/0").exists()
    capfd.readouterr()
    assert main([*arguments, "--rounds", "1"]) == 0  # on the session of this process
    assert [json.loads(line)["table"] for line in capfd.readouterr().out.splitlines()] == ["d.k"]
    assert (checkpoint / "commits/0").exists()
    assert oracle.read(catalog.warehouse, "d.k") == ['{"k": 1, "v": "a"}', '{"k": 2, "v": "b"}']
    complaints = findings(oracle.fsck(catalog.warehouse, "d.k"))
    assert {one for one in complaints if not one.startswith("orphan: ")} == set()
    assert sum(snapshot.commit_kind.value == "COMPACT" for snapshot in table.snapshots()) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--follow", "--engine", "local"], "--engine spark"),
        (["--follow", "--engine", "spark", "--rounds", "3"], "--rounds 1"),
        ([], "--follow"),
    ],
    ids=["engine", "rounds", "follow"],
)
def test_what_does_not_go_together_is_refused(
    catalog: lakecore.FilesystemCatalog,
    wrong: list[str],
    message: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    key_table(catalog)
    arguments = [
        "--warehouse",
        catalog.warehouse,
        "compact",
        "d.k",
        "--checkpoint",
        str(tmp_path / "c"),
        *wrong,
    ]
    assert main(arguments) != 0
    assert message in capfd.readouterr().err
