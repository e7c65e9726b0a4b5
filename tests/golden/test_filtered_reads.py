"""Filters leave files, row groups and buckets unread: the rows must be those of filtering everything."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import (
    And,
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from lakecore.row.values import array_values
from lakecore.types.datatypes import AtomicType, DataField, TypeRoot
from tests.support.golden import GoldenTable, View, golden_tables

LATEST = View("rows.jsonl")
READABLE = [table for table in golden_tables() if table.rows(LATEST)]
FILTERS = 12


def some_filter(dice: random.Random, field: DataField, values: list[Any]) -> Predicate:
    """A condition on `field` that is true for some of its values, more or less."""
    present = [value for value in values if value is not None]
    if not present or dice.random() < 0.1:
        return dice.choice([IsNull(field.name), IsNotNull(field.name)])
    one, two = dice.choice(present), dice.choice(present)
    if isinstance(one, str) and dice.random() < 0.3:
        return StartsWith(field.name, one[: dice.randint(0, 3)])
    compare = Compare(field.name, dice.choice(list(Comparison)), one)
    other = Compare(field.name, dice.choice(list(Comparison)), two)
    return dice.choice(
        [compare, Not(compare), In(field.name, (one, two)), And((compare, other)), Or((compare, other))]
    )


def as_text(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.slow
@pytest.mark.parametrize("golden", READABLE, ids=lambda table: table.name)
def test_filters_change_nothing_but_the_cost(golden: GoldenTable) -> None:
    dice = random.Random(golden.name)
    table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
    everything = table.scan().to_arrow().combine_chunks()
    fields = [
        f
        for f in table.schema.fields
        if isinstance(f.type, AtomicType) and f.type.root is not TypeRoot.VARIANT
    ]
    batch = everything.to_batches()[0]
    for _ in range(FILTERS):
        field = dice.choice(fields)
        where = some_filter(dice, field, array_values(batch.column(field.name), field.type))
        wanted = pa.Table.from_batches([batch.filter(mask(where, batch))])
        assert as_text(table.scan(where=where).to_arrow()) == as_text(wanted), where
