"""Where a compaction runs: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from lakecore.compact.compaction import Compaction
from lakecore.compact.engine.work import PlannedRound, Round
from lakecore.errors import UnavailableError
from lakecore.executor import SerialExecutor
from lakecore.jobs import analyze, compact, compact_database, rescale, rewrite_file_index
from lakecore.jobs.engines.engine_choice import SPARK_STARTS_S, Engines
from lakecore.jobs.engines.forecast_choice import forecast_on
from lakecore.jobs.engines.session_starts import SessionStarts
from lakecore.jobs.runner.lake import target_of
from lakecore.maintain.forecast.history import HistoryStore
from lakecore.maintain.forecast.plan import Work
from lakecore.processes.cores import core_count
from lakecore.spark.executor import SparkExecutor
from tests.support.lake import key_table, memory_catalog, put, rows_of

ROWS = [[{"k": n, "v": "x"}] for n in range(8)]
DEFINITION = {"columns": ["k BIGINT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}


class Session:
    """Stands for Spark: it runs units here, and counts the starts of its session."""

    name = "spark"
    master = "spark://host:7077"
    local_cores: int | None = None
    takes = 5.0
    """Seconds that its session takes to start."""

    def __init__(self) -> None:
        self.starts = 0
        self.units = 0
        self.cancelled = False

    def begin(self, on_start: Callable[[float], None] | None = None) -> None:
        self.starts += 1
        if on_start is not None:
            on_start(self.takes)

    @property
    def parallelism(self) -> int:
        return 2

    @property
    def startup_seconds(self) -> float:
        return 5.0 * self.starts

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        assert self.starts, "the session has begun"
        for task in tasks:
            self.units += 1
            yield function(task)

    def cancel(self) -> None:
        self.cancelled = True


def found() -> None:
    """Spark can start."""


def missing() -> None:
    raise UnavailableError("there is no java")


@pytest.mark.parametrize(
    ("seconds", "find_spark", "engine", "reason"),
    [
        (0.3, found, "local", "the forecast is 0.3 s, and a Spark session alone takes some 6 s"),
        (SPARK_STARTS_S, found, "local", "a Spark session alone takes some 6 s"),
        (SPARK_STARTS_S + 0.1, found, "spark", "the forecast without Spark is 6 s"),
        (3600, missing, "local", "Spark cannot start here: there is no java"),
    ],
)
def test_the_sooner_engine_is_chosen(
    seconds: float, find_spark: Callable[[], None], engine: str, reason: str
) -> None:
    session = Session()
    choice = Engines(session, find_spark).choose(seconds)
    assert choice.engine == engine
    assert reason in choice.reason
    assert session.starts == (engine == "spark")


class Cores(SerialExecutor):
    """Stands for two processes."""

    parallelism = 2


@pytest.mark.parametrize(
    ("cores", "seconds", "engine", "reason"),
    [
        (1, 3600.0, "local", "the forecast is 3600.0 s, and Spark would need some 3606 s on this machine"),
        (2, 3600.0, "local", "and Spark would need some 3606 s on this machine"),
        (2, 1.0, "local", "the forecast is 1.0 s, and a Spark session alone takes some 6 s"),
        (4, 11.9, "local", "the forecast is 11.9 s, and Spark would need some 12 s on this machine"),
        (4, 12.1, "spark", "the forecast without Spark is 12 s"),
        (None, 6.1, "spark", "the forecast without Spark is 6 s"),
    ],
)
def test_a_session_on_this_machine_must_make_up_for_its_start(
    cores: int | None, seconds: float, engine: str, reason: str
) -> None:
    session = Session()
    session.local_cores = cores
    engines = Engines(session, found, Cores())
    assert engines.preview(seconds).engine == engine
    choice = engines.choose(seconds)
    assert choice.engine == engine
    assert reason in choice.reason
    assert session.starts == (engine == "spark")


def test_tables_together_must_make_up_for_the_start() -> None:
    session = Session()
    session.local_cores = 4
    engines = Engines(session, found, Cores())
    choices = [engines.choose(5.0) for _ in range(3)]
    assert [choice.engine for choice in choices] == ["local", "local", "spark"]
    assert choices[1].reason == (
        "the forecast is 5.0 s, 10.0 s with the tables before it, and Spark would need some 11 s on this machine"
    )


@pytest.mark.parametrize(
    ("master", "conf", "cores"),
    [
        (None, {}, core_count()),
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[3, 4]", {}, 3),
        ("local[*,4]", {}, core_count()),
        (None, {"spark.master": "local[5]"}, 5),
        ("local-cluster[2,1,1024]", {}, None),
        ("spark://host:7077", {}, None),
        ("yarn", {}, None),
    ],
)
def test_cores_of_a_session_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, master: str | None, conf: dict[str, str], cores: int | None
) -> None:
    monkeypatch.setattr("lakecore.spark.executor.has_context", lambda: False)
    assert SparkExecutor(master, conf).local_cores == cores
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4040")
    assert SparkExecutor(master, conf).local_cores is None, "spark-submit chooses the master"
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.setattr("lakecore.spark.executor.has_context", lambda: True)
    assert SparkExecutor(master, conf).local_cores is None, "there is a session, whatever its master is"


def test_small_tables_together_may_be_worth_a_session() -> None:
    session = Session()
    engines = Engines(session, found)
    choices = [engines.choose(2.5) for _ in range(4)]
    assert [choice.engine for choice in choices] == ["local", "local", "spark", "spark"]
    assert "2.5 s, 5.0 s with the tables before it" in choices[1].reason
    assert choices[2].reason == "the forecast without Spark is 8 s with the tables before it"
    assert choices[3].reason == "a Spark session runs for an earlier table"
    assert session.starts == 1


def test_what_a_table_waited_for_is_the_start_that_it_asked_for() -> None:
    session = Session()
    engines = Engines(session, found)
    first, early = engines.for_table(), engines.for_table()
    first.choose(100)
    assert (first.name, first.startup_seconds) == ("spark", 0.0), "it counts from the choice"
    later = engines.for_table()
    assert (later.name, later.needs_forecast, later.startup_seconds) == ("spark", False, 0.0)
    assert (early.name, early.needs_forecast, early.startup_seconds) == ("local", True, 0.0)
    early.cancel()
    assert session.cancelled, "both engines stop"


def seconds_of(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> list[str]:
    """Let tables take so long; returns the names of those that were forecast."""
    asked: list[str] = []

    def expected(target: Any, job: str, work: Any, processes: int) -> float:
        assert (job, processes) == ("compact", 1)
        assert work.files == len(ROWS)
        asked.append(target.name)
        return seconds[target.name]

    monkeypatch.setattr("lakecore.jobs.runner.forecast.expected_seconds", expected)
    return asked


def test_tables_of_a_database_get_one_session_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, session = memory_catalog(), Session()
    for name in ("d.a", "d.b", "d.c", "d.idle"):
        table = catalog.create_table(name, DEFINITION)
        put(table, *(ROWS if name != "d.idle" else ROWS[:1]))
    asked = seconds_of(monkeypatch, {"d.a": 1.0, "d.b": 30.0, "d.c": 1.0})
    job = compact_database.Job(max_concurrent_tables=1)
    report = compact_database.run(job, catalog, Engines(session, found), catalog.clock)
    engines = {one.table: (one.engine, one.files_in, one.engine_reason[:30]) for one in report.tables}
    assert engines["d.a"] == ("local", 8, "the forecast is 1.0 s, and a S")
    assert engines["d.b"] == ("spark", 8, "the forecast without Spark is ")
    assert engines["d.c"] == ("spark", 8, "a Spark session runs for an ea")
    assert engines["d.idle"][1] == 0
    assert (asked, session.starts, session.units) == (["d.a", "d.b"], 1, 2), "no forecast is needed later"
    assert all(one.error is None for one in report.tables)


def test_no_session_starts_where_tables_are_small_or_spark_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog, session = memory_catalog(), Session()
    names = ["d.a", "d.b"]
    for name in names:
        put(catalog.create_table(name, DEFINITION), *ROWS)
    seconds_of(monkeypatch, dict.fromkeys(names, 100.0))
    jobs = [compact.Job(table=name) for name in names]
    reports = compact.run_many(jobs, catalog, Engines(session, missing), catalog.clock)
    assert [(one.engine, one.files_in, one.error) for one in reports] == [("local", 8, None)] * 2
    assert {one.engine_reason for one in reports} == {"Spark cannot start here: there is no java"}
    assert (session.starts, session.units) == (0, 0)


def test_one_table_with_a_real_forecast() -> None:
    catalog, session = memory_catalog(), Session()
    table = key_table(catalog)
    engines = Engines(session, lambda: pytest.fail("not needed"))
    idle = compact.run(compact.Job(table=table.name), catalog, engines.for_table(), catalog.clock)
    assert (idle.engine, idle.engine_reason, idle.nothing_to_do) == ("local", "", True)
    put(table, *ROWS)
    report = compact.run(compact.Job(table=table.name), catalog, engines.for_table(), catalog.clock)
    assert (report.engine, report.files_in) == ("local", 8)
    assert "a Spark session alone takes" in report.engine_reason


def test_a_table_that_cannot_be_planned_fails_alone() -> None:
    catalog, session = memory_catalog(), Session()
    table = key_table(catalog)
    put(table, *ROWS)
    jobs = [compact.Job(table="d.missing"), compact.Job(table=table.name)]
    lost, done = compact.run_many(jobs, catalog, Engines(session, found), catalog.clock)
    assert (lost.error_class, done.files_in, done.engine) == ("NotFoundError", 8, "local")


def test_a_dry_run_of_a_small_table_says_that_it_needs_no_spark() -> None:
    catalog, session = memory_catalog(), Session()
    table = key_table(catalog)
    put(table, *ROWS)
    snapshots = table._stores.snapshots.list_ids()
    executor = Engines(session, lambda: pytest.fail("not needed")).for_table()
    report = compact.run(compact.Job(table=table.name, dry_run=True), catalog, executor, catalog.clock)
    assert report.engine == "local"
    assert report.engine_reason.startswith("the forecast is")
    assert report.planned
    assert report.forecast is not None
    assert report.forecast.startup_seconds == 0
    assert table._stores.snapshots.list_ids() == snapshots


def test_an_executor_that_was_given_is_not_chosen() -> None:
    catalog = memory_catalog()
    table = key_table(catalog)
    put(table, *ROWS)
    report = compact.run(compact.Job(table=table.name), catalog, SerialExecutor(), catalog.clock)
    assert (report.engine, report.engine_reason, report.files_in) == ("local", "", 8)


@pytest.mark.parametrize(("seconds", "engine"), [(0.5, "local"), (90.0, "spark")], ids=["short", "long"])
@pytest.mark.parametrize("job", ["rescale", "analyze", "rewrite-file-index"])
def test_the_forecast_of_a_chore_chooses_its_engine(
    job: str, seconds: float, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def expected(target: object, name: str, work: Work, processes: int) -> float:
        assert (work.rows, processes) == (8, 1)
        asked.append(name)
        return seconds

    monkeypatch.setattr("lakecore.jobs.engines.forecast_choice.expected_seconds", expected)
    catalog = memory_catalog("chore-engine")
    table = key_table(catalog)
    put(table, *ROWS)
    session = Session()
    chosen = Engines(session, found).for_table()
    if job == "rewrite-file-index":
        index = rewrite_file_index.Job(table="d.k", options={"file-index.bloom-filter.columns": "v"})
        built = rewrite_file_index.run(index, catalog, chosen, catalog.clock)
        assert (built.engine, built.engine_reason[:12], built.files) == (engine, "the forecast", 8)
    else:
        report = (
            rescale.run(rescale.Job(table="d.k", bucket_num=2), catalog, chosen, catalog.clock)
            if job == "rescale"
            else analyze.run(analyze.Job(table="d.k"), catalog, chosen, catalog.clock)
        )
        assert any(note.startswith(f"engine {engine}: the forecast") for note in report.notes)
    assert asked == [job]
    assert bool(session.units) == (engine == "spark")
    assert [line.engine for line in HistoryStore(catalog.file_io, catalog.warehouse).lines("d.k", job)] == [
        engine
    ]


@pytest.mark.parametrize("job", ["compact", "rescale", "analyze", "rewrite-file-index"])
def test_a_dry_run_counts_the_start_of_the_session_that_its_run_would_need(
    job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.jobs.engines.forecast_choice.expected_seconds", lambda *_: 90.0)
    catalog, session = memory_catalog("foreseen"), Session()
    put(key_table(catalog), *ROWS)
    report = dry_run(job, catalog, Engines(session, found).for_table())
    assert report.forecast is not None
    assert report.forecast.startup_seconds == SPARK_STARTS_S
    assert report.forecast.seconds >= report.forecast.seconds_low >= SPARK_STARTS_S
    assert "about 6 s of it are for the start of a Spark session" in str(report.forecast)
    assert session.starts == 0, "a dry run starts nothing"
    engine = "; ".join(report.notes) if hasattr(report, "notes") else f"engine {report.engine}"
    assert "engine spark" in engine
    with SparkExecutor() as spark:
        assert spark.starts_session
        named = dry_run(job, catalog, spark)
    assert named.forecast is not None
    assert named.forecast.startup_seconds == SPARK_STARTS_S
    here = dry_run(job, catalog, SerialExecutor())
    assert here.forecast is not None
    assert here.forecast.startup_seconds == 0


def dry_run(job: str, catalog: Any, executor: Any) -> Any:
    """Return the report of a dry run of the job on table d.k."""
    if job == "compact":
        return compact.run(compact.Job(table="d.k", dry_run=True), catalog, executor, catalog.clock)
    if job == "rescale":
        wanted = rescale.Job(table="d.k", bucket_num=2, dry_run=True)
        return rescale.run(wanted, catalog, executor, catalog.clock)
    if job == "analyze":
        return analyze.run(analyze.Job(table="d.k", dry_run=True), catalog, executor, catalog.clock)
    index = rewrite_file_index.Job(
        table="d.k", dry_run=True, options={"file-index.bloom-filter.columns": "v"}
    )
    return rewrite_file_index.run(index, catalog, executor, catalog.clock)


@pytest.mark.parametrize("other_commit", [False, True], ids=["alone", "after another commit"])
def test_the_plan_of_the_forecast_is_the_plan_of_the_run(
    other_commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, session = memory_catalog("one-plan"), Session()
    table = key_table(catalog)
    put(table, *ROWS)
    plans: list[int | None] = []
    plan = Compaction.plan

    def count(kind: Compaction, view: Round) -> PlannedRound:
        plans.append(None if view.snapshot is None else view.snapshot.id)
        return plan(kind, view)

    def expected(*_: object) -> float:
        if other_commit:
            put(table, [{"k": 100, "v": "y"}])
        return 1.0

    monkeypatch.setattr(Compaction, "plan", count)
    monkeypatch.setattr("lakecore.jobs.runner.forecast.expected_seconds", expected)
    job = compact.Job(table="d.k", strategy=compact.Strategy.FULL, lease_ms=60_000)
    report = compact.run(job, catalog, Engines(session, found).for_table(), catalog.clock)
    assert report.error is None
    assert plans == ([8, 9] if other_commit else [8]), "what came between is planned, too"
    assert report.files_in == (9 if other_commit else 8)
    assert sorted(row[0] for row in rows_of(table)) == [*range(8), *([100] if other_commit else [])]


def test_measured_starts_of_a_master_count_in_the_next_choice() -> None:
    catalog = memory_catalog("engines")
    table = key_table(catalog)
    put(table, *ROWS)
    target = target_of(table, catalog, catalog.clock)
    starts = SessionStarts.of(target)
    session = Session()
    session.takes = 40.0
    Engines(session, found).for_table().choose(SPARK_STARTS_S + 1, starts)
    assert starts.seconds(session.master) == 40.0, "the start was recorded"
    later = Engines(Session(), found).for_table()
    later.choose(SPARK_STARTS_S + 1, starts)
    assert (later.name, session.starts) == ("local", 1)
    assert "a Spark session alone takes some 40 s" in later.reason
    estimate, choice = forecast_on(
        Engines(Session(), found).for_table(), target, "compact", Work(files=9, bytes=1 << 40, rows=10**9)
    )
    assert choice is not None
    assert (choice.engine, estimate.startup_seconds) == ("spark", 40.0)
