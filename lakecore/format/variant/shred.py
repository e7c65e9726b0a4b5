"""VARIANT columns taken apart into typed columns; `shredded_variants` puts them together again.

A value is taken apart where it then comes back byte for byte: an object whose fields lie in the order of
their names, a whole number in as few bytes as it needs, a decimal of the scale of its column. All other
values, and what is no variant, stay whole. Java takes apart more: it keeps what a value means, not its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.arrow_nested import view_as
from lakecore.format.variant.keys import VariantDictionaries
from lakecore.row.variant_bytes import Ints, Parts, VariantBytes, containers, copy_ranges, ragged
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import (
    INTEGER_BITS,
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    with_nullable,
)

__all__ = ["SCALARS", "UNTYPED", "shred_values", "shredded_type"]

UNTYPED = AtomicType(TypeRoot.VARIANT)
_FLOATS = {TypeRoot.FLOAT: (14, np.float32, np.int32), TypeRoot.DOUBLE: (7, np.float64, np.int64)}
SCALARS = frozenset(
    {*INTEGER_BITS, *_FLOATS, TypeRoot.VARCHAR, TypeRoot.CHAR, TypeRoot.BOOLEAN, TypeRoot.DECIMAL}
)
"""These are the types that Java reads as the type of a typed column."""

_BYTES = AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)
_STRING = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
_OBJECT, _ARRAY = 2, 3
_TRUE, _FALSE, _INT8, _INT64, _DECIMAL4, _DECIMAL8, _DECIMAL16, _LONG_STRING = 1, 2, 3, 6, 8, 9, 10, 16
_MAX_SHORT = 63


def shredded_type(data_type: DataType, *, nullable: bool = True) -> RowType:
    """Return the columns of a VARIANT whose values are mostly of type `data_type`: a scalar, ROW or ARRAY of
    such.
    """
    inner = _group_type(data_type, field=False)
    names = [("metadata", with_nullable(_BYTES, False)), *((f.name, f.type) for f in inner)]
    return _number(names, nullable)


def _group_type(data_type: DataType, *, field: bool) -> RowType:
    """Return the type of the groups. Fields that an object lacks have null in both columns."""
    match data_type:
        case RowType(fields=fields):
            parts = [
                DataField(f.id, f.name, with_nullable(_group_type(f.type, field=True), False)) for f in fields
            ]
            typed: DataType = RowType(tuple(parts))
        case ArrayType(element=element):
            typed = ArrayType(_group_type(element, field=False))
        case AtomicType(root=TypeRoot.VARIANT):
            return _number([("value", with_nullable(_BYTES, field))], True)
        case AtomicType(root=TypeRoot.CHAR):
            typed = _STRING
        case _:
            typed = with_nullable(data_type, True)
    return _number([("value", _BYTES), ("typed_value", typed)], True)


def _number(names: Sequence[tuple[str, DataType]], nullable: bool) -> RowType:
    return RowType(tuple(DataField(i, name, kind) for i, (name, kind) in enumerate(names)), nullable)


def shred_values(column: pa.StructArray, data_type: DataType, target: pa.StructType) -> pa.StructArray:
    """Return a VARIANT column as `target`, the Arrow type of `shredded_type(kind)`. It costs Python for
    each distinct dictionary of keys, and memory of some ten times the batch.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    present = np.flatnonzero(valid)
    values, metadata = (column.field(name).take(pa.array(present)) for name in ("value", "metadata"))
    _, bounds, data = values.buffers()
    offsets = np.frombuffer(bounds, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    keys, dictionary = VariantDictionaries.of(metadata)
    source = _Source(VariantBytes(raw), keys)
    rows = _Rows(offsets[:-1], offsets[1:], dictionary)
    parts = _taken_apart(source, rows, data_type, ~keys.broken[dictionary] & (rows.end > rows.at))
    places = None if valid.all() else _places(present, len(column))
    arrays = [metadata, *(part for part in parts if part is not None)]
    children = [_spread(array, places) for array in arrays]
    filled = [
        child if field.nullable or not child.null_count else child.fill_null(b"")
        for child, field in zip(children, target, strict=True)
    ]
    mask = None if places is None else pa.array(~valid)
    cast = [view_as(child, field.type) for child, field in zip(filled, target, strict=True)]
    return pa.StructArray.from_arrays(cast, fields=list(target), mask=mask)


@dataclass(frozen=True, slots=True)
class _Source:
    bytes: VariantBytes
    keys: VariantDictionaries


@dataclass(frozen=True, slots=True)
class _Rows:
    """Values: where they begin and end, and which dictionary each uses."""

    at: Ints
    end: Ints
    dictionary: Ints

    def __len__(self) -> int:
        return len(self.at)

    def only(self, chosen: Ints) -> _Rows:
        return _Rows(self.at[chosen], self.end[chosen], self.dictionary[chosen])


def _taken_apart(
    source: _Source, rows: _Rows, data_type: DataType, whole: Ints | None = None
) -> tuple[pa.Array, pa.Array | None]:
    """Return the columns `value` and `typed_value`. `whole` are the values that may be taken apart at all;
    None: all.
    """
    may = np.ones(len(rows), bool) if whole is None else whole
    match data_type:
        case RowType():
            return _objects(source, rows, data_type, may)
        case ArrayType(element=element):
            return _arrays(source, rows, element, may)
        case AtomicType(root=TypeRoot.VARIANT):
            return _binary(
                len(rows), _Pieces(np.arange(len(rows)), source.bytes.data, rows.at, rows.end)
            ), None
    typed = _scalars(source.bytes, rows, data_type, may)
    rest = np.flatnonzero(typed.is_null().to_numpy(zero_copy_only=False))
    return _binary(len(rows), _Pieces(rest, source.bytes.data, rows.at[rest], rows.end[rest])), typed


def _objects(source: _Source, rows: _Rows, data_type: RowType, may: Ints) -> tuple[pa.Array, pa.Array]:
    basic, _ = source.bytes.basic(rows.at)
    chosen = np.flatnonzero(may & (basic == _OBJECT))
    some = rows.only(chosen)
    fields = source.bytes.fields(some.at, some.end)
    ranks = source.keys.of_fields(some.dictionary[fields.owner], fields.ids)
    same = np.diff(fields.owner) == 0
    wrong = ranks < 0
    wrong[1:] |= same & (np.diff(ranks) <= 0)
    apart = fields.exact & (np.bincount(fields.owner, wrong, len(chosen)) == 0)
    inside = np.flatnonzero(apart[fields.owner])
    inside = inside[np.argsort(ranks[inside], kind="stable")]
    field_ranks = np.array([source.keys.rank_of.get(field.name, -2) for field in data_type], np.int64)
    first, last = (np.searchsorted(ranks[inside], field_ranks, side) for side in ("left", "right"))
    children = []
    for field, begin, end in zip(data_type, first.tolist(), last.tolist(), strict=True):
        members = inside[begin:end]
        start, owner = fields.start[members], fields.owner[members]
        parts = _taken_apart(
            source, _Rows(start, start + fields.size[members], some.dictionary[owner]), field.type
        )
        places = _places(chosen[owner], len(rows))
        children.append(_group([_spread(part, places) for part in parts if part is not None]))
    typed = np.zeros(len(rows), bool)
    typed[chosen[apart]] = True
    names = [field.name for field in data_type]
    struct = pa.StructArray.from_arrays(children, names=names, mask=pa.array(~typed))
    whole = np.flatnonzero(~typed)
    other_fields = np.sort(inside[~np.isin(ranks[inside], field_ranks)])
    pieces = [_Pieces(whole, source.bytes.data, rows.at[whole], rows.end[whole])]
    if len(other_fields):
        rest, ends, owners = _left_over(source.bytes.data, fields, other_fields)
        pieces.append(_Pieces(chosen[owners], rest, ends[:-1], ends[1:]))
    return _binary(len(rows), *pieces), struct


def _left_over(data: Ints, fields: Parts, field_indexes: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the objects of the fields that have no column, one for each owner that has some: bytes, ends,
    owners.
    """
    owners, counts = np.unique(fields.owner[field_indexes], return_counts=True)
    out, bounds = containers(
        counts, fields.ids[field_indexes], data, fields.start[field_indexes], fields.size[field_indexes]
    )
    return out, bounds, owners


def _arrays(source: _Source, rows: _Rows, element: DataType, may: Ints) -> tuple[pa.Array, pa.Array]:
    basic, _ = source.bytes.basic(rows.at)
    chosen = np.flatnonzero(may & (basic == _ARRAY))
    some = rows.only(chosen)
    elements = source.bytes.elements(some.at, some.end)
    inside = np.flatnonzero(elements.exact[elements.owner])
    start, owner = elements.start[inside], elements.owner[inside]
    parts = _taken_apart(source, _Rows(start, start + elements.size[inside], some.dictionary[owner]), element)
    typed = np.zeros(len(rows), bool)
    typed[chosen[elements.exact]] = True
    counts = np.bincount(chosen[owner], minlength=len(rows))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    group = _group([part for part in parts if part is not None])
    lists = pa.ListArray.from_arrays(pa.array(ends), group, mask=pa.array(~typed))
    whole = np.flatnonzero(~typed)
    return _binary(len(rows), _Pieces(whole, source.bytes.data, rows.at[whole], rows.end[whole])), lists


def _scalars(source: VariantBytes, rows: _Rows, data_type: DataType, may: Ints) -> pa.Array:
    """Return the typed column; it is null where a value is not of the type, or would not be read back as it
    is.
    """
    assert isinstance(data_type, AtomicType)
    basic, header = source.basic(rows.at)
    primitive = may & (basic == 0)
    if data_type.root in (TypeRoot.VARCHAR, TypeRoot.CHAR):
        return _texts(source, rows, may & (basic == 1), primitive & (header == _LONG_STRING))
    if data_type.root is TypeRoot.BOOLEAN:
        fits = primitive & ((header == _TRUE) | (header == _FALSE)) & (rows.end - rows.at == 1)
        return pa.array(header == _TRUE, mask=~fits)
    fits = primitive & (source.sizes(rows.at) == rows.end - rows.at)
    if data_type.root in INTEGER_BITS:
        fits &= (header >= _INT8) & (header <= _INT64)
        return _integers(source, rows.at, header, fits, data_type)
    if data_type.root is TypeRoot.DECIMAL:
        fits &= (header >= _DECIMAL4) & (header <= _DECIMAL16)
        return _decimals(source, rows.at, header, fits, data_type)
    number, real, word = _FLOATS[data_type.root]
    fits &= header == number
    values = source.words(rows.at + 1).astype(word).view(real)
    return pa.array(values, mask=~fits | np.isnan(values))


def _integers(source: VariantBytes, at: Ints, header: Ints, fits: Ints, data_type: AtomicType) -> pa.Array:
    """Return integers of 1, 2, 4 or 8 bytes, as few as they need."""
    bits = 8 << np.clip(header.astype(np.int64) - _INT8, 0, 3)
    values = source.words(at + 1) << 64 - bits >> 64 - bits
    half = np.where(bits == 8, 64, bits // 2)
    short = (bits > 8) & (values == values << 64 - half >> 64 - half)
    size = INTEGER_BITS[data_type.root]
    fits = fits & ~short & (values == values << 64 - size >> 64 - size)
    return pa.array(np.where(fits, values, 0), mask=~fits).cast(arrow_type(data_type))


def _decimals(source: VariantBytes, at: Ints, header: Ints, fits: Ints, data_type: AtomicType) -> pa.Array:
    """Return decimals of the column's scale, in as few bytes as they need."""
    low = source.words(at + 2)
    low = np.where(header == _DECIMAL4, low << 32 >> 32, low)
    high = np.where(header == _DECIMAL16, source.words(np.where(header == _DECIMAL16, at + 10, 0)), low >> 63)
    fits = fits & (source.data[at + 1] == data_type.scale) & _below(low, high, data_type.precision)
    for number, digits in ((_DECIMAL4, 9), (_DECIMAL8, 18), (_DECIMAL16, 38)):
        small = _below(low, high, digits) & (data_type.scale <= digits)
        fits &= np.where(header == number, small, (header < number) | ~small)
    words = np.stack([low, high], axis=1)
    validity = pa.py_buffer(np.packbits(fits, bitorder="little"))
    return pa.Array.from_buffers(
        arrow_type(data_type), len(at), [validity, pa.py_buffer(np.ascontiguousarray(words))]
    )


def _below(low: Ints, high: Ints, digits: int) -> Ints:
    """Return whether 128-bit numbers have at most that many digits."""
    negative = high < 0
    upper = np.where(negative, ~high, high).view(np.uint64)
    lower = np.where(negative, ~low, low).view(np.uint64)  # (one less than the absolute value)
    limit = 10**digits
    below = [_less(upper, lower, bound) for bound in (limit, limit - 1)]
    places: Ints = np.where(negative, below[1], below[0])
    return places


def _less(upper: Ints, lower: Ints, bound: int) -> Ints:
    most, least = np.uint64(bound >> 64), np.uint64(bound & (1 << 64) - 1)
    less: Ints = (upper < most) | ((upper == most) & (lower < least))
    return less


def _texts(source: VariantBytes, rows: _Rows, short: Ints, long: Ints) -> pa.Array:
    """Return the texts. Text that is no UTF-8 stays as it is, with all texts of its batch."""
    long = long & (rows.end - rows.at > _MAX_SHORT + 5)
    fits = (short | long) & (source.sizes(rows.at) == rows.end - rows.at)
    chosen = np.flatnonzero(fits)
    start = rows.at[chosen] + np.where(short[chosen], 1, 5)
    array = _binary(len(rows), _Pieces(chosen, source.data, start, rows.end[chosen]))
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.nulls(len(rows), pa.string())


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The bytes of some rows, which are those from `start` to `end` of `data`."""

    rows: Ints
    data: Ints
    start: Ints
    end: Ints


def _binary(length: int, *pieces: _Pieces) -> pa.Array:
    """Return a binary array, in which rows without a piece are null."""
    sizes = np.full(length, -1, np.int64)
    for piece in pieces:
        sizes[piece.rows] = piece.end - piece.start
    valid = sizes >= 0
    ends = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))])
    out = np.empty(int(ends[-1]), np.uint8)
    for piece in pieces:
        copy_ranges(out, ends[:-1][piece.rows], piece.data, piece.start, piece.end - piece.start)
    return ragged(out, np.maximum(sizes, 0), valid)


def _group(parts: Sequence[pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(parts), names=["value", "typed_value"][: len(parts)])


def _places(rows: Ints, length: int) -> Ints | None:
    """Return, for each of `length` rows, which item it takes (-1: none); None: each takes its own."""
    if len(rows) == length:
        return None
    places = np.full(length, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return places


def _spread(array: pa.Array, places: Ints | None) -> pa.Array:
    return array if places is None else array.take(pa.array(places, mask=places < 0))
