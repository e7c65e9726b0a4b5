"""The threads of a unit of an append table: encoders only where it may use two cores, with the rows of one thread."""

from __future__ import annotations

import io
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from lakecore.compact.kinds.append import run as append_unit
from lakecore.executor import SerialExecutor, unit_cores, with_cores
from lakecore.format.encoders import Encoders
from lakecore.format.parquet import group_encoder
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from tests.support.lake import append_table, live_files, memory_catalog, paths_of, put


class Cores(SerialExecutor):
    """An executor whose units may use so many cores, as tasks of Spark may."""

    def __init__(self, cores: int) -> None:
        super().__init__()
        self._cores = cores

    def run(self, function: Any, tasks: Any) -> Any:
        for task in tasks:
            with with_cores(self._cores):
                assert unit_cores() == self._cores
                result = function(task)
            assert unit_cores() is None
            yield result


def compacted(executor: Any, cores: int) -> tuple[list[list[int]], list[dict[str, Any]], int]:
    """The rows of each row group of each new file, all rows in order, and the number of encodings in threads."""
    catalog = memory_catalog("unit-threads")
    table = append_table(catalog, file__block_size="1 kb")
    rows = [{"v": v, "p": f"{v * 7919 % 10007}" * 3} for v in range(300)]
    put(table, rows[:100], rows[100:170], rows[170:180], rows[180:])
    begin, begun = Encoders.begin, []

    def counted(self: Encoders, *arguments: Any) -> None:
        begun.append(self)
        begin(self, *arguments)

    job = compact.Job(table=table.name, strategy=compact.Strategy.FULL, copy=CopyMode.NONE)
    with (
        patch.object(append_unit, "core_count", lambda: cores),
        patch.object(group_encoder, "_WORTH_BYTES", 1),
        patch.object(Encoders, "begin", counted),
    ):
        assert compact.run(job, catalog, executor).picks_done == 1
    live = {file.file_name for file in live_files(table)}
    groups = []
    for path in sorted(path for path in paths_of(table) if path.rpartition("/")[2] in live):
        meta = pq.read_metadata(io.BytesIO(catalog.file_io.read(path)))
        groups.append([meta.row_group(number).num_rows for number in range(meta.num_row_groups)])
    return groups, table.scan().to_arrow().to_pylist(), len(begun)


@pytest.mark.parametrize("executor", [None, Cores(1), Cores(2)], ids=["of this process", "one", "two"])
def test_units_encode_with_threads_where_they_may_use_two_cores(executor: Any) -> None:
    alone = compacted(None, 1)
    assert alone[2] == 0
    assert max(map(len, alone[0])) > 2
    found = compacted(executor, 2)
    assert found[:2] == alone[:2]
    assert (found[2] > 0) == (not isinstance(executor, Cores) or executor._cores > 1)
