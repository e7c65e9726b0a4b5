"""The compaction operator on tables that Java Paimon wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException, AirflowSkipException
from lakecore_airflow.lake.tables import ListTablesOperator
from lakecore_airflow.operators.compact import CompactTableOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable, set_option

TABLE = "g1.a_pk_dedup_l0"


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> str:
    golden(TABLE).copy_to(lake)
    return TABLE


def test_a_report_is_small_json_and_a_second_run_does_nothing(table: str) -> None:
    operator = CompactTableOperator(task_id="compact", table=table, strategy="full", engine="local")
    first = operator.execute(context())
    assert len(json.dumps(first)) < 10_000
    assert first["error"] is None
    assert not first["nothing_to_do"]
    assert first["after"]["sorted_runs"] == 1 < first["before"]["sorted_runs"]
    second = operator.execute(context(run_id="run2"))
    assert second["nothing_to_do"]
    assert second["snapshot"] is None


def test_a_report_stays_small_when_many_picks_lose_a_race(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = tuple(f"dt=2026-11-21/bucket-{number}" for number in range(5000))
    report = compact.Report(table=table, strategy=compact.Strategy.FULL, engine="local", dropped=lost)
    monkeypatch.setattr(compact, "run", lambda *_, **__: report)
    found = CompactTableOperator(task_id="compact", table=table, engine="local").execute(context())
    assert len(json.dumps(found)) < 10_000
    assert (found["dropped_count"], found["dropped"][0]) == (5000, lost[0])


def test_templates_are_rendered(table: str) -> None:
    with DAG("d", schedule=None):
        operator = CompactTableOperator(
            task_id="compact", table="{{ params.t }}", strategy="{{ params.s }}", engine="{{ params.e }}"
        )
    operator.render_template_fields({"params": {"t": table, "s": "full", "e": "local"}})
    assert operator.execute(context())["table"] == table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "g1.missing"}, "missing"),
        ({"table": "g1"}, "g1"),
        ({"table": "../etc.passwd"}, "database"),
        ({"engine": "flink"}, "flink"),
        ({"strategy": "sideways"}, "sideways"),
        ({"order_strategy": "zorder", "order_by": "a, b"}, "without buckets"),
        ({"proof": "hope"}, "hope"),
        ({"where": "nope=1"}, "nope"),
        ({"until": "soon"}, "soon"),
    ],
)
def test_what_no_retry_can_mend_fails_at_once_and_says_why(
    table: str, arguments: dict[str, str], message: str
) -> None:
    operator = CompactTableOperator(task_id="compact", table=table, engine="local")
    for name, value in arguments.items():
        setattr(operator, name, value)  # as a template renders
    with pytest.raises(AirflowFailException, match=message):
        operator.execute(context())


def test_an_unsupported_table_is_skipped_on_request_and_says_why(
    lake: Path, golden: Callable[[str], GoldenTable]
) -> None:
    refused = golden("g1.a_pk_thin").copy_to(lake)
    set_option(refused.path, "data-file.external-paths", "s3://elsewhere/x")
    set_option(refused.path, "data-file.external-paths.strategy", "round-robin")
    operator = CompactTableOperator(
        task_id="compact", table=refused.name, engine="local", skip_unsupported=True
    )
    run = context()
    with pytest.raises(AirflowSkipException, match="external-paths"):
        operator.execute(run)
    assert "external-paths" in run["ti"].xcoms["refused"]
    operator.skip_unsupported = False
    with pytest.raises(AirflowFailException, match="external-paths"):
        operator.execute(run)


def test_tables_are_listed_by_pattern(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    for name in ("g1.a_pk_dedup_l0", "g1.a_append_part", "g1.a_life_empty"):
        golden(name).copy_to(lake)
    listed = ListTablesOperator(task_id="tables", database="g1", exclude=["*empty"]).execute(context())
    assert listed == ["g1.a_append_part", "g1.a_pk_dedup_l0"]
    listed = ListTablesOperator(task_id="tables", database="g1", include="a_pk*, *part", exclude="").execute(
        context()
    )
    assert listed == ["g1.a_append_part", "g1.a_pk_dedup_l0"]
    with pytest.raises(AirflowFailException, match="nowhere"):
        ListTablesOperator(task_id="tables", database="nowhere").execute(context())


def test_the_window_of_a_late_task_ends_when_that_of_the_run_does(table: str) -> None:
    """A mapped task that begins after 05:00 must not take the next day's 05:00 for its end."""
    operator = CompactTableOperator(task_id="compact", table=table, until="05:00", engine="local")
    yesterday = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
    report = operator.execute(context(start_date=yesterday))
    assert (report["picks_done"], report["picks_left"]) == (0, 1)
    assert not report["nothing_to_do"]
    report = operator.execute(context(run_id="run2", start_date=datetime(2999, 11, 20, 2, 0, tzinfo=UTC)))
    assert report["picks_done"] == 1


class KilledWhileRunning(SerialExecutor):
    """Calls `kill` when a unit has written its files."""

    def __init__(self, name: str, kill: Callable[[], None]) -> None:
        super().__init__()
        self.name = name
        self._kill = kill

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        def killed(task: Any) -> Any:
            result = function(task)
            self._kill()
            return result

        for result in super().run(killed, tasks):
            if self.name == "local":
                yield result
            else:
                return


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_killed_task_fails_and_leaves_no_files(
    table: str, lake: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = lake / "g1.db" / "a_pk_dedup_l0" / "bucket-0"
    before = sorted(bucket.iterdir())
    operator = CompactTableOperator(task_id="compact", table=table, strategy="full", engine=engine)
    executor = KilledWhileRunning(engine, operator.on_kill)
    monkeypatch.setattr(CompactTableOperator, "_make_executor", lambda *_: executor)
    with pytest.raises(AirflowException, match="killed"):
        operator.execute(context())
    assert sorted(bucket.iterdir()) == before
    operator.on_kill()  # after the end there is nothing to stop


def test_a_small_table_starts_no_spark(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    golden("g1.a_pk_dedup_l0").copy_to(lake)
    operator = CompactTableOperator(task_id="small", table="g1.a_pk_dedup_l0", engine="auto")
    assert operator.execute(context())["engine"] == "local"
