"""Units on a Spark Connect server: results, errors, interruption, and a server that is killed."""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from lakecore import spark as lakecore_spark
from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.cli.main import main
from lakecore.errors import CorruptDataError, InvalidInputError, LakeError, UnavailableError, UnsupportedError
from lakecore.executor import Executor, UnitWork, run_counted, unit_key, watch_units
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.jobs.definitions.compaction import CompactDatabase
from lakecore.spark.connect import session as sessions
from lakecore.spark.connect import unit_tasks
from lakecore.spark.connect.executor import ConnectExecutor
from lakecore.spark.engine import spark_executor
from lakecore.spark.master import check_master
from lakecore.table import Table
from lakecore_airflow.airflow_names import AirflowException
from lakecore_airflow.operators.compact import CompactTableOperator
from tests.operators.conftest import context
from tests.spark import units
from tests.support.connect_server import ConnectServer, connect_server
from tests.support.golden import GoldenTable, canonical, golden_table
from tests.support.lake import key_table, put, rows_of
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

TABLE = "g1.a_pk_dedup_l0"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("connect")) as started:
        yield started


@pytest.fixture(scope="module")
def connect(server: ConnectServer) -> Iterator[ConnectExecutor]:
    with ConnectExecutor(server.address) as executor:
        yield executor


def test_results_come_in_the_order_of_tasks_and_before_the_end(
    connect: ConnectExecutor, tmp_path: Path
) -> None:
    executor: Executor = connect
    assert (executor.name, executor.parallelism) == ("spark", 2)
    assert executor.startup_seconds > 0
    assert list(executor.run(units.double, range(7))) == [2 * number for number in range(7)]
    assert list(executor.run(units.double, [])) == []
    marker = tmp_path / "the first result came"
    results = executor.run(units.after, [None, str(marker)])
    assert next(results)
    marker.touch()
    assert list(results) == [True]


def test_a_failed_unit_is_its_own_error(connect: ConnectExecutor) -> None:
    corrupt, odd, fine = connect.run(units.broken, range(3))
    assert isinstance(corrupt, CorruptDataError)
    assert str(corrupt).startswith("/lake/file-0: bad magic; restore it")
    assert "units.py" in corrupt.__notes__[0]
    assert isinstance(odd, LakeError)
    assert str(odd) == "Unpicklable: odd 1"
    assert fine == 2


def test_large_units_are_sent_as_several_operations(
    connect: ConnectExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.spark.connect.unit_tasks.OPERATION_BYTES", 3 << 20)
    sizes = [2 << 20, 1 << 20, 1, 3 << 20, 7]
    assert list(connect.run(len, [bytes(size) for size in sizes])) == sizes
    monkeypatch.setattr("lakecore.spark.connect.unit_tasks.UNIT_BYTES", 2 << 20)
    with pytest.raises(InvalidInputError, match=r"a unit of this job has 3 MB .* takes 2 MB"):
        list(connect.run(len, [b"", bytes(3 << 20)]))


@pytest.mark.parametrize("sizes", [[], [5], [9, 9, 9], [4, 4, 4, 4, 4], [30, 1, 1], [1, 30, 1]])
def test_operations_have_all_units_in_their_order(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_tasks, "OPERATION_BYTES", 10)
    units = [bytes([number]) * size for number, size in enumerate(sizes)]
    operations = list(unit_tasks.operations_of(units))
    assert [unit for _, part in operations for unit in part] == units
    assert all(units[first] == part[0] for first, part in operations)
    assert all(len(part) == 1 or sum(map(len, part)) <= 10 for _, part in operations)


def test_a_killed_worker_is_tried_again_and_fails_in_the_end(
    connect: ConnectExecutor, tmp_path: Path
) -> None:
    assert list(connect.run(units.die_once, [str(tmp_path / "died")])) == ["second try"]
    (result,) = connect.run(units.die, [0])
    assert isinstance(result, UnavailableError)
    assert "unit 1 of 1" in str(result)
    assert "Python worker exited" in str(result)
    assert "\n" not in str(result)


def test_units_tell_how_far_they_are_before_they_end(connect: ConnectExecutor, tmp_path: Path) -> None:
    heard: list[UnitWork] = []

    def listen(work: UnitWork) -> None:
        heard.append(work)
        if work.proven:
            (tmp_path / "heard of one").touch()

    with watch_units(listen):
        tasks = [units.CountingUnit("one", str(tmp_path))]
        assert list(connect.run(partial(run_counted, units.count_and_wait), tasks)) == ["one"]
    assert heard[-1] == UnitWork((unit_key("one"),), 30, 5)


def test_a_cancelled_run_ends_its_operation_on_the_server(connect: ConnectExecutor, tmp_path: Path) -> None:
    with ConnectExecutor(connect._current().session) as executor:  # cancelling is for good
        got: list[object] = []
        markers = [str(tmp_path / name) for name in "abc"]
        runner = threading.Thread(target=lambda: got.extend(executor.run(units.wait_as_process, markers)))
        runner.start()
        worker = _process_of(tmp_path / "a")
        executor.cancel()
        runner.join(timeout=30)
        assert not runner.is_alive()
        assert got == []
        assert list(executor.run(units.double, [1])) == []
        _wait_until(lambda: not _lives(worker))
    assert not (tmp_path / "c").exists()


def test_leaving_early_ends_the_operation_and_the_session_goes_on(
    connect: ConnectExecutor, tmp_path: Path
) -> None:
    results = connect.run(units.double_or_wait, [1, str(tmp_path / "b")])
    assert next(results) == 2
    worker = _process_of(tmp_path / "b")
    results.close()  # type: ignore[attr-defined]
    _wait_until(lambda: not _lives(worker))
    assert list(connect.run(units.double, [1])) == [2]


def _golden(lake: Path) -> GoldenTable:
    return golden_table(TABLE).copy_to(lake)


def test_the_command_compacts_a_table_of_java_with_proof(
    server: ConnectServer, oracle: Oracle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _golden(tmp_path)
    before = canonical(oracle.read(tmp_path, TABLE))
    command = ["--warehouse", str(tmp_path), "compact", TABLE, "--strategy", "full", "--json"]
    assert main([*command, "--master", server.address]) == 0
    (report,) = json.loads(capfd.readouterr().out)
    assert (report["engine"], report["error"], report["picks_done"]) == ("spark", None, 1)
    assert "rows" in report["proof"]
    assert canonical(oracle.read(tmp_path, TABLE)) == before
    assert findings(oracle.fsck(tmp_path, TABLE)) == set()
    assert main(["--warehouse", str(tmp_path), "fsck", TABLE, "--deep"]) == 0


def test_a_killed_airflow_task_ends_its_operation_on_the_server(
    server: ConnectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, marker = tmp_path / "lake", tmp_path / "a"
    _golden(lake)
    connection = {"conn_type": "lakecore", "host": str(lake), "extra": {"spark_master": server.address}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))
    task = CompactTableOperator(task_id="compact", table=TABLE, strategy="full", engine="spark")
    raised: list[AirflowException] = []

    def execute() -> None:
        try:
            task.execute(context())
        except AirflowException as err:
            raised.append(err)

    run_units = ConnectExecutor.run
    monkeypatch.setattr(
        ConnectExecutor, "run", lambda self, *_: run_units(self, units.wait_as_process, [str(marker)])
    )
    thread = threading.Thread(target=execute)
    thread.start()
    worker = _process_of(marker)
    task.on_kill()
    thread.join(timeout=30)
    assert not thread.is_alive()
    (err,) = raised
    assert str(err) == "killed: 0 picks are committed, 1 left"
    _wait_until(lambda: not _lives(worker))


def test_a_session_that_the_server_has_closed_is_opened_again(connect: ConnectExecutor) -> None:
    connect._current().session.client.release_session()
    assert list(connect.run(units.double, [1, 2])) == [2, 4]
    connect.check()


def _bare_python(folder: Path) -> Path:
    """A Python with the packages of this one, but not lakecore, which is installed by a `.pth` file."""
    script = folder / "python"
    packages = os.pathsep.join(site.getsitepackages())
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


def _archive(folder: Path) -> str:
    """lakecore, and the units of tests."""
    root = Path(__file__).parents[2]
    for name in ("lakecore", "tests/spark"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "__init__.py").touch()
    (folder / "tests" / "spark" / "__init__.py").touch()
    return shutil.make_archive(str(folder.parent / "lakecore"), "zip", folder)


def test_a_server_without_lakecore_takes_it_with_a_session_and_is_killed_in_the_middle_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors say so, the table is as it was, and the job is done when a server is there again."""
    monkeypatch.setitem(sessions._RETRIES, "max_retries", 2)
    catalog = load_catalog(str(tmp_path / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(catalog, ("k INT", "v STRING"), keys=("k",))
    put(table, *([{"k": k, "v": f"{n}"} for k in range(n, 9)] for n in range(3)))
    before, job = rows_of(table), Job(table="d.k", strategy=Strategy.FULL)
    bare = {"PYSPARK_PYTHON": str(_bare_python(tmp_path)), "PYTHONPATH": ""}
    with connect_server(tmp_path / "server", environment=bare) as server:
        executor = ConnectExecutor(server.address)
        with pytest.raises(InvalidInputError, match=r"cannot import lakecore .*addArtifacts"):
            run(job, catalog, executor)
        session = SparkSession(server.address)
        session.client.set_retry_policies([DefaultPolicy(max_retries=2)])
        session.addArtifacts(_archive(tmp_path / "archive"), pyfile=True)
        with ConnectExecutor(session) as others:
            assert not others.starts_session
            results = others.run(units.double_or_wait, [1, str(tmp_path / "b"), 3])
            assert next(results) == 2
            others.check()
            _process_of(tmp_path / "b")
            server.kill()
            for lost in results:
                assert isinstance(lost, UnavailableError)
                assert "was lost in the middle of a job" in str(lost)
            with pytest.raises(UnavailableError, match="was lost"):
                others.check()
        with pytest.raises(UnavailableError, match=f"{server.address} does not answer"):
            run(job, catalog, executor)
        assert rows_of(table) == before
        with connect_server(tmp_path / "server", port=server.port):
            report = run(job, catalog, executor)
            assert (report.error, report.engine, report.picks_done) == (None, "spark", 1)
            executor.stop()
        assert rows_of(table) == before


def test_what_a_session_or_a_command_cannot_do_is_refused_by_name(
    server: ConnectServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    check_master(server.address)
    with (
        spark_executor(None, {"spark.remote": server.address, "spark.executor.memory": "2g"}) as executor,
        pytest.raises(InvalidInputError, match=r"spark\.executor\.memory.*leave it out"),
    ):
        list(executor.run(units.double, [1]))
    _golden(tmp_path)
    start = ["--warehouse", str(tmp_path)]
    place = ["--master", server.address]
    assert main([*start, "compact", TABLE, "--follow", "--checkpoint", str(tmp_path / "c"), *place]) == 1
    assert "with Spark Connect they would run on the server" in capfd.readouterr().err
    assert main([*start, "query-service", TABLE, "--engine", "spark", *place]) == 1
    assert "a client of Spark Connect has none" in capfd.readouterr().err


@pytest.fixture(scope="module")
def session(server: ConnectServer) -> Iterator[SparkSession]:
    """As `SparkSession.builder.remote` makes it, which sets this variable for the whole process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        session = SparkSession(server.address)
        yield session
        session.stop()


def _table(catalog: FilesystemCatalog, name: str, column: str, *partitions: str, **options: str) -> Table:
    """A table with the key `k` and another column."""
    definition = {"columns": ["k INT", column], "primaryKeys": ["k"], "partitionKeys": list(partitions)}
    return catalog.create_table(name, {**definition, "options": {"write-only": "true", **options}})


def test_tables_are_read_and_written_by_a_session(
    session: SparkSession, oracle: Oracle, tmp_path: Path
) -> None:
    catalog = load_catalog(str(tmp_path / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    fixed = _table(catalog, "d.fixed", "v STRING", bucket="2")
    moving = _table(catalog, "d.moving", "p INT", "p", bucket="-1")
    rows = [{"k": k, "v": f"{k}"} for k in range(9)]
    lakecore_spark.write(session.createDataFrame(rows, "k int, v string"), fixed)
    for p in (1, 2):
        places = session.createDataFrame([{"k": k, "p": p} for k in range(4 - p)], "k int, p int")
        lakecore_spark.write(places, moving)
    found = [json.loads(line) for line in oracle.read(tmp_path / "lake", "d.fixed")]
    assert sorted((row["k"], row["v"]) for row in found) == [(k, f"{k}") for k in range(9)]
    found = [json.loads(line) for line in oracle.read(tmp_path / "lake", "d.moving")]
    assert sorted((row["k"], row["p"]) for row in found) == [(0, 2), (1, 2), (2, 1)]
    wrong = session.createDataFrame([{"k": None, "v": "x"}], "k int, v string")
    with pytest.raises(Exception, match=r"column k"):
        lakecore_spark.write(wrong, fixed)
    assert len(rows_of(fixed)) == 9
    lakecore_spark.register(session)
    frame = session.read.format("lakecore").options(warehouse=str(tmp_path / "lake")).load("d.fixed")
    assert frame.where("k > 5").count() == 3
    scanned = fixed.scan(where="k < 5").to_spark(session)
    joined = lakecore_spark.lookup_join(scanned.select("k"), fixed, on="k", columns=["v"])
    assert sorted((row.k, row.v) for row in joined.collect()) == [(k, f"{k}") for k in range(5)]


def test_streams_of_a_session(session: SparkSession, tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    table, copy = (_table(catalog, name, "v STRING", bucket="1") for name in ("d.from", "d.to"))
    put(table, [{"k": k, "v": f"{k}"} for k in range(9)])
    place = {"warehouse": str(tmp_path / "lake")}
    stream = session.readStream.format("lakecore").options(**place).load("d.from")
    with pytest.raises(UnsupportedError, match=r"write_stream: .*use writeStream\.format"):
        lakecore_spark.write_stream(stream, copy, str(tmp_path / "refused"), availableNow=True)
    with pytest.raises(UnsupportedError, match=r"as a streaming query: .*run lakecore compact --follow"):
        lakecore_spark.follow(session, catalog, CompactDatabase(), str(tmp_path / "refused"))
    writer = stream.writeStream.format("lakecore").options(**place, checkpointLocation=str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start("d.to")
    query.awaitTermination()
    assert query.exception() is None
    assert rows_of(copy) == rows_of(table)
    assert not (tmp_path / "refused").exists()


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _process_of(marker: Path) -> int:
    """The process of the unit that wrote its number there."""
    _wait_until(lambda: marker.exists() and marker.read_text() != "")
    return int(marker.read_text())


def _lives(process: int) -> bool:
    with suppress(OSError):
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return False
