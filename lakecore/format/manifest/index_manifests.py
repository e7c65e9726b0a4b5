"""Index manifests: which index files are valid at a snapshot, bytes to values and back.

Spec: the file is complete, not incremental, and holds ADD entries. The odd name
`_DELETIONS_VECTORS_RANGES` is the format's. Reading resolves columns by name; writing makes the columns of
release 2.0, which older releases read by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.errors import CorruptDataError, reason
from lakecore.format.avro.container import encode_container, record_blocks
from lakecore.format.avro.schema import parse_avro_schema
from lakecore.format.avro.values import encoder
from lakecore.format.manifest.arrow import ManifestFormat, encode_arrow
from lakecore.format.manifest.manifests import decode_records
from lakecore.format.manifest.records import check_version, exact_type, external_location, optional
from lakecore.format.manifest.schemas import INDEX_MANIFEST_SCHEMA, INDEX_MANIFEST_VERSION, known_fields
from lakecore.metadata.file_names import checked_name
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, DeletionRange, GlobalIndex, IndexFile

__all__ = ["decode_index_manifest", "encode_index_manifest"]

_KNOWN_FIELDS = known_fields(INDEX_MANIFEST_SCHEMA)
_write_record = encoder(parse_avro_schema(INDEX_MANIFEST_SCHEMA, "the index manifest schema"))


def decode_index_manifest(data: bytes, path: str) -> tuple[IndexFile, ...]:
    """Return every index file. Raises CorruptDataError naming `path`, UnsupportedError for another
    version.
    """
    records, unknown = decode_records(data, path, _KNOWN_FIELDS)
    return tuple(_index_file(record, path, has_unknown_columns=unknown) for record in records)


def encode_index_manifest(files: Sequence[IndexFile], kind: ManifestFormat = "avro") -> bytes:
    """Return a complete index manifest, also for no files."""
    records = [_record(file) for file in files]
    if kind != "avro":
        return encode_arrow(records, INDEX_MANIFEST_SCHEMA, kind)
    return encode_container(INDEX_MANIFEST_SCHEMA, list(record_blocks(map(_encode, records))))


def _index_file(record: Mapping[str, Any], path: str, *, has_unknown_columns: bool) -> IndexFile:
    check_version(record, INDEX_MANIFEST_VERSION, path, "the index manifest")
    try:
        if record["_KIND"] != EntryKind.ADD:
            raise ValueError(f"_KIND is {record['_KIND']!r}, but an index manifest has added files only")
        return IndexFile(
            partition=exact_type(record["_PARTITION"], bytes),
            bucket=exact_type(record["_BUCKET"], int),
            index_type=exact_type(record["_INDEX_TYPE"], str),
            file_name=checked_name(exact_type(record["_FILE_NAME"], str), "_FILE_NAME"),
            file_size=exact_type(record["_FILE_SIZE"], int),
            row_count=exact_type(record["_ROW_COUNT"], int),
            deletions=_deletions(record.get("_DELETIONS_VECTORS_RANGES")),
            external_path=external_location(record),
            global_index=_global_index(record.get("_GLOBAL_INDEX")),
            has_unknown_columns=has_unknown_columns,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise CorruptDataError(
            path, f"contains an invalid entry of an index manifest: {reason(err)}"
        ) from err


def _deletions(ranges: list[Mapping[str, Any] | None] | None) -> tuple[DeletionRange, ...]:
    return tuple(
        DeletionRange(
            checked_name(exact_type(item["f0"], str), "_DELETIONS_VECTORS_RANGES.f0"),
            exact_type(item["f1"], int),
            exact_type(item["f2"], int),
            optional(item.get("_CARDINALITY"), int),
        )
        for item in ranges or ()
        if item is not None
    )


def _global_index(record: Mapping[str, Any] | None) -> GlobalIndex | None:
    if record is None:
        return None
    extra = record.get("_EXTRA_FIELD_IDS")
    return GlobalIndex(
        first=exact_type(record["_ROW_RANGE_START"], int),
        last=exact_type(record["_ROW_RANGE_END"], int),
        field_id=exact_type(record["_INDEX_FIELD_ID"], int),
        extra_field_ids=None if extra is None else tuple(exact_type(item, int) for item in extra),
        meta=optional(record.get("_INDEX_META"), bytes),
        source_meta=optional(record.get("_SOURCE_META"), bytes),
    )


def _record(file: IndexFile) -> dict[str, Any]:
    """Return every column of the format, in its order."""
    ranges = [
        {"f0": item.data_file, "f1": item.offset, "f2": item.length, "_CARDINALITY": item.cardinality}
        for item in file.deletions
    ]
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": int(EntryKind.ADD),
        "_PARTITION": file.partition,
        "_BUCKET": file.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges if file.index_type == DELETION_VECTORS else None,
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": _global_record(file.global_index),
    }


def _encode(record: dict[str, Any]) -> bytes:
    out = bytearray()
    _write_record(out, record)
    return bytes(out)


def _global_record(index: GlobalIndex | None) -> dict[str, Any] | None:
    if index is None:
        return None
    return {
        "_ROW_RANGE_START": index.first,
        "_ROW_RANGE_END": index.last,
        "_INDEX_FIELD_ID": index.field_id,
        "_EXTRA_FIELD_IDS": None if index.extra_field_ids is None else list(index.extra_field_ids),
        "_INDEX_META": index.meta,
        "_SOURCE_META": index.source_meta,
    }
