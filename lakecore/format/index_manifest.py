"""Index manifests: which index files are valid at a snapshot. Reading only.

Spec: the file is complete, not incremental, and holds ADD entries. The odd name
`_DELETIONS_VECTORS_RANGES` is the format's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecore.errors import CorruptDataError, reason
from lakecore.format.manifest import decode_records
from lakecore.format.manifest_record import check_version, optional, typed
from lakecore.metadata.index_file import DeletionRange, IndexFile

__all__ = ["decode_index_manifest"]

_VERSION = 1


def decode_index_manifest(data: bytes, path: str) -> tuple[IndexFile, ...]:
    """Every index file. Raises CorruptDataError naming `path`, UnsupportedError for another version."""
    records, _ = decode_records(data, path, frozenset())
    return tuple(_index_file(record, path) for record in records)


def _index_file(record: Mapping[str, Any], path: str) -> IndexFile:
    check_version(record, _VERSION, path, "index manifest")
    try:
        return IndexFile(
            partition=typed(record["_PARTITION"], bytes),
            bucket=typed(record["_BUCKET"], int),
            index_type=typed(record["_INDEX_TYPE"], str),
            file_name=typed(record["_FILE_NAME"], str),
            file_size=typed(record["_FILE_SIZE"], int),
            row_count=typed(record["_ROW_COUNT"], int),
            deletions=_deletions(record.get("_DELETIONS_VECTORS_RANGES")),
            external_path=optional(record.get("_EXTERNAL_PATH"), str),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise CorruptDataError(path, f"not a line of an index manifest: {reason(err)}") from err


def _deletions(ranges: list[Mapping[str, Any] | None] | None) -> tuple[DeletionRange, ...]:
    return tuple(
        DeletionRange(
            typed(item["f0"], str),
            typed(item["f1"], int),
            typed(item["f2"], int),
            optional(item.get("_CARDINALITY"), int),
        )
        for item in ranges or ()
        if item is not None
    )
