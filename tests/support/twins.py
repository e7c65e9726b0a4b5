"""Two copies of one table: Java Paimon does a chore on one, lakecore on the other; then they are compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.table import Table
from tests.support.golden import GoldenTable
from tests.support.oracle import Oracle, findings

__all__ = ["Twins"]

HINTS = ("EARLIEST", "LATEST")


@dataclass(frozen=True)
class Twins:
    """`java` and `ours` are warehouses with the same table."""

    java: Path
    ours: Path
    table: str

    @classmethod
    def of(cls, source: Path, table: str, folder: Path) -> Twins:
        """Copies of the table at `source`."""
        twins = cls(folder / "java", folder / "ours", table)
        for warehouse in (twins.java, twins.ours):
            shutil.copytree(source, twins.path(warehouse))
        return twins

    @classmethod
    def of_golden(cls, golden: GoldenTable, folder: Path) -> Twins:
        return cls.of(golden.path, golden.name, folder)

    def path(self, warehouse: Path) -> Path:
        database, name = self.table.split(".")
        return warehouse / f"{database}.db" / name

    @property
    def lake(self) -> FilesystemCatalog:
        return load_catalog(str(self.ours), **{"local.fsync": "false"})

    @property
    def opened(self) -> Table:
        return self.lake.load_table(self.table)

    def files(self, warehouse: Path, leave_out: Iterable[str] = ()) -> set[str]:
        """All files of the table, relative; without empty directories and what `leave_out` begins."""
        root = self.path(warehouse)
        found = {
            str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and not p.name.endswith(".crc")
        }
        return {name for name in found if not name.startswith(tuple(leave_out) or ("\0",))}

    def difference(self, leave_out: Iterable[str] = ()) -> tuple[set[str], set[str]]:
        """Files that only Java left, and files that only lakecore left."""
        java, ours = self.files(self.java, leave_out), self.files(self.ours, leave_out)
        return java - ours, ours - java

    def content(self, warehouse: Path, names: Iterable[str]) -> dict[str, str]:
        """The text of small files, "" where missing."""
        root = self.path(warehouse)
        return {name: (root / name).read_text() if (root / name).exists() else "" for name in names}

    def new_findings(self, oracle: Oracle, before: Path) -> set[str]:
        """What Java's deep check of ours finds that it does not find in the table of warehouse `before`."""
        old = findings(oracle.fsck(before, self.table))
        return findings(oracle.fsck(self.ours, self.table)) - old
