"""Hypothesis strategies for data types and internal values of them."""

from __future__ import annotations

import functools
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
    parse_type,
)

__all__ = ["atomic_types", "data_types", "row_of", "row_types", "rows_of", "values_of"]

_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64, TypeRoot.DATE: 32}
_ATOMS = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(3)", "STRING", "CHAR(9)", "BYTES",
    "BINARY(3)", "DECIMAL(9, 2)", "DECIMAL(18, 18)", "DECIMAL(19, 0)", "DECIMAL(38, 10)", "TIMESTAMP(0)", "TIMESTAMP(3)",
    "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
]  # fmt: skip


def row_of(*kinds: Any) -> RowType:
    """A row type with fields f0, f1, … of these types (text or JSON)."""
    return RowType(tuple(DataField(i, f"f{i}", parse_type(kind)) for i, kind in enumerate(kinds)))


def atomic_types() -> st.SearchStrategy[DataType]:
    return st.integers(0, len(_ATOMS) - 1).map(_atom)


def _atom(index: int) -> DataType:
    return parse_type(_ATOMS[index])


@functools.cache
def data_types() -> st.SearchStrategy[DataType]:
    """All types, nested ones among them. The strategy is made once: how many branches Hypothesis counts depends on which parts it
    still has in a cache of its own, and a test that draws from two such strategies fails as one that depends on outer state.
    """
    primitive = st.sampled_from(["BOOLEAN NOT NULL", "INT NOT NULL", "DOUBLE NOT NULL"]).map(parse_type)
    return st.recursive(
        atomic_types(),
        lambda inner: st.one_of(
            inner.map(ArrayType),
            atomic_types().map(MultisetType),
            st.builds(MapType, atomic_types(), inner),
            st.builds(VectorType, primitive, st.integers(1, 4)),
            st.lists(inner, min_size=1, max_size=3).map(_row),
        ),
        max_leaves=5,
    )


def _row(kinds: list[DataType]) -> RowType:
    return RowType(tuple(DataField(i, f"f{i}", kind) for i, kind in enumerate(kinds)))


def row_types(
    kinds: st.SearchStrategy[DataType] | None = None, max_size: int = 4
) -> st.SearchStrategy[RowType]:
    return st.lists(data_types() if kinds is None else kinds, min_size=1, max_size=max_size).map(_row)


def rows_of(row_type: RowType) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(st.none() | values_of(field.type) for field in row_type.fields))


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    """Values that are not None; elements of arrays and maps may be."""
    match kind:
        case AtomicType():
            return _atoms(kind)
        case ArrayType(element=element):
            return st.lists(st.none() | values_of(element), max_size=4)
        case VectorType(element=element, length=length):
            return st.lists(values_of(element), min_size=length, max_size=length)
        case MapType(key=key, value=value):
            return st.lists(st.tuples(values_of(key), st.none() | values_of(value)), max_size=3)
        case MultisetType(element=element):
            return st.lists(st.tuples(values_of(element), st.integers(1, 9)), max_size=3)
        case RowType():
            return rows_of(kind)


def _atoms(kind: AtomicType) -> st.SearchStrategy[Any]:
    root = kind.root
    if root in _BITS:
        limit = 1 << (_BITS[root] - 1)
        return st.integers(-limit, limit - 1)
    if root is TypeRoot.DECIMAL:
        limit = 10**kind.precision - 1
        return st.integers(-limit, limit).map(lambda unscaled: Decimal(f"{unscaled}E-{kind.scale}"))
    if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        tick = 1_000_000 if kind.precision <= 3 else 1000 if kind.precision <= 6 else 1
        return st.integers(-(10**18), 10**18).map(lambda nanos: nanos // tick * tick)
    return {
        TypeRoot.BOOLEAN: st.booleans(),
        TypeRoot.TIME: st.integers(0, 86_399_999),
        TypeRoot.FLOAT: st.floats(width=32, allow_nan=False),
        TypeRoot.DOUBLE: st.floats(allow_nan=False),
        TypeRoot.CHAR: st.text(max_size=12),
        TypeRoot.VARCHAR: st.text(max_size=20),
        TypeRoot.BINARY: st.binary(max_size=3),
        TypeRoot.VARBINARY: st.binary(max_size=20),
    }[root]
