"""Listeners learn which tables are read and written; what they do changes nothing. OpenLineage's own client sends."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator, FormatChecker

import lakecore
from lakecore import entry_points
from lakecore.errors import LakeError
from lakecore.jobs import compact
from lakecore.lineage import LineageEvent, lineage_job, openlineage
from lakecore.read.source.batch_limits import UNLIMITED
from lakecore.read.source.micro_batch import MicroBatches
from lakecore.read.source.stream_view import StreamSelection, TableRows
from lakecore.scan.startup import Startup
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


def test_changes_streams_system_tables_and_lookups_are_reported(
    table: lakecore.Table, seen: list[LineageEvent]
) -> None:
    path = table.path
    table.upsert(rows(1, 2))
    table.upsert(rows(3))
    seen.clear()
    lake = lakecore.load_catalog(Path(path).parents[1])
    table.scan(incremental="1..2").to_arrow()
    for changes in table.stream():
        list(changes.to_batches())
    for changes in table.stream(snapshot=1, columns=["k"]):
        list(changes.to_batches())
    for name in ("audit_log", "ro", "files"):
        lake.load_table(f"d.t${name}").scan().to_arrow()
    with table.new_lookup(["k"], columns=["v"]) as lookup:
        lookup.lookup(pa.table({"k": pa.array([1], pa.int32())}))
    with table.new_query(["v"]) as query:
        query.refresh()
        query.refresh()
    assert {(event.job, len(event.inputs), event.outputs, event.failure) for event in seen} == {
        ("read", 1, (), None)
    }
    assert [(event.inputs[0].name.removeprefix(path), event.inputs[0].snapshot_id) for event in seen] == [
        ("", 2),  # changes
        ("", 2),  # the state, at the start of the stream
        *[("", 1), ("", 2)],  # a stream of two changes
        *[("", 2), ("", 2), ("$files", 2)],
        *[("", 2), ("", 2)],  # lookups, each once
    ]
    assert seen[2].inputs[0].columns == (("k", "INT NOT NULL"),)
    assert [name for name, _ in seen[4].inputs[0].columns] == ["rowkind", "k", "v"]
    assert [name for name, _ in seen[7].inputs[0].columns] == ["v"]


def test_micro_batches_are_reported(table: lakecore.Table, seen: list[LineageEvent]) -> None:
    table.upsert(rows(1, 2))
    selection = StreamSelection.of(TableRows.of_table(table))
    batches = MicroBatches(table, Startup.from_options({}), selection)
    end = batches.latest(None, UNLIMITED)
    table.upsert(rows(3))
    table.upsert(rows(4))
    seen.clear()
    last = batches.latest(end, UNLIMITED)
    assert batches.latest(last, UNLIMITED) == last
    assert [facts(event) for event in seen] == [("read", [(table.path, 3)], [], None)]


def _read_write_and_fail(table: lakecore.Table) -> None:
    with lineage_job("nightly"), lineage_job("inner"):
        list(next(iter(table.stream())).to_batches())
        table.upsert(rows(2))
        raise ZeroDivisionError("division by zero")


def test_a_failed_job_is_reported(table: lakecore.Table, seen: list[LineageEvent]) -> None:
    table.upsert(rows(1))
    seen.clear()
    with pytest.raises(ZeroDivisionError):
        _read_write_and_fail(table)
    last = seen[-1]
    assert facts(last) == ("nightly", [(table.path, 1)], [(table.path, 2)], None)
    assert last.failure == "division by zero"
    assert [event.failure for event in seen[:-1]] == [None, None]
    assert len({event.run_id for event in seen}) == 1
    seen.clear()
    latest = table.latest_snapshot()
    assert latest is not None
    table._stores.file_io.delete(table._stores.paths.manifest(latest.delta_manifest_list))
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    with pytest.raises(LakeError):
        compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    (event,) = seen
    assert (event.job, event.inputs, event.outputs) == ("compact", (), ())
    assert event.failure is not None
    assert latest.delta_manifest_list in event.failure
    seen.clear()
    with pytest.raises(SystemExit), lineage_job("nightly"):
        sys.exit(0)
    assert seen == []


class _Collector(BaseHTTPRequestHandler):
    """A server of lineage that refuses what OpenLineage's specification does not allow."""

    events: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        errors = [*SPECIFIED.iter_errors(event)]
        self.events.append(event)
        self.send_response(400 if errors or self.path != "/api/v1/lineage" else 201)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


def _facets(**named: Any) -> dict[str, Any]:
    facet = {"type": "object", "required": ["_producer", "_schemaURL"]}
    return {
        "type": "object",
        "additionalProperties": facet,
        "properties": {name: {**facet, **one} for name, one in named.items()},
    }


_DATASETS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {
            "namespace": {"type": "string"},
            "name": {"type": "string"},
            **{name: _facets() for name in ("facets", "inputFacets", "outputFacets")},
        },
    },
}
SPECIFIED = Draft202012Validator(
    {
        "type": "object",
        "required": ["run", "job", "eventTime", "producer", "schemaURL"],
        "properties": {
            "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
            "eventTime": {"type": "string", "format": "date-time"},
            "producer": {"type": "string", "format": "uri"},
            "run": {
                "type": "object",
                "required": ["runId"],
                "properties": {
                    "runId": {"type": "string", "format": "uuid"},
                    "facets": _facets(errorMessage={"required": ["message", "programmingLanguage"]}),
                },
            },
            "job": {"type": "object", "required": ["namespace", "name"]},
            "inputs": _DATASETS,
            "outputs": _DATASETS,
        },
    },
    format_checker=FormatChecker(),
)
"""What the specification of OpenLineage asks of the event of a run."""


def test_events_are_sent_to_a_server(
    table: lakecore.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        openlineage._client.cache_clear()
        table.upsert(rows(1))
        _Collector.events.clear()
        with pytest.raises(ZeroDivisionError):
            _read_write_and_fail(table)
        openlineage._client.cache_clear()
        server.shutdown()
    assert "did not take the event" not in caplog.text
    assert [event["eventType"] for event in _Collector.events] == ["COMPLETE", "COMPLETE", "FAIL"]
    assert len({event["run"]["runId"] for event in _Collector.events}) == 1
    failed = _Collector.events[-1]
    assert failed["run"]["facets"]["errorMessage"]["message"] == "division by zero"
    assert [one["name"] for one in (*failed["inputs"], *failed["outputs"])] == [table.path, table.path]


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
