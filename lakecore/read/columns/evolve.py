"""This module converts columns of an old schema to a newer one: fields are matched by id, values cast by
fixed rules.

Spec: a field whose id the file's schema does not have is null, also when another field had its name.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import UnsupportedError
from lakecore.format.canonical import same_lists
from lakecore.read.columns.cast import cast_atomic
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    with_nullable,
)

__all__ = ["cut_columns", "evolve", "needed_part", "same_values"]


def same_values(old: DataType, new: DataType) -> bool:
    """Return whether both types hold the same values in the same Arrow type. Nullability of the column is
    ignored.
    """
    return old is new or with_nullable(old, True) == with_nullable(new, True)


def needed_part(old: DataType, new: DataType) -> DataType:
    """Return the part of a stored type that a column of type `new` is made of: the fields of its ROWs whose
    ids `new` has.

    A ROW keeps at least one value, also where `new` has none of its fields: it tells which rows are null.
    """
    if not isinstance(old, RowType) or not isinstance(new, RowType):
        return old
    types = {field.id: field.type for field in new.fields}
    fields = tuple(
        replace(field, type=needed_part(field.type, types[field.id]))
        for field in old.fields
        if field.id in types
    )
    return replace(old, fields=fields or tuple(map(_one_value, _narrowest(old.fields))))


def _narrowest(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
    """Return one of the fields, of an atomic type if there is such a one; none of none."""
    return tuple(sorted(fields, key=lambda field: not isinstance(field.type, AtomicType))[:1])


def _one_value(field: DataField) -> DataField:
    nothing = RowType(())
    return replace(field, type=needed_part(field.type, nothing))


def evolve(array: pa.Array, old: DataType, new: DataType) -> pa.Array:
    """Convert a canonical column of type `old` to type `new`. It costs nothing when they are the same.

    Raises UnsupportedError for a change of type that has no rule here, InvalidInputError for a value that the
    rule cannot convert (text that is not a number).
    """
    if same_values(old, new):
        return array
    match old, new:
        case RowType(), RowType():
            return _row(array, old, new)
        case ArrayType(), ArrayType():
            return same_lists(array, arrow_type(new), evolve(array.values, old.element, new.element))
        case MapType(), MapType():
            parts = evolve(array.keys, old.key, new.key), evolve(array.items, old.value, new.value)
            return _map(array, parts, arrow_type(new))
        case MultisetType(), MultisetType():
            return _map(array, (evolve(array.keys, old.element, new.element), array.items), arrow_type(new))
        case VectorType(), VectorType() if old.length == new.length and same_values(old.element, new.element):
            return array.cast(arrow_type(new))
        case AtomicType(), AtomicType():
            return cast_atomic(array, old, new)
    raise UnsupportedError(f"a column changed from {old} to {new}; this release has no rule to convert it")


def cut_columns(batch: pa.RecordBatch, whole: RowType, parts: RowType) -> pa.RecordBatch:
    """Return the batch with the columns of `parts` that it has converted from their types in `whole`."""
    for field in parts:
        at = batch.schema.get_field_index(field.name)
        if at >= 0:
            array = evolve(batch.column(at), whole.field(field.name).type, field.type)
            batch = batch.set_column(at, batch.schema.field(at).with_type(array.type), array)
    return batch


def _map(array: pa.Array, parts: tuple[pa.Array, pa.Array], target: pa.DataType) -> pa.Array:
    entries = pa.StructArray.from_arrays(list(parts), fields=[target.key_field, target.item_field])
    return same_lists(array, target, entries)


def _row(array: pa.Array, old: RowType, new: RowType) -> pa.Array:
    places = {field.id: i for i, field in enumerate(old.fields)}
    children = []
    for field in new.fields:
        at = places.get(field.id)
        if at is None:
            children.append(pa.nulls(len(array), arrow_type(field.type)))
        else:
            children.append(evolve(array.field(at), old.fields[at].type, field.type))
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(new)), mask=mask)
