"""Which columns of a table's files are stored in another shape, by its options."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.format.shared_maps import MapShaper
from lakecore.format.stored_shape import Shaper
from lakecore.types.datatypes import RowType

__all__ = ["shaper_of"]


def shaper_of(row_type: RowType, raw: Mapping[str, str], kind: str, codec: str) -> Shaper | None:
    """For files of format `kind`; None: they store the columns as they are. Raises InvalidOptionError."""
    return MapShaper.of(row_type, raw, kind, codec)
