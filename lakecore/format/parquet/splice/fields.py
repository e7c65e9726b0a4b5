"""This module has the numbers of the fields of parquet.thrift that a splice looks at, and access to fields
that may be missing.
"""

from __future__ import annotations

from typing import Any

from lakecore.format.parquet.thrift_compact import WireType
from lakecore.format.parquet.thrift_spans import Fields, number

__all__ = ["changed", "raw", "required", "value"]

FILE_VERSION, FILE_SCHEMA, FILE_ROWS, FILE_GROUPS, FILE_NOTES = 1, 2, 3, 4, 5
FILE_WRITER, FILE_ORDERS, FILE_ENCRYPTION, FILE_SIGNING_KEY = 6, 7, 8, 9
GROUP_COLUMNS, GROUP_BYTES, GROUP_ROWS, GROUP_SORTING = 1, 2, 3, 4
GROUP_OFFSET, GROUP_COMPRESSED, GROUP_ORDINAL = 5, 6, 7
CHUNK_PATH, CHUNK_OFFSET, CHUNK_META = 1, 2, 3
CHUNK_OFFSET_INDEX, CHUNK_OFFSET_INDEX_LENGTH = 4, 5
CHUNK_COLUMN_INDEX, CHUNK_COLUMN_INDEX_LENGTH = 6, 7
CHUNK_ENCRYPTION, CHUNK_ENCRYPTED_META = 8, 9
META_TYPE, META_ENCODINGS, META_PATH, META_CODEC, META_VALUES, META_RAW_SIZE = 1, 2, 3, 4, 5, 6
META_SIZE, META_DATA_PAGE, META_INDEX_PAGE, META_DICTIONARY_PAGE = 7, 9, 10, 11
META_NOTES, META_STATISTICS, META_ENCODING_COUNTS = 8, 12, 13
META_BLOOM_FILTER, META_BLOOM_FILTER_LENGTH, META_LEVEL_SIZES, META_GEOSPATIAL = 14, 15, 16, 17
ELEMENT_TYPE, ELEMENT_LENGTH, ELEMENT_REPETITION, ELEMENT_NAME, ELEMENT_CHILDREN = 1, 2, 3, 4, 5
ELEMENT_CONVERTED, ELEMENT_SCALE, ELEMENT_PRECISION, ELEMENT_ID, ELEMENT_LOGICAL = 6, 7, 8, 9, 10
NOTE_KEY, NOTE_VALUE = 1, 2
PAGE_TYPE, PAGE_RAW_SIZE, PAGE_SIZE, PAGE_CHECKSUM = 1, 2, 3, 4
PAGE_DATA, PAGE_DICTIONARY, PAGE_DATA_V2 = 5, 7, 8
DATA_VALUES, DATA_ENCODING, DATA_DEFINITION_ENCODING, DATA_REPETITION_ENCODING = 1, 2, 3, 4
DATA_V2_ROWS, DATA_V2_ENCODING = 3, 4
DICTIONARY_ENCODING = 2
STATISTICS_NULLS, STATISTICS_MAX, STATISTICS_MIN = 3, 5, 6

LAST_FIELDS = {
    "file": FILE_SIGNING_KEY,
    "group": GROUP_ORDINAL,
    "chunk": CHUNK_ENCRYPTED_META,
    "meta": META_GEOSPATIAL,
}
"""This is the highest field of each struct that has offsets. Fields above it are later inventions, which
may be offsets too.
"""


def value(fields: Fields, field: int, default: Any = None) -> Any:
    """Return the value of a field, or `default` where the struct has none."""
    span = fields.get(field)
    return default if span is None else span[3]


def required(fields: Fields, field: int) -> int:
    """Return the number of a field that must be present. Raises KeyError, TypeError for another type."""
    result = fields[field][3]
    if not isinstance(result, int):
        raise TypeError(f"field {field} is no number")
    return result


def raw(data: bytes, fields: Fields, field: int) -> bytes | None:
    """Return the bytes of the value of a field, or None where the struct has none."""
    span = fields.get(field)
    return None if span is None else data[span[1] : span[2]]


def changed(kind: WireType, value: int) -> tuple[int, bytes]:
    """Return a number as a change of a struct (`thrift_spans.encode_changed`)."""
    return int(kind), number(value)
