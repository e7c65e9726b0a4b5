"""Units on a real Spark: order, failures as results, retries of what was killed, cancellation."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from lakecore.errors import CorruptDataError, InvalidInputError, LakeError, UnavailableError
from lakecore.executor import Executor, UnitWork, run_counted, unit_key, watch_units
from lakecore.spark.executor import SparkExecutor
from lakecore.spark.session import spark_context
from tests.spark import units

pytestmark = pytest.mark.slow


def test_results_come_in_the_order_of_tasks(spark: SparkExecutor) -> None:
    executor: Executor = spark
    assert executor.name == "spark"
    assert executor.parallelism == 2
    assert list(executor.run(units.double, range(20))) == [2 * number for number in range(20)]
    assert list(executor.run(units.double, [])) == []


def test_results_come_before_the_job_ends(spark: SparkExecutor, tmp_path: Path) -> None:
    marker = tmp_path / "the first result came"
    results = spark.run(units.after, [None, str(marker), str(marker)])
    assert next(results)
    marker.touch()
    assert list(results) == [True, True]


def test_a_failed_unit_is_a_result(spark: SparkExecutor) -> None:
    corrupt, odd, fine = spark.run(units.broken, range(3))
    assert isinstance(corrupt, CorruptDataError)
    assert corrupt.path == "/lake/file-0"
    assert "units.py" in corrupt.__notes__[0]
    assert isinstance(odd, LakeError)
    assert str(odd) == "Unpicklable: odd 1"
    assert fine == 2


def test_a_result_that_does_not_pickle_is_a_failure(spark: SparkExecutor) -> None:
    (result,) = spark.run(units.unpicklable_result, [0])
    assert isinstance(result, Exception)
    assert "pickle" in str(result)


def test_a_killed_worker_is_tried_again(spark: SparkExecutor, tmp_path: Path) -> None:
    assert list(spark.run(units.die_once, [str(tmp_path / "died")])) == ["second try"]


def test_a_worker_killed_every_time_gives_an_error_and_spark_lives_on(spark: SparkExecutor) -> None:
    (result,) = spark.run(units.die, [0])
    assert isinstance(result, UnavailableError)
    assert "unit 1 of 1" in str(result)
    assert "Python worker exited" in str(result)
    assert list(spark.run(units.double, [4])) == [8]


def test_units_tell_how_far_they_are_before_they_end(spark: SparkExecutor, tmp_path: Path) -> None:
    heard: list[UnitWork] = []
    steady, dying = unit_key("steady"), unit_key("dying")
    names = {
        (steady, 30): "heard of steady",
        (dying, 40): "heard of dying once",
        (dying, 30): "heard of dying",
    }

    def listen(work: UnitWork) -> None:
        heard.append(work)
        if work.proven:
            (tmp_path / names[str(work.unit[0]), work.read]).touch()

    tasks = [
        units.CountingUnit("steady", str(tmp_path)),
        units.CountingUnit("dying", str(tmp_path), dies=True),
    ]
    with watch_units(listen):
        results = list(spark.run(partial(run_counted, units.count_and_wait), tasks))
    assert results == ["steady", "dying"]
    assert {(one.unit, one.read) for one in heard if one.proven == 5} == {
        ((key,), rows) for key, rows in names
    }


def test_leaving_early_cancels_the_rest(spark: SparkExecutor, tmp_path: Path) -> None:
    results = spark.run(units.wait, [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c")])
    closer = threading.Thread(target=next, args=(results, None))
    closer.start()
    _wait_for(tmp_path / "a")
    spark_context()[0].cancelAllJobs()
    closer.join(timeout=30)
    assert not closer.is_alive()
    results.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.glob("*.done"))


def test_cancel_from_another_thread_ends_the_run(spark: SparkExecutor, tmp_path: Path) -> None:
    executor = SparkExecutor()  # shares the active context: cancelling is for good
    markers = [str(tmp_path / name) for name in "abc"]
    got: list[object] = []
    runner = threading.Thread(target=lambda: got.extend(executor.run(units.wait, markers)))
    runner.start()
    _wait_for(tmp_path / "a")
    executor.cancel()
    executor.cancel()
    runner.join(timeout=30)
    assert not runner.is_alive()
    assert got == []
    assert list(executor.run(units.double, [1])) == []
    executor.stop()
    assert list(spark.run(units.double, [1])) == [2]


def test_cancel_at_the_very_start_ends_the_run(spark: SparkExecutor, tmp_path: Path) -> None:
    for delay in (0.0, 0.01, 0.05):
        executor = SparkExecutor()
        executor.parallelism  # noqa: B018 - the context is there
        got: list[object] = []
        runner = threading.Thread(target=lambda: got.extend(executor.run(units.wait, [str(tmp_path / "a")])))  # noqa: B023
        runner.start()
        time.sleep(delay)
        executor.cancel()
        runner.join(timeout=30)
        assert not runner.is_alive()
        assert got == []
    assert list(spark.run(units.double, [1])) == [2]


def test_the_active_context_is_used(spark: SparkExecutor) -> None:
    spark.parallelism  # noqa: B018 - starts the context
    context, new = spark_context("local[7]")
    assert not new
    assert context.defaultParallelism == 2


def test_without_java_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    script = "from lakecore.spark.session import spark_context; spark_context()"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert InvalidInputError.__name__ in ended.stderr
    assert "no java on the PATH" in ended.stderr
    assert "local engine" in ended.stderr


SESSION = """
import sys
from lakecore.spark.executor import SparkExecutor
from tests.spark import units
sys.stderr.write("before\\n")
with SparkExecutor("local[2]") as spark:
    done = list(spark.run(units.says, [1, 2]))
    broken = list(spark.run(units.broken, [0])) if "fail" in sys.argv else []
    assert done == [1, 2] and all(isinstance(one, Exception) for one in broken)
"""


@pytest.mark.parametrize("how", ["succeed", "fail"])
def test_what_spark_says_is_told_of_a_run_that_fails(how: str) -> None:
    """Warnings of the JVM, and what the Python workers of units write."""
    ended = subprocess.run([sys.executable, "-c", SESSION, how], capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert lines[0] == "before"
    if how == "succeed":
        assert lines[1:] == []
    else:
        assert "unit 1 was here" in lines
        assert "unit 2 was here" in lines


def test_what_spark_says_is_told_of_a_session_that_does_not_start() -> None:
    script = (
        "from lakecore.spark.executor import SparkExecutor\n"
        "with SparkExecutor('local[1]', {'spark.driver.extraJavaOptions': '-Xmx1k'}) as s: s.parallelism"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "max heap" in ended.stderr, ended.stderr
    assert "UnavailableError: Spark did not start on local[1," in ended.stderr


def test_a_session_that_is_not_needed_after_all_costs_no_wait() -> None:
    script = (
        "import threading\nfrom lakecore.spark.executor import SparkExecutor\n"
        "with SparkExecutor('local[1]') as spark:\n    spark.begin()\n    spark.begin()\n"
        "print(threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_the_start_of_a_session_is_measured() -> None:
    script = (
        "import threading\nfrom lakecore.spark.executor import SparkExecutor\n"
        "times, told = [], threading.Event()\n"
        "def note(seconds):\n    times.append(seconds)\n    told.set()\n"
        "with SparkExecutor('local[1]') as spark:\n"
        "    spark.begin(note)\n    list(spark.run(abs, [1]))\n    assert told.wait(10)\n"
        "print(len(times), 0.5 < times[0] <= spark.startup_seconds + 5, spark.master)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 True local[1]\n"), done.stderr


def test_a_session_that_cannot_start_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    executor = SparkExecutor("local[1]")
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="no bin/java"):
            list(executor.run(abs, [1]))


def _wait_for(marker: Path) -> None:
    deadline = time.monotonic() + 60
    while not marker.exists():
        assert time.monotonic() < deadline, "the unit never started"
        time.sleep(0.05)
