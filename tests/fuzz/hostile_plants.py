"""Plants: each writes one hostile value into one field of the metadata, of the ledger, or as a link."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lakecore.format.manifest.index_manifests import decode_index_manifest, encode_index_manifest
from lakecore.format.manifest.manifests import (
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, IndexFile
from lakecore.row.binary_row import encode_row


@dataclass(frozen=True)
class Case:
    """A copy of a warehouse. `outside`: a table's directory that nobody may touch; `linked`: what links lead to."""

    root: Path
    outside: Path
    table: str
    random: random.Random

    @property
    def warehouse(self) -> Path:
        return self.root / "wh"

    @property
    def linked(self) -> Path:
        return self.root / "linked"

    @property
    def path(self) -> Path:
        return self.warehouse / "d.db" / self.table

    @property
    def ledger(self) -> Path:
        return self.warehouse / ".lakecore" / "runs" / f"d.{self.table}"

    def files(self, *patterns: str) -> list[Path]:
        """Files of the table, of any branch."""
        tops = [self.path, *sorted(self.path.glob("branch/branch-*"))]
        found = (path for top in tops for pattern in patterns for path in sorted(top.glob(pattern)))
        return [path for path in found if path.is_file() and path.name not in ("LATEST", "EARLIEST")]


Plant = Callable[[Case, str], bool]


@dataclass(frozen=True)
class Field:
    """`name`: record and field. `base`: the directory below the table that values are relative to; `kind`: a pattern
    of files of the table outside that would be read there.
    """

    name: str
    plant: Plant
    base: str = "."
    kind: str = "bucket-0/*.parquet"
    copies: bool = True
    """Whether what lies outside must not be copied in: reads follow links."""


def _edit(path: Path, change: Callable[[Any], None]) -> None:
    raw = json.loads(path.read_bytes())
    change(raw)
    path.write_text(json.dumps(raw))


def _some(case: Case, paths: list[Path]) -> list[Path]:
    """All, or one of them."""
    return paths if case.random.random() < 0.5 or not paths else [case.random.choice(paths)]


def plant_json(pattern: str, key: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        found = _some(case, case.files(pattern))
        for path in found:
            _edit(path, lambda raw: raw.update({key: value}))
        return bool(found)

    return plant


def plant_option(key: str, form: str = "{}") -> Plant:
    def plant(case: Case, value: str) -> bool:
        for path in case.files("schema/schema-*"):
            _edit(path, lambda raw: raw["options"].update({key: form.format(value)}))
        return True

    return plant


def plant_column_name(case: Case, value: str) -> bool:
    """Of a partition column, whose name is part of directories' names."""
    found = [path for path in case.files("schema/schema-*") if json.loads(path.read_bytes())["partitionKeys"]]
    for path in found:
        raw = json.loads(path.read_bytes())
        (key,) = raw["partitionKeys"]
        text = json.dumps(raw).replace(json.dumps(key), json.dumps(value))
        path.write_text(text)
    return bool(found)


def _manifest_files(case: Case) -> list[Path]:
    found = case.files("manifest/manifest-*")
    return [path for path in found if not path.name.startswith("manifest-list-")]


def plant_line(case: Case, value: str) -> bool:
    for path in _some(case, case.files("manifest/manifest-list-*")):
        lines = list(decode_manifest_list(path.read_bytes(), "x"))
        if lines:
            place = case.random.randrange(len(lines))
            lines[place] = replace(lines[place], file_name=value)
            path.write_bytes(encode_manifest_list(lines))
    return True


def plant_entry(change: Callable[[Any, str], dict[str, Any]]) -> Plant:
    """`change`: what of the data file of an entry becomes what."""

    def plant(case: Case, value: str) -> bool:
        for path in _some(case, _manifest_files(case)):
            rows = decode_manifest(path.read_bytes(), "x").rows()
            made = [
                replace(row, file=replace(row.file, **change(row.file, value)))
                if case.random.random() < 0.7
                else row
                for row in rows
            ]
            path.write_bytes(encode_manifest(made))
        return True

    return plant


def plant_partition(case: Case, value: str) -> bool:
    from lakecore.types.datatypes import DataField, RowType, parse_type

    if not any(json.loads(path.read_bytes())["partitionKeys"] for path in case.files("schema/schema-*")):
        return False
    row = encode_row((value,), RowType((DataField(0, "p", parse_type("STRING")),)))
    for path in _some(case, _manifest_files(case)):
        rows = decode_manifest(path.read_bytes(), "x").rows()
        path.write_bytes(encode_manifest([replace(one, partition=row) for one in rows]))
    return True


def plant_index_line(change: Callable[[str], dict[str, Any]]) -> Plant:
    def plant(case: Case, value: str) -> bool:
        found = case.files("manifest/index-manifest-*")
        for path in found:
            lines = decode_index_manifest(path.read_bytes(), "x")
            path.write_bytes(encode_index_manifest([replace(line, **change(value)) for line in lines]))
        if found:
            return True
        snapshots = case.files("snapshot/snapshot-*", "tag/tag-*")
        line = IndexFile(
            partition=bytes(12),
            bucket=0,
            index_type=DELETION_VECTORS,
            file_name="index-1",
            file_size=10,
            row_count=1,
        )
        name = "index-manifest-forged-0"
        (case.path / "manifest" / name).write_bytes(encode_index_manifest([replace(line, **change(value))]))
        for path in _some(case, snapshots):
            _edit(path, lambda raw: raw.update(indexManifest=name))
        return bool(snapshots)

    return plant


def plant_hint(name: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        for folder in ("snapshot", "changelog"):
            if (case.path / folder).is_dir():
                (case.path / folder / name).write_text(value)
        return True

    return plant


def plant_consumer(case: Case, value: str) -> bool:
    folder = case.path / "consumer"
    folder.mkdir(exist_ok=True)
    (folder / "consumer-forged").write_text(json.dumps({"nextSnapshot": value}))
    return True


def plant_named(folder: str, prefix: str, source: str) -> Plant:
    """A file with a hostile name, as far as the file system takes it."""

    def plant(case: Case, value: str) -> bool:
        target, found = case.path / folder, case.files(source)
        name = f"{prefix}{value}"
        if not found or name in ("", ".", "..") or "/" in name or "\0" in name or len(name.encode()) > 255:
            return False
        target.mkdir(exist_ok=True)
        shutil.copy(found[0], target / name)
        return True

    return plant


def plant_branch_name(case: Case, value: str) -> bool:
    name = f"branch-{value}"
    if "/" in name or "\0" in name or len(name.encode()) > 255:
        return False
    for folder in ("schema", "snapshot", "tag"):
        if (case.path / folder).is_dir():
            shutil.copytree(case.path / folder, case.path / "branch" / name / folder, dirs_exist_ok=True)
    return True


def _runs(case: Case) -> list[Path]:
    return sorted(case.ledger.glob("*/run.json"))


def plant_run_field(key: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        for path in _runs(case):
            _edit(path, lambda raw: raw.update({key: value}))
        return bool(_runs(case))

    return plant


def plant_removal(part: int, state: str | None) -> Plant:
    """`state`: of a run that is forged; None: every run that is there gets the path."""

    def plant(case: Case, value: str) -> bool:
        folders = [path.parent for path in _runs(case)]
        path = os.path.join(case.path, value) if case.random.random() < 0.5 else value
        line = json.dumps([part, path, 1, "forged"])
        if state is not None:
            folders = [case.ledger / "20200101T000000-expire-snapshots-0"]
            _forged_run(case, folders[0], state)
        for folder in folders:
            (folder / "files.jsonl.gz").write_bytes(gzip.compress(line.encode()))
            (folder / "kept").mkdir(exist_ok=True)
            (
                folder / "kept" / f"00000000-{os.path.basename(value)[:50] or 'x'}".replace("\0", "")
            ).write_bytes(b"x")
        return bool(folders)

    return plant


def _forged_run(case: Case, folder: Path, state: str) -> None:
    folder.mkdir(parents=True)
    record = {
        "id": folder.name, "table": f"d.{case.table}", "job": "expire-snapshots", "state": state,
        "keeps": state != "planned" or case.random.random() < 0.5, "started_ms": 1, "finished_ms": 2,
        "parameters": {}, "estimate": {}, "outcome": {},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))


def plant_run_folder(case: Case, value: str) -> bool:
    folder = case.ledger / "20200101T000000-expire-snapshots-1"
    _forged_run(case, folder, "quarantined")
    (folder / "kept").mkdir()
    (folder / "kept" / "00000000-x").write_bytes(b"x")
    _edit(folder / "run.json", lambda raw: raw.update(id=value))
    return True


def plant_lease(case: Case, value: str) -> bool:
    folder = case.warehouse / ".lakecore" / "leases" / f"d.{case.table}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "7").write_text(
        json.dumps({"owner": value, "until_ms": case.random.choice([0, -1, value, 10**400])})
    )
    for name in ("٣", "²", "9" * 200, "-1", "007"):
        (folder / name).write_text("x")
    return True


def plant_history(case: Case, value: str) -> bool:
    folder = case.warehouse / ".lakecore" / "history" / f"d.{case.table}"
    folder.mkdir(parents=True, exist_ok=True)
    line = {"table": value, "job": value, "started_ms": value, "engine": value, "work": {}, "run": value}
    (folder / "compact.json").write_text(json.dumps([line]))
    return True


def plant_plan(change: Callable[[dict[str, Any], str], None]) -> Plant:
    def plant(case: Case, value: str) -> bool:
        path = case.warehouse / "plan.json"
        if not path.is_file():
            return False
        raw = json.loads(path.read_bytes())
        for step in raw["steps"]:
            change(step, value)
        path.write_text(json.dumps(raw))
        return True

    return plant


def plant_link(place: str) -> Plant:
    """What is at `place` moves outside, and a link to it takes its place."""

    def plant(case: Case, value: str) -> bool:
        found = sorted(case.warehouse.glob(place.format(t=case.table)))
        for number, path in enumerate(found):
            target = case.linked / f"{number}-{path.name}"
            case.linked.mkdir(exist_ok=True)
            shutil.move(path, target)
            path.symlink_to(target)
        return bool(found)

    return plant


def plant_new_link(place: str) -> Plant:
    """A link to a directory outside where there is nothing yet."""

    def plant(case: Case, value: str) -> bool:
        path = case.warehouse / place.format(t=case.table)
        if path.exists():
            return False
        case.linked.mkdir(exist_ok=True)
        (case.linked / "data-1.parquet").write_text("old")
        (case.linked / "1").write_text("old")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(case.linked)
        return True

    return plant


def plant_file_link(pattern: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        found, outside = case.files(pattern), sorted(case.outside.glob(pattern))
        for path in _some(case, found) if outside else ():
            path.unlink()
            path.symlink_to(outside[0])
        return bool(found and outside)

    return plant
