"""This module converts VARIANT values from their binary form (value and metadata) to JSON text and back.

Spec: the Variant binary encoding of Parquet. Metadata is a dictionary of keys; a value starts with a byte
whose low two bits are the basic type (0 primitive, 1 short string, 2 object, 3 array), the rest its header.
"""

from __future__ import annotations

import base64
import json
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from lakecore.errors import CorruptDataError, InvalidInputError
from lakecore.types.float_text import java_float_text
from lakecore.types.text import date_text, time_text, timestamp_text

__all__ = [
    "VariantKeys",
    "array_bytes",
    "array_elements",
    "binary_bytes",
    "date_bytes",
    "float_bytes",
    "key_names",
    "object_bytes",
    "object_fields",
    "parse_variant",
    "scalar_bytes",
    "time_bytes",
    "timestamp_bytes",
    "uuid_bytes",
    "variant_text",
]

_VERSION = 1
_MAX_DEPTH = 128
_PRIMITIVE, _SHORT, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE, _INT8, _INT16, _INT32, _INT64, _DOUBLE = range(8)
_DECIMAL4, _DECIMAL8, _DECIMAL16, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _FLOAT, _BINARY, _STRING = range(8, 17)
_TIME, _TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS, _UUID = range(17, 21)
_INTEGER_CODES = {_INT8: "<b", _INT16: "<h", _INT32: "<i", _INT64: "<q"}
_DECIMAL_SIZES = {_DECIMAL4: 4, _DECIMAL8: 8, _DECIMAL16: 16}
_MAX_SHORT = 63
_MAX_DECIMAL_DIGITS = 38


def variant_text(value: bytes, metadata: bytes) -> str:
    """Return the JSON text of a variant, without white space. Raises CorruptDataError."""
    try:
        return _Reader(value, _dictionary(metadata)).text(0, 0)
    except (struct.error, IndexError, ValueError, RecursionError) as err:
        raise CorruptDataError("variant value", f"not a variant: {err}") from err


def parse_variant(text: str) -> tuple[bytes, bytes]:
    """Parse JSON text as (value, metadata). Raises InvalidInputError when `text` is no JSON or too deep."""
    try:
        tree = json.loads(text, parse_float=_number)
        keys = VariantKeys()
        value = _encode(tree, keys)
    except (ValueError, RecursionError, OverflowError) as err:
        raise InvalidInputError(f"{text[:60]!r} is not JSON for a VARIANT: {err}") from err
    return value, keys.metadata()


# --- reading


def _uint(data: bytes, at: int, size: int) -> int:
    if at < 0 or at + size > len(data):
        raise ValueError(f"{len(data)} bytes")
    return int.from_bytes(data[at : at + size], "little")


def _dictionary(metadata: bytes) -> list[str]:
    if metadata[0] & 15 != _VERSION:
        raise ValueError(f"metadata version {metadata[0] & 15}")
    width = (metadata[0] >> 6) + 1
    count = _uint(metadata, 1, width)
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise ValueError(f"a dictionary claims {count} keys in {len(metadata)} bytes")
    ends = [first + _uint(metadata, 1 + width * (i + 1), width) for i in range(count + 1)]
    return [metadata[ends[i] : ends[i + 1]].decode() for i in range(count)]


def key_names(metadata: bytes) -> list[str]:
    """Return the keys of a dictionary by their ids. Raises ValueError, IndexError."""
    return _dictionary(metadata)


class _Reader:
    """One value's bytes and the keys it may use."""

    def __init__(self, data: bytes, keys: list[str]) -> None:
        self._data = data
        self._keys = keys
        self._budget = 4 * len(data) + 16

    def text(self, at: int, depth: int) -> str:
        # Every value takes a byte, so more values than bytes means that parts overlap.
        self._budget -= 1
        if depth > _MAX_DEPTH or self._budget < 0:
            raise ValueError("nested too deeply")
        basic, header = self._data[at] & 3, self._data[at] >> 2
        if basic == _PRIMITIVE:
            return self._primitive(header, at + 1)
        if basic == _SHORT:
            return _quote(self._bytes(at + 1, header))
        if basic == _OBJECT:
            return self._object(header, at + 1, depth)
        return self._array(header, at + 1, depth)

    def _bytes(self, at: int, size: int) -> bytes:
        if at + size > len(self._data):
            raise ValueError(f"{size} bytes at {at} leave the value")
        return self._data[at : at + size]

    def _object(self, header: int, at: int, depth: int) -> str:
        offset_size, id_size = (header & 3) + 1, (header >> 2 & 3) + 1
        size = 4 if header >> 4 & 1 else 1
        count = _uint(self._data, at, size)
        ids, offsets = at + size, at + size + count * id_size
        first = offsets + (count + 1) * offset_size
        if first > len(self._data):
            raise ValueError(f"an object of {count} fields")
        parts = []
        for i in range(count):
            key = self._keys[_uint(self._data, ids + i * id_size, id_size)]
            start = first + _uint(self._data, offsets + i * offset_size, offset_size)
            parts.append(f"{_quote(key.encode())}:{self.text(start, depth + 1)}")
        return "{" + ",".join(parts) + "}"

    def _array(self, header: int, at: int, depth: int) -> str:
        offset_size, size = (header & 3) + 1, 4 if header >> 2 & 1 else 1
        count = _uint(self._data, at, size)
        offsets = at + size
        first = offsets + (count + 1) * offset_size
        if first > len(self._data):
            raise ValueError(f"an array of {count} elements")
        starts = (first + _uint(self._data, offsets + i * offset_size, offset_size) for i in range(count))
        return "[" + ",".join(self.text(start, depth + 1) for start in starts) + "]"

    def _primitive(self, kind: int, at: int) -> str:
        if kind in (_NULL, _TRUE, _FALSE):
            return ("null", "true", "false")[kind]
        if kind in _INTEGER_CODES:
            return str(struct.unpack_from(_INTEGER_CODES[kind], self._data, at)[0])
        if kind in (_DOUBLE, _FLOAT):
            number = struct.unpack_from("<d" if kind == _DOUBLE else "<f", self._data, at)[0]
            text = java_float_text(number, single=kind == _FLOAT)
            return f'"{text}"' if text[-1].isalpha() else text
        if kind in _DECIMAL_SIZES:
            raw = self._bytes(at + 1, _DECIMAL_SIZES[kind])
            sign, digits, _ = Decimal(int.from_bytes(raw, "little", signed=True)).as_tuple()
            return _decimal_text(Decimal((sign, digits, -self._data[at])))
        return self._other(kind, at)

    def _other(self, kind: int, at: int) -> str:
        if kind in (_BINARY, _STRING):
            data = self._bytes(at + 4, _uint(self._data, at, 4))
            return _quote(data) if kind == _STRING else f'"{base64.b64encode(data).decode()}"'
        if kind == _DATE:
            return f'"{date_text(struct.unpack_from("<i", self._data, at)[0])}"'
        if kind == _UUID:
            return f'"{uuid.UUID(bytes=self._bytes(at, 16))}"'
        number = struct.unpack_from("<q", self._data, at)[0]
        if kind == _TIME:
            return f'"{time_text(number // 1000)}"'
        nanos = number if kind in (_TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS) else number * 1000
        if kind not in (_TIMESTAMP, _TIMESTAMP_NTZ, _TIMESTAMP_NANOS, _TIMESTAMP_NTZ_NANOS):
            raise ValueError(f"primitive type {kind}")
        zone = "+00:00" if kind in (_TIMESTAMP, _TIMESTAMP_NANOS) else ""
        return f'"{timestamp_text(nanos)}{zone}"'


def _quote(data: bytes) -> str:
    return json.dumps(data.decode(), ensure_ascii=False)


def _decimal_text(value: Decimal) -> str:
    """Return the number in plain notation, without trailing zeros of the fraction."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- writing


class VariantKeys:
    """A dictionary under construction; its keys are in order of first use."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._ids: dict[str, int] = {name: number for number, name in enumerate(names)}

    @classmethod
    def of(cls, metadata: bytes) -> VariantKeys:
        """Return a dictionary to which keys can be added: ids in values that use it stay valid. Raises
        ValueError, IndexError.
        """
        return cls(_dictionary(metadata))

    @property
    def names(self) -> list[str]:
        return list(self._ids)

    def id(self, key: str) -> int:
        return self._ids.setdefault(key, len(self._ids))

    def metadata(self) -> bytes:
        texts = [key.encode() for key in self._ids]
        total = sum(map(len, texts))
        width = _width(max(total, len(texts)))
        ends = [0]
        for text in texts:
            ends.append(ends[-1] + len(text))
        head = bytes([_VERSION | (width - 1) << 6]) + len(texts).to_bytes(width, "little")
        return head + b"".join(end.to_bytes(width, "little") for end in ends) + b"".join(texts)


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def _number(text: str) -> float | Decimal:
    """Parse a number. Numbers that are written without an exponent and short enough keep every digit; others
    become DOUBLE.
    """
    if "e" in text.lower():
        return float(text)
    value = Decimal(text)
    exact = len(value.as_tuple().digits) <= _MAX_DECIMAL_DIGITS and -int(value.as_tuple().exponent) <= 38
    return value if exact else float(text)


def _encode(tree: Any, keys: VariantKeys, depth: int = 0) -> bytes:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if tree is None or isinstance(tree, bool):
        return bytes([{None: _NULL, True: _TRUE, False: _FALSE}[tree] << 2])
    if isinstance(tree, str):
        data = tree.encode()
        if len(data) <= _MAX_SHORT:
            return bytes([_SHORT | len(data) << 2]) + data
        return bytes([_STRING << 2]) + struct.pack("<I", len(data)) + data
    if isinstance(tree, int):
        return _encode_int(tree)
    if isinstance(tree, float):
        return bytes([_DOUBLE << 2]) + struct.pack("<d", tree)
    if isinstance(tree, Decimal):
        return _encode_decimal(tree)
    if isinstance(tree, list):
        return _container(_ARRAY, [], [_encode(item, keys, depth + 1) for item in tree])
    names = sorted(tree)
    for name in tree:
        keys.id(name)
    return _container(
        _OBJECT, [keys.id(n) for n in names], [_encode(tree[n], keys, depth + 1) for n in names]
    )


def _encode_int(value: int) -> bytes:
    for kind, bits in ((_INT8, 7), (_INT16, 15), (_INT32, 31), (_INT64, 63)):
        if -(1 << bits) <= value < 1 << bits:
            return bytes([kind << 2]) + struct.pack(_INTEGER_CODES[kind], value)
    if abs(value) < 10**_MAX_DECIMAL_DIGITS:
        return _encode_decimal(Decimal(value))
    return bytes([_DOUBLE << 2]) + struct.pack("<d", float(value))


def _encode_decimal(value: Decimal) -> bytes:
    """Encode a decimal. Rule of the format: neither digits nor scale exceed 9, 18 or 38."""
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))) * (-1 if sign else 1), -int(exponent)
    limits = ((_DECIMAL4, 9), (_DECIMAL8, 18), (_DECIMAL16, 38))
    kind = next(k for k, limit in limits if abs(unscaled) < 10**limit and scale <= limit)
    return bytes([kind << 2, scale]) + unscaled.to_bytes(_DECIMAL_SIZES[kind], "little", signed=True)


def _container(basic: int, ids: list[int], parts: list[bytes]) -> bytes:
    """Count, key ids (objects only), offsets (one more than parts), parts."""
    large = len(parts) > 255
    offsets = [0]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    width = _width(offsets[-1])
    id_width = _width(max(ids, default=0))
    rest = (id_width - 1) | large << 2 if basic == _OBJECT else int(large)
    header = (width - 1) | rest << 2
    out = bytes([basic | header << 2]) + len(parts).to_bytes(4 if large else 1, "little")
    out += b"".join(i.to_bytes(id_width, "little") for i in ids)
    out += b"".join(offset.to_bytes(width, "little") for offset in offsets)
    return out + b"".join(parts)


# --- parts of values


def scalar_bytes(value: bool | int | float | str | Decimal) -> bytes:
    """Return the bytes of a value that has no parts."""
    return _encode(value, VariantKeys())


def float_bytes(value: float) -> bytes:
    """Return the bytes of a FLOAT."""
    return bytes([_FLOAT << 2]) + struct.pack("<f", value)


def date_bytes(days: int) -> bytes:
    """Return the bytes of a DATE, given as days since 1970-01-01."""
    return bytes([_DATE << 2]) + struct.pack("<i", days)


def binary_bytes(data: bytes) -> bytes:
    """Return the bytes of a BINARY."""
    return bytes([_BINARY << 2]) + struct.pack("<I", len(data)) + data


def timestamp_bytes(number: int, *, instant: bool, nanos: bool) -> bytes:
    """Return the bytes of a timestamp in micro- or nanoseconds since 1970, which is an instant or a local
    time.
    """
    kinds = (_TIMESTAMP_NTZ_NANOS, _TIMESTAMP_NANOS) if nanos else (_TIMESTAMP_NTZ, _TIMESTAMP)
    return bytes([kinds[instant] << 2]) + struct.pack("<q", number)


def time_bytes(micros: int) -> bytes:
    """Return the bytes of a time of the day."""
    return bytes([_TIME << 2]) + struct.pack("<q", micros)


def uuid_bytes(data: bytes) -> bytes:
    """Return the bytes of a UUID."""
    return bytes([_UUID << 2]) + data


def array_bytes(parts: Sequence[bytes]) -> bytes:
    """Return the bytes of an array of values."""
    return _container(_ARRAY, [], list(parts))


def object_bytes(fields: Mapping[str, bytes], keys: VariantKeys) -> bytes:
    """Return the bytes of an object of values that use `keys`, with its fields in the order of their
    names.
    """
    names = sorted(fields)
    return _container(_OBJECT, [keys.id(name) for name in names], [fields[name] for name in names])


def object_fields(value: bytes, keys: VariantKeys) -> dict[str, bytes]:
    """Return the fields of an object, as values that use the same keys. Raises ValueError when the value is
    no object.
    """
    if value[0] & 3 != _OBJECT:
        raise ValueError("the unshredded part of an object is not an object")
    header, names = value[0] >> 2, keys.names
    offset_size, id_size = (header & 3) + 1, (header >> 2 & 3) + 1
    size = 4 if header >> 4 & 1 else 1
    count = _uint(value, 1, size)
    ids, offsets = 1 + size, 1 + size + count * id_size
    first = offsets + (count + 1) * offset_size
    starts = [first + _uint(value, offsets + i * offset_size, offset_size) for i in range(count)]
    return {
        names[_uint(value, ids + i * id_size, id_size)]: value[start : start + _size(value, start)]
        for i, start in enumerate(starts)
    }


def array_elements(value: bytes) -> list[bytes]:
    """Return the elements of an array, as values that use the same keys. Raises ValueError, IndexError."""
    width, size = (value[0] >> 2 & 3) + 1, 4 if value[0] >> 4 & 1 else 1
    count = _uint(value, 1, size)
    first = 1 + size + (count + 1) * width
    starts = [first + _uint(value, 1 + size + i * width, width) for i in range(count)]
    return [value[start : start + _size(value, start)] for start in starts]


_SIZES = {
    _NULL: 0, _TRUE: 0, _FALSE: 0, _INT8: 1, _INT16: 2, _INT32: 4, _INT64: 8, _DOUBLE: 8, _DECIMAL4: 5,
    _DECIMAL8: 9, _DECIMAL16: 17, _DATE: 4, _TIMESTAMP: 8, _TIMESTAMP_NTZ: 8, _FLOAT: 4, _TIME: 8,
    _TIMESTAMP_NANOS: 8, _TIMESTAMP_NTZ_NANOS: 8, _UUID: 16,
}  # fmt: skip


def _size(data: bytes, at: int) -> int:
    """Return the number of bytes of the value at `at`."""
    basic, header = data[at] & 3, data[at] >> 2
    if basic == _SHORT:
        return 1 + header
    if basic == _PRIMITIVE:
        return 1 + (4 + _uint(data, at + 1, 4) if header in (_BINARY, _STRING) else _SIZES[header])
    id_size = (header >> 2 & 3) + 1 if basic == _OBJECT else 0
    size = 4 if header >> (4 if basic == _OBJECT else 2) & 1 else 1
    offset_size = (header & 3) + 1
    count = _uint(data, at + 1, size)
    last = 1 + size + count * (id_size + offset_size)
    return last + offset_size + _uint(data, at + last, offset_size)
