"""This module selects partitions from lists: by values, and by a condition on their columns. It is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.catalog.partitions.partition import Partition, PartitionRequest
from lakecore.errors import InvalidInputError
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.evaluate import mask
from lakecore.predicate.parse import parse_where
from lakecore.row.partition_path import parse_partitions, partition_spec
from lakecore.row.partition_values import partition_value
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, RowType
from lakecore.types.text import parse_value

__all__ = ["complete_specs", "parse_request", "select_partitions", "spec_of"]


def parse_request(request: PartitionRequest, schema: TableSchema) -> tuple[dict[str, Any], ...]:
    """Return the internal values of the partitions that a caller names. In a mapping, a text may stand for a
    value of any type, as in `Partition.spec`.

    Raises InvalidInputError for another column, and for what is no value of a column.
    """
    partition_type, default = schema.partition_type, TableOptions.from_schema(schema).partition_default_name
    if isinstance(request, str):
        return parse_partitions(request, partition_type, default)
    specs = [request] if isinstance(request, Mapping) else request
    return tuple(
        {name: _internal(name, value, partition_type, default) for name, value in spec.items()}
        for spec in specs
    )


def _internal(name: str, value: Any, kind: RowType, default: str) -> Any:
    if isinstance(value, str) and name in kind.names:
        return _value(value, kind.field(name), default)
    return partition_value(name, value, kind)


def spec_of(row: Sequence[Any], schema: TableSchema) -> dict[str, str]:
    """Return the texts of a partition by column, as Java's catalogs list them."""
    options = TableOptions.from_schema(schema)
    return partition_spec(
        row, schema.partition_type, options.partition_default_name, options.partition_legacy_name
    )


def _texts(specs: Sequence[Mapping[str, Any]], schema: TableSchema) -> list[dict[str, str]]:
    """Return specifications, of some columns or all, with texts for their internal values."""
    partition_type, options = schema.partition_type, TableOptions.from_schema(schema)
    return [
        partition_spec(
            [spec[name] for name in partition_type.names if name in spec],
            RowType(tuple(field for field in partition_type.fields if field.name in spec)),
            options.partition_default_name,
            options.partition_legacy_name,
        )
        for spec in specs
    ]


def complete_specs(specs: Sequence[Mapping[str, Any]], schema: TableSchema) -> list[dict[str, str]]:
    """Return specifications with texts for their internal values. Raises InvalidInputError for one that
    lacks a partition column.
    """
    for spec in specs:
        missing = [name for name in schema.partition_keys if name not in spec]
        if missing:
            raise InvalidInputError(f"partition {dict(spec)!r}: it has no value of {', '.join(missing)}")
    return _texts(specs, schema)


def select_partitions(
    partitions: Sequence[Partition],
    schema: TableSchema,
    specs: Sequence[Mapping[str, Any]] | None,
    where: str | None,
) -> list[Partition]:
    """Return the partitions that agree with one of `specs` and with `where`, in order of their texts.

    Raises InvalidInputError for a condition on other columns, and for a listed text that is no value.
    """
    if specs is not None:
        texts = _texts(specs, schema)
        partitions = [one for one in partitions if any(text.items() <= one.spec.items() for text in texts)]
    if where is not None:
        partitions = _satisfying(partitions, schema, where)
    return sorted(partitions, key=lambda one: tuple(one.spec.values()))


def _satisfying(partitions: Sequence[Partition], schema: TableSchema, where: str) -> list[Partition]:
    partition_type, default = schema.partition_type, TableOptions.from_schema(schema).partition_default_name
    condition = parse_where(where, partition_type)
    rows = [
        [_value(one.spec.get(field.name), field, default) for field in partition_type.fields]
        for one in partitions
    ]
    matches = mask(condition, rows_batch(rows, partition_type, arrow_schema(partition_type)))
    return [one for one, match in zip(partitions, matches.to_pylist(), strict=True) if match]


def _value(text: str | None, field: DataField, default: str) -> Any:
    return None if text is None or text == default else parse_value(text, field.type)
