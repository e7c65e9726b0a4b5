"""This module makes values of texts in CSV and JSON files, by the rules of Paimon's Java readers. It is pure.

A TIMESTAMP WITH LOCAL TIME ZONE is read as UTC, where Java takes the zone of its machine.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from lakecore.read.columns.texts import decimal_of, float32_of, float_of
from lakecore.read.columns.time_texts import date_of, time_of, timestamp_of
from lakecore.types.datatypes import INTEGER_BITS, AtomicType, TypeRoot

__all__ = ["text_decoder"]

_WHOLE = re.compile(r"[+-]?\d+")


def text_decoder(data_type: AtomicType) -> Callable[[str], Any]:
    """Return the function that makes an internal value of a text; DECIMAL is null where it does not fit. It
    raises ValueError, ArithmeticError or InvalidInputError for a text that is no value of the type, and
    UnknownTextError for one of which this release does not know what Java makes of it.
    """
    root = data_type.root
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return str
    if root in INTEGER_BITS:
        return _integer(INTEGER_BITS[root])
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return _bytes
    if root is TypeRoot.BOOLEAN:
        return lambda text: text.lower() == "true"
    if root is TypeRoot.DOUBLE:
        return float_of
    if root is TypeRoot.FLOAT:
        return float32_of
    if root is TypeRoot.DATE:
        return date_of
    if root is TypeRoot.TIME:
        return time_of
    if root is TypeRoot.DECIMAL:
        return lambda text: decimal_of(text, data_type)
    zoned = root is TypeRoot.TIMESTAMP_LTZ
    return lambda text: timestamp_of(text, data_type.precision, zoned=zoned)


def _integer(bits: int) -> Callable[[str], int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        if _WHOLE.fullmatch(text) is None or len(text) > 40 or not low <= int(text) <= high:
            raise ValueError(f"it is not a whole number of {bits} bits")
        return int(text)

    return parse


def _bytes(text: str) -> bytes:
    """Decode Base64, which need not be padded."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4 % 3 if "=" not in text else 0), validate=True)
    except binascii.Error as err:
        raise ValueError("it is not Base64") from err
