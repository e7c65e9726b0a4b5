"""Tables written by Java Paimon (1.4.2, some by 0.8.2 and 0.9.0; 2.0.0), with the rows that Java read from them.

The archives in tests/golden are unpacked once into .cache. Nobody may write there: `copy_to` gives a table of one's own.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["GoldenTable", "View", "canonical", "golden_table", "golden_tables", "set_option"]

ROOT = Path(__file__).resolve().parents[2]
ARCHIVES = {"1.4.2": "paimon-1.4.tar.xz", "2.0.0": "paimon-2.0.tar.xz"}


@dataclass(frozen=True, slots=True)
class View:
    """One state of a table to read, and the file with its rows: exactly one of the first three, or the latest."""

    file: str
    snapshot: int | None = None
    tag: str | None = None
    branch: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `Table.scan`."""
        named = {"snapshot": self.snapshot, "tag": self.tag, "branch": self.branch}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class GoldenTable:
    """One table in a warehouse, and what Java Paimon says of it."""

    version: str
    database: str
    table: str
    warehouse: Path
    expected: Path

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def path(self) -> Path:
        return self.warehouse / f"{self.database}.db" / self.table

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        """EXPECTED.json: schema, snapshots, tags, branches, fsck."""
        facts: dict[str, Any] = json.loads((self.expected / "EXPECTED.json").read_text())
        return facts

    @functools.cached_property
    def layout(self) -> dict[str, Any]:
        """layout.json: groups and files of the latest snapshot."""
        layout: dict[str, Any] = json.loads((self.expected / "layout.json").read_text())
        return layout

    @property
    def options(self) -> dict[str, str]:
        """Options of the latest schema."""
        return dict(self.facts["schema"]["options"])

    def schema(self, schema_id: int, branch: str | None = None) -> dict[str, Any]:
        """One schema file, as Java wrote it."""
        folder = self.path / "branch" / f"branch-{branch}" if branch else self.path
        schema: dict[str, Any] = json.loads((folder / "schema" / f"schema-{schema_id}").read_text())
        return schema

    def views(self) -> Iterator[View]:
        """The latest state first, then every snapshot, tag and branch."""
        yield View("rows.jsonl")
        for snapshot in self.facts["snapshots"]:
            yield View(f"snapshot-{snapshot['id']}.jsonl.gz", snapshot=snapshot["id"])
        for tag in self.facts["tags"]:
            yield View(f"tag-{tag['name']}.jsonl.gz", tag=tag["name"])
        for branch in self.facts["branches"]:
            yield View(f"branch-{branch}.jsonl.gz", branch=branch)

    def rows(self, view: View) -> list[str]:
        """What Java read there: canonical lines, sorted."""
        return canonical(_lines(self.expected / view.file))

    def kinds(self, view: View) -> Counter[str]:
        """How many rows of each kind (`+I`, `+U`) Java read there."""
        return Counter(json.loads(line).get("_kind", "+I") for line in _lines(self.expected / view.file))

    def inputs(self) -> list[dict[str, Any]]:
        """The operations that made the table, with their rows."""
        return [json.loads(line) for line in _lines(self.expected / "inputs.jsonl.gz")]

    def copy_to(self, warehouse: Path) -> GoldenTable:
        """The same table in another warehouse, to write to."""
        copy = GoldenTable(self.version, self.database, self.table, warehouse, self.expected)
        shutil.copytree(self.path, copy.path)
        return copy


def set_option(table: Path, key: str, value: str) -> None:
    """Write an option into the latest schema of a table of one's own, whatever a release thinks of it."""
    latest = max((table / "schema").iterdir(), key=lambda path: int(path.name.removeprefix("schema-")))
    schema = json.loads(latest.read_text())
    latest.write_text(json.dumps({**schema, "options": {**schema["options"], key: value}}))


def canonical(lines: Iterable[str | dict[str, Any]]) -> list[str]:
    """One text per row whatever the order of columns and the spelling of numbers; sorted.

    `_kind` is left out: in a batch read it tells an insert from an update, which is no part of the row.
    """
    rows = (json.loads(line) if isinstance(line, str) else line for line in lines)
    return sorted(
        json.dumps({k: v for k, v in row.items() if k != "_kind"}, sort_keys=True, ensure_ascii=False)
        for row in rows
    )


def golden_table(name: str) -> GoldenTable:
    """The table `db.t`."""
    return next(table for table in golden_tables() if table.name == name)


@functools.cache
def golden_tables() -> tuple[GoldenTable, ...]:
    """All tables of both sets; unpacks them on first use (a few seconds)."""
    found = []
    for version, archive in ARCHIVES.items():
        folder = _unpacked(ROOT / "tests" / "golden" / archive)
        for database in sorted((folder / "warehouse").iterdir()):
            found += [
                GoldenTable(version, database.name.removesuffix(".db"), path.name, database.parent, expected)
                for path in sorted(database.iterdir())
                if (expected := folder / "expected" / path.name).is_dir()
            ]
    return tuple(found)


def _unpacked(archive: Path) -> Path:
    """The folder with the contents of `archive`; several processes may ask at once."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    target = ROOT / ".cache" / "golden" / f"{archive.name.removesuffix('.tar.xz')}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix="unpacking-"))
    with tarfile.open(archive) as tar:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian 12 has Python 3.11.2
        tar.extractall(fresh, **safe)
    try:
        os.rename(fresh, target)
    except OSError:
        shutil.rmtree(fresh)
        if not target.exists():
            raise
    return target


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return text.rstrip("\n").split("\n") if text else []
