"""A table that was dropped and created again beneath a writer: nothing of the old one gets into the new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.commit.request import CommitResult
from lakecore.errors import NotFoundError
from lakecore.metadata.schema_change import AddColumn
from lakecore.table import Table
from lakecore.types.datatypes import parse_type
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.lake import memory_catalog, rows_of

ROWS = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]})
OLD = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
NEW: dict[str, dict[str, Any]] = {
    "other type": {**OLD, "columns": ["k INT", "v INT"]},
    "other key": {**OLD, "primaryKeys": ["v"]},
    "no key": {"columns": ["k INT", "v STRING"]},
    "other buckets": {**OLD, "options": {"bucket": "4"}},
    "partitions": {**OLD, "primaryKeys": ["k", "v"], "partitionKeys": ["v"]},
    "the same": OLD,
}


def by_batch(table: Table, again: Callable[[], None]) -> CommitResult:
    write = table.new_batch_write()
    write.write(ROWS)
    prepared = write.prepare_commit()
    again()
    return write.commit([prepared])


def by_stream(table: Table, again: Callable[[], None]) -> CommitResult:
    write = table.new_stream_write("job")
    write.write(ROWS)
    write.commit(0, [write.prepare_commit(0)])
    again()
    write.write(ROWS)
    return write.commit(1, [write.prepare_commit(1)])


def by_table(table: Table, again: Callable[[], None]) -> Any:
    table.write(ROWS)
    again()
    return table.write(ROWS)


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("write", [by_batch, by_stream, by_table])
def test_nothing_is_committed(write: Callable[..., Any], new: str) -> None:
    catalog = memory_catalog()
    table = catalog.create_table("d.t", OLD)
    with pytest.raises(NotFoundError, match="was dropped and created again after it was loaded"):
        write(table, lambda: recreate(catalog, NEW[new]))
    current = catalog.load_table("d.t")
    assert current.latest_snapshot() is None
    assert rows_of(current) == []
    stores = current._stores
    report = fsck(stores.file_io, stores.paths, now_ms=stores.clock.now_ms(), deep=True, read_data=True)
    assert {finding.kind for finding in report.findings} <= {FindingKind.ORPHAN}


def recreate(catalog: FilesystemCatalog, definition: dict[str, Any]) -> None:
    catalog.drop_table("d.t")
    catalog.clock.sleep(0.001)
    catalog.create_table("d.t", definition)


def test_a_schema_that_was_changed_meanwhile_is_of_the_same_table() -> None:
    """The files of an older schema are of this table; with options of a handle, too."""
    catalog = memory_catalog()
    table = catalog.create_table("d.t", OLD).with_options({"target-file-size": "1 mb"})
    other = catalog.load_table("d.t")
    catalog.alter_table("d.t", [AddColumn(path=("w",), type=parse_type("INT"))])
    table.write(ROWS)
    other.write(ROWS)
    assert rows_of(catalog.load_table("d.t")) == [(1, "a", None)]


def test_a_schema_of_a_server_has_no_time() -> None:
    """The schema of a REST catalog comes without the time of its file, and its highest id from its columns."""
    table = memory_catalog().create_table("d.t", OLD)
    schemas, schema = table._stores.schemas, table.schema
    assert schemas.is_same(replace(schema, time_millis=0, highest_field_id=schema.highest_field_id + 1))
    assert not schemas.is_same(replace(schema, time_millis=0, primary_keys=("v",)))
    assert not schemas.is_same(replace(schema, time_millis=schema.time_millis + 1))
    assert not schemas.is_same(replace(schema, id=1))
