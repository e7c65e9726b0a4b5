"""What tasks tell the world: asset events, metrics, links, lineage."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from airflow.sdk import DAG, Asset, AssetAlias, BaseNotifier
from airflow.sdk.execution_time.context import OutletEventAccessors

from lakecore_airflow.airflow_names import airflow_stats
from lakecore_airflow.assets import table_asset
from lakecore_airflow.get_provider_info import get_provider_info
from lakecore_airflow.lake.compact_database import CompactDatabaseOperator
from lakecore_airflow.links import ReportLink, TableLink
from lakecore_airflow.notifier import LakeNotifier
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.operators.expire import ExpireSnapshotsOperator
from lakecore_airflow.operators.fsck import FsckOperator
from lakecore_airflow.operators.partitions import MarkPartitionDoneOperator
from lakecore_airflow.operators.tags import CreateTagOperator
from tests.operators.conftest import FakeTaskInstance, context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
PARTED = "g1.a_pk_dedup_b3_part"


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> str:
    golden(TABLE).copy_to(lake)
    golden(PARTED).copy_to(lake)
    return TABLE


def _run(operator: Any) -> tuple[dict[str, Any], OutletEventAccessors]:
    events = OutletEventAccessors()
    return operator.execute(context() | {"outlet_events": events}), events


def test_an_outlet_carries_table_snapshot_tag_and_partition(table: str) -> None:
    asset = table_asset(table)
    assert (asset.name, asset.uri) == (f"lake_default/{table}", "paimon://lake_default/g1/a_pk_dedup_l0")
    _, events = _run(CreateTagOperator(task_id="t", table=table, tag="day", snapshot=4, outlets=[asset]))
    wanted = {"table": table, "job": "create-tag", "snapshot": 4, "tags": ["day"], "nothing_to_do": False}
    assert events[asset].extra == wanted
    parted = Asset("parted")
    spec = "dt=2024-01-01"
    _, events = _run(MarkPartitionDoneOperator(task_id="t", table=PARTED, partitions=spec, outlets=[parted]))
    assert events[parted].extra["partitions"] == [spec]
    assert not getattr(events[parted], "partition_keys", None), "only a partitioned asset has keys"


def test_an_alias_gets_the_tables_that_were_changed(table: str) -> None:
    lake = AssetAlias("lake")
    operator = CompactTableOperator(task_id="c", table=table, strategy="full", engine="local", outlets=[lake])
    report, events = _run(operator)
    [event] = events[lake].asset_alias_events
    assert (event.dest_asset_key.name, event.extra["snapshot"]) == (
        f"lake_default/{table}",
        report["snapshot"],
    )
    _, events = _run(operator)
    assert events[lake].asset_alias_events == [], "a table in good shape was not changed"


class _Mail(BaseNotifier):
    template_fields = ("text",)
    sent: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__()
        self.text = "{{ lake_text }}"

    def notify(self, context: Any) -> None:
        self.sent.append(self.text)


def test_a_notifier_sends_the_outcome_or_the_error_which_is_no_template(table: str) -> None:
    operator = CompactTableOperator(task_id="task", table=table, strategy="full", engine="local")
    _Mail.sent.clear()
    run = context()
    operator.execute(run)
    for error in (None, ValueError("s3://user:geheim@x is {{ 7 * 7 }}")):
        LakeNotifier(_Mail())({**run, "task": operator, "exception": error})
    ended, failed = _Mail.sent
    assert ended.startswith(f"dag, task: {table}: 8 → ")
    assert ended.endswith("/dags/dag/runs/run1/tasks/task/plugin/lake_task")
    assert "failed: " in failed
    assert "{{ 7 * 7 }}" in failed
    assert "geheim" not in failed


def test_an_alias_of_a_whole_lake_gets_each_table_that_was_changed(table: str) -> None:
    lake = AssetAlias("lake")
    operator = CompactDatabaseOperator(task_id="c", strategy="full", engine="local", outlets=[lake])
    report, events = _run(operator)
    found = events[lake].asset_alias_events
    assert {event.dest_asset_key.name for event in found} == {
        f"lake_default/{table}",
        f"lake_default/{PARTED}",
    }
    assert all(event.extra["snapshot"] for event in found)
    later = OutletEventAccessors()
    operator.execute(context(run_id="run2") | {"outlet_events": later})
    assert (report["changed"], later[lake].asset_alias_events) == (2, [])
    assert [link.name for link in operator.operator_extra_links] == ["Report"]


class _Backend:
    """Keeps what would be sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any, Any]] = []

    def incr(self, stat: str, count: int = 1, *, tags: Any = None) -> None:
        self.sent.append((stat, count, tags))

    def timing(self, stat: str, dt: float, *, tags: Any = None) -> None:
        self.sent.append((stat, dt, tags))


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Backend]:
    backend = _Backend()
    stats = airflow_stats()
    if isinstance(stats, type):  # Airflow 3.1 and 3.2 start it in other ways
        monkeypatch.setattr("lakecore_airflow.reports.metrics.airflow_stats", lambda: backend)
        yield backend
        return
    stats.initialize(factory=lambda: backend, export_legacy_names=True)
    yield backend
    stats.initialize(factory=_nothing, export_legacy_names=True)


def _nothing() -> Any:
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    return NoStatsLogger()


def test_metrics_count_what_was_done(table: str, metrics: _Backend) -> None:
    arguments: dict[str, Any] = {"task_id": "t", "table": table, "retain_max": 1, "retain_min": 1}
    ExpireSnapshotsOperator(dry_run=True, **arguments).execute(context())
    assert metrics.sent == []
    report = ExpireSnapshotsOperator(**arguments).execute(context())
    tags = {"job": "expire-snapshots", "table": table}
    sent = {name: (value, given) for name, value, given in metrics.sent}
    assert sent["lakecore.runs"] == (1, tags)
    assert sent["lakecore.files"] == (report["files"], tags)
    assert sent["lakecore.snapshots"] == (report["snapshots_count"], tags)
    assert sent["lakecore.duration"][0] == pytest.approx(report["seconds"] * 1000)


def test_links_lead_to_the_report_and_to_the_page_of_the_table(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = ExpireSnapshotsOperator(task_id="t", table=table)
    ti = FakeTaskInstance(dag_id="my dag", run_id="manual__2026-11-21T05:00:00+00:00", map_index=3)
    place = (
        "/dags/my%20dag/runs/manual__2026-11-21T05%3A00%3A00%2B00%3A00/tasks/task/mapped/3/plugin/lake_task"
    )
    assert ReportLink().get_link(operator, ti_key=ti).endswith(place)
    assert TableLink().get_link(operator, ti_key=ti) == ""
    extra = {"table_url": "https://catalog.example/{database}/{table}?tab=files"}
    connection = json.dumps({"conn_type": "lakecore", "host": "/lake", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", connection)
    link = TableLink().get_link(operator, ti_key=ti)
    assert link == "https://catalog.example/g1/a_pk_dedup_l0?tab=files"
    known = get_provider_info()["extra-links"]
    assert {f"{type(one).__module__}.{type(one).__qualname__}" for one in operator.operator_extra_links} == {
        *known
    }


def test_lineage_names_the_table_its_version_and_columns(lake: Path, table: str) -> None:
    with DAG("d", schedule=None):
        operator = CompactTableOperator(task_id="t", table=table, engine="local")
    assert operator.get_openlineage_facets_on_complete(None) is None, "nothing was done yet"
    report = operator.execute(context())
    lineage = operator.get_openlineage_facets_on_complete(None)
    [read], [written] = lineage.inputs, lineage.outputs
    folder = lake / "g1.db" / "a_pk_dedup_l0"
    assert (read.namespace, read.name) == (written.namespace, written.name) == ("file", str(folder))
    assert written.facets["version"].datasetVersion == str(report["snapshot"])
    schema = json.loads((folder / "schema" / "schema-0").read_text())
    assert [column.name for column in written.facets["schema"].fields] == [
        field["name"] for field in schema["fields"]
    ]
    assert written.outputFacets["outputStatistics"].rowCount == report["rows_out"]
    operator.execute(context("run2"))
    assert operator.get_openlineage_facets_on_complete(None).outputs, "the second report changed nothing"


def test_checks_and_whole_databases_tell_their_lineage_and_events(lake: Path, table: str) -> None:
    asset = table_asset(table)
    check = FsckOperator(task_id="fsck", table=table, no_data=True, outlets=[asset])
    _, events = _run(check)
    assert events[asset].extra == {"table": table, "job": "fsck", "snapshot": None, "nothing_to_do": True}
    lineage = check.get_openlineage_facets_on_complete(None)
    assert ([one.name for one in lineage.inputs], lineage.outputs) == ([f"{lake}/g1.db/a_pk_dedup_l0"], [])

    every = CompactDatabaseOperator(task_id="all", engine="local", strategy="full")
    assert every.get_openlineage_facets_on_complete(None) is None, "nothing was done yet"
    _run(every)
    lineage = every.get_openlineage_facets_on_complete(None)
    names = {f"{lake}/g1.db/{name.partition('.')[2]}" for name in (TABLE, PARTED)}
    assert {one.name for one in lineage.inputs} == {one.name for one in lineage.outputs} == names


def test_lineage_is_left_out_without_the_provider(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with DAG("d", schedule=None):
        operator = ExpireSnapshotsOperator(task_id="t", table=table)
    operator.execute(context())
    assert operator.get_openlineage_facets_on_complete(None) is not None
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.extractors", None)
    assert operator.get_openlineage_facets_on_complete(None) is None
