"""This module finds the versions of tables that a source reads, for events of lineage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from lakecore.data_class import dataclass
from lakecore.lineage.event import LineageDataset
from lakecore.lineage.report import has_listeners, report_read
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.changed_rows import ChangedRows, DiffRows, ReplacedRows, StateRows
from lakecore.read.source.fallback_rows import FallbackRows
from lakecore.read.source.readable import Readable
from lakecore.read.source.resolve_blobs import ResolvedBlobRows
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.store.paths import TablePaths
from lakecore.types.datatypes import RowType

__all__ = ["ReadVersion", "report_lookup", "report_reads"]


@dataclass(frozen=True, slots=True)
class ReadVersion:
    """It is a version of a table, or of a system table whose rows are no rows of the table."""

    paths: TablePaths
    snapshot: Snapshot | None
    system_table: str = ""


@runtime_checkable
class _RowsOfSource(Protocol):
    """It has rows that are made of those of another source."""

    inner: Any


@runtime_checkable
class _RowsOfVersion(Protocol):
    """It says itself what it reads."""

    version: ReadVersion | None


class _BatchRead(Protocol):
    """It is a scan."""

    @property
    def source(self) -> Any: ...
    @property
    def row_type(self) -> RowType: ...


def report_reads(scans: Iterable[_BatchRead]) -> None:
    """Give reads to the listeners of lineage: one event for each table, with the highest snapshot that is
    read of it. Without a listener it costs nothing. It raises nothing.

    Whoever plans a scan and reads its parts elsewhere calls it; the methods `to_…` of scans do.
    """
    if not has_listeners():
        return
    datasets: dict[tuple[str, str], LineageDataset] = {}
    for scan in scans:
        for version in _versions(scan.source):
            dataset = _dataset_of(version, scan.row_type)
            place = (dataset.name, dataset.branch)
            before = datasets.get(place)
            if before is None or (before.snapshot_id or 0) < (dataset.snapshot_id or 0):
                datasets[place] = dataset
    if datasets:
        report_read(*datasets.values())


def report_lookup(table: Readable, snapshot_id: int | None, columns: Sequence[str]) -> None:
    """Give lookups of rows with these columns to the listeners of lineage: one read, of the snapshot at which
    they begin. It raises nothing.
    """
    if has_listeners():
        dataset = _dataset_of(
            ReadVersion(table._stores.paths, None), table.schema.row_type.select(tuple(columns))
        )
        report_read(replace(dataset, snapshot_id=snapshot_id))


def _dataset_of(version: ReadVersion, row_type: RowType) -> LineageDataset:
    """Return the dataset of an event; `row_type` has the columns that are read."""
    return LineageDataset(
        table_path=version.paths.table_path,
        branch=version.paths.branch,
        snapshot_id=None if version.snapshot is None else version.snapshot.id,
        columns=tuple((field.name, str(field.type)) for field in row_type),
        system_table=version.system_table,
    )


def _versions(source: object) -> Iterator[ReadVersion]:
    match source:
        case SnapshotRows() | StateRows() | ReplacedRows():
            yield ReadVersion(source.context.paths, source.snapshot)
        case ChangedRows():
            yield ReadVersion(source.context.paths, source.snapshots[-1] if source.snapshots else None)
        case DiffRows():
            yield ReadVersion(source.context.paths, source.difference.after)
        case FallbackRows():
            yield from _versions(source.first)
            yield from _versions(source.second)
        case ResolvedBlobRows():
            yield from _versions(source.source)
        case _RowsOfVersion():
            yield from () if source.version is None else (source.version,)
        case _RowsOfSource():
            yield from _versions(source.inner)
