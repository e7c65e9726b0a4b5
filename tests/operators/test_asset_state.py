"""Keys of partitions in events and watchers of assets need Airflow 3.3; earlier releases are told so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessor, OutletEventAccessors

from lakecore.errors import UnsupportedError
from lakecore_airflow import watch
from lakecore_airflow.assets import table_asset
from lakecore_airflow.dags import lakecore_dags, on_asset
from lakecore_airflow.operators import CreateTagOperator, MarkPartitionDoneOperator
from lakecore_airflow.settings import SettingsError
from lakecore_airflow.watch import watched_asset
from tests.operators.conftest import context
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


def test_a_partitioned_asset_gets_a_key_for_each_partition_and_tag(table: str) -> None:
    asset = table_asset(PARTED, partitioned=True)
    days = [f"dt=2024-01-{day:02}" for day in range(1, 29)]
    mark = MarkPartitionDoneOperator(task_id="t", table=PARTED, partitions=";".join(days), outlets=[asset])
    report, events = _run(mark)
    assert (len(report["names"]), events[asset].partition_keys) == (20, set(days))
    arguments: dict[str, Any] = {"table": table, "tag": "day", "outlets": [asset]}
    for dry_run, keys in ((True, set()), (False, {"day"}), (False, {"day"})):  # a retry tells it again
        _, events = _run(CreateTagOperator(task_id="t", dry_run=dry_run, **arguments))
        assert events[asset].partition_keys == keys


def test_settings_become_params_and_schedules() -> None:
    settings = {
        "connections": ["lake"],
        "nightly": {"schedule": "", "database": "shop*", "engine": "local"},
        "on_asset": {"tables": ["shop.orders", "crm.leads"], "schedule": ""},
    }
    dags = lakecore_dags("nightly", "on_asset", settings=settings)
    nightly, on_asset = dags["lakecore_nightly__lake"], dags["lakecore_on_asset__lake"]
    assert nightly.schedule is None
    assert (nightly.params["database"], nightly.params["engine"]) == ("shop*", "local")
    assert on_asset.params["tables"] == "shop.orders, crm.leads"
    assert [asset.name for asset in on_asset.schedule.objects] == [
        watched_asset(table, lake_conn_id="lake").name for table in ("shop.orders", "crm.leads")
    ]
    assert lakecore_dags("on_asset", settings={})["lakecore_on_asset"].schedule is not None, "the clock"


def test_an_earlier_airflow_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HAS_ASSET_STATE", False)
    monkeypatch.setattr(on_asset, "HAS_ASSET_STATE", False)
    monkeypatch.delattr(OutletEventAccessor, "add_partitions")
    with pytest.raises(
        UnsupportedError, match=r"watched_asset\('d.t'\) needs Airflow 3.3.*NewSnapshotSensor"
    ):
        watched_asset("d.t")
    with pytest.raises(SettingsError, match=r"tables=\['d.t'\] needs Airflow 3.3.*airflow.on_snapshot"):
        lakecore_dags("on_asset", settings={"on_asset": {"tables": ["d.t"]}})
    with pytest.raises(UnsupportedError, match=r"partitioned=True\) needs Airflow 3.3"):
        table_asset("d.t", partitioned=True)
    assert lakecore_dags("on_asset", settings={})["lakecore_on_asset"].schedule is not None
