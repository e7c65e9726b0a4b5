"""This module defines how a data file is encoded, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.format.bounds import ColumnBounds
from lakecore.options import Option, parse_size

__all__ = ["WriterOptions", "WrittenFile"]

COMPRESSION = Option("file.compression", str.lower, "zstd", "Codec of new data files.")
ZSTD_LEVEL = Option("file.compression.zstd-level", int, 1, "Level of zstd.")
BLOCK_SIZE: Option[int | None] = Option(
    "file.block-size", parse_size, None, "Row group or stripe size; default fits the format."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """These are the codec and layout of one file. `block_size` is the number of bytes of a parquet row
    group or an ORC stripe.

    `dictionary_columns`: parquet columns to encode with a dictionary; None decides by the first rows.
    """

    compression: str = "zstd"
    zstd_level: int = 1
    block_size: int | None = None
    dictionary_columns: tuple[str, ...] | None = None

    @classmethod
    def from_options(cls, raw: Mapping[str, str], compression: str | None = None) -> WriterOptions:
        """Return the options of a table; `compression` overrides theirs (codec per level). Raises
        InvalidOptionError.
        """
        return cls(
            compression=compression or COMPRESSION.read(raw),
            zstd_level=ZSTD_LEVEL.read(raw),
            block_size=BLOCK_SIZE.read(raw),
        )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """This is a finished file, which has bytes, rows, and bounds of every column by its stored name."""

    size: int
    rows: int
    column_bounds: Mapping[str, ColumnBounds]
