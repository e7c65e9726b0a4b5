"""A task follows the tables of a lake, and compacts what Java writes to them: until it is stopped, killed or over."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from lakecore.catalog.filesystem import load_catalog
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.lake import dedicated_compaction
from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator
from tests.operators.conftest import context
from tests.support.killing_fs import KillPoint, run_and_die
from tests.support.lake import put, rows_of
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

WRITE_ONLY = {
    "columns": ["k INT", "v INT"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "write-only": "true"},
}


def operator(**fields: object) -> DedicatedCompactionOperator:
    wanted = {"task_id": "follow", "engine": "local", "strategy": "full", "interval": 0.02}
    return DedicatedCompactionOperator(**(wanted | fields))


@contextmanager
def running(task: DedicatedCompactionOperator) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(task.execute, context())


def files(table: Table) -> int:
    latest = table.latest_snapshot()
    return 0 if latest is None else len(table._scanner.live_entries(latest).files())


def wait_for(condition: Callable[[], bool], future: Future[Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition() and not future.done() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def damage(oracle: Oracle, lake: Path, name: str) -> set[str]:
    """What Java's check finds, without the files that a lost race or a kill left."""
    return {one for one in findings(oracle.fsck(lake, name)) if not one.startswith("orphan: ")}


def execute(environment: dict[str, str]) -> None:
    """In a process of its own, which has the environment of another test or of none."""
    os.environ.update(environment)
    operator(run_for="60 s").execute(context())


def test_what_java_writes_is_compacted_until_the_time_is_over(
    lake: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New tables are found, and one that is idle is left alone."""
    over = threading.Event()
    monkeypatch.setattr(dedicated_compaction, "stopped_after", lambda _: nullcontext(over))
    oracle.create(lake, "d.t", WRITE_ONLY)
    table = load_catalog(str(lake)).load_table("d.t")
    with running(operator(run_for=timedelta(hours=1))) as future:
        for number in range(3):
            oracle.write(lake, "d.t", [{"k": k, "v": number} for k in range(5)])
            oracle.write(lake, "d.t", [{"k": 1, "v": -number}])
            wait_for(lambda: files(table) == 1, future)
        oracle.create(lake, "e.later", WRITE_ONLY)
        oracle.write(lake, "e.later", [{"k": 1, "v": 1}])
        oracle.write(lake, "e.later", [{"k": 1, "v": 2}])
        later = load_catalog(str(lake)).load_table("e.later")
        wait_for(lambda: files(later) == 1, future)
        latest = table.latest_snapshot()
        time.sleep(0.2)
        over.set()
        said = future.result(60)
    assert table.latest_snapshot() == latest, "an idle table got a snapshot"
    assert said["compactions"] >= 4
    assert (said["tables"], said["failed"]) == (2, 0)
    assert oracle.read(lake, "d.t") == [f'{{"k": {k}, "v": {-2 if k == 1 else 2}}}' for k in range(5)]
    assert oracle.read(lake, "e.later") == ['{"k": 1, "v": 2}']
    for name in ("d.t", "e.later"):
        assert damage(oracle, lake, name) == set()


def test_the_task_after_a_killed_one_goes_on(lake: Path, oracle: Oracle) -> None:
    """It is killed with SIGKILL after the commit of a compaction, before it knows of it."""
    oracle.create(lake, "d.t", WRITE_ONLY)
    for number in range(2):
        oracle.write(lake, "d.t", [{"k": k, "v": number} for k in range(3)])
    told = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW")}
    run_and_die(KillPoint(name="publish", part="/snapshot/", after=True), execute, told)
    oracle.write(lake, "d.t", [{"k": 2, "v": 7}])
    assert operator(run_for="1 s", wait="2 min").execute(context(run_id="next"))["failed"] == 0
    assert files(load_catalog(str(lake)).load_table("d.t")) == 1
    assert oracle.read(lake, "d.t") == [f'{{"k": {k}, "v": {7 if k == 2 else 1}}}' for k in range(3)]
    assert damage(oracle, lake, "d.t") == set()


def test_a_checkpoint_makes_the_task_a_streaming_query(lake: Path, oracle: Oracle, tmp_path: Path) -> None:
    """The next task goes on with the query: an idle table is not looked at as a new one."""
    oracle.create(lake, "d.t", WRITE_ONLY)
    for number in range(2):
        oracle.write(lake, "d.t", [{"k": k, "v": number} for k in range(3)])
    table = load_catalog(str(lake)).load_table("d.t")
    query: dict[str, Any] = {"engine": "spark", "master": "local[1]", "checkpoint": str(tmp_path / "query")}
    task = operator(**query, interval=0.2)
    over = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedicated_compaction, "stopped_after", lambda _: nullcontext(over))
        with running(task) as future:
            try:
                wait_for(lambda: files(table) == 1, future, 300)  # a session and a query start
                oracle.write(lake, "d.t", [{"k": 2, "v": 7}])
                wait_for(lambda: files(table) == 1, future, 300)
            finally:
                over.set()
            assert future.result(60)["compactions"] == 2
    assert list((lake / ".lakecore" / "followers").iterdir())
    latest = table.latest_snapshot()
    assert operator(**query, run_for="3 s").execute(context(run_id="next"))["tables"] == 0
    assert table.latest_snapshot() == latest
    assert oracle.read(lake, "d.t") == [f'{{"k": {k}, "v": {7 if k == 2 else 1}}}' for k in range(3)]
    assert damage(oracle, lake, "d.t") == set()


def test_a_table_that_fails_does_not_stop_the_others_and_fails_the_task_at_its_end(lake: Path) -> None:
    catalog = load_catalog(str(lake))
    for name in ("d.fine", "d.lost"):
        put(catalog.create_table(name, WRITE_ONLY), [{"k": 1, "v": 1}], [{"k": 1, "v": 2}])
    next((lake / "d.db" / "lost" / "bucket-0").iterdir()).unlink()
    run = context()
    with pytest.raises(AirflowException, match=r"1 of 2 tables failed; d\.lost"):
        operator(run_for="1 s").execute(run)
    assert files(catalog.load_table("d.fine")) == 1
    assert run["ti"].xcoms["report"]["compactions"] == 1


def test_a_task_that_is_stopped_ends_and_loses_nothing(lake: Path) -> None:
    """Airflow calls `on_kill` in a signal handler of the task's main thread."""
    table = load_catalog(str(lake)).create_table("d.t", WRITE_ONLY)
    put(table, [{"k": 1, "v": 1}], [{"k": 1, "v": 2}])
    task = operator()

    def stop_when_compacted() -> None:
        while files(table) > 1:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGUSR1)

    handler = signal.signal(signal.SIGUSR1, lambda *_: task.on_kill())
    try:
        threading.Thread(target=stop_when_compacted).start()
        with pytest.raises(AirflowException, match="killed while following tables"):
            task.execute(context())
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert rows_of(table) == [(1, 2)]
    assert fsck(table._stores.file_io, table._stores.paths, now_ms=0).damage == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"interval": "0"}, "interval='0': use a positive number of seconds"),
        ({"interval": "often"}, "interval='often'"),
        ({"run_for": "long"}, "run_for='long': use a positive time, 12 h"),
        ({"run_for": "0 h"}, "run_for='0 h'"),
        ({"including_tables": "("}, "is not a regular expression"),
        ({"engine": "flink"}, "engine 'flink': use spark or local"),
        ({"checkpoint": "/tmp/query"}, "starts a query of Spark, and the engine is local; use engine spark"),
    ],
)
def test_wrong_parameters_fail_at_once(lake: Path, wrong: dict[str, str], message: str) -> None:
    with pytest.raises(AirflowFailException, match=message.replace("(", r"\(")):
        operator(**wrong).execute(context())


def test_parameters_are_templates(lake: Path) -> None:
    with DAG("d", schedule=None):
        task = operator(
            interval="{{ params.interval }}",
            run_for="{{ params.run_for }}",
            excluding_tables="{{ params.no }}",
        )
    task.render_template_fields({"params": {"interval": 0.1, "run_for": "1 s", "no": r"d\..*"}})
    put(load_catalog(str(lake)).create_table("d.t", WRITE_ONLY), [{"k": 1, "v": 1}])
    assert task.execute(context())["tables"] == 0
