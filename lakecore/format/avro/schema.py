"""This module parses the avro schemas of metadata files as small immutable trees. Named types are
resolved; recursion is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, reason

__all__ = [
    "KNOWN_SCHEMAS",
    "AvroArray",
    "AvroField",
    "AvroMap",
    "AvroNode",
    "AvroPrimitive",
    "AvroRecord",
    "AvroUnion",
    "parse_avro_schema",
]

_ATOMS = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"})
KNOWN_SCHEMAS = 64
"""The files of a lake have a few schemas, over and over: so many are kept in memory."""
_MAX_DEPTH = 32
_MAX_FIXED = 1 << 20


@dataclass(frozen=True, slots=True)
class AvroPrimitive:
    """`kind` is an avro primitive, `enum` (stored as a long) or `fixed` of `size` bytes."""

    kind: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class AvroArray:
    items: AvroNode


@dataclass(frozen=True, slots=True)
class AvroMap:
    values: AvroNode


@dataclass(frozen=True, slots=True)
class AvroUnion:
    branches: tuple[AvroNode, ...]


@dataclass(frozen=True, slots=True)
class AvroField:
    name: str
    type: AvroNode


@dataclass(frozen=True, slots=True)
class AvroRecord:
    fields: tuple[AvroField, ...]


AvroNode = AvroPrimitive | AvroArray | AvroMap | AvroUnion | AvroRecord


def parse_avro_schema(text: bytes | str, path: str) -> AvroNode:
    """Return the tree of a writer's schema. Raises CorruptDataError naming `path`."""
    try:
        return _tree(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise CorruptDataError(path, f"is not an avro schema: {reason(err)}") from err


@lru_cache(KNOWN_SCHEMAS)
def _tree(text: bytes | str) -> AvroNode:
    return _parse(json.loads(text), {}, "", 0)


def _parse(raw: Any, types: dict[str, AvroNode | None], space: str, depth: int) -> AvroNode:
    if depth > _MAX_DEPTH:
        raise ValueError("the types are nested too deeply")
    if isinstance(raw, str):
        return AvroPrimitive(raw) if raw in _ATOMS - {"enum", "fixed"} else _lookup(raw, types, space)
    if isinstance(raw, list):
        return AvroUnion(tuple(_parse(branch, types, space, depth + 1) for branch in raw))
    match raw["type"]:
        case "record" | "enum" | "fixed":
            return _parse_named(raw, types, space, depth)
        case "array":
            return AvroArray(_counted_items(_parse(raw["items"], types, space, depth + 1)))
        case "map":
            return AvroMap(_parse(raw["values"], types, space, depth + 1))
        case inner:
            return _parse(inner, types, space, depth + 1)


def _parse_named(
    raw: Mapping[str, Any], types: dict[str, AvroNode | None], space: str, depth: int
) -> AvroNode:
    space = raw.get("namespace") or space
    name = raw["name"] if "." in raw["name"] else f"{space}.{raw['name']}"
    types[name] = None
    node: AvroNode
    if raw["type"] == "record":
        fields = (
            AvroField(field["name"], _parse(field["type"], types, space, depth + 1))
            for field in raw["fields"]
        )
        node = AvroRecord(tuple(fields))
    else:
        size = int(raw["size"]) if raw["type"] == "fixed" else 0
        if not 0 <= size <= _MAX_FIXED:
            raise ValueError(f"a fixed type has an impossible size of {size} bytes")
        node = AvroPrimitive(raw["type"], size)
    types[name] = node
    return node


def _lookup(name: str, types: Mapping[str, AvroNode | None], space: str) -> AvroNode:
    node = types.get(name) or types.get(f"{space}.{name}")
    if node is None:
        raise ValueError(f"type {name!r} is unknown or recursive")
    return node


def _counted_items(items: AvroNode) -> AvroNode:
    """Return the items of an array. They take a byte at least: otherwise a damaged count could not be told
    from a true one.
    """
    if _smallest(items) == 0:
        raise ValueError("the items of an array take no bytes")
    return items


def _smallest(node: AvroNode) -> int:
    match node:
        case AvroPrimitive("null"):
            return 0
        case AvroPrimitive("fixed", size):
            return size
        case AvroRecord(fields):
            return sum(_smallest(field.type) for field in fields)
        case _:
            return 1
