"""The operator for a whole lake: one task, tables that fail told at the end, the report small."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk import DAG

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.jobs.engines.engine_choice import Engines
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.verify.fsck.check import fsck
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.lake.compact_database import CompactDatabaseOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable
from tests.support.killing_fs import KillPoint, run_and_die
from tests.support.lake import put, rows_of

TABLE = "g1.a_pk_dedup_l0"


@pytest.fixture
def tables(lake: Path, golden: Callable[[str], GoldenTable]) -> list[str]:
    """One that Java wrote and two of ours."""
    golden(TABLE).copy_to(lake)
    catalog = load_catalog(str(lake), **{"local.fsync": "false"})
    names = ["d.a", "d.b"]
    for name in names:
        table = catalog.create_table(name, {"columns": ["v INT"]})
        put(table, *([{"v": n}] for n in range(3)))
    return [*names, TABLE]


def operator(**fields: object) -> CompactDatabaseOperator:
    return CompactDatabaseOperator(**({"task_id": "compact", "engine": "local", "strategy": "full"} | fields))


def test_all_tables_in_one_task(tables: list[str], lake: Path) -> None:
    with DAG("d", schedule=None):
        templated = operator(task_id="t", excluding_tables="{{ params.no }}", until="{{ params.until }}")
    templated.render_template_fields({"params": {"no": r"d\.b", "until": ""}})
    first = templated.execute(context())
    assert (first["tables"], first["changed"], first["failed"]) == (2, 2, 0)
    assert len(json.dumps(first)) < 5000
    again = operator().execute(context(run_id="run2"))
    assert (again["tables"], again["changed"], again["nothing_to_do"]) == (3, 1, 2)


def test_small_tables_start_no_session(
    tables: list[str], lake: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lakecore.spark.executor.SparkExecutor.begin", lambda _: pytest.fail("a session"))
    with caplog.at_level(logging.INFO, "lakecore"):
        report = operator(engine="auto").execute(context())
    assert (report["tables"], report["changed"], report["failed"]) == (3, 3, 0)
    reasons = [record.getMessage() for record in caplog.records if "engine local" in record.getMessage()]
    assert len(reasons) == 3
    assert all("a Spark session alone takes some 6 s" in reason for reason in reasons)


def test_a_task_that_is_killed_stops_both_engines(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    monkeypatch.setattr("lakecore.spark.executor.SparkExecutor.cancel", lambda _: stopped.set())
    task = operator(engine="auto")
    with task.engines(LakeHook()) as engines:
        assert isinstance(engines, Engines)
        with pytest.raises(AirflowException, match="killed while compacting many tables"):
            task.on_kill()
        assert stopped.wait(10)
        assert list(engines.local.run(abs, [1])) == []
    task.on_kill()  # after the end there is nothing to stop


def execute(environment: dict[str, str]) -> None:
    """In a process of its own, which has the environment of another test or of none."""
    os.environ.update(environment)
    operator().execute(context())


@pytest.mark.slow
def test_a_retry_completes_a_killed_task_once(tables: list[str], lake: Path) -> None:
    """The lease and the commits of a try bear the name of the task run."""
    told = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW")}
    loaded = [load_catalog(str(lake)).load_table(name) for name in tables]
    before = [(rows_of(table), table._stores.snapshots.list_ids()) for table in loaded]
    run_and_die(KillPoint(name="publish", part="/snapshot/", after=True), execute, told)
    assert [rows_of(table) for table in loaded] == [rows for rows, _ in before]
    assert operator().execute(context())["failed"] == 0
    assert operator().execute(context())["nothing_to_do"] == 3
    for table, (rows, ids) in zip(loaded, before, strict=True):
        assert rows_of(table) == rows
        assert table._stores.snapshots.list_ids() == (*ids, ids[-1] + 1)
        assert fsck(table._stores.file_io, table._stores.paths, now_ms=0).damage == ()


def test_failures_are_told_at_the_end_and_retried_only_where_that_may_help(
    tables: list[str], lake: Path
) -> None:
    catalog = load_catalog(str(lake))
    places = {"data-file.external-paths": "s3://b/x", "data-file.external-paths.strategy": "round-robin"}
    catalog.create_table("d.odd", {"columns": ["v INT"], "options": places})
    told = context()
    with (
        leased(catalog.file_io, catalog.warehouse, "d.b", "nightly 1", SystemClock(), LeaseTimes(60_000)),
        pytest.raises(AirflowFailException, match=r"1 of 4 tables failed; d.odd: UnsupportedError"),
    ):
        operator().execute(told)
    report = told["ti"].xcoms["report"]
    assert [one["class"] for one in report["failures"]] == ["UnsupportedError"]
    assert [one["table"] for one in report["busy"]] == ["d.b"]
    assert report["changed"] == 2
    skipping = operator(skip_unsupported=True).execute(context(run_id="run2"))
    assert (skipping["changed"], skipping["skipped"], skipping["failed"]) == (1, 1, 0)


def test_what_a_retry_may_mend_is_retried(
    tables: list[str], lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecore.errors import UnavailableError
    from lakecore.executor import SerialExecutor

    def broken(*_: object) -> object:
        raise UnavailableError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(SerialExecutor, "run", broken)
        with pytest.raises(AirflowException, match="3 of 3 tables failed") as caught:
            operator().execute(context())
    assert not isinstance(caught.value, AirflowFailException)
    assert operator().execute(context())["changed"] == 3
    with pytest.raises(AirflowFailException, match="including-tables"):
        operator(including_tables="(").execute(context())
