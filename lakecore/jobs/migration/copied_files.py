"""This module finds the files of a table's latest snapshot that a copy of the table needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, HASH_INDEX, IndexFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.partition_path import parse_partitions
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table
from lakecore.types.datatypes import TypeRoot

__all__ = ["CopiedTable", "SourceFile", "check_files", "copied_table"]

_REFUSED = {
    "data-file.external-paths": "its files lie outside of the directory of the table",
    "global-index.external-path": "its index files lie outside of the directory of the table",
    "blob-descriptor-field": "its rows refer to files that are not the table's",
    "blob-external-storage-field": "its rows refer to files that are not the table's",
    "blob-view-field": "its rows refer to another table",
    "scan.fallback-branch": "it reads a branch, and branches are not copied",
    "sequence.snapshot-ordering": "its rows are ordered by the ids of its snapshots",
}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """This is a file to copy. `path` is relative to the directory of the table; `size` is the recorded size
    in bytes, None where none is recorded.
    """

    path: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """This is what a copy has: a snapshot, its live entries, index files, and all their files."""

    snapshot: Snapshot | None
    entries: ManifestEntries
    indexes: tuple[IndexFile, ...]
    files: tuple[SourceFile, ...]

    @property
    def size(self) -> int:
        """Return the bytes of the files whose size is recorded."""
        return sum(file.size or 0 for file in self.files)

    @property
    def rows(self) -> int:
        """Return the number of rows before merging."""
        return int(self.entries.row_count.sum())


def check_files(table: Table) -> None:
    """Raise UnsupportedError for a table whose copy would need more than the files in its directory."""
    schema = table.schema
    for key, value in schema.options.items():
        if key in _REFUSED and value not in ("", "false"):
            why = _REFUSED[key]
            raise UnsupportedError(f"table {table.name!r} cannot be copied: option {key} is set, so {why}")
    blobs = [one.name for one in schema.fields if getattr(one.type, "root", None) is TypeRoot.BLOB]
    if blobs and schema.primary_keys:
        raise UnsupportedError(
            f"table {table.name!r} cannot be copied: column {blobs[0]!r} refers to packs of blobs by their "
            "paths; read its rows and write them into the other table"
        )


def copied_table(table: Table, partitions: str | None) -> CopiedTable:
    """Return what a copy of the latest snapshot has, of all partitions or of `partitions`
    (`dt=a,hh=b;dt=c`). It reads the manifests and, of tables with indexes, the index manifest.

    Raises UnsupportedError for files outside of the table's directory, InvalidInputError for partitions that
    the table cannot have.
    """
    check_files(table)
    schema, scanner = table.schema, table._scanner
    chosen = EVERYTHING
    if partitions is not None:
        default = table.options.partition_default_name
        chosen = ScanFilter(partitions=parse_partitions(partitions, schema.partition_type, default))
    chosen.check(schema.partition_type)
    snapshot = table._stores.snapshots.latest()
    if snapshot is None:
        return CopiedTable(snapshot=None, entries=ManifestEntries.empty(), indexes=(), files=())
    entries = scanner.live_entries(snapshot, chosen)
    used = {entries.partitions[code] for code in np.unique(entries.partition).tolist()}
    indexes = tuple(file for file in scanner.index_files(snapshot) if file.partition in used)
    files = tuple(_files(table, entries, indexes))
    return CopiedTable(snapshot=snapshot, entries=entries, indexes=indexes, files=files)


def _files(table: Table, entries: ManifestEntries, indexes: tuple[IndexFile, ...]) -> Iterator[SourceFile]:
    context, paths, root = table._read_context(), table._stores.paths, table.path
    for entry in entries.rows():
        directory = context.bucket_dir(entry.partition, entry.bucket)
        place = paths.data_file(directory, entry.file)
        yield SourceFile(_inside(table.name, place, root), entry.file.file_size)
        for path in paths.extra_files(directory, entry.file):
            yield SourceFile(_inside(table.name, path, root), None)
    for index in indexes:
        if index.index_type not in (DELETION_VECTORS, HASH_INDEX):
            raise UnsupportedError(
                f"table {table.name!r} cannot be copied: it has an index of type {index.index_type}"
            )
        yield SourceFile(_inside(table.name, table._stores.indexes.path(index), root), index.file_size)


def _inside(table: str, path: str, root: str) -> str:
    if not path.startswith(f"{root}/"):
        raise UnsupportedError(f"table {table!r} cannot be copied: its file {path} is not in its directory")
    return path[len(root) + 1 :]
