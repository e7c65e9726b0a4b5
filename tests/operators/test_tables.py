"""Tables to map tasks over: patterns, partition keys, Airflow's limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import survey
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.lake import tables
from lakecore_airflow.lake.tables import ListTablesOperator, NamedTablesOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable


@pytest.fixture
def three(lake: Path, golden: Callable[[str], GoldenTable]) -> Path:
    """Two tables in g1, of which one is partitioned by dt, and one in crm."""
    for name in ("g1.a_pk_dedup_b3_part", "g1.a_pk_dedup_l0"):
        golden(name).copy_to(lake)
    (lake / "g1.db" / "a_pk_dedup_l0").rename(lake / "g1.db" / "orders")
    golden("g1.a_pk_dedup_l0").copy_to(lake)
    (lake / "crm.db").mkdir()
    (lake / "g1.db" / "a_pk_dedup_l0").rename(lake / "crm.db" / "orders")
    return lake


def listed(**arguments: Any) -> list[str]:
    return ListTablesOperator(task_id="tables", **arguments).execute(context())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["crm.orders", "g1.a_pk_dedup_b3_part", "g1.orders"]),
        ({"database": ""}, ["crm.orders", "g1.a_pk_dedup_b3_part", "g1.orders"]),
        ({"database": "g*"}, ["g1.a_pk_dedup_b3_part", "g1.orders"]),
        ({"database": "g1, crm"}, ["crm.orders", "g1.a_pk_dedup_b3_part", "g1.orders"]),
        ({"include": "orders"}, ["crm.orders", "g1.orders"]),
        ({"include": "crm.orders"}, ["crm.orders"]),
        ({"exclude": "g1.*"}, ["crm.orders"]),
        ({"exclude": "orders"}, ["g1.a_pk_dedup_b3_part"]),
        ({"partition_key": "dt"}, ["g1.a_pk_dedup_b3_part"]),
        ({"partition_key": "k"}, []),
        ({"database": "nothing*"}, []),
    ],
    ids=str,
)
def test_tables_are_chosen_by_patterns(three: Path, arguments: dict[str, str], expected: list[str]) -> None:
    assert listed(**arguments) == expected


def test_a_database_that_is_named_must_exist(three: Path) -> None:
    with pytest.raises(AirflowFailException, match="nothing"):
        listed(database="g1, nothing")


def test_an_empty_lake_has_no_tables(lake: Path) -> None:
    assert listed() == []


def test_a_table_without_a_readable_schema_is_not_left_out(three: Path) -> None:
    for file in (three / "crm.db" / "orders" / "schema").iterdir():
        file.write_text("{")
    assert listed(partition_key="dt") == ["crm.orders", "g1.a_pk_dedup_b3_part"], "its task says why"


def test_more_tables_than_airflow_maps_over_are_refused(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables.conf, "getint", lambda *_, **__: 2)
    with pytest.raises(
        AirflowFailException, match="there are 3 tables, and Airflow maps a task over at most 2"
    ):
        listed()
    assert len(listed(include="orders")) == 2


def test_the_worst_table_comes_first(three: Path) -> None:
    assert listed(order="need") == listed(), "there is no survey"
    lake = load_catalog(str(three))
    survey.run(survey.Job(excluding_tables="crm.*"), lake)
    found = survey.latest_survey(lake)
    assert found is not None
    scores = {record.table: record.score for record in found.tables}
    assert 60 < scores["g1.orders"] < scores["g1.a_pk_dedup_b3_part"]
    assert listed(order="need") == ["crm.orders", "g1.orders", "g1.a_pk_dedup_b3_part"], "unknown is urgent"
    assert listed(order="need", include="g1.*") == ["g1.orders", "g1.a_pk_dedup_b3_part"]
    (three / ".lakecore" / "survey" / "latest.jsonl.gz").write_bytes(b"noise")
    assert listed(order="need") == listed()
    with pytest.raises(AirflowFailException, match="order='size': use one of name, need"):
        listed(order="size")


def test_named_tables() -> None:
    def named(given: Any) -> list[str]:
        return NamedTablesOperator(task_id="tables", tables=given).execute(context())

    assert (
        named("shop.orders, crm.leads") == named(["shop.orders", "crm.leads"]) == ["shop.orders", "crm.leads"]
    )
    assert named("") == []
    with pytest.raises(AirflowFailException, match=r"write database\.table"):
        named("orders")
