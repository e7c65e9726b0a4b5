"""This module converts manifests and manifest lists from bytes to values and back.

Reading takes avro, parquet and orc of every release since 0.4, resolves columns by name and remembers whether
there are columns it does not know. Writing makes the columns of release 2.0 in their exact order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from lakecore.errors import CorruptDataError
from lakecore.format.avro.container import (
    AvroBlock,
    AvroContainer,
    encode_container,
    is_avro,
    open_container,
    record_blocks,
)
from lakecore.format.avro.schema import parse_avro_schema
from lakecore.format.avro.values import Encode, encoder
from lakecore.format.manifest.arrow import ManifestFormat, arrow_records, encode_arrow, is_orc, is_parquet
from lakecore.format.manifest.blocks import BlockSource
from lakecore.format.manifest.columns import decode_columns
from lakecore.format.manifest.records import (
    entry_from_record,
    entry_to_record,
    manifest_file_from_record,
    manifest_file_to_record,
)
from lakecore.format.manifest.schemas import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    has_unknown_fields,
    known_fields,
)
from lakecore.metadata.manifest.data_file import ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import WHOLE, EntryRequest
from lakecore.metadata.manifest.manifest_file import ManifestFile

__all__ = [
    "MANY_ENTRIES",
    "count_entries",
    "decode_manifest",
    "decode_manifest_list",
    "decode_manifests",
    "decode_records",
    "encode_manifest",
    "encode_manifest_list",
    "encode_manifests",
]

MANY_ENTRIES = 2000
"""This many manifests, or more, are decoded faster all at once than one by one."""
_ARROW_ROWS = 20_000
_COPIED_ROWS = 8192
_CURRENT = MANIFEST_SCHEMA.encode()
_KNOWN_ENTRY = known_fields(MANIFEST_SCHEMA)
_KNOWN_LINE = known_fields(MANIFEST_LIST_SCHEMA)
_write_entry = encoder(parse_avro_schema(MANIFEST_SCHEMA, "the manifest schema"))
_write_line = encoder(parse_avro_schema(MANIFEST_LIST_SCHEMA, "the manifest list schema"))


def decode_manifest(data: bytes, path: str) -> ManifestEntries:
    """Return the entries of one manifest. Raises CorruptDataError, or UnsupportedError for another
    version.
    """
    return decode_manifests([(data, path)])


def decode_manifests(files: Iterable[tuple[bytes, str]], request: EntryRequest = WHOLE) -> ManifestEntries:
    """Return the entries of several manifests, given as (bytes, path), in order: all of them, or at least
    those of the request (`left_out` counts the others). Raises the same errors as `decode_manifest`.

    Cost: some 50 us an entry for a few; about 1 us for very many, which are decoded together.
    """
    rest = _AvroFiles(iter(files))
    parts: list[ManifestEntries] = []
    while not rest.at_end:
        parts.append(_decode_avro(rest, request))
        if rest.other is not None:
            parts.append(_decode_arrow(*rest.other))
            rest.other = None
    return ManifestEntries.concat([part for part in parts if len(part) or part.left_out] or parts[:1])


def count_entries(data: bytes, path: str) -> int | None:
    """Return the number of entries that the heads of a manifest's blocks record, or None for other formats
    than avro. It is cheap.
    """
    return open_container(data, path).count if is_avro(data) else None


class _AvroFiles(Iterator[AvroContainer]):
    """The avro files of a sequence, opened; stops at a file of another format and keeps it in `other`."""

    def __init__(self, files: Iterator[tuple[bytes, str]]) -> None:
        self._files = files
        self.other: tuple[bytes, str] | None = None
        self.at_end = False

    def __next__(self) -> AvroContainer:
        if self.other is None and not self.at_end:
            data, path = next(self._files, (None, ""))
            if data is None:
                self.at_end = True
            elif is_avro(data):
                return open_container(data, path)
            else:
                self.other = data, path
        raise StopIteration


def _decode_arrow(data: bytes, path: str) -> ManifestEntries:
    records, unknown = decode_records(data, path, _KNOWN_ENTRY)
    rows = [entry_from_record(record, path) for record in records]
    return ManifestEntries.from_rows(rows, has_unknown_columns=unknown)


def _decode_avro(containers: Iterator[AvroContainer], request: EntryRequest) -> ManifestEntries:
    few: list[AvroContainer] = []
    count = 0
    for container in containers:
        few.append(container)
        count += container.count
        if count >= MANY_ENTRIES:
            return decode_columns(chain(few, containers), _KNOWN_ENTRY, request)
    unknown = any(has_unknown_fields(container.schema_text, _KNOWN_ENTRY) for container in few)
    rows = [
        entry_from_record(record, container.path) for container in few for record in container.all_records()
    ]
    return ManifestEntries.from_rows(rows, has_unknown_columns=unknown)


def decode_manifest_list(data: bytes, path: str) -> tuple[ManifestFile, ...]:
    """Return the manifests of one manifest list, in its order. Raises the same errors as
    `decode_manifest`.
    """
    records, unknown = decode_records(data, path, _KNOWN_LINE)
    return tuple(manifest_file_from_record(record, path, has_unknown_columns=unknown) for record in records)


def encode_manifest(
    entries: ManifestEntries | Sequence[ManifestEntry], kind: ManifestFormat = "avro"
) -> bytes:
    """Return one manifest of all `entries`: avro with zstd unless the table keeps parquet or orc
    manifests.
    """
    rows = entries if isinstance(entries, ManifestEntries) else ManifestEntries.from_rows(entries)
    (data,) = [data for _, data in encode_manifests([rows], None, kind)] or [_encode_rows([], kind)]
    return data


def encode_manifests(
    parts: Iterable[ManifestEntries], target_size: int | None, kind: ManifestFormat = "avro"
) -> Iterator[tuple[ManifestEntries, bytes]]:
    """Yield manifests that end once they reach `target_size` bytes (None: never), each with its entries. They
    have the entries of all `parts`, in order.

    Nothing comes out for no entries. Cost: 3 us for an entry that was read from a manifest of the present
    schema (its record is copied), 70 us for another.
    """
    waiting = _Waiting(parts)
    if kind != "avro":
        for _ in waiting.arrivals():
            while target_size is not None and len(waiting) >= _ARROW_ROWS:
                part = waiting.first(_ARROW_ROWS)
                yield part, _encode_rows(part.rows(), kind)
        if len(waiting):
            part = waiting.first(len(waiting))
            yield part, _encode_rows(part.rows(), kind)
        return
    blocks: list[AvroBlock] = []
    count = size = 0
    for block in record_blocks(chain.from_iterable(map(_entry_bytes, waiting.arrivals()))):
        blocks.append(block)
        count += block.count
        size += len(block.data)
        if target_size is not None and size >= target_size:
            yield waiting.first(count), encode_container(MANIFEST_SCHEMA, blocks)
            blocks, count, size = [], 0, 0
    if blocks:
        yield waiting.first(count), encode_container(MANIFEST_SCHEMA, blocks)


class _Waiting:
    """The entries that came and are in no manifest yet, in order."""

    def __init__(self, parts: Iterable[ManifestEntries]) -> None:
        self._parts = parts
        self._waiting: list[ManifestEntries] = []

    def __len__(self) -> int:
        return sum(len(part) for part in self._waiting)

    def arrivals(self) -> Iterator[ManifestEntries]:
        """Yield each part when it has come."""
        for part in self._parts:
            self._waiting.append(part)
            yield part

    def first(self, count: int) -> ManifestEntries:
        """Return the first `count` entries; they wait no longer."""
        parts: list[ManifestEntries] = []
        while count:
            part = self._waiting.pop(0)
            parts.append(part.select(slice(0, count)))
            if len(part) > count:
                self._waiting.insert(0, part.select(slice(count, None)))
            count -= len(parts[-1])
        return ManifestEntries.concat([part for part in parts if len(part)])


def _encode_rows(rows: Sequence[ManifestEntry], kind: ManifestFormat) -> bytes:
    records = [entry_to_record(row) for row in rows]
    if kind != "avro":
        return encode_arrow(records, MANIFEST_SCHEMA, kind)
    return encode_container(MANIFEST_SCHEMA, list(record_blocks(_encode(_write_entry, records))))


def encode_manifest_list(files: Sequence[ManifestFile], kind: ManifestFormat = "avro") -> bytes:
    """Return a manifest list, also for no manifests."""
    records = [manifest_file_to_record(file) for file in files]
    if kind != "avro":
        return encode_arrow(records, MANIFEST_LIST_SCHEMA, kind)
    return encode_container(MANIFEST_LIST_SCHEMA, list(record_blocks(_encode(_write_line, records))))


def _encode(write: Encode, records: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for record in records:
        out = bytearray()
        write(out, record)
        yield bytes(out)


def _entry_bytes(entries: ManifestEntries) -> Iterator[bytes]:
    """Yield the avro records of entries: they are copied if they are stored in the present schema, else
    encoded.
    """
    for low in range(0, len(entries), _COPIED_ROWS):
        part = entries.select(slice(low, low + _COPIED_ROWS))
        out = [b""] * len(part)
        for lanes, source in part.by_source():
            if isinstance(source, BlockSource) and source.schema_text == _CURRENT:
                stored = source.records(part.position[lanes])
                kinds = part.kind[lanes].tolist()
                records = [_with_kind(data, kind) for data, kind in zip(stored, kinds, strict=True)]
            else:
                records = list(_encode(_write_entry, map(entry_to_record, part.rows(lanes))))
            for lane, record in zip(lanes.tolist(), records, strict=True):
                out[lane] = record
        yield from out


def _with_kind(record: bytes, kind: int) -> bytes:
    """Return the record with another kind. A record begins with `_VERSION` and `_KIND`, a byte each."""
    return record[:1] + bytes([2 * kind]) + record[2:]


def decode_records(
    data: bytes, path: str, known_columns: frozenset[str]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows of a metadata file in any of its formats as dicts, and whether it has columns beyond
    `known_columns`.
    """
    if is_parquet(data) or is_orc(data):
        records, names = arrow_records(data, path)
        return records, not known_columns.issuperset(names)
    if not is_avro(data):
        raise CorruptDataError(path, f"is neither avro, parquet nor orc: it begins with {data[:4]!r}")
    container = open_container(data, path)
    return list(container.all_records()), has_unknown_fields(container.schema_text, known_columns)
