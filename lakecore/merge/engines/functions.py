"""This module finds aggregate functions by name (options `fields.<name>.aggregate-function`), with the
options that they obey.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.merge.engines.collections import Collect, MergeMap, MergeMapWithKeyTime
from lakecore.merge.engines.events import Aggregate, Events
from lakecore.merge.engines.nested import NestedPartialUpdate, NestedRows, NestedUpdate, NullKeys
from lakecore.merge.engines.numbers import Product, Sum
from lakecore.merge.engines.positions import (
    Extreme,
    FirstNonNull,
    FirstValue,
    LastNonNull,
    LastValue,
    PrimaryKey,
)
from lakecore.merge.engines.set_unions import SetUnion, union32
from lakecore.merge.engines.sketches import check_library, union_hll, union_theta
from lakecore.merge.engines.texts import ListAgg
from lakecore.merge.groups import Column
from lakecore.options import Option, parse_bool, parse_enum, parse_list
from lakecore.row.roaring.bitmap64 import union64
from lakecore.types.datatypes import ArrayType, AtomicType, DataField, MapType, RowType, TypeRoot

__all__ = ["FieldRule", "field_option", "field_rule", "function_name"]

T = TypeVar("T")
_NUMBERS = (
    TypeRoot.DECIMAL, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
)  # fmt: skip
_BYTES = (TypeRoot.VARBINARY,)
_DEFAULT_FUNCTION = "fields.default-aggregate-function"


def field_option(raw: Mapping[str, str], field: str, name: str, parse: Callable[[str], T], default: T) -> T:
    """Return the option `fields.<field>.<name>`. Raises InvalidOptionError."""
    return Option(f"fields.{field}.{name}", parse, default, "An option of one column.").read(raw)


def function_name(raw: Mapping[str, str], field: str) -> str | None:
    """Return the aggregate function that the options give a column, or None for the engine's own default."""
    return field_option(raw, field, "aggregate-function", str, None) or raw.get(_DEFAULT_FUNCTION)


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A rule has a column, its function, and whether retractions are ignored (option `ignore-retract`)."""

    field: str
    name: str
    function: Aggregate
    ignores_retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> Column:
        """Fold the column. Raises UnsupportedError for a retraction that the function cannot take."""
        if events.has_retracts and self.ignores_retracts:
            events = events.keep(~events.retracts)
        elif events.has_retracts and not self.function.retracts:
            raise UnsupportedError(
                f"field {self.field}: function {self.name} cannot retract values (-U and -D rows); set "
                f"fields.{self.field}.ignore-retract=true to ignore them"
            )
        return self.function.fold(column, events)


def field_rule(field: DataField, raw: Mapping[str, str], name: str) -> FieldRule:
    """Return the rule of a column. Raises InvalidOptionError for an unknown function, or one that does not
    fit its type.
    """
    ignores = field_option(raw, field.name, "ignore-retract", parse_bool, False)
    make = _FUNCTIONS.get(name)
    if make is None:
        names = ", ".join(sorted(_FUNCTIONS))
        raise InvalidOptionError(
            f"column {field.name}: {name!r} is not an aggregate function; use one of {names}"
        )
    return FieldRule(field.name, name, make(_Request(field, raw, name, ignores)), ignores)


@dataclass(frozen=True, slots=True)
class _Request:
    field: DataField
    raw: Mapping[str, str]
    name: str
    ignores_retracts: bool

    def option(self, name: str, parse: Callable[[str], T], default: T) -> T:
        return field_option(self.raw, self.field.name, name, parse, default)

    def names(self, name: str) -> tuple[str, ...]:
        nothing: tuple[str, ...] = ()
        return self.option(name, parse_list, nothing)

    def atomic(self, *roots: TypeRoot) -> AtomicType:
        data_type = self.field.type
        if isinstance(data_type, AtomicType) and data_type.root in roots:
            return data_type
        raise self.misfit()

    def nested(self) -> tuple[ArrayType, RowType]:
        data_type = self.field.type
        if isinstance(data_type, ArrayType) and isinstance(data_type.element, RowType):
            return data_type, data_type.element
        raise self.misfit()

    def misfit(self) -> InvalidOptionError:
        return InvalidOptionError(
            f"column {self.field.name} has type {self.field.type}: aggregate function "
            f"{self.name} does not accept it"
        )


def _sum(ask: _Request) -> Aggregate:
    return Sum(ask.field.name, ask.atomic(*_NUMBERS))


def _product(ask: _Request) -> Aggregate:
    return Product(ask.field.name, ask.atomic(*_NUMBERS))


def _extreme(largest: bool) -> Callable[[_Request], Aggregate]:
    def make(ask: _Request) -> Aggregate:
        ask.atomic(
            *(root for root in TypeRoot if root not in (TypeRoot.VARIANT, TypeRoot.BLOB, TypeRoot.BOOLEAN))
        )
        return Extreme(largest)

    return make


def _boolean(largest: bool) -> Callable[[_Request], Aggregate]:
    def make(ask: _Request) -> Aggregate:
        ask.atomic(TypeRoot.BOOLEAN)
        return Extreme(largest)

    return make


def _listagg(ask: _Request) -> Aggregate:
    ask.atomic(TypeRoot.VARCHAR)
    return ListAgg(ask.option("list-agg-delimiter", str, ","), ask.option("distinct", parse_bool, False))


def _collect(ask: _Request) -> Aggregate:
    data_type = ask.field.type
    if not isinstance(data_type, ArrayType):
        raise ask.misfit()
    return Collect(data_type, ask.option("distinct", parse_bool, False), late_first=ask.ignores_retracts)


def _merge_map(ask: _Request) -> Aggregate:
    if not isinstance(ask.field.type, MapType):
        raise ask.misfit()
    return MergeMap(ask.field.type)


def _merge_map_with_keytime(ask: _Request) -> Aggregate:
    data_type = ask.field.type
    if (
        not isinstance(data_type, MapType)
        or not isinstance(data_type.value, RowType)
        or len(data_type.value.fields) < 2
    ):
        raise ask.misfit()
    names = data_type.value.names
    time = ask.option("ts-field", str, names[-1])
    if time not in names:
        raise InvalidOptionError(f"fields.{ask.field.name}.ts-field={time}: not a field of the map's rows")
    return MergeMapWithKeyTime(data_type, names.index(time))


def _nested_rows(ask: _Request) -> NestedRows:
    kind, row = ask.nested()
    key = ask.names("nested-key")
    _check_nested(ask, row, "nested-key", key)
    nulls = ask.option("nested-key-null-strategy", parse_enum(NullKeys), NullKeys.MERGE)
    return NestedRows(field=ask.field.name, type=kind, row=row, key=key, nulls=nulls)


def _nested_update(ask: _Request) -> Aggregate:
    rows = _nested_rows(ask)
    sequence = ask.names("nested-sequence-field")
    _check_nested(ask, rows.row, "nested-sequence-field", sequence)
    limit = ask.option("count-limit", int, None)
    return NestedUpdate(rows=rows, sequence=sequence, limit=limit)


def _nested_partial_update(ask: _Request) -> Aggregate:
    rows = _nested_rows(ask)
    if not rows.key:
        raise InvalidOptionError(
            f"function nested_partial_update needs option fields.{ask.field.name}.nested-key"
        )
    return NestedPartialUpdate(rows=rows)


def _check_nested(ask: _Request, row: RowType, option: str, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in row.names:
            raise InvalidOptionError(f"fields.{ask.field.name}.{option}={name}: not a field of its rows")


def _union(
    unite: Callable[[bytes, bytes, str], bytes], *, sketch: bool = False
) -> Callable[[_Request], Aggregate]:
    def make(ask: _Request) -> Aggregate:
        if sketch:
            check_library(ask.field.name, ask.name)
        return SetUnion(ask.field.name, ask.atomic(*_BYTES), unite)

    return make


def _always(function: Aggregate) -> Callable[[Any], Aggregate]:
    return lambda ask: function


_FUNCTIONS: Mapping[str, Callable[[_Request], Aggregate]] = {
    "bool_and": _boolean(False),
    "bool_or": _boolean(True),
    "collect": _collect,
    "first_non_null_value": _always(FirstNonNull()),
    "first_not_null_value": _always(FirstNonNull()),
    "first_value": _always(FirstValue()),
    "hll_sketch": _union(union_hll, sketch=True),
    "last_non_null_value": _always(LastNonNull()),
    "last_value": _always(LastValue()),
    "listagg": _listagg,
    "max": _extreme(True),
    "merge_map": _merge_map,
    "merge_map_with_keytime": _merge_map_with_keytime,
    "min": _extreme(False),
    "nested_partial_update": _nested_partial_update,
    "nested_update": _nested_update,
    "primary-key": _always(PrimaryKey()),
    "product": _product,
    "rbm32": _union(union32),
    "rbm64": _union(union64),
    "sum": _sum,
    "theta_sketch": _union(union_theta, sketch=True),
}
