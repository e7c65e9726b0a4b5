"""Storage fails at operation 1, 2, 3, … of a stream of commits: an engine that is restored from what it kept makes
every commit once, whatever happened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import LakeError
from lakecore.table import Table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.fault_turns import failing_operations
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, memory_catalog

ROWS = {0: [{"v": 1, "p": "a"}, {"v": 2, "p": "b"}], 1: [{"v": 3, "p": "a"}]}


def fresh(kind: str) -> Table:
    catalog = memory_catalog(f"stream-faults-{kind}")
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


def run(table: Table, checkpoint: dict[int, list[bytes]]) -> None:
    """An engine: it commits what its checkpoint has, then writes what is left; `checkpoint` outlives it."""
    write = table.new_stream_write("job")
    write.filter_and_commit(checkpoint)
    for number, values in ROWS.items():
        if number in checkpoint:
            continue
        writer = replace(write)
        try:
            writer.write(pa.RecordBatch.from_pylist(values))
            prepared = [writer.prepare_commit(number)]
        except LakeError:
            writer.abort()
            raise
        checkpoint[number] = prepared
        write.commit(number, prepared)


MODES = (
    FaultMode.ERROR,
    FaultMode.ERROR_AFTER_EFFECT,
    FaultMode.DEAD,
    FaultMode.DEAD_AFTER_EFFECT,
    FaultMode.TORN,
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["append", "dynamic"])
def test_any_operation_may_fail(kind: str, mode: FaultMode) -> None:
    new = [(0, "a"), (1, "a"), (2, "b"), (3, "a")]
    for number in failing_operations(mode, MODES):
        table = fresh(kind)
        storage = FaultyFileIO(table._stores.file_io, number, mode)
        checkpoint: dict[int, list[bytes]] = {}
        error = None
        try:
            run(with_stores(table, file_io=storage), checkpoint)
        except LakeError as err:
            error = err
        seen = rows(table)
        assert set(seen) <= set(new), (number, error)
        assert len(seen) == len(set(seen)), (number, error)
        assert len(seen) in (1, 3, 4), (number, error)
        run(table, checkpoint)
        assert rows(table) == new, (number, error)
        if not storage.fired:
            break
    assert number > 10
