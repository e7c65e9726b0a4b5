"""This module makes values of texts in CSV and JSON files, by the rules of Paimon's Java readers. It is pure.

A TIMESTAMP WITH LOCAL TIME ZONE is read as UTC, where Java takes the zone of its machine.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakecore.read.columns.cast import text_value
from lakecore.read.directory.time_texts import UnknownTextError, date_of, time_of, timestamp_of
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["text_decoder"]

_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_WHOLE = re.compile(r"[+-]?\d+")
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOAT = re.compile(rf"([+-]?)(?:({_DIGITS})[fFdD]?|(NaN|Infinity))")
_DECIMAL = re.compile(rf"[+-]?{_DIGITS}")
_TIE, _LOW_BITS = 1 << 28, (1 << 29) - 1


def text_decoder(data_type: AtomicType) -> Callable[[str], Any]:
    """Return the function that makes an internal value of a text; DECIMAL is null where it does not fit. It
    raises ValueError, ArithmeticError or InvalidInputError for a text that is no value of the type, and
    UnknownTextError for one of which this release does not know what Java makes of it.
    """
    root = data_type.root
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return str
    if root in _BITS:
        return _integer(_BITS[root])
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return _bytes
    if root is TypeRoot.BOOLEAN:
        return lambda text: text.lower() == "true"
    if root is TypeRoot.DOUBLE:
        return lambda text: float(_number(text))
    if root is TypeRoot.FLOAT:
        return _single
    if root is TypeRoot.DATE:
        return date_of
    if root is TypeRoot.TIME:
        return time_of
    if root is TypeRoot.DECIMAL:
        return lambda text: text_value(_plain_number(text), data_type)
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


def _number(text: str) -> str:
    """Return what Python reads of a number as Java writes it, also `1.5f` and `Infinity`."""
    stripped = text.strip("".join(map(chr, range(33))))
    match = _FLOAT.fullmatch(stripped)
    if match is None:
        if "0x" in stripped.lower():
            raise UnknownTextError(f"{text!r} as a number")
        raise ValueError("it is not a number")
    return match[1] + (match[2] or match[3])


def _plain_number(text: str) -> str:
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError("it is not a number")
    return text


def _single(text: str) -> float:
    """Return the nearest 32-bit number. Where the 64-bit number lies between two, the digits decide."""
    number = _number(text)
    value = float(number)
    if struct.unpack("<Q", struct.pack("<d", value))[0] & _LOW_BITS == _TIE:
        return float(pa.scalar(number).cast(pa.float32()).as_py())
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
