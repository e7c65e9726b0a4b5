"""The lakes of the run, of tables that Java Paimon wrote, and what must hold of them at the end."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa

import lakecore
from lakecore.jobs import fsck
from lakecore.metadata.snapshot import CommitKind
from lakecore.row.json_rows import batch_to_json
from tests.support.environments import ROOT
from tests.support.golden import View, canonical, golden_table

__all__ = ["Lake", "digests"]


@dataclass(frozen=True)
class Lake:
    """A warehouse of golden tables and the demo's tables; the rows of each are known."""

    path: Path
    rows: dict[str, str]
    """A digest of the rows of each table; of golden tables those that Java read."""

    @classmethod
    def make(cls, path: Path) -> Lake:
        """The lake of the demo."""
        with tarfile.open(ROOT / "demo" / "lake.tar.xz") as tar:
            tar.extractall(path.parent / "unpacked", filter="data")
        shutil.move(path.parent / "unpacked" / "lake", path)
        lake = cls(path, {})
        lake.rows.update({name: lake.digest(name) for name in lake.names()})
        return lake

    def place(self, golden: str, name: str) -> str:
        """Copy a golden table as `database.table`."""
        source = golden_table(golden)
        shutil.copytree(source.path, self.folder(name))
        self.rows[name] = _digest(source.rows(View("rows.jsonl")))
        return name

    def make_days(self, name: str, first: date, count: int) -> str:
        """A table with a partition of three files for each day."""
        days = [(first + timedelta(days=number)).isoformat() for number in range(count)]
        definition = {
            "columns": ["k INT", "dt STRING", "v INT"],
            "primaryKeys": ["k", "dt"],
            "partitionKeys": ["dt"],
            "options": {"bucket": "1", "write-only": "true"},
        }
        table = lakecore.load_catalog(str(self.path)).create_table(name, definition)
        for turn in range(3):
            table.write(
                pa.Table.from_pylist([{"k": k, "dt": day, "v": turn} for day in days for k in range(turn, 9)])
            )
        self.rows[name] = self.digest(name)
        return name

    def compactions(self, name: str) -> int:
        """How many commits of compactions the table has."""
        stores = lakecore.load_catalog(str(self.path)).load_table(name)._stores
        kinds = [stores.snapshots.load(number).commit_kind for number in stores.snapshots.list_ids()]
        return kinds.count(CommitKind.COMPACT)

    def folder(self, name: str) -> Path:
        database, _, table = name.partition(".")
        return self.path / f"{database}.db" / table

    def names(self) -> list[str]:
        return sorted(f"{one.parent.name[:-3]}.{one.name}" for one in self.path.glob("*.db/*"))

    def digest(self, name: str) -> str:
        table = lakecore.load_catalog(str(self.path)).load_table(name)
        kinds = table.schema.row_type
        return _digest(
            canonical(
                line for batch in table.scan().to_arrow().to_batches() for line in batch_to_json(batch, kinds)
            )
        )

    def check(self) -> int:
        """Check every table whose rows are known. Returns how many; raises AssertionError with what is wrong."""
        catalog = lakecore.load_catalog(str(self.path))
        for name, rows in self.rows.items():
            report = fsck.run(fsck.Job(table=name), catalog).report
            assert not report.damage, f"{name}: {[str(one) for one in report.damage]}"
            assert self.digest(name) == rows, f"{name} has other rows than before"
        return len(self.rows)

    def data_files(self, name: str) -> set[str]:
        return {str(path) for path in self.folder(name).glob("**/bucket-*/*")}

    def damage(self, name: str) -> None:
        """Overwrite a data file with noise. Nobody checks the rows of this table any more."""
        file = max(self.folder(name).glob("**/bucket-*/data-*"))
        file.write_bytes(bytes(range(256)) * (file.stat().st_size // 256 + 1))
        del self.rows[name]

    def lose_schema(self, name: str) -> None:
        for file in self.folder(name).glob("schema/schema-*"):
            file.unlink()
        del self.rows[name]


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """The files of the tables, but not what lakecore remembers beside them."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and ".lakecore" not in path.parts
    }
