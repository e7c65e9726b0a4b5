"""File indexes leave out files and rows: the rows are those of a read without indexes, for fewer bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import lakecore
from lakecore.index.definition import index_specs
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import And, Or, Predicate, at_key
from lakecore.row.values import array_values
from lakecore.types.datatypes import MapType, RowType
from tests.golden.test_filtered_reads import as_text, some_filter
from tests.support.fault_fs import FaultyFileIO
from tests.support.golden import GoldenTable, golden_tables
from tests.support.handles import with_stores

INDEXED = [table for table in golden_tables() if any(key.startswith("file-index.") for key in table.options)]
PREDICATES = 30


@pytest.mark.parametrize("golden", INDEXED, ids=lambda table: table.name)
def test_indexes_change_nothing_but_the_cost(golden: GoldenTable) -> None:
    dice = random.Random(golden.name)
    table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
    storage = FaultyFileIO(table._stores.file_io)
    counted = with_stores(table, file_io=storage)
    unindexed = counted.with_options({"file-index.read.enabled": "false"})
    everything = table.scan().to_arrow().combine_chunks()
    batch = everything.to_batches()[0]
    indexed = {(spec.column, spec.key) for spec in index_specs(table.schema)} or {("id", None)}
    places = sorted(indexed, key=repr)
    opened = {True: 0, False: 0}
    for _ in range(PREDICATES):
        parts = [
            condition(dice, table.schema.row_type, batch, *dice.choice(places))
            for _ in range(dice.randint(1, 3))
        ]
        where = parts[0] if len(parts) == 1 else dice.choice((And, Or))(tuple(parts))
        wanted = as_text(pa.Table.from_batches([batch.filter(mask(where, batch))]))
        for pruned, handle in ((True, counted), (False, unindexed)):
            storage.log.clear()
            assert as_text(handle.scan(where=where).to_arrow()) == wanted, where
            opened[pruned] += sum(
                entry.endswith((".parquet", ".orc", ".avro")) for entry in data_opens(storage)
            )
    merged = bool(table.schema.primary_keys)  # its files overlap: none may be left out for its values
    assert opened[True] < opened[False] or merged or indexed == {("id", None)}


def condition(
    dice: random.Random, row_type: RowType, batch: pa.RecordBatch, column: str, key: str | None
) -> Predicate:
    """On a column, or on its values under a key: often values that only other keys have."""
    field = row_type.field(column)
    if key is None:
        return some_filter(dice, field, array_values(batch.column(column), field.type))
    assert isinstance(field.type, MapType)
    of_key = replace(field, type=field.type.value)
    values = array_values(batch.column(column).items, of_key.type)
    return at_key(some_filter(dice, of_key, values), key)


def data_opens(storage: FaultyFileIO) -> list[str]:
    return [entry for entry in storage.log if "open_input" in entry and "/bucket-" in entry]
