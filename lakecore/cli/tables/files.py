"""This module has the command that lists data files. It writes a long list part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.output import print_rows, size_text, time_text
from lakecore.cli.session import session_of
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import parse_partitions, partition_text
from lakecore.types.datatypes import RowType

if TYPE_CHECKING:
    from lakecore.metadata.manifest.entries import ManifestEntries
    from lakecore.metadata.snapshot import Snapshot
    from lakecore.scan.filters import ScanFilter
    from lakecore.table import Table

__all__ = ["files"]

_COLUMNS = (
    "partition",
    "bucket",
    "level",
    "file",
    "size",
    "rows",
    "delete_rows",
    "min_key",
    "max_key",
    "schema_id",
)


def files(
    context: typer.Context,
    table: Annotated[
        str, typer.Argument(metavar="DB.TABLE", help="Name the table, or a branch of it: DB.TABLE$branch_B.")
    ],
    snapshot: Annotated[int | None, typer.Option(help="Use the snapshot with this id.")] = None,
    tag: Annotated[str | None, typer.Option(help="Use the snapshot of this tag.")] = None,
    where: Annotated[str | None, typer.Option(help="Take only these partitions: 'dt=a,hh=b;dt=c'.")] = None,
) -> None:
    """List the live data files of a table."""
    from lakecore.scan.time_travel import TimeTravel, snapshot_as_of  # help needs no tables

    session = session_of(context)
    loaded = session.catalog.load_table(table)
    start = snapshot_as_of(
        TimeTravel(snapshot=snapshot, tag=tag), loaded._stores.snapshots, loaded._stores.tags
    )
    entries = _live_entries(loaded, start, _filter(loaded, where))
    rows = _rows(loaded, entries)
    if session.json:
        print_rows(session, rows, _COLUMNS)
        return
    print_rows(session, ({**row, "size": size_text(row["size"])} for row in rows), _COLUMNS)
    total = size_text(int(entries.file_size.sum()))
    session.note(f"{len(entries)} files, {total}, {int(entries.row_count.sum())} rows before merging")


def _filter(table: Table, where: str | None) -> ScanFilter:
    from lakecore.scan.filters import EVERYTHING, ScanFilter

    if where is None:
        return EVERYTHING
    default = table.options.partition_default_name
    return ScanFilter(partitions=parse_partitions(where, table.schema.partition_type, default))


def _live_entries(table: Table, snapshot: Snapshot | None, scan_filter: ScanFilter) -> ManifestEntries:
    from lakecore.metadata.manifest.entries import ManifestEntries

    if snapshot is None:
        return ManifestEntries.empty()
    return table._scanner.live_entries(snapshot, scan_filter)


def _rows(table: Table, entries: ManifestEntries) -> Iterator[Mapping[str, Any]]:
    """Yield the rows; some thousand files at once are in memory."""
    partition_type, key_type = table.schema.partition_type, table.schema.key_type
    partitions = [_row_text(partition, partition_type) for partition in entries.partitions]
    buckets = zip(entries.partition.tolist(), entries.bucket.tolist(), strict=True)
    for (code, bucket), file in zip(buckets, entries.all_files(), strict=True):
        yield {
            "partition": partitions[code],
            "bucket": bucket,
            "level": file.level,
            "file": file.file_name,
            "size": file.file_size,
            "rows": file.row_count,
            "delete_rows": file.delete_row_count,
            "min_key": _row_text(file.min_key, key_type),
            "max_key": _row_text(file.max_key, key_type),
            "min_sequence": file.min_sequence_number,
            "max_sequence": file.max_sequence_number,
            "schema_id": file.schema_id,
            "source": None if file.file_source is None else file.file_source.name,
            "created": time_text(file.creation_time),
            "external_path": file.external_path,
        }


def _row_text(data: bytes, data_type: RowType) -> str | None:
    from lakecore.metadata.manifest.data_file import EMPTY_ROW  # help needs no tables

    if not data_type.fields or data == EMPTY_ROW:
        return None
    return partition_text(decode_row(data, data_type), data_type)
