"""This module has the avro schemas of manifests, manifest lists and index manifests that lakecore writes,
and what it reads.

Spec: exactly these fields, in this order and with these record names; later releases of the format validate
manifests by position, earlier ones resolve them by name. Fields behind these are unknown columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from lakecore.format.avro.schema import (
    KNOWN_SCHEMAS,
    AvroArray,
    AvroNode,
    AvroRecord,
    AvroUnion,
    parse_avro_schema,
)

__all__ = [
    "INDEX_MANIFEST_SCHEMA",
    "INDEX_MANIFEST_VERSION",
    "MANIFEST_LIST_SCHEMA",
    "MANIFEST_LIST_VERSION",
    "MANIFEST_SCHEMA",
    "MANIFEST_VERSION",
    "has_unknown_fields",
    "known_fields",
]

MANIFEST_VERSION = 2
MANIFEST_LIST_VERSION = 2
INDEX_MANIFEST_VERSION = 1

_Json = dict[str, Any]


def _field(name: str, kind: Any) -> _Json:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> _Json:
    return {"name": name, "type": ["null", kind], "default": None}


def _array(items: Any) -> _Json:
    return {"type": "array", "items": items}


def _record(name: str, fields: list[_Json]) -> _Json:
    return {"type": "record", "name": name, "fields": fields}


def _stats(name: str) -> _Json:
    return _record(
        name,
        [
            _field("_MIN_VALUES", "bytes"),
            _field("_MAX_VALUES", "bytes"),
            _optional("_NULL_COUNTS", _array(["null", "long"])),
        ],
    )


def _root(fields: list[_Json]) -> str:
    root = {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.paimon.avro.generated",
        "fields": fields,
    }
    return json.dumps(root, separators=(",", ":"))


_FILE = _record(
    "record__FILE",
    [
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        _field("_MIN_KEY", "bytes"),
        _field("_MAX_KEY", "bytes"),
        _field("_KEY_STATS", _stats("record__FILE__KEY_STATS")),
        _field("_VALUE_STATS", _stats("record__FILE__VALUE_STATS")),
        _field("_MIN_SEQUENCE_NUMBER", "long"),
        _field("_MAX_SEQUENCE_NUMBER", "long"),
        _field("_SCHEMA_ID", "long"),
        _field("_LEVEL", "int"),
        _field("_EXTRA_FILES", _array("string")),
        _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _optional("_DELETE_ROW_COUNT", "long"),
        _optional("_EMBEDDED_FILE_INDEX", "bytes"),
        _optional("_FILE_SOURCE", "int"),
        _optional("_VALUE_STATS_COLS", _array("string")),
        _optional("_EXTERNAL_PATH", "string"),
        _optional("_FIRST_ROW_ID", "long"),
        _optional("_WRITE_COLS", _array("string")),
    ],
)

MANIFEST_SCHEMA = _root(
    [
        _field("_VERSION", "int"),
        _field("_KIND", "int"),
        _field("_PARTITION", "bytes"),
        _field("_BUCKET", "int"),
        _field("_TOTAL_BUCKETS", "int"),
        _field("_FILE", _FILE),
    ]
)

MANIFEST_LIST_SCHEMA = _root(
    [
        _field("_VERSION", "int"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_NUM_ADDED_FILES", "long"),
        _field("_NUM_DELETED_FILES", "long"),
        _field("_PARTITION_STATS", _stats("record__PARTITION_STATS")),
        _field("_SCHEMA_ID", "long"),
        _optional("_MIN_BUCKET", "int"),
        _optional("_MAX_BUCKET", "int"),
        _optional("_MIN_LEVEL", "int"),
        _optional("_MAX_LEVEL", "int"),
        _optional("_MIN_ROW_ID", "long"),
        _optional("_MAX_ROW_ID", "long"),
    ]
)


_DELETIONS = _record(
    "record__DELETIONS_VECTORS_RANGES",
    [_field("f0", "string"), _field("f1", "int"), _field("f2", "int"), _optional("_CARDINALITY", "long")],
)

_GLOBAL_INDEX = _record(
    "record__GLOBAL_INDEX",
    [
        _field("_ROW_RANGE_START", "long"),
        _field("_ROW_RANGE_END", "long"),
        _field("_INDEX_FIELD_ID", "int"),
        _optional("_EXTRA_FIELD_IDS", _array("int")),
        _optional("_INDEX_META", "bytes"),
        _optional("_SOURCE_META", "bytes"),
    ],
)

INDEX_MANIFEST_SCHEMA = _root(
    [
        _field("_VERSION", "int"),
        _field("_KIND", "int"),
        _field("_PARTITION", "bytes"),
        _field("_BUCKET", "int"),
        _field("_INDEX_TYPE", "string"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        _optional("_DELETIONS_VECTORS_RANGES", _array(["null", _DELETIONS])),
        _optional("_EXTERNAL_PATH", "string"),
        _optional("_GLOBAL_INDEX", _GLOBAL_INDEX),
    ]
)


def known_fields(schema_text: str) -> frozenset[str]:
    """Return the dotted names of every field of a schema of ours."""
    return frozenset(_json_names(json.loads(schema_text), ""))


def _json_names(node: Any, prefix: str) -> Iterable[str]:
    if isinstance(node, list):
        for branch in node:
            yield from _json_names(branch, prefix)
    elif isinstance(node, dict) and node["type"] == "array":
        yield from _json_names(node["items"], prefix)
    elif isinstance(node, dict) and node["type"] == "record":
        for field in node["fields"]:
            name = f"{prefix}{field['name']}"
            yield name
            yield from _json_names(field["type"], name + ".")


@lru_cache(KNOWN_SCHEMAS)
def has_unknown_fields(schema_text: bytes, known_columns: frozenset[str]) -> bool:
    """Return whether a rewrite in the schema of `known_columns` would lose columns of a writer's schema."""
    return not known_columns.issuperset(_names(parse_avro_schema(schema_text, "the avro schema"), ""))


def _names(node: AvroNode, prefix: str) -> Iterable[str]:
    match node:
        case AvroRecord(fields):
            for field in fields:
                yield prefix + field.name
                yield from _names(field.type, f"{prefix}{field.name}.")
        case AvroUnion(branches):
            for branch in branches:
                yield from _names(branch, prefix)
        case AvroArray(items):
            yield from _names(items, prefix)
        case _:
            return
