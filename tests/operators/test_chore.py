"""The maintenance operators on tables that Java Paimon wrote."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

import lakecore_airflow
from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs.definitions.parameter import Kind, parameters_by_name
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.operators.expire import ExpireSnapshotsOperator
from lakecore_airflow.operators.rollback import RollbackToAsLatestOperator
from lakecore_airflow.tasks.chore import ChoreOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
for _module in pkgutil.walk_packages(lakecore_airflow.__path__, "lakecore_airflow."):
    importlib.import_module(_module.name)


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> str:
    golden(TABLE).copy_to(lake)
    return TABLE


def test_a_report_is_small_json_and_a_dry_run_changes_nothing(table: str, lake: Path) -> None:
    arguments: dict[str, Any] = {"table": table, "retain_max": "1", "retain_min": 1}
    ids = load_catalog(lake).load_table(table)._stores.snapshots.list_ids()
    before = ExpireSnapshotsOperator(task_id="look", dry_run=True, **arguments).execute(context())
    assert load_catalog(lake).load_table(table)._stores.snapshots.list_ids() == ids
    after = ExpireSnapshotsOperator(task_id="expire", **arguments).execute(context())
    assert len(json.dumps(after)) < 10_000
    assert load_catalog(lake).load_table(table)._stores.snapshots.list_ids() == ids[-1:]
    assert {name: before[name] for name in ("files", "bytes", "snapshots", "blocker")} == {
        name: after[name] for name in ("files", "bytes", "snapshots", "blocker")
    }


def test_templates_are_rendered_and_empty_ones_mean_nothing(table: str) -> None:
    with DAG("d", schedule=None):
        operator = ExpireSnapshotsOperator(
            task_id="expire", table="{{ params.t }}", retain_max="{{ params.m }}", retain_min="{{ params.n }}"
        )
    operator.render_template_fields({"params": {"t": table, "m": 2, "n": ""}})
    with pytest.raises(AirflowFailException, match="retain-min 10"):
        operator.execute(context())


def test_truth_values_are_templated_too(table: str, lake: Path) -> None:
    with DAG("d", schedule=None):
        operator = ExpireSnapshotsOperator(
            task_id="expire",
            table=table,
            retain_max=1,
            retain_min=1,
            dry_run="{{ params.dry }}",
            quarantine="{{ params.keep }}",
        )

    def rendered(**params: Any) -> ExpireSnapshotsOperator:
        copy = operator.prepare_for_execution()
        copy.render_template_fields({"params": params})
        return copy

    assert rendered(dry=True, keep=None).execute(context())["dry_run"]
    with pytest.raises(AirflowFailException, match="dry_run='maybe'"):
        rendered(dry="maybe", keep="").execute(context())
    done = rendered(dry="False", keep="true").execute(context())
    assert (done["dry_run"], done["quarantined"]) == (False, True)
    assert load_catalog(lake).load_table(table)._stores.snapshots.list_ids() == (8,)


def test_a_chore_is_mapped_over_tables_and_takes_default_args(table: str) -> None:
    with DAG("d", schedule=None, default_args={"retain_max": 2, "dry_run": True}):
        mapped = ExpireSnapshotsOperator.partial(task_id="expire", retain_min=1).expand(table=[table, "g1.x"])
        single = ExpireSnapshotsOperator(task_id="one", table=table, retain_min=1)
    assert mapped.partial_kwargs["retain_min"] == 1
    assert single.execute(context())["dry_run"]
    with pytest.raises(TypeError, match="nonsense"):
        ExpireSnapshotsOperator.partial(task_id="wrong", nonsense=1)


def chores(kind: type[ChoreOperator]) -> Iterator[type[ChoreOperator]]:
    """All operators of a job below a class."""
    for below in kind.__subclasses__():
        if below.definition.module:
            yield below
        yield from chores(below)


@pytest.mark.parametrize(
    "kind",
    sorted(set(chores(ChoreOperator)), key=lambda kind: kind.__name__),
    ids=lambda kind: kind.__name__,
)
def test_every_operator_fits_its_job(kind: type[ChoreOperator], lake: Path) -> None:
    """Every parameter is known to the job, and a table that is missing is an error no retry can mend."""
    values = {
        Kind.NUMBER: "1",
        Kind.SHARE: "0.5",
        Kind.MOMENT: "2026-11-21",
        Kind.DURATION: "1 d",
        Kind.END: "05:00",
        Kind.FLAG: "true",
        Kind.OPTIONS: {},
        Kind.NAMES: "x,y",
        Kind.CHOICE: "watermark",
    }
    parameters = parameters_by_name(kind.definition)
    given = {name: values.get(one.kind, "x") for name, one in parameters.items() if name != "dry_run"}
    operator = kind(task_id="chore", table="g1.missing", **given)
    assert set(given) <= set(operator.template_fields)
    with pytest.raises(AirflowFailException, match=r"missing|exclude|g1"):
        operator.execute(context())


def test_what_is_no_number_is_said(table: str) -> None:
    operator = ExpireSnapshotsOperator(task_id="expire", table=table, retain_max="many")
    with pytest.raises(AirflowFailException, match="retain_max"):
        operator.execute(context())


def test_a_retry_goes_back_once_though_others_wrote_meanwhile(table: str, lake: Path) -> None:
    loaded = load_catalog(lake).load_table(table)
    first = loaded._stores.snapshots.list_ids()[0]
    operator = RollbackToAsLatestOperator(task_id="back", table=table, snapshot=first)
    went = operator.execute(context())
    loaded.upsert(loaded.scan(snapshot=first).to_arrow())
    ids = loaded._stores.snapshots.list_ids()
    again = operator.execute(context())
    assert (again["snapshot"], again["nothing_to_do"]) == (went["snapshot"], True)
    assert loaded._stores.snapshots.list_ids() == ids
