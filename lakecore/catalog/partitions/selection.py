"""This module selects partitions from lists: by values, and by a condition on their columns. It is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.catalog.partitions.partition import Partition, PartitionRequest
from lakecore.errors import InvalidInputError
from lakecore.metadata.listed_partitions import spec_texts
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.evaluate import mask
from lakecore.predicate.parse import parse_where
from lakecore.row.partition_values import partition_specs, partition_value
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, RowType
from lakecore.types.text import parse_value

__all__ = ["complete_specs", "parse_request", "select_partitions"]


def parse_request(request: PartitionRequest, schema: TableSchema) -> tuple[Mapping[str, Any], ...]:
    """Return the internal values of the partitions that a caller names. In a mapping, a text may stand for a
    value of any type, as in `Partition.spec`.

    Raises InvalidInputError for another column, and for what is no value of a column.
    """
    default = TableOptions.from_schema(schema).partition_default_name

    def convert(name: str, value: Any, partition_type: RowType) -> Any:
        if isinstance(value, str) and name in partition_type.names:
            return _value(value, partition_type.field(name), default)
        return partition_value(name, value, partition_type)

    return partition_specs(request, schema.partition_type, default, convert)


def complete_specs(specs: Sequence[Mapping[str, Any]], schema: TableSchema) -> list[dict[str, str]]:
    """Return specifications with texts for their internal values. Raises InvalidInputError for one that
    lacks a partition column.
    """
    for spec in specs:
        missing = [name for name in schema.partition_keys if name not in spec]
        if missing:
            raise InvalidInputError(f"partition {dict(spec)!r}: it has no value of {', '.join(missing)}")
    return spec_texts(specs, schema)


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
        texts = spec_texts(specs, schema)
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
