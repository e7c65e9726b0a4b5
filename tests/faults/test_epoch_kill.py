"""SIGKILL after the changes that one epoch of a streaming query of Spark makes to a real disk, without Spark: the rows are
written, stored as what is about to be committed, committed, and compacted. Spark runs the epoch again, since it does not
know that it was committed: its rows are in the table once.

Some changes are taken; `pytest --every-kill` takes all of them. `python -m tests.fuzz.epoch_kills` does the same with Spark.
"""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.spark.data_source.batch_commits import buckets_at_start, commit_batch, stream_user
from tests.support.killing_fs import exit_code
from tests.support.lake import rows_of
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

USER = stream_user("q")
STEP = 7
_KEYED = {
    "columns": ["k INT", "v BIGINT"],
    "primaryKeys": ["k"],
    "options": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
}
TABLES: dict[str, dict[str, Any]] = {
    "append": {"columns": ["k INT", "v BIGINT"]},
    "compacted": {
        **_KEYED,
        "options": {**_KEYED["options"], "bucket": "2", "full-compaction.delta-commits": "1"},
    },
    "dynamic buckets": {**_KEYED, "options": {**_KEYED["options"], "bucket": "-1"}},
}


def rows(number: int) -> pa.Table:
    """Those of an epoch; no two of them are equal."""
    return pa.table(
        {"k": pa.array(range(5), pa.int32()), "v": pa.array(range(100 * number, 100 * number + 5))}
    )


def epoch(warehouse: str, number: int) -> None:
    """Do what the tasks and the driver do for a micro-batch."""
    table = load_catalog(warehouse, **{"local.fsync": "false"}).load_table("d.copy")
    write = table.new_stream_write(USER).with_buckets_of(buckets_at_start(table))
    write.write(rows(number))
    commit_batch(table, number, [write.prepare_commit(number)])


@pytest.mark.parametrize("kind", TABLES)
def test_the_rows_of_a_killed_epoch_are_there_once(
    kind: str, oracle: Oracle, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    warehouse = str(tmp_path / "lake")
    table = load_catalog(warehouse, create_warehouse=True, **{"local.fsync": "false"}).create_table(
        "d.copy", TABLES[kind]
    )
    step = 1 if request.config.getoption("--every-kill") else STEP
    epoch(warehouse, 0)
    kills = 0
    for number in itertools.count(1):
        code = exit_code(1 + kills * step, epoch, warehouse, number)
        assert code in (0, -signal.SIGKILL)
        epoch(warehouse, number)
        expected = [(k, 100 * done + k) for done in range(number + 1) for k in range(5)]
        if kind != "append":
            expected = [(k, sum(v for key, v in expected if key == k)) for k in range(5)]
        assert rows_of(table) == sorted(expected, key=repr), f"change {1 + kills * step}"
        if code == 0:
            break
        kills += 1
    assert kills > 2
    assert len(oracle.read(warehouse, "d.copy")) == len(expected)
    complaints = findings(oracle.fsck(warehouse, "d.copy"))
    assert {one for one in complaints if not one.startswith("orphan: ")} == set()
    print(f"\n{kind}: killed after {kills} of some {kills * step} changes")
