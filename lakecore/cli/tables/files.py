"""This module has the command that lists data files. It writes a long list part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.output import print_rows, size_text, time_text
from lakecore.cli.session import session_of
from lakecore.row.binary_row import row_decoder
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
    if session.json:
        print_rows(session, _details(loaded, entries), _COLUMNS)
        return
    print_rows(session, _rows(loaded, entries), _COLUMNS)
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
    return table._scanner.live_entries(snapshot, scan_filter, keys=True)


def _rows(table: Table, entries: ManifestEntries) -> Iterator[Mapping[str, Any]]:
    """Yield what the table of a person has of each file, from the columns of the entries; some thousand files
    at once are in memory. It costs some 10 us a file.
    """
    from lakecore.metadata.manifest.entries import FILES_AT_ONCE

    partitions, key_text = _partitions(table, entries), _row_text(table.schema.key_type)
    for low in range(0, len(entries), FILES_AT_ONCE):
        part = entries.select(slice(low, low + FILES_AT_ONCE))
        columns = (part.partition, part.bucket, part.level, part.file_size, part.row_count)
        numbers = (*columns, part.delete_row_count, part.schema_id)
        values = zip(part.names(), *_keys(part), *(one.tolist() for one in numbers), strict=True)
        for name, lowest, highest, code, bucket, level, size, rows, deletes, schema_id in values:
            yield {
                "partition": partitions[code],
                "bucket": bucket,
                "level": level,
                "file": name.decode(),
                "size": size_text(size),
                "rows": rows,
                "delete_rows": None if deletes < 0 else deletes,
                "min_key": key_text(lowest),
                "max_key": key_text(highest),
                "schema_id": schema_id,
            }


def _keys(entries: ManifestEntries) -> tuple[list[bytes], list[bytes]]:
    """Return the lowest and the highest keys, serialised. Very long ones are read with their files."""
    keys = entries.keys()
    if keys is not None:
        return keys[0].to_list(), keys[1].to_list()
    files = entries.files()
    return [file.min_key for file in files], [file.max_key for file in files]


def _details(table: Table, entries: ManifestEntries) -> Iterator[Mapping[str, Any]]:
    """Yield all that is known of each file; some thousand files at once are in memory."""
    partitions, key_text = _partitions(table, entries), _row_text(table.schema.key_type)
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
            "min_key": key_text(file.min_key),
            "max_key": key_text(file.max_key),
            "min_sequence": file.min_sequence_number,
            "max_sequence": file.max_sequence_number,
            "schema_id": file.schema_id,
            "source": None if file.file_source is None else file.file_source.name,
            "created": time_text(file.creation_time),
            "external_path": file.external_path,
        }


def _partitions(table: Table, entries: ManifestEntries) -> list[str | None]:
    return list(map(_row_text(table.schema.partition_type), entries.partitions))


def _row_text(data_type: RowType) -> Callable[[bytes], str | None]:
    """Return what makes the text of a serialised row of this type; that of a row without fields is None."""
    from lakecore.metadata.manifest.data_file import EMPTY_ROW  # help needs no tables

    decode = row_decoder(data_type)

    def text(data: bytes) -> str | None:
        return None if data == EMPTY_ROW else partition_text(decode(data), data_type)

    return text if data_type.fields else lambda _: None
