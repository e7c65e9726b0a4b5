"""Operators submit a job and defer: the XCom is that of the local engine, nothing is submitted twice, and a kill cancels."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.executor import SerialExecutor
from lakecore.jobs.remote.record import RunRecord
from lakecore.jobs.remote.runner import BeatTimes, JobRunner
from lakecore.jobs.remote.store import JobStore
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.metadata.snapshot import CommitKind
from lakecore_airflow.airflow_names import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from lakecore_airflow.lake.compact_database import CompactDatabaseOperator
from lakecore_airflow.operators.analyze import AnalyzeOperator
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.operators.rewrite_file_index import RewriteFileIndexOperator
from lakecore_airflow.policy.maintain import MaintainTableOperator
from lakecore_airflow.tasks import spark_submit, submit
from lakecore_airflow.tasks.submit_settings import SubmitSettings
from lakecore_airflow.triggers import JobTrigger
from tests.operators.conftest import context
from tests.support.golden import GoldenTable, set_option

TABLE = "g1.a_pk_dedup_l0"
FAST = {"poke_interval": 0.01, "start_timeout": "5 s"}
CHANGING = {"run", "seconds", "forecast", "actual", "created", "engine", "engine_reason", "started_ms"}


@dataclass
class FakeSpark:
    """It starts a runner in a thread, instead of spark-submit in a process."""

    warehouse: Path
    started: list[Any] = field(default_factory=list)
    before: Callable[[JobStore, str], None] = lambda store, job_id: None
    dies: bool = False
    threads: list[threading.Thread] = field(default_factory=list)

    def __call__(self, settings: Any, command: Any, conf: Any, name: str, secrets: Mapping[str, str]) -> Any:
        self.started.append(command)
        catalog = load_catalog(str(self.warehouse))
        store = JobStore(catalog.file_io, catalog.warehouse, SystemClock())
        submission = command.arguments[-1]

        def run() -> None:
            self.before(store, name)
            if self.dies:
                store.claim(name, store.view(name).number + 1, RunRecord(runner="dead", stale_s=0.0))
            else:
                JobRunner(store, catalog, SerialExecutor(), BeatTimes(0.01, 60.0)).run(name, submission)

        thread = threading.Thread(target=run)
        self.threads.append(thread)
        thread.start()
        return spark_submit.DriverProcess(self, "/nowhere", False)  # type: ignore[arg-type]

    pid = 1 << 22

    def poll(self) -> None:
        """The process of spark-submit is still there."""

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> Path:
    golden(TABLE).copy_to(lake)
    return lake


@pytest.fixture
def spark(table: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    fake = FakeSpark(table)
    monkeypatch.setattr(submit, "start_driver", fake)
    monkeypatch.setattr(submit, "_LOOK_S", 0.01)
    return fake


def store_of(lake: Path) -> JobStore:
    catalog = load_catalog(str(lake))
    return JobStore(catalog.file_io, catalog.warehouse, SystemClock())


def compactions(lake: Path) -> int:
    snapshots = load_catalog(str(lake)).load_table(TABLE).snapshots()
    return sum(
        one.commit_kind is CommitKind.COMPACT and one.commit_user.startswith("lakecore") for one in snapshots
    )


def to_its_end(task: Any, given: dict[str, Any], deferred: TaskDeferred | None = None) -> Any:
    """Execute a task, or go on after a deferral, as Airflow does: with a trigger made anew."""
    while True:
        try:
            if deferred is None:
                return task.execute(given)
            _, kwargs = deferred.trigger.serialize()
            trigger = type(deferred.trigger)(**json.loads(json.dumps(kwargs | {"poke_interval": 0.01})))
            event = asyncio.run(anext(trigger.run())).payload
            return getattr(task, deferred.method_name)(given, event, **(deferred.kwargs or {}))
        except TaskDeferred as found:
            deferred = found
            if deferred.method_name == "execute_after_wait" and given.pop("stop", None):
                given["deferred"] = deferred
                raise


def plain(report: Any) -> Any:
    """A report without what differs from run to run."""
    if isinstance(report, dict):
        return {name: plain(one) for name, one in report.items() if name not in CHANGING}
    if isinstance(report, list):
        return [plain(one) for one in report]
    return re.sub(r"undo \S+", "undo RUN", report) if isinstance(report, str) else report


CHORES = {
    "fsck": {},
    "compact": {"strategy": "full"},
    "expire-snapshots": {"retain-max": 1, "retain-min": 1},
    "remove-orphan-files": {"older-than": "2 d"},
}


MAKERS: Mapping[str, Callable[..., Any]] = {
    "compact": partial(CompactTableOperator, table=TABLE, strategy="full", proof_seed="s"),
    "compact-database": partial(CompactDatabaseOperator, strategy="full"),
    "maintain": partial(MaintainTableOperator, table=TABLE, chores=CHORES),
    "rewrite-file-index": partial(
        RewriteFileIndexOperator, table=TABLE, options={"file-index.bloom-filter.columns": "k"}
    ),
    "analyze": partial(AnalyzeOperator, table=TABLE, columns="all"),
}


def task_of(name: str = "compact", engine: str = "submit", **given: Any) -> Any:
    return MAKERS[name](task_id="t", engine=engine, **given)


@pytest.mark.parametrize("name", MAKERS)
def test_the_xcom_is_that_of_the_local_engine(
    spark: FakeSpark,
    table: Path,
    name: str,
    tmp_path: Path,
    golden: Callable[[str], GoldenTable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = task_of(name, submit=FAST)
    given = context()
    remote = to_its_end(task, given)
    spark.join()
    assert len(spark.started) == 1
    local_lake = tmp_path / "local"
    golden(TABLE).copy_to(local_lake)
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "lakecore", "host": str(local_lake)})
    )
    other = context()
    local = task_of(name, "local").execute(other)
    assert plain(remote) == plain(local)
    assert given.get("outcome") == other.get("outcome")
    attempts = [json.loads(one.read_text()) for one in table.glob(".lakecore/ledger/*/*/*/*.json")]
    assert {one["origin"]["dag"] for one in attempts} == {"dag"}


def test_a_retry_neither_submits_a_job_that_is_done_nor_commits_again(spark: FakeSpark, table: Path) -> None:
    given = context()
    first = to_its_end(task_of(submit=FAST), given)
    spark.join()
    again = to_its_end(task_of(submit=FAST), given)
    assert plain(first) == plain(again)
    assert (len(spark.started), compactions(table)) == (1, 1)
    given["ti"].max_tries = 3  # the task was cleared
    after = to_its_end(task_of(submit=FAST), given)
    spark.join()
    assert (len(spark.started), compactions(table)) == (2, 1)
    assert after["nothing_to_do"]


def test_a_retry_waits_for_a_driver_that_may_be_alive(spark: FakeSpark, table: Path) -> None:
    """The worker dies after the submission; the driver has claimed the job and is at work."""
    spark.dies = True
    first = defer(task_of(submit=FAST), context())
    store, job_id = store_of(table), first.trigger.job_id
    store.beat(job_id, 1, RunRecord(runner="at work", beat=1, submission="1", stale_s=60.0))
    again = defer(task_of(submit=FAST), context())
    assert len(spark.started) == 1
    assert (again.trigger.after, again.trigger.job_id) == (0, job_id)
    assert again.trigger.submission == "1", "a cancellation names the submission of the driver"


def test_a_driver_that_died_fails_the_try_and_the_next_one_submits_again(
    spark: FakeSpark, table: Path
) -> None:
    spark.dies = True
    with pytest.raises(AirflowException, match="no sign of life") as lost:
        to_its_end(task_of(submit=FAST), context())
    assert not isinstance(lost.value, AirflowFailException), "it is retried"
    spark.dies = False
    report = to_its_end(task_of(submit=FAST), context())
    spark.join()
    assert (len(spark.started), compactions(table), report["picks_left"]) == (2, 1, 0)


def test_a_failure_of_the_job_is_that_of_the_task(spark: FakeSpark, table: Path) -> None:
    refused = table / "g1.db" / "a_pk_dedup_l0"
    set_option(refused, "data-file.external-paths", "s3://elsewhere/x")
    set_option(refused, "data-file.external-paths.strategy", "round-robin")
    with pytest.raises(AirflowFailException, match=r"UnsupportedError.*external-paths"):
        to_its_end(task_of(submit=FAST), context())
    given = context()
    with pytest.raises(AirflowSkipException, match="external-paths"):
        to_its_end(task_of(submit=FAST, skip_unsupported=True), given)
    assert "external-paths" in given["ti"].xcoms["refused"]
    missing = CompactTableOperator(task_id="t", table="g1.nothing", engine="submit", submit=FAST)
    with pytest.raises(AirflowFailException, match="NotFoundError"):
        to_its_end(missing, context("other"))


def test_a_table_that_is_held_is_waited_for_after_the_driver_has_ended(spark: FakeSpark, table: Path) -> None:
    catalog = load_catalog(str(table))
    held = leased(catalog.file_io, catalog.warehouse, TABLE, "somebody", SystemClock(), LeaseTimes(60_000))
    with held, pytest.raises(AirflowException, match="BusyError"):
        to_its_end(task_of(submit=FAST), context())
    spark.join()
    held = leased(catalog.file_io, catalog.warehouse, TABLE, "somebody", SystemClock(), LeaseTimes(60_000))
    task, given = task_of(submit=FAST, wait="10 min"), context("second") | {"stop": True}
    with held, pytest.raises(TaskDeferred):
        to_its_end(task, given)
    report = to_its_end(task, given, given["deferred"])
    spark.join()
    assert (len(spark.started), report["picks_left"], compactions(table)) == (3, 0, 1)


def trigger_of(lake: Path, **given: Any) -> JobTrigger:
    job = {"id": "j", "after": 0, "submission": "1"}
    return JobTrigger(job=job, lake_conn_id="lake_default", poke_interval=0.01, **given)


@pytest.mark.parametrize("broken", [False, True], ids=["stored", "Airflow cannot"])
def test_the_progress_of_a_driver_is_an_xcom_of_the_deferred_task(
    table: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    stored: list[tuple[str, dict[str, Any], int]] = []

    def set_xcom(key: str, value: dict[str, Any], **place: Any) -> None:
        if broken:
            raise ConnectionError("no answer")
        assert (place["dag_id"], place["run_id"], place["task_id"]) == ("d", "r", "t")
        stored.append((key, value, place["map_index"]))

    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom.set", set_xcom)
    store = store_of(table)
    trigger = trigger_of(table)
    trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=None)  # type: ignore[assignment]
    record = RunRecord(runner="r", progress={"picks": 2, "share": 0.25, "seconds": 30.0})
    assert store.claim("j", 1, record)
    assert trigger._look() is None
    store.beat("j", 1, replace(record, beat=1, progress={"picks": 2, "share": 0.5, "seconds": 35.0}))
    assert trigger._look() is None
    assert len(stored) == (0 if broken else 1), "the second came too soon"
    monkeypatch.setattr("lakecore_airflow.triggers._SHOWN_S", 0)
    store.beat("j", 1, replace(record, beat=2, progress={"tables": 4, "tables_done": 1, "share": "half"}))
    assert trigger._look() is None, "what another release tells is not shown, and nothing fails"
    store.beat("j", 1, replace(record, beat=3, progress={"picks": 2, "share": 1, "seconds": 40.0}))
    assert trigger._look() is None
    if not broken:
        first = {"picks": 2, "share": 0.25, "seconds": 30.0, "percent": 25.0, "seconds_left": 90.0}
        last = {"picks": 2, "share": 1, "seconds": 40.0, "percent": 100.0, "seconds_left": 0.0}
        assert stored == [("lakecore_progress", one, -1) for one in (first, last)]


def test_a_person_who_stops_a_deferred_task_cancels_the_job(table: Path) -> None:
    asyncio.run(trigger_of(table).on_kill())
    assert store_of(table).is_cancelled("j", "1")
    assert not store_of(table).is_cancelled("j", "2"), "a retry is another submission"


@pytest.mark.parametrize(
    ("given", "status"),
    [({"start_s": 0.0}, "not-started"), ({"cancel_at_ms": 1}, "timeout")],
    ids=["start", "timeout"],
)
def test_a_trigger_that_gives_up_cancels_the_job(table: Path, given: dict[str, Any], status: str) -> None:
    event = asyncio.run(anext(trigger_of(table, **given).run())).payload
    assert event["status"] == status
    assert store_of(table).is_cancelled("j", "1")
    with pytest.raises(AirflowException, match="job j: "):
        task_of().execute_after_submit(context(), event)


def test_a_kill_before_the_driver_began_cancels_the_job(
    spark: FakeSpark, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(submit=FAST)
    killed: list[Any] = []
    monkeypatch.setattr(spark_submit.DriverProcess, "kill", killed.append)

    def kill(store: JobStore, job_id: str) -> None:
        with pytest.raises(AirflowException, match="killed"):
            task.on_kill()

    spark.before = kill
    with pytest.raises((TaskDeferred, AirflowException)):
        task.execute(context())
    spark.join()
    [job] = (table / ".lakecore" / "jobs").iterdir()
    assert (job / "cancel-1").exists()
    assert len(killed) <= 1
    assert compactions(table) == 0


def refusals() -> list[Any]:
    return [
        (task_of(engine="spark", submit=FAST), "submit is for engine=submit"),
        (task_of(master="local[2]"), "has no effect with engine=submit"),
        (task_of(submit={"conn": "x"}), "submit has no key 'conn'"),
        (task_of(submit="[1]"), "is no object"),
        (task_of(submit={"poke_interval": 0}), "poke_interval"),
        (task_of("compact-database", budget_bytes="1 gb"), "budget_bytes is not observed"),
        (task_of("maintain", budget_money="5"), "budget_money is not observed"),
        (task_of(submit={"conn_id": "nowhere"}), "no connection 'nowhere'"),
        (task_of(submit={"conn_id": "connect"}), "spark-submit starts a driver"),
        (task_of(submit={"conn_id": "standalone_cluster"}), "use the mode client"),
    ]


@pytest.mark.parametrize("number", range(10))
def test_what_has_no_effect_or_cannot_work_is_refused_by_name(
    table: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    connect = {"conn_type": "spark", "host": "sc://host:15002"}
    cluster = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT", json.dumps(connect))
    monkeypatch.setenv("AIRFLOW_CONN_STANDALONE_CLUSTER", json.dumps(cluster))
    task, text = refusals()[number]
    with pytest.raises(AirflowFailException, match=text):
        task.execute(context())
    assert not list(table.glob(".lakecore/jobs/*/run-*"))


def test_settings_may_be_text_as_a_template_renders_it() -> None:
    text = "{'conn_id': 'c', 'start_timeout': '1 min', 'deploy_mode': 'cluster', 'num_executors': 3}"
    settings = SubmitSettings.parse(text)
    assert (settings.conn_id, settings.start_s) == ("c", 60.0)
    assert settings.hook == {"deploy_mode": "cluster", "num_executors": 3}
    assert SubmitSettings.parse(None) == SubmitSettings()


def test_secrets_of_the_connection_are_in_no_argument_and_no_file(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    started: dict[str, Any] = {}

    class Process:
        """It stands for spark-submit."""

        def __init__(self, argv: list[str], **given: Any) -> None:
            started.update(argv=argv, **given)

    from lakecore.jobs.remote.command import remote_command

    command = remote_command("j", "s3://b/wh", {"s3.endpoint": "http://e", "s3.secret-key": "hush-hush"})
    monkeypatch.setattr(spark_submit.subprocess, "Popen", Process)
    secrets = {"LAKECORE_CATALOG__REMOTE__S3__SECRET_KEY": "hush-hush"}
    driver = spark_submit.start_driver(SubmitSettings(), command, {"spark.x": "y"}, "j", secrets)
    Path(driver.log).unlink()
    argv = started["argv"]
    assert argv[:3] == ["spark-submit", "--master", "yarn"]
    assert "spark.yarn.submit.waitAppCompletion=false" in argv
    assert "spark.yarn.appMasterEnv.LAKECORE_CATALOG__REMOTE__S3__ENDPOINT=http://e" in argv
    assert argv[-5:] == [spark_submit_file(), "--catalog", "remote", "run-job", "j"]
    assert "hush" not in " ".join(argv)
    assert "LAKECORE_CATALOG__REMOTE__S3__SECRET_KEY" not in started["env"], "the driver is in the cluster"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    driver = spark_submit.start_driver(SubmitSettings(), command, {}, "j", secrets)
    Path(driver.log).unlink()
    assert started["env"]["LAKECORE_CATALOG__REMOTE__S3__SECRET_KEY"] == "hush-hush"
    assert "hush" not in " ".join(started["argv"])


def spark_submit_file() -> str:
    from lakecore.jobs.remote.command import driver_file

    assert Path(driver_file()).read_text().startswith('"""This file is the application')
    return driver_file()


def defer(task: Any, given: dict[str, Any]) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as found:
        task.execute(given)
    return found.value
