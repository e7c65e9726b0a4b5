"""This module selects, by a table's options, the columns that are stored in another layout."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.format.shared_map.shred import MapShredder
from lakecore.format.shredding import Shredder
from lakecore.format.variant.shredder import VariantShredder
from lakecore.types.datatypes import AtomicType, DataType, MapType, RowType, TypeRoot

__all__ = ["shredder_for"]


def shredder_for(row_type: RowType, raw: Mapping[str, str], file_format: str, codec: str) -> Shredder | None:
    """Return the shredder for files of `file_format`; None if they store the columns as they are. Raises
    InvalidOptionError.
    """
    variants = VariantShredder.of(row_type, raw, file_format)
    if variants is not None or any(map(_holds_variant, (field.type for field in row_type))):
        return variants  # (Java reads no file that has maps and variants in other shapes)
    return MapShredder.of(row_type, raw, file_format, codec)


def _holds_variant(data_type: DataType) -> bool:
    match data_type:
        case AtomicType():
            return data_type.root is TypeRoot.VARIANT
        case RowType(fields=fields):
            return any(_holds_variant(field.type) for field in fields)
        case MapType():
            return _holds_variant(data_type.key) or _holds_variant(data_type.value)
    return _holds_variant(data_type.element)
