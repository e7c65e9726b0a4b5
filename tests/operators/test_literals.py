"""Words with a typing error are found when a DAG file is read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import InvalidInputError
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.lake.tables import ListTablesOperator
from lakecore_airflow.operators import (
    CompactDatabaseOperator,
    CompactTableOperator,
    ExpireSnapshotsOperator,
    FsckOperator,
    RewriteFileIndexOperator,
)
from lakecore_airflow.policy.maintain import MaintainTableOperator, PlanMaintenanceOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"


@pytest.mark.parametrize(
    ("operator", "parameters"),
    [
        (CompactTableOperator, {"engine": "sprak"}),
        (CompactTableOperator, {"strategy": "ful"}),
        (CompactTableOperator, {"proof": "fulll"}),
        (CompactTableOperator, {"on_window_end": "explode"}),
        (CompactDatabaseOperator, {"engine": "sprak"}),
        (CompactDatabaseOperator, {"on_window_end": "explode"}),
        (MaintainTableOperator, {"engine": "sprak", "chores": {}}),
        (MaintainTableOperator, {"on_window_end": "explode", "chores": {}}),
        (ExpireSnapshotsOperator, {"engine": "auto"}),
        (RewriteFileIndexOperator, {"engine": "sprak"}),
        (FsckOperator, {"fail_on": "damages"}),
    ],
    ids=str,
)
def test_a_word_that_is_unknown_is_an_import_error(operator: Any, parameters: dict[str, Any]) -> None:
    table = {} if operator is CompactDatabaseOperator else {"table": TABLE}
    name, value = next(iter(parameters.items()))
    with pytest.raises(InvalidInputError, match=f"task t: {name}='{value}': use one of "):
        operator(task_id="t", **table, **parameters)
    operator(task_id="t", **table, **{**parameters, name: "{{ params.word }}"})
    operator(task_id="t", **table, **{**parameters, name: ""})


def test_rendered_templates_has_the_name_dry_run(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    golden(TABLE).copy_to(lake)
    task = ExpireSnapshotsOperator(task_id="t", table=TABLE, dry_run="{{ params.look }}")
    task.render_template_fields({"params": {"look": True}})
    assert task.dry_run == "True"
    assert task.execute(context())["dry_run"] is True
    plan = PlanMaintenanceOperator(task_id="plan", dry_run="{{ params.look }}")
    assert "dry_run" in plan.template_fields


def test_a_directory_that_lost_its_schema_has_a_task_that_fails(
    lake: Path, golden: Callable[[str], GoldenTable], caplog: pytest.LogCaptureFixture
) -> None:
    golden(TABLE).copy_to(lake)
    golden("g1.a_pk_runs").copy_to(lake)
    for file in (lake / "g1.db" / "a_pk_runs" / "schema").iterdir():
        file.unlink()
    (lake / "g1.db" / "notes").mkdir()
    with caplog.at_level(logging.WARNING):
        names = ListTablesOperator(task_id="tables").execute(context())
    assert names == [TABLE, "g1.a_pk_runs"], "it gets a task of its own, which fails"
    told = [record.message for record in caplog.records if "has snapshots, but no schema" in record.message]
    assert len(told) == 1
    assert "a_pk_runs" in told[0]
    planned = PlanMaintenanceOperator(task_id="plan").execute(context())
    assert [one["table"] for one in planned] == names
    lost = planned[1]
    for task in (
        CompactTableOperator(task_id="compact", table="g1.a_pk_runs"),
        ExpireSnapshotsOperator(task_id="expire", table="g1.a_pk_runs"),
        MaintainTableOperator(task_id="maintain", **lost),
    ):
        with pytest.raises(AirflowFailException, match=r"'g1\.a_pk_runs' has snapshots, but no schema"):
            task.execute(context())
    assert list((lake / "g1.db" / "a_pk_runs" / "snapshot").iterdir()), "nothing of it was removed"
