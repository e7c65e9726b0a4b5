"""The DAG of the nights with one task for the whole lake: the same tables, the same parameters."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore_airflow.airflow_names import AirflowFailException, AirflowSkipException
from lakecore_airflow.dags import lakecore_dags
from lakecore_airflow.lake.tables import database_pattern, is_chosen, table_pattern
from lakecore_airflow.settings import SettingsError
from tests.operators.conftest import context
from tests.support.golden import GoldenTable
from tests.support.lake import put

PATTERNS = ("", "*", "orders*", "shop.orders", "shop.*, crm.a?", "[!o]*", "or.ders", "*.orders", "a+b")
NAMES = ("shop.orders", "shop.orders_old", "crm.ab", "crm.orders", "shop2.events", "crm.a+b")


@pytest.fixture
def tables(lake: Path, golden: Any) -> list[str]:
    """One that Java wrote and two of ours."""
    table: GoldenTable = golden("g1.a_pk_dedup_l0")
    table.copy_to(lake)
    catalog = load_catalog(str(lake), **{"local.fsync": "false"})
    for name in ("d.a", "d.b"):
        put(catalog.create_table(name, {"columns": ["v INT"]}), *([{"v": n}] for n in range(3)))
    return ["d.a", "d.b", "g1.a_pk_dedup_l0"]


def task_of(**params: Any) -> Any:
    dag = lakecore_dags("nightly", settings={"nightly": {"one_task_for": "lake"}})["lakecore_nightly"]
    [task] = dag.tasks
    task.render_template_fields({"params": {**dag.params, "engine": "local", "until": None, **params}})
    return task


@pytest.mark.parametrize("patterns", PATTERNS)
def test_the_same_tables_match(patterns: str) -> None:
    def matches(regex: str, text: str) -> bool:
        return re.fullmatch(regex, text) is not None

    for name in NAMES:
        included = matches(table_pattern(patterns) or ".*", name)
        assert included == is_chosen(name, "*", patterns or "*", ""), name
        excluded = bool(table_pattern(patterns)) and matches(table_pattern(patterns), name)
        assert excluded == (not is_chosen(name, "*", "*", patterns)), name
        if "." not in patterns:
            in_database = matches(database_pattern(patterns), name.partition(".")[0])
            assert in_database == is_chosen(name, patterns, "*", ""), name


def test_one_task_compacts_the_tables_that_need_it(tables: list[str]) -> None:
    report = task_of(strategy="full", exclude="b").execute(context())
    assert (report["tables"], report["changed"], report["failed"]) == (2, 2, 0)
    report = task_of(database="d", include="b, c*", strategy="full").execute(context(run_id="run2"))
    assert (report["tables"], report["changed"]) == (1, 1)


def test_a_table_that_lost_its_schema_fails_the_task_and_the_others_are_done(
    tables: list[str], lake: Path
) -> None:
    shutil.rmtree(lake / "d.db" / "a" / "schema")
    task, run = task_of(strategy="full"), context()
    with pytest.raises(
        AirflowFailException, match=r"1 of 3 tables failed; d\.a: NotFoundError: .* no schema"
    ):
        task.execute(run)
    report = run["ti"].xcoms["report"]
    assert (report["changed"], [one["table"] for one in report["failures"]]) == (2, ["d.a"])
    assert task_of(strategy="full", exclude="d.a").execute(context(run_id="again"))["failed"] == 0


def test_its_window_and_black_outs_are_those_of_the_run(tables: list[str]) -> None:
    with pytest.raises(AirflowSkipException, match="3 tables are left for the next window"):
        task_of(strategy="full", until="2020-01-01T05:00:00Z").execute(context())
    always = [{"days": "Mon-Sun", "why": "stock-taking"}]
    with pytest.raises(AirflowSkipException, match="stock-taking"):
        task_of(strategy="full", blackouts=always).execute(context())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"one_task_for": "database"}, "one_task_for is 'database'; use table or lake"),
        (
            {
                "one_task_for": "lake",
                "engine": "submit",
                "submit": {"conn_id": "s"},
                "budget_bytes": "1 gb",
            },
            "budget_bytes is not obeyed with engine submit",
        ),
    ],
)
def test_what_cannot_work_is_refused_when_the_file_is_parsed(
    settings: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore_airflow.dags.engines._PROVIDER", "airflow.providers.standard")
    with pytest.raises(SettingsError, match=problem):
        lakecore_dags("nightly", settings={"nightly": settings})
