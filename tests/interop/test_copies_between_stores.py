"""A table that Java wrote is copied from a local disk to a store, from there to another one, and back; Java judges what came back.

LAKECORE_COPIES_STRIDE=1: storage is gone from each change of a copy on, not from each 53rd.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.registry import load_catalog
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.errors import AlreadyExistsError, LakeError, NotFoundError
from lakecore.fs.walk import files_below
from lakecore.jobs.definitions.migration import Copy
from lakecore.jobs.migration import copy_table
from lakecore.verify.fsck.check import fsck
from tests.support.azurite import azurite
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.gcs_server import gcs_server
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.killing_fs import CHANGES
from tests.support.lake import rows_of
from tests.support.oracle import Oracle, findings
from tests.support.oss_server import oss_server
from tests.support.s3_server import s3_server

pytestmark = pytest.mark.slow

STRIDE = int(os.environ.get("LAKECORE_COPIES_STRIDE", "53"))
SERVERS: dict[str, Callable[[], Any]] = {
    "s3": s3_server,
    "azure": azurite,
    "gcs": gcs_server,
    "oss": oss_server,
}
KINDS: dict[str, dict[str, Any]] = {
    "keys": {
        "primaryKeys": ["k", "p"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1", "deletion-vectors.enabled": "true"},
    },
    "append": {
        "partitionKeys": ["p"],
        "options": {
            "bucket": "-1",
            "deletion-vectors.enabled": "true",
            "file-index.bloom-filter.columns": "k",
        },
    },
}


def lake_at(root: object, options: dict[str, str]) -> WarehouseCatalog:
    catalog = load_catalog(str(root), create_warehouse=True, **options)
    assert isinstance(catalog, WarehouseCatalog)
    return catalog


def written_by_java(kind: str, path: Path, oracle: Oracle) -> WarehouseCatalog:
    """Some commits, a compaction, and rows that are deleted, in partitions whose names have to be escaped."""
    definition = {"columns": ["k BIGINT NOT NULL", "p STRING NOT NULL", "v STRING"], **KINDS[kind]}
    oracle.create(path, "d.t", definition)
    for number in range(3):
        rows = [{"k": number + i, "p": ("a b", "ü%=")[i % 2], "v": f"{number}.{i}"} for i in range(4)]
        oracle.write(path, "d.t", rows, "--identifier", number)
    oracle.compact(path, "d.t", full=kind == "keys")
    lake = lake_at(path, {})
    lake.load_table("d.t").delete("k = 1")
    return lake


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back_is_what_java_wrote(
    kind: str, tmp_path: Path, oracle2: Oracle, hdfs: HdfsCluster
) -> None:
    lake = written_by_java(kind, tmp_path / "source", oracle2)
    rows = oracle2.read(tmp_path / "source", "d.t")
    with ExitStack() as running:
        places = [
            (server.root, server.options)
            for server in (running.enter_context(one()) for one in SERVERS.values())
        ]
        for root, options in [*places, (hdfs.root, {})]:
            target = lake_at(f"{root}/{uuid.uuid4().hex}", options)
            report = copy_table.run(Copy(source="d.t", target="d.t"), lake, target=target)
            assert report.snapshot == 1
            stores = target.load_table("d.t")._stores
            found = fsck(
                stores.file_io, stores.paths, now_ms=stores.clock.now_ms(), deep=True, read_data=True
            )
            assert not found.findings, root
            lake = target
        copy_table.run(Copy(source="d.t", target="d.t"), lake, target=lake_at(tmp_path / "back", {}))
    assert oracle2.read(tmp_path / "back", "d.t") == rows != []
    assert findings(oracle2.fsck(tmp_path / "back", "d.t")) == set()
    more = [{"k": 50 + i, "p": "a b", "v": "new"} for i in range(3)]
    for path in (tmp_path / "source", tmp_path / "back"):
        oracle2.write(path, "d.t", more, "--identifier", 99)
        oracle2.compact(path, "d.t", full=kind == "keys")
    assert oracle2.read(tmp_path / "back", "d.t") == oracle2.read(tmp_path / "source", "d.t") != rows


@pytest.mark.parametrize(
    ("store", "mode"), [("s3", FaultMode.DEAD), *((store, FaultMode.ERROR_AFTER_EFFECT) for store in SERVERS)]
)  # a process that dies leaves every store as an error of the same request does
def test_a_copy_to_a_store_that_fails_is_repeated(
    store: str, mode: FaultMode, tmp_path: Path, oracle2: Oracle
) -> None:
    """Until the copy is complete nobody sees a table, or only some of its rows; then the same command completes it."""
    lake = written_by_java("append", tmp_path / "source", oracle2)
    rows = sorted(rows_of(lake.load_table("d.t")))
    job = Copy(source="d.t", target="d.t")
    with SERVERS[store]() as server:
        for number in itertools.count(1, STRIDE):
            target = lake_at(f"{server.root}/{uuid.uuid4().hex}", server.options)
            failing = FaultyFileIO(target.file_io, fail_at=number, mode=mode)
            with contextlib.suppress(LakeError):
                copy_table.run(job, lake, target=replace(target, file_io=failing))
            assert seen(target) in (None, rows), failing.log[-1]
            _as_of_a_dead_process(target)
            with contextlib.suppress(AlreadyExistsError):
                copy_table.run(job, lake, target=target)
            assert seen(target) == rows, number
            if not failing.fired:
                break
        assert sum(line.split()[0] in CHANGES for line in failing.log) > 5
        copy_table.run(job, target, target=lake_at(tmp_path / "back", {}))
    assert oracle2.read(tmp_path / "back", "d.t") == oracle2.read(tmp_path / "source", "d.t")
    assert findings(oracle2.fsck(tmp_path / "back", "d.t")) == set()


def _as_of_a_dead_process(lake: WarehouseCatalog) -> None:
    """Remove the lease, whose owner is this process and lives."""
    for path in files_below(lake.file_io, f"{lake.warehouse}/.lakecore/leases"):
        lake.file_io.delete(path)


def seen(lake: WarehouseCatalog) -> list[tuple[Any, ...]] | None:
    """The rows of the copy; None where nobody finds a table."""
    try:
        return sorted(rows_of(lake.load_table("d.t")))
    except NotFoundError:
        return None
