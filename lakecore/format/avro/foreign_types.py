"""This module says which columns of an avro file that another program wrote Java Paimon cannot read.

It decodes the types that it writes itself, and a union only of null and one type, with null first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fastavro

from lakecore.format.corruption import corrupt_data_errors
from lakecore.fs.file_io import FileIO

__all__ = ["unreadable_fields"]

_PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"),
    "bytes": ("decimal",),
    "array": ("map",),
}


def unreadable_fields(file_io: FileIO, path: str) -> dict[str, str]:
    """Return what cannot be read of such columns, by name. Raises CorruptDataError for a file that does not
    begin as avro does.
    """
    with file_io.open_input(path) as source, corrupt_data_errors(path):
        schema: Any = fastavro.reader(source).writer_schema
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            return {"the whole row": "no record"}
        problems = {field["name"]: _problem(field["type"]) for field in schema["fields"]}
    return {name: problem for name, problem in problems.items() if problem is not None}


def _problem(schema: Any) -> str | None:
    if isinstance(schema, list):
        if len(schema) != 2 or schema[0] != "null":
            return f"a union of {', '.join(map(_name, schema))}"
        return _problem(schema[1])
    kind = _name(schema)
    if not isinstance(schema, Mapping):
        return None if kind in _PRIMITIVES else kind
    logical = schema.get("logicalType")
    if logical is not None and logical not in _LOGICAL.get(kind, ()):
        return f"{kind} with the logical type {logical}"
    match kind:
        case "array":
            return _problem(schema["items"])
        case "map":
            return _problem(schema["values"])
        case "record":
            return next(filter(None, (_problem(field["type"]) for field in schema["fields"])), None)
    return None if kind in _PRIMITIVES else kind


def _name(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, Mapping) else schema)
