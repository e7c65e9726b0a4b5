"""This module parses the texts of Hive's types as types of Paimon. It is pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakecore.errors import UnsupportedError
from lakecore.types.datatypes import ArrayType, DataField, DataType, MapType, RowType, parse_type

__all__ = ["paimon_type"]

_NAMES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "integer": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "double precision": "DOUBLE",
    "string": "STRING",
    "binary": "BYTES",
    "date": "DATE",
    "timestamp": "TIMESTAMP(6)",
    "timestamp with local time zone": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "decimal": "DECIMAL(10, 0)",
}
_WITH_LENGTH = re.compile(r"(decimal|char|varchar)\s*\((\s*\d+\s*(?:,\s*\d+\s*)?)\)")
_DEEPEST = 64


def paimon_type(text: str) -> DataType:
    """Return the type. Raises UnsupportedError for one that Paimon lacks, such as a union or an interval."""
    return _parse(text.strip(), text, 0)


def _parse(text: str, whole: str, depth: int) -> DataType:
    head, mark, rest = text.partition("<")
    if not mark:
        return _atomic(text.lower(), whole)
    parts = list(_parts(rest.removesuffix(">")))
    if not text.endswith(">") or depth > _DEEPEST:
        raise _refusal(whole)
    match head.strip().lower(), parts:
        case "array", [element]:
            return ArrayType(_parse(element, whole, depth + 1))
        case "map", [key, value]:
            return MapType(_parse(key, whole, depth + 1), _parse(value, whole, depth + 1))
        case "struct", [*fields] if fields and all(":" in one for one in fields):
            return RowType(tuple(_field(at, one, whole, depth) for at, one in enumerate(fields)))
    raise _refusal(whole)


def _field(position: int, text: str, whole: str, depth: int) -> DataField:
    name, _, kind = text.partition(":")
    return DataField(position, name.strip().strip("`"), _parse(kind.strip(), whole, depth + 1))


def _atomic(text: str, whole: str) -> DataType:
    match = _WITH_LENGTH.fullmatch(text)
    if match is not None:
        name = f"{match[1].upper()}({match[2]})"
    elif text in _NAMES:
        name = _NAMES[text]
    else:
        raise _refusal(whole)
    try:
        return parse_type(name)
    except ValueError as err:
        raise _refusal(whole) from err


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas that are in no brackets."""
    depth, start = 0, 0
    for position, mark in enumerate(text):
        depth += (mark in "<(") - (mark in ">)")
        if mark == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def _refusal(text: str) -> UnsupportedError:
    return UnsupportedError(f"type {text!r} of Hive: Paimon has no such type; read the table with Hive")
