"""Copies of tables: Java reads the same rows from both, compacts the copy, and finds nothing wrong."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError, NotFoundError, UnsupportedError
from lakecore.fs.local import LocalFileIO
from lakecore.jobs.definitions.migration import Copy
from lakecore.jobs.migration import copy_table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.killing_fs import CHANGES
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

COLUMNS = ["k BIGINT NOT NULL", "p STRING NOT NULL", "v STRING"]
KINDS: dict[str, dict[str, Any]] = {
    "dynamic buckets": {
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
            "file-index.in-manifest-threshold": "1 b",
        },
    },
    "no partitions": {"options": {"bucket": "-1", "deletion-vectors.enabled": "true"}},
    "rows with ids": {"options": {"bucket": "-1", "row-tracking.enabled": "true"}},
}


def _catalog(path: Path) -> FilesystemCatalog:
    return lakecore.load_catalog(str(path), create_warehouse=True)  # type: ignore[return-value]


def _made(kind: str, warehouse: Path, oracle: Oracle, commits: int = 3) -> None:
    """Some commits; a column is renamed and one is added after the first."""
    oracle.create(warehouse, "d.t", {"columns": COLUMNS, **KINDS[kind]})
    for number in range(commits):
        name = "w" if number else "v"
        rows = [{"k": number + i, "p": "xy"[i % 2], name: f"{number}.{i}"} for i in range(4)]
        oracle.write(warehouse, "d.t", rows, "--identifier", number)
        if number == 0:
            changes = [{"op": "rename", "name": "v", "to": "w"}, {"op": "add", "name": "n", "type": "INT"}]
            oracle.call("alter", warehouse, "d.t", json.dumps(changes))
    oracle.compact(warehouse, "d.t", full=kind == "dynamic buckets")
    if kind != "rows with ids":
        _catalog(warehouse).load_table("d.t").delete("k = 1")


@pytest.mark.parametrize("kind", ["dynamic buckets", "append", "rows with ids"], ids=str)
def test_java_reads_the_same_from_both(kind: str, tmp_path: Path, oracle2: Oracle) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    _made(kind, source, oracle2)
    rows = oracle2.read(source, "d.t")
    target.mkdir()
    job = Copy(source="d.t", target="e.u", target_catalog=str(target))
    planned = copy_table.run(replace(job, dry_run=True), _catalog(source))
    assert not (target / "e.db").exists()
    report = copy_table.run(job, _catalog(source))
    assert (report.files, report.bytes, report.snapshot) == (planned.files, planned.bytes, 1)
    assert oracle2.read(target, "e.u") == rows == oracle2.read(source, "d.t") != []
    assert findings(oracle2.fsck(target, "e.u")) == set()
    assert [p for p in (target / ".lakecore" / "copies").rglob("*") if p.is_file()] == []
    more = [{"k": 50 + i, "p": "x", "w": "new", "n": 1} for i in range(3)]
    for warehouse, name in ((source, "d.t"), (target, "e.u")):
        oracle2.write(warehouse, name, more, "--identifier", 99)
        oracle2.compact(warehouse, name, full=kind == "dynamic buckets")
    assert oracle2.read(target, "e.u") == oracle2.read(source, "d.t") != rows
    assert findings(oracle2.fsck(target, "e.u")) == set()


def test_partitions_databases_and_refusals(tmp_path: Path, oracle: Oracle) -> None:
    warehouse = tmp_path / "wh"
    _made("append", warehouse, oracle)
    lake = _catalog(warehouse)
    copy_table.run(Copy(source="d.t", target="d.part", partitions="p=x"), lake)
    expected = [row for row in oracle.call("read", warehouse, "d.t") if row["p"] == "x"]
    assert oracle.call("read", warehouse, "d.part") == expected != []
    assert findings(oracle.fsck(warehouse, "d.part")) == set()
    lake.create_table("d.none", {"columns": COLUMNS})
    options = {"data-file.external-paths": f"file://{tmp_path}/ext", "bucket": "-1"}
    oracle.create(warehouse, "d.out", {"columns": COLUMNS, "options": options})
    report = copy_table.run(Copy(source="d", target="f"), lake)
    assert report.names == ("f.none", "f.part", "f.t")
    assert "data-file.external-paths" in report.notes[0]
    assert oracle.read(warehouse, "f.t") == oracle.read(warehouse, "d.t")
    assert oracle.read(warehouse, "f.none") == []
    (warehouse / "f.db" / "taken").mkdir()
    (warehouse / "f.db" / "taken" / "x").write_text("mine")
    for error, source, target, partitions in (
        (AlreadyExistsError, "d.t", "d.part", None),
        (AlreadyExistsError, "d.t", "f.taken", None),
        (NotFoundError, "d.missing", "d.u", None),
        (InvalidInputError, "d.t", "d.u", "k=1"),
        (InvalidInputError, "d.t$branch_b", "d.u", None),
        (InvalidInputError, "d", "d.u", None),
        (UnsupportedError, "d.out", "d.u", None),
    ):
        with pytest.raises(error):
            copy_table.run(Copy(source=source, target=target, partitions=partitions), lake)
    assert "u" not in lake.list_tables("d")


def _seen(lake: FilesystemCatalog) -> object:
    """The number of rows; the error where the table cannot be read."""
    try:
        return lake.load_table("e.u").scan().count()
    except LakeError as err:
        return type(err)


@pytest.mark.parametrize("in_one_step", [True, False], ids=["directories move", "files move"])
def test_a_copy_that_fails_is_seen_whole_or_not_at_all(
    in_one_step: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle: Oracle
) -> None:
    """Storage dies after each change, also where it cannot move a directory; then the same copy is run again."""
    source = tmp_path / "source"
    _made("no partitions", source, oracle, commits=2)
    lake, rows = _catalog(source), oracle.read(source, "d.t")
    if not in_one_step:
        monkeypatch.setattr(LocalFileIO, "move_directory", lambda *_: False)
    job, counted = Copy(source="d.t", target="e.u"), FaultyFileIO(LocalFileIO(sync=False))
    copy_table.run(job, lake, target=replace(_catalog(tmp_path / "clean"), file_io=counted))
    changes = [number for number, line in enumerate(counted.log, 1) if line.split()[0] in CHANGES]
    seen = set()
    for number in changes:
        target = tmp_path / f"{number}"
        catalog = replace(_catalog(target), file_io=LocalFileIO(sync=False))
        storage = FaultyFileIO(catalog.file_io, fail_at=number, mode=FaultMode.DEAD_AFTER_EFFECT)
        with contextlib.suppress(LakeError):
            copy_table.run(job, lake, target=replace(catalog, file_io=storage))
        seen.add(_seen(catalog))
        shutil.rmtree(target / ".lakecore" / "leases", ignore_errors=True)  # as of a process that is dead
        with contextlib.suppress(AlreadyExistsError):
            copy_table.run(job, lake, target=catalog)
        assert _seen(catalog) == len(rows), storage.log[number - 1]
    assert seen == {NotFoundError, len(rows)}
    assert oracle.read(target, "e.u") == rows
    assert findings(oracle.fsck(target, "e.u")) == set()
