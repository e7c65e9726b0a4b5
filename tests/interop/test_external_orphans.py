"""Orphans below data-file.external-paths: only in folders that are the table's alone, and back with undo."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidOptionError
from lakecore.jobs import expire_snapshots, quarantine, remove_orphan_files
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.verify.fsck.check import fsck
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

PLANTED = "data-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-0.parquet"


def _table(oracle: Oracle, warehouse: Path, name: str, *roots: Path) -> None:
    """Two partitions, three commits; files go to the roots in turn."""
    options = {
        "bucket": "1",
        "data-file.external-paths": ",".join(f"file://{root}" for root in roots),
        "data-file.external-paths.strategy": "round-robin",
    }
    columns = ["p STRING NOT NULL", "k INT NOT NULL", "v STRING"]
    schema = {"columns": columns, "partitionKeys": ["p"], "primaryKeys": ["p", "k"], "options": options}
    oracle.create(warehouse, name, schema)
    for number in range(3):
        rows = [{"p": p, "k": number, "v": "x"} for p in "ab"]
        oracle.write(warehouse, name, rows, "--identifier", number)


def _files(*roots: Path) -> set[str]:
    found = (path for root in roots for path in root.rglob("*") if path.is_file() and path.suffix != ".crc")
    return {str(path) for path in found if ".lakecore" not in path.parts}


def _remove(warehouse: Path, name: str, **other: object) -> Report:
    job = remove_orphan_files.Job(
        **{"table": name, "older_than_ms": int(time.time() * 1000) - 1, "external": True} | other  # type: ignore[arg-type]
    )
    return remove_orphan_files.run(job, load_catalog(str(warehouse)))


def _plant(*roots: Path) -> set[str]:
    """An orphan of a writer in every bucket, and files of somebody else."""
    orphans = set()
    for root in roots:
        for number, bucket in enumerate(sorted(root.rglob("bucket-*"))):
            (bucket / PLANTED).write_text("x")
            (bucket / f"notes-{root.name}-{number}.txt").write_text("mine")
            orphans.add(str(bucket / PLANTED))
        root.mkdir(exist_ok=True)
        (root / PLANTED).write_text("not in a bucket")
    time.sleep(0.01)
    return orphans


def test_the_same_orphans_go_as_java_removes_but_nobody_elses(
    tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    warehouse, roots = tmp_path / "wh", [tmp_path / "ext1", tmp_path / "ext2"]
    _table(oracle, warehouse, "d.t", *roots)
    before, rows = _files(*roots), oracle.read(warehouse, "d.t")
    orphans = _plant(*roots)
    planted = _files(*roots)
    assert len(orphans) >= 2
    looked = _remove(warehouse, "d.t", external=False)
    assert looked.nothing_to_do
    assert sum("use --external to check it" in note for note in looked.notes) == 2
    assert set(_remove(warehouse, "d.t", dry_run=True).names) == orphans
    report = _remove(warehouse, "d.t")
    assert planted - _files(*roots) == orphans
    assert _files(*roots) >= before
    for judge in (oracle, oracle2):
        assert judge.read(warehouse, "d.t") == rows
    with pytest.raises(InvalidOptionError, match="external-roots"):  # the ledger is no reason to write there
        quarantine.run(quarantine.Undo(run_id=str(report.run)), load_catalog(str(warehouse)))
    assert planted - _files(*roots) == orphans
    quarantine.run(quarantine.Undo(run_id=str(report.run), external=True), load_catalog(str(warehouse)))
    assert _files(*roots) == planted
    _remove(warehouse, "d.t", safety=Safety(quarantine=False))
    oracle.call("remove-orphan-files", warehouse, "d.t", "--older-than", int(time.time() * 1000))
    # Java takes everything in the buckets for its own
    assert _files(*roots) == before | {str(root / PLANTED) for root in roots}


def test_expired_external_files_go_with_their_snapshots(tmp_path: Path, oracle: Oracle) -> None:
    warehouse, root = tmp_path / "wh", tmp_path / "ext"
    _table(oracle, warehouse, "d.t", root)
    oracle.compact(warehouse, "d.t", full=True)
    rows = oracle.read(warehouse, "d.t")
    before = _files(warehouse, root)
    job = expire_snapshots.Job(
        table="d.t", retain_max=1, retain_min=1, older_than_ms=int(time.time() * 1000), max_deletes=99
    )
    with pytest.raises(InvalidOptionError, match="external-roots"):
        expire_snapshots.run(job, load_catalog(str(warehouse)))
    assert _files(warehouse, root) == before
    lake = load_catalog(str(warehouse), **{"external-roots": f"file://{root}"})
    expire_snapshots.run(job, lake)
    assert len(_files(root)) == 2
    assert oracle.read(warehouse, "d.t") == rows
    table = lake.load_table("d.t")
    assert fsck(table._stores.file_io, table._stores.paths, now_ms=0, read_data=True).findings == ()
    assert _remove(warehouse, "d.t").nothing_to_do


@pytest.mark.parametrize("other", ["same", "below", "above", "table"])
def test_a_root_that_another_table_uses_is_left_alone(other: str, tmp_path: Path, oracle: Oracle) -> None:
    """Java would take the files of the one for orphans of the other."""
    warehouse, root = tmp_path / "wh", tmp_path / "ext"
    _table(oracle, warehouse, "d.t", root)
    if other == "table":
        shutil.copytree(warehouse / "d.db" / "t", root / "d.db" / "x")
        warehouse = root
        shutil.move(str(tmp_path / "wh" / "d.db" / "t"), str(root / "d.db" / "t"))
    else:
        place = {"same": root, "below": root / "p=a", "above": tmp_path}[other]
        _table(oracle, warehouse, "e.u", place)
    _plant(root)
    before = _files(root)
    report = _remove(warehouse, "d.t")
    assert report.nothing_to_do
    assert any("is not examined" in note for note in report.notes)
    assert _files(root) == before
    table = load_catalog(str(warehouse)).load_table("d.t")
    assert [
        f for f in fsck(table._stores.file_io, table._stores.paths, now_ms=0).findings if "ext" in f.path
    ] == []
