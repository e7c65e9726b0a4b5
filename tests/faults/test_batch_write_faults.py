"""Storage fails at operation 1, 2, 3, … of a write of two writers: afterwards the old or the new rows, and the same
commit tried again makes the new ones, once.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import LakeError
from lakecore.table import Commit, Table
from lakecore.write.rows.incoming import BUCKET_COLUMN
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, memory_catalog

MODES = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD, FaultMode.TORN)
COMMIT = Commit(user="job", identifier=1)
SHARES = ([{"v": 1, "p": "a"}, {"v": 2, "p": "a"}], [{"v": 3, "p": "b"}])


def fresh(kind: str) -> Table:
    catalog = memory_catalog(f"batch-faults-{kind}")
    if kind == "append":
        table = append_table(catalog, ("v INT", "p STRING"), ("p",))
    else:
        table = key_table(
            catalog, ("v INT", "p STRING"), ("v", "p"), ("p",), bucket="-1", changelog_producer="input"
        )
    table.write(pa.table({"v": pa.array([0], pa.int32()), "p": ["a"]}))
    return table


def rows(table: Table) -> list[Any]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def write(table: Table) -> None:
    """Two writers and a commit, as an engine runs them: when a writer fails, what the others prepared is removed."""
    batch = table.new_batch_write(commit=COMMIT)
    prepared: list[bytes] = []
    try:
        for share in SHARES:
            writer = replace(batch)  # a copy, as a pickle is; the failing storage counts for both
            if "assigned" in str(table.path):
                writer = writer.with_assigned_buckets()
                share = [{**row, BUCKET_COLUMN: 1} for row in share]
            try:
                writer.write(pa.RecordBatch.from_pylist(share))
                prepared.append(writer.prepare_commit())
            except LakeError:
                writer.abort()
                raise
    except LakeError:
        batch.abort(prepared)
        raise
    batch.commit(prepared)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *itertools.product(("append", "dynamic"), MODES),
        ("assigned", FaultMode.ERROR),
        ("assigned", FaultMode.TORN),
    ],
)
def test_any_operation_may_fail(kind: str, mode: FaultMode) -> None:
    healthy = fresh(kind)
    old = rows(healthy)
    write(healthy)
    new = rows(healthy)
    assert new == [(0, "a"), (1, "a"), (2, "a"), (3, "b")]
    for number in itertools.count(1):
        table = fresh(kind)
        storage = FaultyFileIO(table._stores.file_io, number, mode)
        error = None
        try:
            write(with_stores(table, file_io=storage))
        except LakeError as err:
            error = err
        assert rows(table) in (old, new), (number, error)
        if error is None:
            assert rows(table) == new, number
        write(table)
        assert rows(table) == new, (number, error)
        if not storage.fired:
            break
    assert number > 10
