"""This module has the formats of files that commands read and write. This module imports nothing, because
help reads it.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["InputFormat", "OutputFormat"]


class InputFormat(Enum):
    """These are the formats that `write` and `update-columns` read."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


class OutputFormat(Enum):
    """These are the formats that `read` writes."""

    JSONL = "jsonl"
    TABLE = "table"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"
