"""This module has the rules for maps that are stored in the layout shared-shredding (Paimon 2.0). It is
pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakecore.errors import InvalidOptionError
from lakecore.format.shared_map.footer_metadata import PACKED
from lakecore.format.shared_map.shred import SHAPABLE, MapLayout
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import parse_list
from lakecore.types.datatypes import (
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from lakecore.write.options import FileRules

__all__ = ["check_map_layouts"]

_SUFFIX = ".map.storage-layout"


def check_map_layouts(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOptionError naming the option and the column."""
    keys = [key for key in schema.options if key.startswith("fields.") and key.endswith(_SUFFIX)]
    if [key for key in keys if _is_shared(schema, key)]:
        _check_files(schema)
        _check_types(schema)
        if options.bucket_mode is BucketMode.POSTPONE:
            raise InvalidOptionError(
                f"option {keys[0]}: it cannot be used with bucket=-2 (postponed buckets)"
            )


def _is_shared(schema: TableSchema, key: str) -> bool:
    name = key.removeprefix("fields.").removesuffix(_SUFFIX)
    kind = schema.row_type.field(name).type if name in schema.row_type.names else None
    if not isinstance(kind, MapType):
        raise InvalidOptionError(f"option {key}: {name!r} is not a column of a MAP type")
    if MapLayout.of(name, schema.options) is None:
        return False
    text = isinstance(kind.key, AtomicType) and kind.key.root is TypeRoot.VARCHAR
    if not text or kind.key.nullable:
        raise InvalidOptionError(f"option {key}: the keys of {name!r} must be STRING NOT NULL")
    for wrong, what in ((_is_blob, "BLOB"), (_is_vector, "VECTOR")):
        if any(map(wrong, _parts(kind.value))):
            raise InvalidOptionError(f"option {key}: it cannot be used for values that contain {what}")
    return True


def _check_files(schema: TableSchema) -> None:
    raw = schema.options
    levels = {
        int(level)
        for key in ("file.format.per.level", "file.compression.per.level")
        for part in parse_list(raw.get(key, ""))
        if (level := part.partition(":")[0].strip()).isdigit()
    }
    rules = [FileRules.of(raw, level) for level in {0, *levels}]
    for rule in (*rules, FileRules.of(raw, 0, changelog=True)):
        if rule.format not in SHAPABLE or rule.compression not in PACKED:
            raise InvalidOptionError(
                f"option fields.*{_SUFFIX}: it cannot be used for {rule.format} files of codec "
                f"{rule.compression}; use {' or '.join(SHAPABLE)} with {', '.join(sorted(PACKED))}"
            )


def _check_types(schema: TableSchema) -> None:
    for wrong, what in ((_is_variant, "VARIANT"), (_is_multiset, "MULTISET")):
        if any(map(wrong, _parts(schema.row_type))):
            raise InvalidOptionError(f"option fields.*{_SUFFIX}: it cannot be used in a table with {what}")


def _parts(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and all types nested in it."""
    yield data_type
    match data_type:
        case RowType(fields=fields):
            inner = [field.type for field in fields]
        case MapType(key=key, value=value):
            inner = [key, value]
        case AtomicType():
            inner = []
        case _:
            inner = [data_type.element]
    for part in inner:
        yield from _parts(part)


def _root(root: TypeRoot) -> Callable[[DataType], bool]:
    return lambda kind: isinstance(kind, AtomicType) and kind.root is root


_is_blob, _is_variant = _root(TypeRoot.BLOB), _root(TypeRoot.VARIANT)


def _is_vector(data_type: DataType) -> bool:
    return isinstance(data_type, VectorType)


def _is_multiset(data_type: DataType) -> bool:
    return isinstance(data_type, MultisetType)
