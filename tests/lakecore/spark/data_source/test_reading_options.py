"""No option of a read is without effect: each door obeys it, or refuses it by name with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import lakecore
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.versions.branches import CreateBranch
from lakecore.metadata.schema_change import SetOption
from lakecore.spark.data_source.format import LakecoreSource
from lakecore.table import Commit
from tests.support.option_dump import stored
from tools.options_page import options_in_code

SCHEMA = StructType([StructField("k", IntegerType()), StructField("v", StringType())])
LOG = StructType([StructField("rowkind", StringType()), *SCHEMA.fields])

BATCH = "scan, log scan, read"
POLLS = "stream, log stream"
STREAMS = f"{POLLS}, readStream"
ALL = f"{BATCH}, {STREAMS}"
CONSUMER = {"consumer-id": "c"}
BETWEEN = {"incremental-between": "1,2"}
GROUP = {"scan.watermark.alignment.group": "g", "scan.watermark.alignment.max-drift": "1 min"}

OBEYED: dict[str, tuple[str, str, dict[str, str]]] = {
    "consumer-id": ("c", STREAMS, {}),
    "consumer.ignore-progress": ("true", STREAMS, CONSUMER),
    "consumer.mode": ("at-least-once", "readStream", CONSUMER),
    "continuous.discovery-interval": ("5 s", "readStream", {}),
    "scan.bounded.watermark": ("5", STREAMS, {}),
    "streaming.read.snapshot.delay": ("5 s", STREAMS, {}),
    "streaming-read-overwrite": ("true", STREAMS, {}),
    "streaming-read-append-overwrite": ("true", "", {}),
    "read.watermark": ("ts", "readStream", GROUP),
    "scan.watermark.alignment.group": ("g", "readStream", GROUP),
    "scan.watermark.alignment.max-drift": ("1 min", "readStream", GROUP),
    "scan.watermark.alignment.update-interval": ("5 s", "readStream", GROUP),
    "scan.watermark.idle-timeout": ("5 s", "readStream", GROUP),
    "source.checkpoint-align.enabled": ("true", "readStream", {}),
    "scan.parallelism": ("2", "read, readStream", {}),
    "scan.infer-parallelism": ("true", "read, readStream", {}),
    "scan.infer-parallelism.max": ("2", "read, readStream", {}),
    "scan.mode": ("latest-full", ALL, {}),
    "scan.snapshot-id": ("1", ALL, {}),
    "scan.tag-name": ("one", BATCH, {}),
    "scan.version": ("1", ALL, {}),
    "scan.watermark": ("5", BATCH, {}),
    "scan.timestamp": ("2099-01-01", ALL, {}),
    "scan.timestamp-millis": ("4070908800000", ALL, {}),
    "scan.creation-time-millis": ("1", ALL, {}),
    "scan.file-creation-time-millis": ("1", ALL, {}),
    "incremental-between": ("1,2", BATCH, {}),
    "incremental-between-timestamp": ("1,2", BATCH, {}),
    "incremental-to-auto-tag": ("2020-01-01", BATCH, {}),
    "incremental-between-scan-mode": ("delta", BATCH, BETWEEN),
    "incremental-between-tag-to-snapshot": ("true", BATCH, BETWEEN),
    "scan.fallback-branch": ("b", "scan, read", {}),
    "scan.primary-branch": ("b", "scan, read", {}),
    "scan.partitions": ("max_pt()", "", {}),
    "deletion-vectors.merge-on-read": ("true", BATCH, {}),
    "file-index.read.enabled": ("false", ALL, {}),
    "source.split.target-size": ("1 mb", ALL, {}),
    "source.split.open-file-cost": ("1 mb", ALL, {}),
    "table-read.sequence-number.enabled": ("true", "log scan, log stream, log readStream", {}),
}  # fmt: skip
"""The option, a value, the doors that obey it for a table with a primary key, and what it needs besides."""
HOMES = ("read/source/", "scan/startup.py", "scan/stream_policy.py", "scan/plan.py", "spark/data_source/request.py",
         "spark/data_source/stream_options.py")  # fmt: skip
"""Modules of which every option that Paimon has is in `OBEYED`."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reading-options") / "lake"
    catalog = lakecore.load_catalog(root, create_warehouse=True, **{"local.fsync": "false"})
    columns = {"columns": ["k INT", "v STRING", "ts TIMESTAMP(3)"], "primaryKeys": ["k"]}
    table = catalog.create_table(
        "d.t", {**columns, "options": {"bucket": "1", "changelog-producer": "input"}}
    )
    for number in (1, 2):
        table.write(pa.table({"k": pa.array([number], pa.int32()), "v": ["a"]}), commit=Commit(watermark=9))
    run_chore(CreateTag(table="d.t", tag="one", snapshot=1), catalog)
    run_chore(CreateTag(table="d.t", tag="2020-01-01", snapshot=2), catalog)
    run_chore(CreateBranch(table="d.t", branch="b", tag="one"), catalog)
    return root


def enter(door: str, warehouse: Path, options: dict[str, str]) -> Any:
    name = "d.t$audit_log" if door.startswith("log") else "d.t"
    door = door.removeprefix("log ")
    if door in ("scan", "stream"):
        return getattr(lakecore.load_catalog(str(warehouse)).load_table(name, options), door)()
    source = LakecoreSource({"path": name, "warehouse": str(warehouse), **options})
    schema = LOG if "$" in name else SCHEMA
    if door == "read":
        return source.reader(schema)
    reader = source.streamReader(schema)
    reader.planner()
    return reader.stop()


@pytest.mark.parametrize("key", OBEYED)
def test_each_door_obeys_or_refuses(warehouse: Path, key: str) -> None:
    value, obeyed, others = OBEYED[key]
    doors = obeyed.split(", ") if obeyed else []
    for door in (*ALL.split(", "), "log readStream"):
        same = (
            door.removeprefix("log ")
            if door == "log readStream" and key != "table-read.sequence-number.enabled"
            else door
        )
        if same in doors:
            enter(door, warehouse, {**others, key: value})
            continue
        with pytest.raises(lakecore.LakeError) as caught:
            enter(door, warehouse, {key: value})
        assert isinstance(caught.value, InvalidOptionError | UnsupportedError), (door, caught.value)
        assert key in str(caught.value), (door, caught.value)


def test_every_option_of_reads_is_looked_at() -> None:
    of_paimon = {one["key"] for one in stored() if one["key"]}
    of_reads = {
        key
        for key, declared in options_in_code().items()
        if key in of_paimon and any(name.removeprefix("lakecore/").startswith(HOMES) for name, _ in declared)
    }
    assert of_reads - set(OBEYED) == {"branch", "path", "warehouse"}, "the last three say where the table is"


def test_a_stored_option_is_for_all_readers(warehouse: Path) -> None:
    catalog = lakecore.load_catalog(str(warehouse))
    catalog.create_table(
        "d.stored", {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    )
    keys = [
        key
        for key in OBEYED
        if key.startswith(("consumer.", "continuous", "streaming-read-append", "scan.part"))
    ]
    catalog.alter_table("d.stored", [SetOption(key, OBEYED[key][0]) for key in keys])
    table = catalog.load_table("d.stored")
    assert table.scan().to_arrow().num_rows == 0
    assert table.stream().poll() is None
