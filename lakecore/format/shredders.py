"""Which columns of a table's files are stored in another shape, by its options."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.format.shared_map.shred import MapShaper
from lakecore.format.shredding import Shaper
from lakecore.format.variant.shredder import VariantShaper
from lakecore.types.datatypes import AtomicType, DataType, MapType, RowType, TypeRoot

__all__ = ["shaper_of"]


def shaper_of(row_type: RowType, raw: Mapping[str, str], kind: str, codec: str) -> Shaper | None:
    """For files of format `kind`; None: they store the columns as they are. Raises InvalidOptionError."""
    variants = VariantShaper.of(row_type, raw, kind)
    if variants is not None or any(map(_holds_variant, (field.type for field in row_type))):
        return variants  # (Java reads no file that has maps and variants in other shapes)
    return MapShaper.of(row_type, raw, kind, codec)


def _holds_variant(kind: DataType) -> bool:
    match kind:
        case AtomicType():
            return kind.root is TypeRoot.VARIANT
        case RowType(fields=fields):
            return any(_holds_variant(field.type) for field in fields)
        case MapType():
            return _holds_variant(kind.key) or _holds_variant(kind.value)
    return _holds_variant(kind.element)
