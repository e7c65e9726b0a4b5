"""This module parses columns as people write them: `v DECIMAL(10, 2) NOT NULL`, `a ARRAY<ROW<x INT, y
STRING>>`. No IO.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakecore.errors import InvalidInputError
from lakecore.types.datatypes import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    parse_type,
)

__all__ = ["parse_column", "parse_type_text"]

_MAX_DEPTH = 64


def parse_column(text: str) -> tuple[str, DataType]:
    """Parse `name TYPE` into (name, type). Raises InvalidInputError naming the text."""
    name, _, kind = text.strip().partition(" ")
    if not name or not kind.strip():
        raise InvalidInputError(f"column {text!r}: write NAME TYPE, for example 'k BIGINT NOT NULL'")
    return name.strip("`"), parse_type_text(kind)


def parse_type_text(text: str) -> DataType:
    """Parse a type in SQL spelling, nested types in angle brackets. Raises InvalidInputError naming the
    text.
    """
    try:
        return _parse(text.strip(), 0)
    except (ValueError, RecursionError) as err:
        raise InvalidInputError(f"type {text!r}: {err}") from err


def _parse(text: str, depth: int) -> DataType:
    if depth > _MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
    head, bracket, rest = text.partition("<")
    if not bracket:
        return parse_type(text)
    body, closing, suffix = rest.rpartition(">")
    if not closing:
        raise ValueError("a '<' has no matching '>'")
    nullable = _nullable(suffix)
    parts = [part.strip() for part in _split(body)]
    kind = head.strip().upper()
    if kind == "ROW":
        return RowType(tuple(_field(part, depth) for part in parts), nullable)
    types = [_parse(part, depth + 1) for part in parts if not (kind == "VECTOR" and part.isdigit())]
    match kind, types:
        case "ARRAY", [element]:
            return ArrayType(element, nullable)
        case "MULTISET", [element]:
            return MultisetType(element, nullable)
        case "MAP", [key, value]:
            return MapType(key, value, nullable)
        case "VECTOR", [element] if parts[-1].isdigit():
            return VectorType(element, int(parts[-1]), nullable)
    raise ValueError(f"{kind or 'a type'} does not take {len(parts)} parts")


def _field(text: str, depth: int) -> DataField:
    name, _, kind = text.partition(" ")
    if not kind.strip():
        raise ValueError(f"{text!r} is not NAME TYPE")
    return DataField(0, name.strip("`"), _parse(kind.strip(), depth + 1))


def _nullable(suffix: str) -> bool:
    words = suffix.upper().split()
    if words not in ([], ["NULL"], ["NOT", "NULL"]):
        raise ValueError(f"{suffix.strip()!r} is unexpected")
    return words != ["NOT", "NULL"]


def _split(body: str) -> Iterator[str]:
    """Yield the parts between the commas outside of brackets."""
    depth = start = 0
    for position, char in enumerate(body):
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
        elif char == "," and depth == 0:
            yield body[start:position]
            start = position + 1
    yield body[start:]
