"""This module has the numbers of the fields of parquet.thrift that a splice looks at, and access to fields
that may be missing.
"""

from __future__ import annotations

from typing import Any

from lakecore.format.parquet.thrift_compact import Field, Struct, ThriftList, WireType

__all__ = ["integer", "structs", "value"]

FILE_VERSION, FILE_SCHEMA, FILE_ROWS, FILE_GROUPS, FILE_NOTES = 1, 2, 3, 4, 5
FILE_WRITER, FILE_ORDERS, FILE_ENCRYPTION, FILE_SIGNING_KEY = 6, 7, 8, 9
GROUP_COLUMNS, GROUP_BYTES, GROUP_ROWS, GROUP_SORTING = 1, 2, 3, 4
GROUP_OFFSET, GROUP_COMPRESSED, GROUP_ORDINAL = 5, 6, 7
CHUNK_PATH, CHUNK_OFFSET, CHUNK_META = 1, 2, 3
CHUNK_OFFSET_INDEX, CHUNK_OFFSET_INDEX_LENGTH = 4, 5
CHUNK_COLUMN_INDEX, CHUNK_COLUMN_INDEX_LENGTH = 6, 7
CHUNK_ENCRYPTION, CHUNK_ENCRYPTED_META = 8, 9
META_TYPE, META_PATH, META_CODEC, META_VALUES = 1, 3, 4, 5
META_SIZE, META_DATA_PAGE, META_INDEX_PAGE, META_DICTIONARY_PAGE = 7, 9, 10, 11
STATS_MAX, STATS_MIN, STATS_MAX_EXACT, STATS_MIN_EXACT = 5, 6, 7, 8
META_STATISTICS, META_BLOOM_FILTER, META_BLOOM_FILTER_LENGTH = 12, 14, 15
ELEMENT_TYPE, ELEMENT_LENGTH, ELEMENT_REPETITION, ELEMENT_NAME, ELEMENT_CHILDREN = 1, 2, 3, 4, 5
ELEMENT_CONVERTED, ELEMENT_SCALE, ELEMENT_PRECISION, ELEMENT_ID, ELEMENT_LOGICAL = 6, 7, 8, 9, 10
NOTE_KEY, NOTE_VALUE = 1, 2
INDEX_LOCATIONS, LOCATION_OFFSET = 1, 1
PAGE_TYPE, PAGE_SIZE, PAGE_CHECKSUM = 1, 3, 4
PAGE_DATA, PAGE_DICTIONARY, PAGE_DATA_V2 = 5, 7, 8
DATA_VALUES, DATA_ENCODING, DATA_V2_ENCODING = 1, 2, 4

LAST_FIELDS = {"file": FILE_SIGNING_KEY, "group": GROUP_ORDINAL, "chunk": CHUNK_ENCRYPTED_META, "meta": 17}
"""This is the highest field of each struct that has offsets. Fields above it are later inventions, which
may be offsets too.
"""


def value(struct: Struct, field: int, default: Any = None) -> Any:
    """Return the value of a field, or `default` where the struct has none."""
    result = struct.get(field)
    return default if result is None else result.value


def structs(struct: Struct, field: int) -> list[Any]:
    """Return the elements of a list that must be present. Raises KeyError, AttributeError."""
    elements: ThriftList = struct[field].value
    return elements.values


def integer(kind: WireType, number: int) -> Field:
    """Return a field with a number."""
    return Field(kind, int(number))
