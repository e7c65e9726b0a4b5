"""JSON records of a warehouse: a malformed record is a ValueError, raised before it takes memory. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

__all__ = ["MOST_BYTES", "json_object", "json_value", "whole_number"]

MOST_BYTES = 64 << 20
"""The largest record has so many bytes. Schemas with thousands of columns have some megabytes."""
_LONG = 1 << 63
_DIGITS = 19
_MOST_DIGITS = 4000


def json_value(text: str | bytes, *, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Parse a JSON text. Raises ValueError, also for a text that is too long or nested too deeply, or has
    a number that is not finite.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"the record has {len(text)} bytes, more than {MOST_BYTES}")
    try:
        return json.loads(
            text, parse_float=parse_float or _finite, parse_int=_integer, parse_constant=_no_constant
        )
    except RecursionError as err:
        raise ValueError("the record is nested too deeply") from err


def json_object(text: str | bytes, *, exact: bool = False) -> dict[str, Any]:
    """Parse a JSON object. `exact` parses fractions as Decimal. Raises ValueError for any other text."""
    raw = json_value(text, parse_float=Decimal if exact else None)
    if not isinstance(raw, dict):
        raise ValueError("the record is not a JSON object")
    return raw


def whole_number(text: str | bytes) -> int | None:
    """Parse the number of a hint or of a file name: up to 19 ASCII digits below 2^63; None for other text.

    Python would refuse to parse a number of thousands of digits, and would accept digits of every script.
    """
    if isinstance(text, bytes):
        text = text.decode("ascii", errors="replace")
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) >= _LONG:
        return None
    return int(text)


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(text)} digits, which are too many")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is out of range")
    return value


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")
