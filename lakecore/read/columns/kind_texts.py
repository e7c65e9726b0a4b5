"""This module writes the kinds of rows as text."""

from __future__ import annotations

import pyarrow as pa

from lakecore.metadata.row_kind import SYMBOLS

__all__ = ["kind_texts"]


def kind_texts(kinds: pa.Array) -> pa.Array:
    """Return the symbols (string) of kinds (int8): +I, -U, +U or -D."""
    return pa.array(SYMBOLS, pa.string()).take(kinds)
