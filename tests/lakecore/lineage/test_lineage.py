"""Listeners learn which tables are read and written; what they do changes nothing. OpenLineage's own client sends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore import entry_points
from lakecore.jobs import compact
from lakecore.lineage import LineageEvent, lineage_job, openlineage
from lakecore.spark.data_source.partitions import plan_partitions
from lakecore.spark.data_source.request import Parallelism

MODULE = "listener_of_a_test"


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LineageEvent]]:
    """The events that a listener of another, installed package gets; it fails after each."""
    site = tmp_path / "site"
    metadata = site / "other-1.0.dist-info"
    metadata.mkdir(parents=True)
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    metadata.joinpath("entry_points.txt").write_text(f"[lakecore.lineage]\nother = {MODULE}:listen\n")
    (site / f"{MODULE}.py").write_text("seen = []\ndef listen(event):\n    seen.append(event)\n    1 / 0\n")
    monkeypatch.syspath_prepend(site)
    entry_points._entry_points.cache_clear()
    yield __import__(MODULE).seen
    sys.modules.pop(MODULE, None)
    entry_points._entry_points.cache_clear()


@pytest.fixture
def table(tmp_path: Path) -> lakecore.Table:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    definition = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"]}
    return catalog.create_table("d.t", {**definition, "options": {"bucket": "1", "write-only": "true"}})


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [str(key) for key in keys]})


def facts(event: LineageEvent) -> tuple[Any, ...]:
    return (
        event.job,
        [(one.name, one.snapshot_id) for one in event.inputs],
        [(one.name, one.snapshot_id) for one in event.outputs],
        event.rows_written,
    )


def test_reads_writes_and_jobs_are_reported(
    table: lakecore.Table, seen: list[LineageEvent], caplog: pytest.LogCaptureFixture
) -> None:
    path = table.path
    table.upsert(rows(1, 2))
    with lineage_job("nightly", "0b4a1c9e-3b6a-4f43-9d62-1f3a5f1f9c11"):
        assert table.scan(columns=["v"]).to_arrow().num_rows == 2
        table.upsert(rows(3))
    lake = lakecore.load_catalog(Path(path).parents[1])
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    assert len(plan_partitions(table.scan(), Parallelism(None, 4))) == 1
    assert [facts(event) for event in seen] == [
        ("write", [], [(path, 1)], 2),
        ("nightly", [(path, 1)], [], None),
        ("nightly", [], [(path, 2)], 1),
        ("compact", [], [(path, 3)], 0),
        ("read", [(path, 3)], [], None),
    ]
    assert [event.run_id for event in seen[1:3]] == ["0b4a1c9e-3b6a-4f43-9d62-1f3a5f1f9c11"] * 2
    assert len({event.run_id for event in seen}) == 4
    (read,) = seen[1].inputs
    assert (read.namespace, read.branch, read.columns) == ("file", "main", (("v", "STRING"),))
    assert "the lineage listener other (listener_of_a_test:listen) failed for the read" in caplog.text


def test_the_client_of_openlineage_sends(
    table: lakecore.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file transport of OpenLineage's client writes the events; Airflow's tasks are left to its provider."""
    log = tmp_path / "events"
    monkeypatch.setenv(
        "OPENLINEAGE__TRANSPORT", json.dumps({"type": "file", "log_file_path": str(log), "append": True})
    )
    openlineage._client.cache_clear()
    table.upsert(rows(1, 2))
    table.scan().to_arrow()
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "dag")
    table.upsert(rows(3))
    openlineage._client.cache_clear()
    write, read = [json.loads(line) for line in log.read_text().splitlines() if line]
    assert (write["job"]["name"], write["eventType"]) == ("write", "COMPLETE")
    (output,) = write["outputs"]
    assert (output["namespace"], output["name"]) == ("file", table.path)
    assert output["facets"]["version"]["datasetVersion"] == "1"
    assert [one["name"] for one in output["facets"]["schema"]["fields"]] == ["k", "v"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert [one["name"] for one in read["inputs"]] == [table.path]


def test_a_client_that_fails_is_logged(
    table: lakecore.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://lineage.test")

    def refuse() -> Any:
        raise ValueError("no server")

    monkeypatch.setattr(openlineage, "_client", refuse)
    assert table.upsert(rows(1)).snapshot_ids == (1,)
    assert table.scan().to_arrow().num_rows == 1
    assert caplog.text.count("OpenLineage did not take the event: no server") == 2


def test_names_of_datasets_on_stores() -> None:
    dataset = lakecore.lineage.LineageDataset(
        table_path="s3://bucket/lake/d.db/t", branch="main", snapshot_id=None, columns=()
    )
    assert (dataset.namespace, dataset.name) == ("s3://bucket", "lake/d.db/t")
