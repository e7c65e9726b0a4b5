"""A small lake in memory, and tables to write to and compact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.table import Table
from tests.support.fake_clock import FakeClock

__all__ = ["append_table", "key_table", "live_files", "memory_catalog", "paths_of", "put", "rows_of"]


def memory_catalog(name: str = "lake") -> FilesystemCatalog:
    """An empty warehouse with a clock of its own."""
    MemoryFileIO(name).clear()
    return replace(load_catalog(f"memory://{name}/wh"), clock=FakeClock())


def key_table(
    catalog: FilesystemCatalog,
    columns: Sequence[str] = ("k INT", "v STRING"),
    keys: Sequence[str] = ("k",),
    partitions: Sequence[str] = (),
    **options: str,
) -> Table:
    """`d.k`, write-only, one bucket. Options with `_` for `-`."""
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    definition = {
        "columns": list(columns),
        "primaryKeys": list(keys),
        "partitionKeys": list(partitions),
        "options": {"bucket": "1", "write-only": "true", **raw},
    }
    return catalog.create_table("d.k", definition)


def append_table(
    catalog: FilesystemCatalog,
    columns: Sequence[str] = ("v INT", "p STRING"),
    partitions: Sequence[str] = (),
    **options: str,
) -> Table:
    """`d.a` without a primary key. Options with `_` for `-`, `__` for `.`."""
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    definition = {"columns": list(columns), "partitionKeys": list(partitions), "options": raw}
    return catalog.create_table("d.a", definition)


def put(table: Table, *commits: Iterable[Mapping[str, Any]]) -> None:
    """One commit per argument: rows as dicts, `_kind` allowed."""
    for rows in commits:
        table.write(pa.Table.from_pylist(list(rows)))


def rows_of(table: Table, **scan: Any) -> list[tuple[Any, ...]]:
    """Rows as sorted tuples."""
    return sorted((tuple(row.values()) for row in table.scan(**scan).to_arrow().to_pylist()), key=repr)


def live_files(table: Table) -> list[DataFile]:
    """Files of the latest snapshot."""
    latest = table._stores.snapshots.latest()
    return [] if latest is None else table._scanner.live_entries(latest).files()


def paths_of(table: Table, part: str = "bucket-") -> set[str]:
    """Paths of stored files whose path contains `part`."""
    found: set[str] = set()
    folders = [table.path]
    while folders:
        for status in table._stores.file_io.list(folders.pop()):
            if status.is_dir:
                folders.append(status.path)
            elif part in status.path:
                found.add(status.path)
    return found
