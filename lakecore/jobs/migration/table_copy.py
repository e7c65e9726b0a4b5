"""This module makes a copy of a table in a directory of `.lakecore/copies`, where no engine looks.

Each file is copied, read back and compared with its source by SHA-256; then `fsck` checks the whole copy. A
repetition keeps the files that were copied completely. Cost: two reads and a write of each byte, eight files
at a time; a megabyte of each in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from lakecore.clock import Clock
from lakecore.commit.plan import ListFile, SnapshotLists, next_snapshot
from lakecore.commit.request import CommitRequest
from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.fs.file_io import FileIO
from lakecore.fs.walk import files_below
from lakecore.jobs.migration.copied_files import CopiedTable, SourceFile
from lakecore.maintain.target import in_threads
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.paths import TablePaths
from lakecore.store.table_stores import TableStores
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck

__all__ = ["TableCopy"]

_CHUNK = 1 << 20
_USER = "lakecore-copy"


@dataclass(frozen=True)
class TableCopy:
    """It makes a copy of `source` in `directory`, which is in `storage`."""

    source: Table
    storage: FileIO
    directory: str
    clock: Clock

    def build(self, plan: CopiedTable) -> None:
        """Make the copy complete. Raises ProofError when a copied file is not what its source is, the errors
        of storage, and NotFoundError for a file that expired meanwhile.
        """
        self._clear(frozenset(file.path for file in plan.files))
        list(in_threads(self._copy, plan.files))
        stores = self._stores
        if plan.snapshot is not None:
            snapshot = self._snapshot(stores, plan, plan.snapshot)
            stores.snapshots.publish(snapshot)
            stores.snapshots.write_hints(snapshot.id)
        schemas = self.source._stores.schemas
        for number in schemas.list_ids():
            if number <= self.source.schema.id:
                data = self.source._stores.file_io.read(schemas.paths.schema(number))
                self.storage.write_new(stores.paths.schema(number), data)
        self._check(plan)

    @property
    def _stores(self) -> TableStores:
        schema = self.source._stores.schemas.load(self.source.schema.id)
        return TableStores(schema, self.storage, TablePaths(self.directory), self.clock)

    def _clear(self, planned_paths: frozenset[str]) -> None:
        """Remove what an earlier try left and this one does not need."""
        paths = list(files_below(self.storage, self.directory))
        list(
            in_threads(
                self.storage.delete,
                [path for path in paths if path[len(self.directory) + 1 :] not in planned_paths],
            )
        )

    def _copy(self, file: SourceFile) -> None:
        source, target = f"{self.source.path}/{file.path}", f"{self.directory}/{file.path}"
        reading = self.source._stores.file_io
        status = self.storage.stat(target)
        if status is not None:
            if self._digest(self.storage, target) == self._digest(reading, source):
                return
            self.storage.delete(target)
        hashed, size = hashlib.sha256(), 0
        output = self.storage.open_output(target)
        try:
            for chunk in _chunks(reading, source):
                hashed.update(chunk)
                size += output.write(chunk)
            output.close()
        except BaseException:
            output.abort()
            raise
        if file.size is not None and size != file.size:
            raise ProofError(
                self.source.name, f"file {source} has {size} bytes, but the manifest records {file.size}"
            )
        if self._digest(self.storage, target) != hashed.hexdigest():
            raise ProofError(self.source.name, f"the copy {target} has other bytes than {source}")

    def _digest(self, storage: FileIO, path: str) -> str:
        hashed = hashlib.sha256()
        for chunk in _chunks(storage, path):
            hashed.update(chunk)
        return hashed.hexdigest()

    def _snapshot(self, stores: TableStores, plan: CopiedTable, source: Snapshot) -> Snapshot:
        manifests = stores.manifests
        base = manifests.write_list(())
        delta = manifests.write_list(manifests.write(plan.entries) if len(plan.entries) else ())
        lists = SnapshotLists(
            base=ListFile(*base),
            delta=ListFile(*delta),
            changelog=None,
            index=manifests.write_index(plan.indexes) if plan.indexes else None,
            next_row_id=source.next_row_id,
            delta_rows=plan.rows,
            changelog_rows=None,
        )
        request = CommitRequest(user=_USER, identifier=1, watermark=source.watermark)
        now = self.clock.now_ms()
        return next_snapshot(None, CommitKind.OVERWRITE, request, lists, self.source.schema.id, now)

    def _check(self, plan: CopiedTable) -> None:
        """Read the copy as a table. Raises ProofError."""
        paths = TablePaths(self.directory)
        report = fsck(self.storage, paths, now_ms=self.clock.now_ms(), deep=True)
        if report.damage:
            raise ProofError(self.source.name, f"the copy is damaged: {report.damage[0]}")
        latest = self._stores.snapshots.latest()
        rows = 0 if latest is None else latest.total_record_count
        if rows != plan.rows:
            raise ProofError(self.source.name, f"the copy has {rows} rows, its source has {plan.rows}")


def _chunks(storage: FileIO, path: str) -> Iterator[Any]:
    with storage.open_input(path) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
