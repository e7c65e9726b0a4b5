"""Records that somebody forged or that are damaged: refused before anything is touched, and nobody else is held up."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import CorruptDataError, InvalidOptionError
from lakecore.format.manifest.manifests import decode_manifest, encode_manifest
from lakecore.jobs import compact, quarantine, remove_orphan_files
from tests.support.chores import AT_ONCE, FUTURE, expire, expire_and_keep, remove_orphans
from tests.support.lake import append_table, put, rows_of
from tests.support.maintained import history


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    catalog = load_catalog(str(tmp_path / "wh"), create_warehouse=True, **{"local.fsync": "false"})
    history(catalog)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mine").write_text("mine")
    return catalog


def _forge(lake: FilesystemCatalog, files: bytes, **fields: Any) -> Path:
    folder = Path(lake.warehouse) / ".lakecore" / "runs" / "d.k" / "r1"
    folder.mkdir(parents=True)
    record = {
        "id": "r1",
        "table": "d.k",
        "job": "expire-snapshots",
        "state": "planned",
        "keeps": False,
        "started_ms": FUTURE.now_ms(),
    }
    (folder / "run.json").write_text(json.dumps(record | fields))
    (folder / "files.jsonl.gz").write_bytes(files)
    return folder


def _line(part: int, path: str) -> bytes:
    return gzip.compress(json.dumps([part, path, 1, "x"]).encode())


@pytest.mark.parametrize("state", ["planned", "quarantined"])
@pytest.mark.parametrize("place", ["absolute", "steps", "service", "schema", "other table"])
@pytest.mark.parametrize("part", [0, 1])
def test_a_forged_run_removes_nothing_and_stops_no_chore(
    part: int,
    place: str,
    state: str,
    lake: FilesystemCatalog,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    append_table(lake)
    put(lake.load_table("d.a"), [{"v": 1, "p": "x"}])
    table = Path(lake.warehouse) / "d.db" / "k"
    path = {
        "absolute": str(tmp_path / "outside" / "mine"),
        "steps": f"{table}/bucket-0/../../../../outside/mine",
        "service": f"{lake.warehouse}/.lakecore/important",
        "schema": f"{table}/schema/schema-0",
        "other table": str(next((table.parent / "a" / "bucket-0").iterdir())),
    }[place]
    (Path(lake.warehouse) / ".lakecore").mkdir(exist_ok=True)
    (Path(lake.warehouse) / ".lakecore" / "important").write_text("x")
    folder = _forge(lake, _line(part, path), state=state, keeps=state == "quarantined")
    with caplog.at_level(logging.WARNING):
        expire(lake)
        remove_orphans(lake)
    assert os.path.exists(path)
    assert rows_of(lake.load_table("d.k"))
    if state == "planned":
        assert str(folder) in caplog.text
    else:
        (folder / "kept").mkdir(exist_ok=True)
        (folder / "kept" / f"00000000-{os.path.basename(path)}").write_text("forged")
        if place != "schema":
            os.remove(path)
        with pytest.raises(CorruptDataError):
            quarantine.run(quarantine.Undo(run_id="r1"), lake)
        assert os.path.exists(path) == (place == "schema")


_BAD_LINES = {
    "part": '[2, "p", 1, "w"]', "truth as part": '[true, "p", 1, "w"]', "path": '[0, 5, 1, "w"]', "reason": '[1, "p", 1, null]',
    "size": '[1, "p", "1", "w"]', "truth as size": '[1, "p", true, "w"]', "negative size": '[1, "p", -1, "w"]',
    "large size": f'[1, "p", {1 << 63}, "w"]', "fewer fields": '[1, "p", 1]', "long line": f'[1, "{"p" * (1 << 20)}", 1, "w"]',
}  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"x", gzip.compress(b"{}"), gzip.compress(b"[" * 100_000), b"\x1f\x8b"),
        *(gzip.compress(line.encode()) for line in _BAD_LINES.values()),
    ],
    ids=["empty", "one byte", "no list", "deep list", "cut header", *_BAD_LINES],  # gzip bytes hold the time
)
def test_a_damaged_list_of_files_stops_no_chore(
    damage: bytes, lake: FilesystemCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    _forge(lake, damage, keeps=True)
    with caplog.at_level(logging.WARNING):
        assert expire_and_keep(lake).files > 0
        remove_orphans(lake)
    assert damage == b"" or "r1" in caplog.text


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "../../x"},
        {"id": "other"},
        {"table": "d.a"},
        {"state": "lost"},
        {"started_ms": "x"},
        {"outcome": 5},
        {"keeps": 1},
    ],
)
def test_a_damaged_record_is_passed_over(
    fields: dict[str, Any], lake: FilesystemCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    _forge(lake, _line(1, "/x"), **fields)
    with caplog.at_level(logging.WARNING):
        expire(lake)
        assert [record.id for record in quarantine.runs_of(lake)] != []
    assert "r1/run.json is ignored" in caplog.text


def test_a_quarantine_behind_a_link_is_not_emptied_and_others_are(
    lake: FilesystemCatalog, tmp_path: Path
) -> None:
    expire_and_keep(lake)
    folder = _forge(lake, _line(1, "/x"), state="quarantined", keeps=True)
    (folder / "kept").symlink_to(tmp_path / "outside")
    gone = quarantine.run(quarantine.Purge(ttl_ms=-1), lake, clock=FUTURE)
    assert (tmp_path / "outside" / "mine").read_text() == "mine"
    assert len(gone.names) == 1
    assert "r1" not in gone.names


@pytest.mark.parametrize(
    "place",
    [
        "runs/d.k/r1/run.json", "runs/d.k/r1/files.jsonl.gz", "runs/d.k/r2", "leases/d.k/7", "history/d.k/expire_snapshots.json",
        "holds/d.other/x.json", "holds/d.other",
    ],
)  # fmt: skip
def test_a_record_that_is_a_link_to_elsewhere_stops_no_chore(
    place: str, lake: FilesystemCatalog, tmp_path: Path
) -> None:
    expire_and_keep(lake)
    _forge(lake, _line(1, "/x"), state="quarantined", keeps=True)
    path = Path(lake.warehouse) / ".lakecore" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "outside" / "mine")
    expire(lake)
    assert len(quarantine.run(quarantine.Purge(ttl_ms=-1), lake, clock=FUTURE).names) >= 1
    assert (tmp_path / "outside" / "mine").read_text() == "mine"


@pytest.mark.parametrize("name", ["9" * 30, "٣", "²", "-1", "x"])
def test_a_forged_lease_holds_up_nobody(name: str, lake: FilesystemCatalog) -> None:
    folder = Path(lake.warehouse) / ".lakecore" / "leases" / "d.k"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"owner": "forged", "until_ms": 10**15}))
    expire(lake)


def _external(lake: FilesystemCatalog, path: str) -> None:
    """The files of the oldest manifests lie at `path`, as the manifests say."""
    table = lake.load_table("d.k")
    for manifest in sorted(Path(table._stores.paths.manifest_dir).glob("manifest-*")):
        if not manifest.name.startswith("manifest-list-"):
            rows = decode_manifest(manifest.read_bytes(), "x").rows()
            moved = [
                replace(row, file=replace(row.file, external_path=f"{path}/{row.file.file_name}"))
                for row in rows
            ]
            manifest.write_bytes(encode_manifest(moved))
    shutil.copytree(f"{table.path}/bucket-0", path.removeprefix("file://"), dirs_exist_ok=True)


def _name_root(lake: FilesystemCatalog, root: str) -> None:
    schema = Path(lake.load_table("d.k")._stores.paths.schema(0))
    raw = json.loads(schema.read_bytes())
    raw["options"]["data-file.external-paths"] = root
    schema.write_text(json.dumps(raw))


def test_files_outside_are_read_and_removed_below_declared_roots_only(
    lake: FilesystemCatalog, tmp_path: Path
) -> None:
    root = f"file://{tmp_path}/ext"
    before = rows_of(lake.load_table("d.k"))
    _external(lake, root)
    there = sorted((tmp_path / "ext").iterdir())
    with pytest.raises(CorruptDataError, match="external-roots"):
        rows_of(lake.load_table("d.k"))
    with pytest.raises(CorruptDataError, match="external-roots"):
        compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), lake)
    shutil.rmtree(Path(lake.warehouse) / ".lakecore" / "holds")
    with pytest.raises(CorruptDataError, match="external-roots"):
        expire(lake)
    shutil.rmtree(Path(lake.warehouse) / ".lakecore" / "holds")
    _name_root(lake, root)
    assert rows_of(lake.load_table("d.k")) == before
    ids = lake.load_table("d.k")._stores.snapshots.list_ids()
    with pytest.raises(InvalidOptionError, match="external-roots"):
        expire(lake)
    assert lake.load_table("d.k")._stores.snapshots.list_ids() == ids
    assert "expire-snapshots" not in {run.job for run in quarantine.runs_of(lake, "d.k")}
    assert sorted((tmp_path / "ext").iterdir()) == there
    strict = load_catalog(lake.warehouse, **{"external-roots": ""})
    with pytest.raises(CorruptDataError):
        rows_of(strict.load_table("d.k"))
    declared = load_catalog(lake.warehouse, **{"external-roots": root})
    assert rows_of(declared.load_table("d.k")) == before
    expire(declared)
    assert set((tmp_path / "ext").iterdir()) < set(there)
    assert rows_of(declared.load_table("d.k")) == before


def test_links_are_left_alone_by_the_search_for_orphans(lake: FilesystemCatalog, tmp_path: Path) -> None:
    table = Path(lake.load_table("d.k").path)
    (table / "bucket-7").symlink_to(tmp_path / "outside")
    (table / "bucket-0" / "data-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-0.parquet").symlink_to(
        tmp_path / "outside" / "mine"
    )
    (table / "bucket-0" / "data-orphan.parquet").write_text("x")
    job = remove_orphan_files.Job(table="d.k", safety=AT_ONCE)
    report = remove_orphan_files.run(job, lake, clock=FUTURE)
    assert report.names == (str(table / "bucket-0" / "data-orphan.parquet"),)
    assert (tmp_path / "outside" / "mine").read_text() == "mine"


def test_a_table_is_dropped_and_what_its_links_lead_to_is_not(
    lake: FilesystemCatalog, tmp_path: Path
) -> None:
    table = Path(lake.load_table("d.k").path)
    (table / "bucket-7").symlink_to(tmp_path / "outside")
    (table / "snapshot" / "snapshot-99").symlink_to(tmp_path / "outside" / "mine")
    lake.drop_table("d.k")
    assert not table.exists()
    assert (tmp_path / "outside" / "mine").read_text() == "mine"
