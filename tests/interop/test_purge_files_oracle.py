"""Java and lakecore empty copies of one table with its history; Java reads ours, finds nothing wrong, and writes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidOptionError
from lakecore.jobs import purge_files, quarantine
from lakecore.jobs.versions import rollback
from tests.support.oracle import Oracle, findings
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

COLUMNS = ["k BIGINT NOT NULL", "p STRING NOT NULL", "v STRING"]
TABLES: dict[str, dict[str, Any]] = {
    "keys": {
        "primaryKeys": ["k"],
        "options": {
            "bucket": "1",
            "changelog-producer": "input",
            "changelog.num-retained.max": "9",
            "snapshot.num-retained.max": "3",
            "snapshot.num-retained.min": "1",
        },
    },
    "dynamic buckets": {
        "primaryKeys": ["k", "p"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1", "deletion-vectors.enabled": "true"},
    },
    "append": {"partitionKeys": ["p"], "options": {"bucket": "-1"}},
}


def _rows(first: int) -> list[dict[str, Any]]:
    return [{"k": first + i, "p": "xy"[i % 2], "v": f"{first}"} for i in range(4)]


def _source(kind: str, warehouse: Path, oracle: Oracle) -> Path:
    oracle.create(warehouse, "d.t", {"columns": COLUMNS, **TABLES[kind]})
    for number in range(4):
        oracle.write(warehouse, "d.t", _rows(number), "--identifier", number)
        if number == 2:
            oracle.compact(warehouse, "d.t", full=True)
    oracle.call("create-tag", warehouse, "d.t", "old", "--snapshot", 1)
    oracle.call("create-branch", warehouse, "d.t", "b", "--tag", "old")
    oracle.write(warehouse, "d.t$branch_b", _rows(50), "--identifier", 50)
    oracle.call("reset-consumer", warehouse, "d.t", "reader", 3)
    if kind == "keys":
        limits = ("--retain-max", 2, "--changelog-retain-max", 9)
        oracle.call("reset-consumer", warehouse, "d.t", "reader", 5)
        oracle.call("expire-snapshots", warehouse, "d.t", "--older-than", int(time.time() * 1000), *limits)
    return warehouse / "d.db" / "t"


def _kinds(twins: Twins, warehouse: Path) -> dict[str, Any]:
    """Return what both must have: all names but those of manifests, which have fresh names."""
    files = sorted(name for name in twins.files(warehouse) if not name.startswith("manifest/"))
    return {"files": files, "hints": twins.content(warehouse, ["snapshot/EARLIEST", "snapshot/LATEST"])}


@pytest.mark.parametrize(
    ("kind", "version"),
    [("keys", "1.4.2"), ("keys", "2.0.0"), ("dynamic buckets", "1.4.2"), ("append", "2.0.0")],
    ids=" ".join,
)
def test_an_emptied_table_is_that_of_java(
    kind: str, version: str, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    oracle = oracles[version]
    twins = Twins.of(_source(kind, tmp_path / "source", oracle), "d.t", tmp_path)
    oracle.call("purge-files", twins.java, "d.t")
    before = oracle.read(twins.ours, "d.t")
    report = purge_files.run(purge_files.Job(table="d.t"), twins.lake)
    assert _kinds(twins, twins.ours) == _kinds(twins, twins.java)
    assert oracle.read(twins.ours, "d.t") == []
    assert findings(oracle.fsck(twins.ours, "d.t")) == set()
    for warehouse in (twins.java, twins.ours):
        for number in (70, 71):
            oracle.write(warehouse, "d.t", _rows(number), "--identifier", number)
        oracle.compact(warehouse, "d.t", full=True)
    assert oracle.read(twins.ours, "d.t") == oracle.read(twins.java, "d.t") != []
    assert findings(oracle.fsck(twins.ours, "d.t")) == set()

    assert report.run is not None
    quarantine.run(quarantine.Undo(run_id=report.run), twins.lake)
    assert oracle.read(twins.ours, "d.t", snapshot=max(report.snapshots)) == before
    assert oracle.read(twins.ours, "d.t", branch="b") == oracle.read(tmp_path / "source", "d.t", branch="b")
    job = rollback.RollbackToAsLatest(table="d.t", snapshot=max(report.snapshots))
    rollback.run(job, twins.lake)
    assert oracle.read(twins.ours, "d.t") == before
    assert findings(oracle.fsck(twins.ours, "d.t")) == set()


def test_files_elsewhere_go_only_below_declared_roots(tmp_path: Path, oracle: Oracle) -> None:
    warehouse, root = tmp_path / "wh", tmp_path / "ext"
    options = {
        "bucket": "1",
        "data-file.external-paths": f"file://{root}",
        "data-file.external-paths.strategy": "round-robin",
    }
    oracle.create(warehouse, "d.t", {"columns": COLUMNS, "primaryKeys": ["k"], "options": options})
    oracle.write(warehouse, "d.t", _rows(1))
    rows, job = oracle.read(warehouse, "d.t"), purge_files.Job(table="d.t")
    with pytest.raises(InvalidOptionError, match="external-roots"):
        purge_files.run(job, load_catalog(str(warehouse)))
    assert oracle.read(warehouse, "d.t") == rows != []
    purge_files.run(job, load_catalog(str(warehouse), **{"external-roots": str(root)}))
    assert oracle.read(warehouse, "d.t") == []
    assert [path for path in root.rglob("*.parquet") if ".lakecore" not in path.parts] == []
