"""This module has the order that a clustering gives rows: by columns, or by a space-filling curve through
them. It does no IO.

Rules of the format, for values as they are ordered: `order` sorts by the columns in turn, nulls first.
`zorder` interleaves 64 bits of each column (of texts and bytes the first `zorder.var-length-contribution`
bytes), nulls are zero. `hilbert` takes 63 bits of each (whole numbers without their sign bit, so negatives
come last; of texts and bytes the first 8 bytes), nulls are the highest value. Timestamps count in
milliseconds on curves. Beyond the format: floats and decimals keep the order of their values on curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.row.order_strategy import OrderStrategy
from lakecore.row.space_curve import HILBERT_BITS, WORD_BITS, Words, hilbert, interleave

__all__ = ["OrderStrategy", "SortRule"]

_WORD_BYTES = 8
_SIGN = np.uint64(1 << 63)
_SHORT_DECIMAL_DIGITS = 18
_LOW_63 = np.uint64((1 << HILBERT_BITS) - 1)
_PER_MILLI = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortRule:
    """Rows are ordered by `columns`. `var_bytes` is the number of bytes of a text that count for the
    z-order. It can be pickled.
    """

    strategy: OrderStrategy
    columns: tuple[str, ...]
    var_bytes: int = _WORD_BYTES

    def __str__(self) -> str:
        return f"{self.strategy.value}({', '.join(self.columns)})"

    def keys(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Return columns without nulls that, compared one after the other, have the order of the rows.

        `columns`: those of the rule, in its order. How many keys there are, and their types, depends on the
        rule and the types of the columns alone.
        """
        if self.strategy is OrderStrategy.ORDER:
            return [key for column in columns for key in _plain_keys(column)]
        if self.strategy is OrderStrategy.ZORDER:
            texts = [_is_text(column.type) for column in columns]
            widths = [self.var_bytes * 8 if text else WORD_BITS for text in texts]
            parts = [
                _text_words(column, self.var_bytes) if text else [_z_word(column)]
                for column, text in zip(columns, texts, strict=True)
            ]
            return [_signed_array(word) for word in interleave(parts, widths)]
        return [_signed_array(word) for word in hilbert([_hilbert_word(column) for column in columns])]


def _plain_keys(column: pa.Array) -> list[pa.Array]:
    """Return two columns: whether there is a value, then the value."""
    there = pc.cast(column.is_valid(), pa.int8())
    if _is_text(column.type):
        return [there, pc.fill_null(column, pa.scalar(b"").cast(column.type))]
    if pa.types.is_decimal(column.type) and column.type.precision > _SHORT_DECIMAL_DIGITS:
        return [there, pc.fill_null(column, pa.scalar(Decimal(0), column.type))]
    return [there, pa.array(_ordered_words(column))]


def _ordered_words(column: pa.Array) -> Ints:
    """Return integers in the order of the values; those of nulls are arbitrary. The column is no text and no
    long decimal.
    """
    data_type = column.type
    if pa.types.is_floating(data_type):
        doubles: npt.NDArray[np.float64] = pc.fill_null(pc.cast(column, pa.float64()), 0.0).to_numpy().copy()
        doubles[np.isnan(doubles)] = np.nan
        bits = doubles.view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    if pa.types.is_decimal(data_type):
        return _low_words(column)
    if pa.types.is_date(data_type) or pa.types.is_time32(data_type):
        column = pc.cast(column, pa.int32())
    integers = pc.fill_null(pc.cast(column, pa.int64()), 0)
    return np.asarray(integers.to_numpy(zero_copy_only=False), np.int64)


def _low_words(column: pa.Array) -> Ints:
    """Return unscaled decimals without their higher half; nulls are 0."""
    return _decimal_words(column)[0::2]


def _high_bits(column: pa.Array) -> Ints:
    """Return the 63 highest bits, and the sign, that decimals of this precision can have."""
    words = _decimal_words(column)
    low, high = words[0::2].view(np.uint64), words[1::2]
    shift = (10**column.type.precision).bit_length() - HILBERT_BITS
    if shift >= WORD_BITS:
        return high >> np.int64(shift - WORD_BITS)
    return (high << np.int64(WORD_BITS - shift)) | (low >> np.uint64(shift)).view(np.int64)


def _decimal_words(column: pa.Array) -> Ints:
    """Return the low and the high word of each 128-bit integer in turn."""
    filled = pc.fill_null(column, pa.scalar(Decimal(0), column.type))
    stored = np.frombuffer(filled.buffers()[1], np.int64, 2 * (len(filled) + filled.offset))
    return stored[2 * filled.offset :]


def _curve_value(column: pa.Array) -> Ints:
    """Return the integer that stands for each value on a curve."""
    data_type = column.type
    if pa.types.is_timestamp(data_type):
        times, by = _PER_MILLI[data_type.unit]
        return np.asarray(_ordered_words(column) * times // by)
    if pa.types.is_decimal(data_type) and data_type.precision > _SHORT_DECIMAL_DIGITS:
        return np.asarray(_high_bits(column))
    return np.ascontiguousarray(_ordered_words(column))


def _z_word(column: pa.Array) -> Words:
    if pa.types.is_boolean(column.type):
        word = np.where(_ordered_words(column) > 0, np.uint64(0x81 << 56), np.uint64(0))
    else:
        word = _curve_value(column).view(np.uint64) ^ _SIGN
    return np.where(_there(column), word, np.uint64(0))


def _hilbert_word(column: pa.Array) -> Words:
    data_type = column.type
    if _is_text(data_type):
        word = _text_words(column, _WORD_BYTES)[0] >> np.uint64(1)
    elif pa.types.is_boolean(data_type):
        word = np.where(_ordered_words(column) > 0, _LOW_63, np.uint64(0))
    elif pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        word = (_curve_value(column).view(np.uint64) ^ _SIGN) >> np.uint64(1)
    elif pa.types.is_int8(data_type):
        word = _curve_value(column).view(np.uint64) & np.uint64(0xFF)
    else:
        word = _curve_value(column).view(np.uint64) & _LOW_63
    return np.where(_there(column), word, _LOW_63)


def _text_words(column: pa.Array, count: int) -> list[Words]:
    """Return the first `count` bytes of each value as words, with zeros where it is shorter. Nulls are
    zeros.
    """
    width = -(-count // _WORD_BYTES) * _WORD_BYTES
    plain = pc.fill_null(pc.cast(column, pa.large_binary()), b"")
    if not len(plain):
        return [np.zeros(0, np.uint64) for _ in range(width // _WORD_BYTES)]
    offsets = np.frombuffer(plain.buffers()[1], np.int64, len(plain) + 1 + plain.offset)[plain.offset :]
    stored = plain.buffers()[2]
    data = np.zeros(1, np.uint8) if stored is None or not stored.size else np.frombuffer(stored, np.uint8)
    places = offsets[:-1, None] + np.arange(width)
    inside = (places < offsets[1:, None]) & (np.arange(width) < count)
    data_words = np.where(inside, data[np.minimum(places, len(data) - 1)], 0).astype(np.uint8)
    words = np.ascontiguousarray(data_words).view(">u8").astype(np.uint64)
    return [np.ascontiguousarray(words[:, number]) for number in range(width // _WORD_BYTES)]


def _is_text(kind: Any) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ) and not pa.types.is_decimal(kind)


def _there(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)


def _signed_array(word: Words) -> pa.Array:
    return pa.array((word ^ _SIGN).view(np.int64))
