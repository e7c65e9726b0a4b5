"""A tag for the logical date of a run, and for runs that have none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import UnavailableError
from lakecore.jobs import expire_snapshots
from lakecore_airflow.airflow_names import AirflowFailException, AirflowSkipException
from lakecore_airflow.operators.period_tags import (
    CreateBatchTagsOperator,
    TriggerTagAutomaticCreationOperator,
)
from lakecore_airflow.policy.maintain import MaintainTableOperator
from tests.operators.conftest import context
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, put

NOON = 1_699_272_000_000
"""2023-11-06 12:00 UTC."""


@pytest.fixture
def table(lake: Path) -> str:
    """A commit at noon of three days."""
    clock = FakeClock(NOON)
    made = key_table(replace(load_catalog(lake), clock=clock))
    for number in range(3):
        put(made, [{"k": number, "v": "v"}])
        clock.sleep(86_400)
    return made.name


def tag(table: str, logical: datetime | None, **parameters: Any) -> Any:
    operator = CreateBatchTagsOperator(task_id="tag", table=table, **parameters)
    return operator.execute(context(logical_date=logical, run_after=datetime(2023, 11, 9, 0, 15, tzinfo=UTC)))


def test_the_day_of_a_run_is_tagged_once(table: str, lake: Path) -> None:
    first = tag(table, datetime(2023, 11, 7, tzinfo=UTC), name="eod-{period}")
    again = tag(table, datetime(2023, 11, 7, tzinfo=UTC), name="eod-{period}")
    assert (first["names"], first["snapshot"], again["names"]) == (["eod-2023-11-07"], 2, [])
    assert again["nothing_to_do"]
    # a run without a logical date: the last day that was over when it was to run
    late = tag(table, None, name="eod-{period}", start="", backfill="True")
    assert late["names"] == ["eod-2023-11-08"]
    assert load_catalog(lake).load_table(table)._stores.tags.list() == ("eod-2023-11-07", "eod-2023-11-08")


def test_a_day_that_is_not_over_is_tried_again_and_a_wrong_argument_is_not(table: str) -> None:
    with pytest.raises(UnavailableError, match="not over"):
        tag(table, datetime(2999, 1, 1, tzinfo=UTC))
    with pytest.raises(AirflowFailException, match="period"):
        tag(table, datetime(2023, 11, 7, tzinfo=UTC), period="weekly")


def test_a_day_without_a_snapshot_fails_or_is_skipped(table: str, lake: Path) -> None:
    assert tag(table, datetime(2023, 11, 5, tzinfo=UTC))["nothing_to_do"], "the table is younger"
    day = datetime(2023, 11, 6, tzinfo=UTC)
    expire_snapshots.run(expire_snapshots.Job(table=table, retain_max=1, retain_min=1), load_catalog(lake))
    with pytest.raises(AirflowFailException, match="can no longer be created"):
        tag(table, day)
    with pytest.raises(AirflowSkipException, match="can no longer be created"):
        tag(table, day, skip_expired="True")
    with pytest.raises(AirflowFailException, match="nowhere"):
        tag("default.nowhere", day, skip_expired=True)
    assert load_catalog(lake).load_table(table)._stores.tags.list() == ()


def test_automatic_tags_are_triggered(table: str) -> None:
    report = TriggerTagAutomaticCreationOperator(
        task_id="auto", table=table, options={"tag.automatic-creation": "process-time"}
    ).execute(context())
    assert report["names"] == ["2023-11-05", "2023-11-06", "2023-11-07"]


def test_a_policy_may_ask_for_tags(table: str, lake: Path) -> None:
    chores = {"create-batch-tags": {"name": "eod-{period}", "as-of": "2023-11-08"}, "expire-snapshots": {}}
    report = MaintainTableOperator(task_id="maintain", table=table, chores=chores).execute(context())
    assert [one["job"] for one in report["done"]] == ["create-batch-tags", "expire-snapshots"]
    assert load_catalog(lake).load_table(table)._stores.tags.list() == ("eod-2023-11-07",)
