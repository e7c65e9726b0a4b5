"""Entries and manifest lines as plain dicts of the format's column names, whichever container holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from lakecore.errors import CorruptDataError, UnsupportedError, reason
from lakecore.format.manifest.schemas import MANIFEST_LIST_VERSION, MANIFEST_VERSION
from lakecore.metadata.file_names import checked_location, checked_name
from lakecore.metadata.manifest.data_file import (
    EMPTY_ROW,
    EMPTY_STATS,
    DataFile,
    EntryKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from lakecore.metadata.manifest.manifest_file import ManifestFile

__all__ = [
    "check_version",
    "entry_from_record",
    "entry_to_record",
    "exact_type",
    "external_location",
    "file_from_record",
    "manifest_file_from_record",
    "manifest_file_to_record",
    "optional",
]

Record = Mapping[str, Any]
T = TypeVar("T")


def check_version(record: Record, expected: int, path: str, what: str) -> None:
    """Raise UnsupportedError unless `_VERSION` is the one that this release knows."""
    version = record.get("_VERSION")
    if version != expected:
        raise UnsupportedError(
            f"{path}: {what} has version {version}, but this release reads version {expected} (version 1 "
            "was written before Paimon 0.4: recreate the table)"
        )


def entry_from_record(record: Record, path: str) -> ManifestEntry:
    """Decode an entry. Raises CorruptDataError naming `path` when a column is missing or of a wrong type."""
    check_version(record, MANIFEST_VERSION, path, "the manifest")
    try:
        return ManifestEntry(
            kind=EntryKind(record["_KIND"]),
            partition=exact_type(record["_PARTITION"], bytes),
            bucket=_int32(record["_BUCKET"]),
            total_buckets=_int32(record["_TOTAL_BUCKETS"]),
            file=file_from_record(record["_FILE"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise CorruptDataError(path, f"contains an invalid manifest entry: {reason(err)}") from err


def file_from_record(record: Record) -> DataFile:
    """Decode `_FILE` of an entry. Columns that older writers lack are None.

    Raises KeyError, TypeError or ValueError for a missing column and for a value of another type.
    """
    source = optional(record.get("_FILE_SOURCE"), int)
    return DataFile(
        file_name=checked_name(exact_type(record["_FILE_NAME"], str), "_FILE_NAME"),
        file_size=exact_type(record["_FILE_SIZE"], int),
        row_count=exact_type(record["_ROW_COUNT"], int),
        min_key=_row(record["_MIN_KEY"]),
        max_key=_row(record["_MAX_KEY"]),
        key_stats=_stats(record["_KEY_STATS"]),
        value_stats=_stats(record["_VALUE_STATS"]),
        min_sequence_number=exact_type(record["_MIN_SEQUENCE_NUMBER"], int),
        max_sequence_number=exact_type(record["_MAX_SEQUENCE_NUMBER"], int),
        schema_id=exact_type(record["_SCHEMA_ID"], int),
        level=_int32(record["_LEVEL"]),
        extra_files=_names(record.get("_EXTRA_FILES"), "_EXTRA_FILES"),
        creation_time=optional(record.get("_CREATION_TIME"), int),
        delete_row_count=optional(record.get("_DELETE_ROW_COUNT"), int),
        embedded_index=optional(record.get("_EMBEDDED_FILE_INDEX"), bytes),
        file_source=None if source is None else FileSource(source),
        value_stats_cols=_texts(record.get("_VALUE_STATS_COLS")),
        external_path=external_location(record),
        first_row_id=optional(record.get("_FIRST_ROW_ID"), int),
        write_cols=_texts(record.get("_WRITE_COLS")),
    )


def exact_type(value: Any, kind: type[T]) -> T:
    """Return `value` if it is exactly of that type: a bool is no int. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def optional(value: Any, kind: type[T]) -> T | None:
    """Return `exact_type(value, kind)`, or None for None."""
    return None if value is None else exact_type(value, kind)


def _int32(value: int) -> int:
    if not -(1 << 31) <= exact_type(value, int) < 1 << 31:
        raise ValueError(f"{value} is not a 32-bit integer")
    return value


def _row(value: bytes | None) -> bytes:
    return EMPTY_ROW if not value else exact_type(value, bytes)


def _texts(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(exact_type(text, str) for text in exact_type(value, list))


def _names(value: Any, field: str) -> tuple[str, ...]:
    return tuple(checked_name(name, field) for name in _texts(value) or ())


def external_location(record: Record) -> str | None:
    """Return `_EXTERNAL_PATH` of a data or index file. Raises TypeError, ValueError."""
    path = optional(record.get("_EXTERNAL_PATH"), str)
    return None if path is None else checked_location(path, "_EXTERNAL_PATH")


def _stats(record: Record | None) -> SimpleStats:
    if record is None:
        return EMPTY_STATS
    counts = tuple(optional(count, int) for count in record.get("_NULL_COUNTS") or ())
    return SimpleStats(_row(record["_MIN_VALUES"]), _row(record["_MAX_VALUES"]), counts)


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def entry_to_record(entry: ManifestEntry) -> dict[str, Any]:
    """Return every column of the format, in its order."""
    file = entry.file
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": _stats_record(file.key_stats),
            "_VALUE_STATS": _stats_record(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": file.creation_time,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
            "_VALUE_STATS_COLS": None if file.value_stats_cols is None else list(file.value_stats_cols),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": None if file.write_cols is None else list(file.write_cols),
        },
    }


def manifest_file_from_record(record: Record, path: str, *, has_unknown_columns: bool) -> ManifestFile:
    """Decode one line of a manifest list. Raises CorruptDataError naming `path`."""
    check_version(record, MANIFEST_LIST_VERSION, path, "the manifest list")
    try:
        return ManifestFile(
            file_name=checked_name(exact_type(record["_FILE_NAME"], str), "_FILE_NAME"),
            file_size=exact_type(record["_FILE_SIZE"], int),
            num_added_files=exact_type(record["_NUM_ADDED_FILES"], int),
            num_deleted_files=exact_type(record["_NUM_DELETED_FILES"], int),
            partition_stats=_stats(record["_PARTITION_STATS"]),
            schema_id=exact_type(record["_SCHEMA_ID"], int),
            min_bucket=optional(record.get("_MIN_BUCKET"), int),
            max_bucket=optional(record.get("_MAX_BUCKET"), int),
            min_level=optional(record.get("_MIN_LEVEL"), int),
            max_level=optional(record.get("_MAX_LEVEL"), int),
            min_row_id=optional(record.get("_MIN_ROW_ID"), int),
            max_row_id=optional(record.get("_MAX_ROW_ID"), int),
            has_unknown_columns=has_unknown_columns,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise CorruptDataError(path, f"contains an invalid entry of a manifest list: {reason(err)}") from err


def manifest_file_to_record(file: ManifestFile) -> dict[str, Any]:
    """Return every column of the format, in its order."""
    return {
        "_VERSION": MANIFEST_LIST_VERSION,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_NUM_ADDED_FILES": file.num_added_files,
        "_NUM_DELETED_FILES": file.num_deleted_files,
        "_PARTITION_STATS": _stats_record(file.partition_stats),
        "_SCHEMA_ID": file.schema_id,
        "_MIN_BUCKET": file.min_bucket,
        "_MAX_BUCKET": file.max_bucket,
        "_MIN_LEVEL": file.min_level,
        "_MAX_LEVEL": file.max_level,
        "_MIN_ROW_ID": file.min_row_id,
        "_MAX_ROW_ID": file.max_row_id,
    }
