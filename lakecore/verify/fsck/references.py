"""This module collects what snapshots, tags and changelogs refer to: the files that must exist, with their
sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore

__all__ = ["DataReference", "ExpectedFile", "References", "bucket_directory"]

Rows: TypeAlias = npt.NDArray[np.int64]

_DESCRIPTION = ("extra_hash", "file_size", "row_count", "delete_row_count", "min_sequence", "max_sequence")
"""What must agree wherever a file is described; its level may change."""


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """This file should exist. `size` is in bytes, None where nothing records it. `owner` is what refers to
    it, for messages.
    """

    size: int | None
    owner: str


@dataclass(frozen=True, slots=True)
class DataReference:
    """This is a data or changelog file of one bucket. With `ordered` its keys are sorted and unique."""

    path: str
    bucket: int
    file: DataFile
    owner: str
    schemas: SchemaStore
    ordered: bool


@dataclass(frozen=True, slots=True)
class _Part:
    entries: ManifestEntries
    owner: str
    schemas: SchemaStore
    changelog: bool


@dataclass(slots=True)
class References:
    """A table refers to these files: metadata files by path, and data files as columns, made into values a
    bucket at a time.
    """

    directory: Callable[[bytes, int], str]
    paths: TablePaths
    files: dict[str, ExpectedFile] = field(default_factory=dict)
    parts: list[_Part] = field(default_factory=list)

    def expect(self, path: str, size: int | None, owner: str) -> None:
        """Expect a metadata, index or statistics file, which must exist."""
        if path not in self.files or self.files[path].size is None:
            self.files[path] = ExpectedFile(size, owner)

    def expect_data(
        self, entries: ManifestEntries, owner: str, schemas: SchemaStore, *, changelog: bool = False
    ) -> None:
        """Expect data files (ADD entries), which must exist. `schemas` are those of the branch."""
        if len(entries):
            self.parts.append(_Part(entries, owner, schemas, changelog))

    def buckets(self) -> Iterator[list[DataReference]]:
        """Yield the files bucket by bucket, each once per description. It works only once. It keeps the
        columns in memory, and the files of one bucket as values.
        """
        index: dict[str, list[tuple[_Part, Rows]]] = defaultdict(list)
        for part in self.parts:
            keys = part.entries.partition.astype(np.int64) << 32 | (
                part.entries.bucket.astype(np.int64) & 0xFFFFFFFF
            )
            order = np.argsort(keys, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
                partition = part.entries.partition_of(int(rows[0]))
                index[self.directory(partition, int(part.entries.bucket[rows[0]]))].append((part, rows))
        self.parts = []
        for directory in sorted(index):
            yield list(self._references(directory, index.pop(directory)))

    def _references(self, directory: str, groups: list[tuple[_Part, Rows]]) -> Iterator[DataReference]:
        keys: set[tuple[object, ...]] = set()
        for part, rows in groups:
            entries = part.entries.select(rows)
            columns = (getattr(entries, name).tolist() for name in _DESCRIPTION)
            names = list(zip(entries.names(), *columns, strict=True))
            fresh = []
            for row, name in enumerate(names):
                if name not in keys:
                    keys.add(name)
                    fresh.append(row)
            for row, file in zip(fresh, entries.files(np.array(fresh, np.int64)), strict=True):
                bucket = int(entries.bucket[row])
                path = self.paths.data_file(directory, file)
                ordered = not part.changelog and bucket >= 0
                yield DataReference(path, bucket, file, part.owner, part.schemas, ordered)


def bucket_directory(paths: TablePaths, schema: TableSchema) -> Callable[[bytes, int], str]:
    """Return a function from (serialised partition, bucket) to the directory of its files."""
    options = TableOptions.from_schema(schema)
    partition_type = schema.partition_type
    directories: dict[bytes, str] = {}

    def directory(partition: bytes, bucket: int) -> str:
        if partition not in directories:
            values = decode_row(partition, partition_type, paths.table_path)
            default, legacy = options.partition_default_name, options.partition_legacy_name
            directories[partition] = partition_path(values, partition_type, default, legacy)
        return paths.bucket_dir(directories[partition], bucket, options)

    return directory
