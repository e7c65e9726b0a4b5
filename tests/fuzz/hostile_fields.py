"""Every field of a record that becomes a path or a part of one, and how a hostile value gets into it.

A field plants one value into the records of a warehouse on a disk, as somebody would who can write there. It answers
whether the warehouse has such a record at all.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
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
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, DeletionRange, IndexFile
from lakecore.row.binary_row import encode_row

__all__ = ["FIELDS", "LINKS", "MARK", "Case", "Field", "values_for"]

MARK = "CANARY-7f3a"
"""In every row of the table outside: where it turns up, something was copied in."""


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


def values_for(case: Case, field: Field) -> dict[str, str]:
    """Hostile values by name."""
    wanted = sorted(case.outside.glob(field.kind)) or sorted(case.outside.glob("snapshot/snapshot-1"))
    outside = str(case.random.choice(wanted))
    base = str(case.path / field.base)
    relative = os.path.relpath(outside, base)
    other = case.warehouse / "d.db" / "other"
    sibling = str(next(iter(sorted(other.glob(field.kind))), other / "schema" / "schema-0"))
    return {
        "relative": relative,
        "absolute": outside,
        "other table": os.path.relpath(sibling, base),
        "other table, absolute": sibling,
        "inner steps": f"a/../{relative}",
        "backslashes": relative.replace("/", "\\"),
        "file://": f"file://{outside}",
        "file:": f"file:{outside}",
        "file:////": f"file:///{outside}",
        "steps in uri": f"file://{base}/{relative}",
        "s3://": "s3://other/secret",
        "s3a": "s3a://other/../secret",
        "NUL": f"{relative}\0x",
        "newline": f"x\n{relative}",
        "escape": "\x1b[2Jx",
        "percent": relative.replace("..", "%2e%2e"),
        "long": "x" * 5000,
        "long steps": "../" * 2000 + outside.lstrip("/"),
        "look-alike": relative.replace("..", "\u2024\u2024").replace("/", "\u2215"),
        "full width": relative.replace(".", "\uff0e").replace("/", "\uff0f"),
        "empty": "",
        "dot": ".",
        "dots": "..",
        "blank": " ",
        "tilde": "~/x",
        "home of lakecore": os.path.relpath(case.warehouse / ".lakecore" / "runs", base),
        "schema": os.path.relpath(case.path / "schema" / "schema-0", base),
    }


def _edit(path: Path, change: Callable[[Any], None]) -> None:
    raw = json.loads(path.read_bytes())
    change(raw)
    path.write_text(json.dumps(raw))


def _some(case: Case, paths: list[Path]) -> list[Path]:
    """All, or one of them."""
    return paths if case.random.random() < 0.5 or not paths else [case.random.choice(paths)]


def _json(pattern: str, key: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        found = _some(case, case.files(pattern))
        for path in found:
            _edit(path, lambda raw: raw.update({key: value}))
        return bool(found)

    return plant


def _option(key: str, form: str = "{}") -> Plant:
    def plant(case: Case, value: str) -> bool:
        for path in case.files("schema/schema-*"):
            _edit(path, lambda raw: raw["options"].update({key: form.format(value)}))
        return True

    return plant


def _column_name(case: Case, value: str) -> bool:
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


def _line(case: Case, value: str) -> bool:
    for path in _some(case, case.files("manifest/manifest-list-*")):
        lines = list(decode_manifest_list(path.read_bytes(), "x"))
        if lines:
            place = case.random.randrange(len(lines))
            lines[place] = replace(lines[place], file_name=value)
            path.write_bytes(encode_manifest_list(lines))
    return True


def _entry(change: Callable[[Any, str], dict[str, Any]]) -> Plant:
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


def _partition(case: Case, value: str) -> bool:
    from lakecore.types.datatypes import DataField, RowType, parse_type

    if not any(json.loads(path.read_bytes())["partitionKeys"] for path in case.files("schema/schema-*")):
        return False
    row = encode_row((value,), RowType((DataField(0, "p", parse_type("STRING")),)))
    for path in _some(case, _manifest_files(case)):
        rows = decode_manifest(path.read_bytes(), "x").rows()
        path.write_bytes(encode_manifest([replace(one, partition=row) for one in rows]))
    return True


def _index_line(change: Callable[[str], dict[str, Any]]) -> Plant:
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


def _hint(name: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        for folder in ("snapshot", "changelog"):
            if (case.path / folder).is_dir():
                (case.path / folder / name).write_text(value)
        return True

    return plant


def _consumer(case: Case, value: str) -> bool:
    folder = case.path / "consumer"
    folder.mkdir(exist_ok=True)
    (folder / "consumer-forged").write_text(json.dumps({"nextSnapshot": value}))
    return True


def _named(folder: str, prefix: str, source: str) -> Plant:
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


def _branch_name(case: Case, value: str) -> bool:
    name = f"branch-{value}"
    if "/" in name or "\0" in name or len(name.encode()) > 255:
        return False
    for folder in ("schema", "snapshot", "tag"):
        if (case.path / folder).is_dir():
            shutil.copytree(case.path / folder, case.path / "branch" / name / folder, dirs_exist_ok=True)
    return True


def _runs(case: Case) -> list[Path]:
    return sorted(case.ledger.glob("*/run.json"))


def _run_field(key: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        for path in _runs(case):
            _edit(path, lambda raw: raw.update({key: value}))
        return bool(_runs(case))

    return plant


def _removal(part: int, state: str | None) -> Plant:
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


def _run_folder(case: Case, value: str) -> bool:
    folder = case.ledger / "20200101T000000-expire-snapshots-1"
    _forged_run(case, folder, "quarantined")
    (folder / "kept").mkdir()
    (folder / "kept" / "00000000-x").write_bytes(b"x")
    _edit(folder / "run.json", lambda raw: raw.update(id=value))
    return True


def _lease(case: Case, value: str) -> bool:
    folder = case.warehouse / ".lakecore" / "leases" / f"d.{case.table}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "7").write_text(
        json.dumps({"owner": value, "until_ms": case.random.choice([0, -1, value, 10**400])})
    )
    for name in ("٣", "²", "9" * 200, "-1", "007"):
        (folder / name).write_text("x")
    return True


def _history(case: Case, value: str) -> bool:
    folder = case.warehouse / ".lakecore" / "history" / f"d.{case.table}"
    folder.mkdir(parents=True, exist_ok=True)
    line = {"table": value, "job": value, "started_ms": value, "engine": value, "work": {}, "run": value}
    (folder / "compact.json").write_text(json.dumps([line]))
    return True


def _plan(change: Callable[[dict[str, Any], str], None]) -> Plant:
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


def _link(place: str) -> Plant:
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


def _new_link(place: str) -> Plant:
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


def _file_link(pattern: str) -> Plant:
    def plant(case: Case, value: str) -> bool:
        found, outside = case.files(pattern), sorted(case.outside.glob(pattern))
        for path in _some(case, found) if outside else ():
            path.unlink()
            path.symlink_to(outside[0])
        return bool(found and outside)

    return plant


def _roots() -> Iterator[Field]:
    kinds = {
        "baseManifestList": "manifest/manifest-list-*",
        "deltaManifestList": "manifest/manifest-list-*",
        "changelogManifestList": "manifest/manifest-list-*",
        "indexManifest": "manifest/manifest-list-*",
        "statistics": "schema/schema-0",
    }
    for record, pattern in (
        ("snapshot", "snapshot/snapshot-*"),
        ("tag", "tag/tag-*"),
        ("changelog", "changelog/changelog-*"),
    ):
        for key, kind in kinds.items():
            base = "statistics" if key == "statistics" else "manifest"
            yield Field(f"{record}.{key}", _json(pattern, key), base, kind)


LINKS = tuple(
    Field(f"link.{place}", plant(place), copies=False)
    for plant, places in (
        (
            _link,
            (
                "d.db/{t}/snapshot", "d.db/{t}/schema", "d.db/{t}/manifest", "d.db/{t}/bucket-0", "d.db/{t}/p=*",
                "d.db/{t}/tag", "d.db/{t}/branch", "d.db/{t}/branch/branch-*", "d.db/{t}/branch/branch-*/snapshot",
                "d.db/{t}/changelog", "d.db/{t}/consumer", "d.db/{t}/index", "d.db/{t}", "d.db", ".lakecore",
                ".lakecore/runs", ".lakecore/runs/d.{t}", ".lakecore/runs/d.{t}/*", ".lakecore/runs/d.{t}/*/kept",
                ".lakecore/leases", ".lakecore/leases/d.{t}", ".lakecore/history",
            ),
        ),
        (
            _new_link,
            (
                "d.db/{t}/index", "d.db/{t}/statistics", "d.db/{t}/tag", "d.db/{t}/consumer", "d.db/{t}/changelog",
                "d.db/{t}/branch", "d.db/{t}/bucket-7", "d.db/{t}/branch/branch-new", "d.db/{t}/tag/tag-success-file",
                ".lakecore", ".lakecore/runs", ".lakecore/leases", ".lakecore/history",
            ),
        ),
        (_file_link, ("bucket-0/*.parquet", "snapshot/snapshot-*", "schema/schema-*", "tag/tag-*", "manifest/manifest-*")),
    )
    for place in places
)  # fmt: skip

FIELDS = (
    *_roots(),
    Field("schema.options.data-file.prefix", _option("data-file.prefix"), "bucket-0"),
    Field("schema.options.changelog-file.prefix", _option("changelog-file.prefix"), "bucket-0"),
    Field("schema.options.data-file.path-directory", _option("data-file.path-directory")),
    Field("schema.options.data-file.external-paths", _option("data-file.external-paths"), copies=False),
    Field(
        "schema.options.data-file.external-paths uri",
        _option("data-file.external-paths", "file://{}"),
        copies=False,
    ),
    Field("schema.options.global-index.external-path", _option("global-index.external-path"), copies=False),
    Field("schema.options.path", _option("path")),
    Field("schema.options.partition.default-name", _option("partition.default-name")),
    Field("schema.options.scan.fallback-branch", _option("scan.fallback-branch"), "branch"),
    Field("schema.options.file.format", _option("file.format"), "bucket-0"),
    Field("schema.fields.name", _column_name),
    Field("hint.LATEST", _hint("LATEST"), "snapshot"),
    Field("hint.EARLIEST", _hint("EARLIEST"), "snapshot"),
    Field("consumer.nextSnapshot", _consumer),
    Field("manifest-list._FILE_NAME", _line, "manifest", "manifest/manifest-[0-9a-f]*"),
    Field("manifest._FILE_NAME", _entry(lambda file, value: {"file_name": value}), "bucket-0"),
    Field("manifest._EXTRA_FILES", _entry(lambda file, value: {"extra_files": (value,)}), "bucket-0"),
    Field("manifest._EXTERNAL_PATH", _entry(lambda file, value: {"external_path": value}), "bucket-0"),
    Field("manifest._PARTITION", _partition),
    Field("index-manifest._FILE_NAME", _index_line(lambda value: {"file_name": value}), "index"),
    Field("index-manifest._EXTERNAL_PATH", _index_line(lambda value: {"external_path": value}), "index"),
    Field(
        "index-manifest._DELETIONS_VECTORS_RANGES.f0",
        _index_line(lambda value: {"deletions": (DeletionRange(value, 1, 2, 1),)}),
        "index",
    ),
    Field("name of a tag", _named("tag", "tag-", "tag/tag-*"), "tag"),
    Field("name of a consumer", _named("consumer", "consumer-", "tag/tag-*"), "consumer"),
    Field("name of a snapshot", _named("snapshot", "snapshot-", "snapshot/snapshot-*"), "snapshot"),
    Field("name of a data file", _named("bucket-0", "", "bucket-0/*"), "bucket-0"),
    Field("name of a manifest", _named("manifest", "", "manifest/*"), "manifest"),
    Field("name of a branch", _branch_name, "branch"),
    Field("run.id", _run_field("id")),
    Field("run.id, forged", _run_folder),
    Field("run.table", _run_field("table")),
    Field("run.files.path of a root", _removal(0, None)),
    Field("run.files.path", _removal(1, None)),
    Field("run.files.path of a root, forged", _removal(0, "planned")),
    Field("run.files.path, forged", _removal(1, "planned")),
    Field("run.files.path of a root, quarantined", _removal(0, "quarantined")),
    Field("run.files.path, quarantined", _removal(1, "quarantined")),
    Field("lease.owner", _lease),
    Field("history.table", _history),
    Field("repair-plan.step.branch", _plan(lambda step, value: step.update(branch=value)), "branch"),
    Field(
        "repair-plan.step.changes", _plan(lambda step, value: step.update(changes=[*step["changes"], value]))
    ),
    Field("repair-plan.step.action", _plan(lambda step, value: step.update(action=value))),
    Field(
        "repair-plan.step.parameters",
        _plan(lambda step, value: step.update(parameters={"unreadable": [value], "described": [value]})),
        "bucket-0",
    ),
    Field(
        "repair-plan.step.parameters.damaged",
        _plan(lambda step, value: step.update(action="rebuild-hash-index", parameters={"damaged": [value]})),
        "index",
    ),
    Field(
        "repair-plan.step.parameters.unread",
        _plan(lambda step, value: step.update(action="rewrite-times", parameters={"unread": [value]})),
        "bucket-0",
    ),
)
