"""This module encodes rows as the bytes used for partitions, keys and statistics: int32 BE arity, then a
BinaryRow.

Spec (BinaryRow, all little-endian): null bits (bit i+8; byte 0 is the row kind, 0 in metadata) padded to 8
bytes, one 8-byte slot a field, then a variable part whose items are padded to 8 bytes. A null DECIMAL(p > 18)
still reserves 16 bytes and a null TIMESTAMP(p > 3) 8. Values are the internal ones: TIMESTAMP is nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from lakecore.errors import CorruptDataError, InvalidInputError
from lakecore.row.binary_layout import (
    COMPACT_MILLIS,
    FIXED_FORMATS,
    MAX_COMPACT_DECIMAL,
    array_header_size,
    element_size,
    null_bits_size,
    padded,
)
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

__all__ = [
    "EMPTY_ROW",
    "decode_binary_row",
    "decode_field",
    "decode_part",
    "decode_row",
    "encode_binary_row",
    "encode_row",
    "row_decoder",
]

EMPTY_ROW = bytes(12)

_INLINE = 0x80
_MAX_INLINE = 7
_DECIMALS = Context(prec=60)
_NANOS_OF_MILLI = 1_000_000
_LOW = 0xFFFFFFFF
_WHOLE_SLOT = struct.Struct("<II")
"""A slot has the size of the variable part, then its place."""
_COUNT_TYPE = AtomicType(TypeRoot.INT, nullable=False)

Reader = Callable[[bytes, int], Any]


def decode_row(data: bytes, row_type: RowType, path: str = "binary row") -> tuple[Any, ...]:
    """Return the values of a serialised row. Fields beyond `row_type` (row-tracking statistics) are left out.

    Raises CorruptDataError naming `path`.
    """
    return row_decoder(row_type, path)(data)


def row_decoder(row_type: RowType, path: str = "binary row") -> Callable[[bytes], tuple[Any, ...]]:
    """Return what decodes many rows as `decode_row` does one, in a third of the time."""
    readers = _readers(row_type)

    def decode(data: bytes) -> tuple[Any, ...]:
        if len(data) < 4:
            raise CorruptDataError(path, f"a serialised row has {len(data)} bytes; at least 4 are needed")
        (arity,) = struct.unpack_from(">i", data)
        if arity < len(readers):
            raise CorruptDataError(path, f"a row has {arity} fields where {len(readers)} are expected")
        return _guard(bytes(data[4:]), readers, arity, path)

    return decode


def decode_binary_row(data: bytes, row_type: RowType, path: str = "binary row") -> tuple[Any, ...]:
    """Return the values of a BinaryRow without arity prefix. Raises CorruptDataError naming `path`."""
    return _guard(bytes(data), _readers(row_type), len(row_type.fields), path)


def decode_field(data: bytes, slot: int, data_type: DataType) -> Any:
    """Return the value of one field that is not null, of a BinaryRow without arity prefix; `slot` is the
    place of its slot. Raises ValueError, struct.error and other errors of Python for bytes that are none.
    """
    return _reader(data_type)(data, slot)


def decode_part(data: bytes, data_type: DataType) -> Any:
    """Return the array, map, vector or row of these bytes, which is the variable part of a field. Raises what
    `decode_field` does.
    """
    return _reader(data_type)(_WHOLE_SLOT.pack(len(data), _WHOLE_SLOT.size) + data, 0)


def encode_row(values: Sequence[Any], row_type: RowType) -> bytes:
    """Return the serialised row of `values`. Raises InvalidInputError for a value that its type cannot
    hold.
    """
    return struct.pack(">i", len(row_type.fields)) + encode_binary_row(values, row_type)


def encode_binary_row(values: Sequence[Any], row_type: RowType) -> bytes:
    """Return the BinaryRow of `values`, without arity prefix; its size is a multiple of 8."""
    fields = row_type.fields
    if len(values) != len(fields):
        raise InvalidInputError(f"{len(values)} values are given for a row of {len(fields)} fields")
    head = null_bits_size(len(fields))
    out = bytearray(head + 8 * len(fields))
    for i, (value, field) in enumerate(zip(values, fields, strict=True)):
        slot = head + 8 * i
        if value is None:
            out[(i + 8) // 8] |= 1 << (i % 8)
            _reserve(out, slot, field.type)
            continue
        try:
            _write(out, slot, value, field.type)
        except (struct.error, TypeError, ValueError, OverflowError, AttributeError, ArithmeticError) as err:
            raise InvalidInputError(
                f"value {value!r} of field {field.name} does not fit {field.type}"
            ) from err
    return bytes(out)


def _guard(data: bytes, readers: Sequence[Reader], arity: int, path: str) -> tuple[Any, ...]:
    try:
        return _read_row(data, readers, arity)
    except (struct.error, ValueError, IndexError, OverflowError, ArithmeticError) as err:
        raise CorruptDataError(path, f"not a binary row of {len(readers)} fields: {err}") from err


# --- decoding: a reader takes the bytes of the enclosing row, array or map side and the position of a slot


def _read_row(data: bytes, readers: Sequence[Reader], arity: int) -> tuple[Any, ...]:
    head = null_bits_size(arity)
    if len(data) < head + 8 * arity:
        raise ValueError(f"{len(data)} bytes")
    return tuple(
        None if data[(i + 8) // 8] >> (i % 8) & 1 else read(data, head + 8 * i)
        for i, read in enumerate(readers)
    )


def _readers(row_type: RowType) -> tuple[Reader, ...]:
    """Return what reads each field."""
    return tuple(_reader(field.type) for field in row_type.fields)


@lru_cache(maxsize=4096)
def _reader(data_type: DataType) -> Reader:
    match data_type:
        case AtomicType():
            return _atomic_reader(data_type)
        case ArrayType(element=element):
            return lambda data, slot: _read_array(_part(data, slot), element)
        case MapType(key=key, value=value):
            return lambda data, slot: _read_map(_part(data, slot), key, value)
        case MultisetType(element=element):
            return lambda data, slot: _read_map(_part(data, slot), element, _COUNT_TYPE)
        case VectorType(element=element):
            return lambda data, slot: _read_vector(_part(data, slot), element)
        case RowType():
            return lambda data, slot: _read_row(_part(data, slot), _readers(data_type), len(data_type.fields))


def _atomic_reader(data_type: AtomicType) -> Reader:
    root = data_type.root
    if root in FIXED_FORMATS:
        unpack = struct.Struct("<" + FIXED_FORMATS[root]).unpack_from
        return lambda data, slot: unpack(data, slot)[0]
    if root is TypeRoot.DECIMAL:
        return _decimal_reader(data_type)
    if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _read_millis if data_type.precision <= COMPACT_MILLIS else _read_nanos
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return lambda data, slot: _read_bytes(data, slot).decode()
    if root is TypeRoot.VARIANT:
        return lambda data, slot: _read_variant(_part(data, slot))
    return _read_bytes


def _decimal_reader(data_type: AtomicType) -> Reader:
    exponent = -data_type.scale
    if data_type.precision <= MAX_COMPACT_DECIMAL:
        return lambda data, slot: Decimal(_long(data, slot)).scaleb(exponent, _DECIMALS)

    def read(data: bytes, slot: int) -> Decimal:
        part = _part(data, slot)
        if not 0 < len(part) <= 16:
            raise ValueError(f"a decimal of {len(part)} bytes")
        return Decimal(int.from_bytes(part, "big", signed=True)).scaleb(exponent, _DECIMALS)

    return read


def _long(data: bytes, at: int) -> int:
    value: int = struct.unpack_from("<q", data, at)[0]
    return value


def _read_millis(data: bytes, slot: int) -> int:
    return _long(data, slot) * _NANOS_OF_MILLI


def _read_nanos(data: bytes, slot: int) -> int:
    (word,) = struct.unpack_from("<Q", data, slot)
    return _long(data, word >> 32) * _NANOS_OF_MILLI + int(word & _LOW)


def _part(data: bytes, slot: int) -> bytes:
    """Return the variable part that a slot refers to: the high half of the slot is its offset, the low half
    its size.
    """
    (word,) = struct.unpack_from("<Q", data, slot)
    start, size = word >> 32, word & _LOW
    if start + size > len(data):
        raise ValueError(f"a part of {size} bytes at {start} leaves the {len(data)} bytes of the row")
    return data[start : start + size]


def _read_bytes(data: bytes, slot: int) -> bytes:
    mark = data[slot + 7]
    if not mark & _INLINE:
        return _part(data, slot)
    size = mark & ~_INLINE
    if size > _MAX_INLINE:
        raise ValueError(f"an inline value has {size} bytes")
    return data[slot : slot + size]


def _read_array(data: bytes, element: DataType) -> list[Any]:
    (size,) = struct.unpack_from("<i", data)
    head, width = array_header_size(max(size, 0)), element_size(element)
    if size < 0 or head + size * width > len(data):
        raise ValueError(f"an array claims {size} elements in {len(data)} bytes")
    live = [i for i in range(size) if not data[4 + i // 8] >> (i % 8) & 1]
    if not isinstance(element, AtomicType):
        _check_parts(data, [head + 8 * i for i in live])
    read = _reader(element)
    out: list[Any] = [None] * size
    for i in live:
        out[i] = read(data, head + i * width)
    return out


def _check_parts(data: bytes, slots: Sequence[int]) -> None:
    """Raise ValueError if parts of an array overlap; without this rule a few damaged bytes could take hours
    to read.
    """
    total = sum(struct.unpack_from("<I", data, slot)[0] for slot in slots)
    if total > len(data):
        raise ValueError(f"the elements of an array claim {total} of {len(data)} bytes")


def _read_map(data: bytes, key: DataType, value: DataType) -> list[tuple[Any, Any]]:
    (size,) = struct.unpack_from("<i", data)
    if not 0 <= size <= len(data) - 4:
        raise ValueError(f"the keys of a map claim {size} bytes in {len(data)} bytes")
    keys = _read_array(data[4 : 4 + size], key)
    values = _read_array(data[4 + size :], value)
    return list(zip(keys, values, strict=True))


def _read_vector(data: bytes, element: DataType) -> list[Any]:
    (size,) = struct.unpack_from("<i", data)
    width, read = element_size(element), _reader(element)
    if size < 0 or 4 + size * width > len(data):
        raise ValueError(f"a vector claims {size} elements in {len(data)} bytes")
    return [read(data, 4 + i * width) for i in range(size)]


def _read_variant(data: bytes) -> tuple[bytes, bytes]:
    (size,) = struct.unpack_from("<i", data)
    if not 0 <= size <= len(data) - 4:
        raise ValueError(f"a variant value claims {size} bytes in {len(data)} bytes")
    return data[4 : 4 + size], data[4 + size :]


# --- encoding: `out` holds the fixed part; variable parts are appended


def _reserve(out: bytearray, slot: int, data_type: DataType) -> None:
    """Append the space that a null keeps where values can be updated in place (see the module)."""
    if isinstance(data_type, AtomicType):
        room = 0
        if data_type.root is TypeRoot.DECIMAL and data_type.precision > MAX_COMPACT_DECIMAL:
            room = 16
        elif (
            data_type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
            and data_type.precision > COMPACT_MILLIS
        ):
            room = 8
        if room:
            struct.pack_into("<Q", out, slot, len(out) << 32)
            out.extend(bytes(room))


def _write(out: bytearray, slot: int, value: Any, data_type: DataType) -> None:
    match data_type:
        case AtomicType():
            _write_atomic(out, slot, value, data_type)
        case ArrayType(element=element):
            _append(out, slot, _array_bytes(value, element))
        case MapType(key=key, value=item):
            _append(out, slot, _map_bytes(value, key, item))
        case MultisetType(element=element):
            _append(out, slot, _map_bytes(value, element, _COUNT_TYPE))
        case VectorType(element=element):
            _append(out, slot, _vector_bytes(value, element))
        case RowType():
            _append(out, slot, encode_binary_row(value, data_type))


def _write_atomic(out: bytearray, slot: int, value: Any, data_type: AtomicType) -> None:
    root = data_type.root
    if root in FIXED_FORMATS:
        struct.pack_into("<" + FIXED_FORMATS[root], out, slot, value)
    elif root is TypeRoot.DECIMAL:
        _write_decimal(out, slot, value, data_type)
    elif root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        millis, nanos = divmod(value, _NANOS_OF_MILLI)
        if data_type.precision <= COMPACT_MILLIS:
            struct.pack_into("<q", out, slot, millis)
        else:
            struct.pack_into("<Q", out, slot, len(out) << 32 | nanos)
            out.extend(struct.pack("<q", millis))
    elif root is TypeRoot.VARIANT:
        _append(out, slot, struct.pack("<i", len(value[0])) + value[0] + value[1])
    else:
        _write_bytes(out, slot, value.encode() if isinstance(value, str) else bytes(memoryview(value)))


def _write_decimal(out: bytearray, slot: int, value: Decimal, data_type: AtomicType) -> None:
    scaled = value.scaleb(data_type.scale, _DECIMALS)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10**data_type.precision:
        raise ValueError("precision lost")
    if data_type.precision <= MAX_COMPACT_DECIMAL:
        struct.pack_into("<q", out, slot, unscaled)
        return
    # Spec: big-endian two's complement of minimal length, then zeros up to 16 bytes.
    minimal = unscaled.to_bytes(
        (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True
    )
    struct.pack_into("<Q", out, slot, len(out) << 32 | len(minimal))
    out.extend(minimal.ljust(16, b"\0"))


def _write_bytes(out: bytearray, slot: int, value: bytes) -> None:
    if len(value) > _MAX_INLINE:
        _append(out, slot, value)
        return
    out[slot : slot + len(value)] = value
    out[slot + 7] = _INLINE | len(value)


def _append(out: bytearray, slot: int, part: bytes) -> None:
    struct.pack_into("<Q", out, slot, len(out) << 32 | len(part))
    out.extend(part)
    out.extend(bytes(padded(len(part)) - len(part)))


def _array_bytes(values: Sequence[Any], element: DataType) -> bytes:
    head, width = array_header_size(len(values)), element_size(element)
    out = bytearray(padded(head + width * len(values)))
    struct.pack_into("<i", out, 0, len(values))
    for i, value in enumerate(values):
        if value is None:
            out[4 + i // 8] |= 1 << (i % 8)
        else:
            _write(out, head + i * width, value, element)
    return bytes(out)


def _map_bytes(pairs: Sequence[tuple[Any, Any]], key: DataType, value: DataType) -> bytes:
    keys = _array_bytes([pair[0] for pair in pairs], key)
    return struct.pack("<i", len(keys)) + keys + _array_bytes([pair[1] for pair in pairs], value)


def _vector_bytes(values: Sequence[Any], element: DataType) -> bytes:
    width = element_size(element)
    out = bytearray(4 + width * len(values))
    struct.pack_into("<i", out, 0, len(values))
    for i, value in enumerate(values):
        _write(out, 4 + i * width, value, element)
    return bytes(out)
