"""Compaction, expiry and the removal of orphans through some catalog on some store, whose storage fails at operation 1, 2, 3, …"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakecore.catalog.catalog import Catalog
from lakecore.errors import LakeError
from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from lakecore.jobs.runner.chore import Safety
from lakecore.verify.fsck.check import fsck
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import rows_of

__all__ = ["check_chores"]

SCHEMA: dict[str, Any] = {
    "columns": ["k INT NOT NULL", "p STRING NOT NULL", "v STRING"],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
    "options": {"bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "0"},
}
PARTITION = "a b"
EXPECTED = [(0, PARTITION, "0"), (1, PARTITION, "1"), (2, PARTITION, "1")]
AT_ONCE = Safety(owner="test", quarantine=False)


def check_chores(
    lake: Catalog,
    failing_lake: Callable[[FaultyFileIO], Catalog],
    *,
    stride: int,
    mode: FaultMode,
    root: str | None = None,
    first: int = 1,
) -> int:
    """Each chore is done with storage that fails at one operation, and again with storage that works: the rows stay, the table has no
    damage, and the work is finished. It returns the number of operations that the three chores have together.

    `lake` has database `d`. `failing_lake` is the same catalog with other storage. `root`: the tables are external, and lie below it.
    `first`: the first operation that fails, for a run that goes on where another one ended.
    """
    for number in itertools.count(first, stride):
        name = f"d.t{number}"
        place = {} if root is None else {"path": f"{root}/{name}"}
        table = lake.create_table(name, {**SCHEMA, "options": {**SCHEMA["options"], **place}})
        for commit in range(2):
            keys = pa.array([commit, commit + 1], pa.int32())
            table.upsert(pa.table({"k": keys, "p": [PARTITION] * 2, "v": [str(commit)] * 2}))
        stores = table._stores
        buckets = [one.path for one in stores.file_io.list(table.path) if one.name.startswith("p=")]
        stray = f"{buckets[0]}/bucket-0/data-{uuid.uuid4()}-0.parquet"
        stores.file_io.write_new(stray, b"of a writer that died")
        failing = FaultyFileIO(stores.file_io, fail_at=number, mode=mode)
        far = failing_lake(failing)
        for chore in (compact_all, expire, remove_orphans):
            try:
                chore(far, name)
            except (LakeError, AssertionError):
                assert failing.fired
            chore(lake, name)
        after = lake.load_table(name)
        assert sorted(rows_of(after)) == EXPECTED, number
        stores = after._stores
        assert stores.snapshots.list_ids() == (3,), number
        assert stores.file_io.stat(stray) is None, number
        found = fsck(stores.file_io, stores.paths, now_ms=stores.clock.now_ms(), deep=True, read_data=True)
        assert not found.findings, number
        if not failing.fired:
            return failing.count
    raise AssertionError("unreachable")


def compact_all(lake: Catalog, name: str) -> None:
    job = compact.Job(table=name, strategy=compact.Strategy.FULL, commit_user="night", commit_identifier=1)
    compact.run(job, lake)


def expire(lake: Catalog, name: str) -> None:
    older = lake.clock.now_ms() + 1
    job = expire_snapshots.Job(table=name, retain_max=1, retain_min=1, older_than_ms=older, safety=AT_ONCE)
    assert expire_snapshots.run(job, lake).error is None


def remove_orphans(lake: Catalog, name: str) -> None:
    in_two_days = FakeClock(lake.clock.now_ms() + 2 * 86_400_000)
    job = remove_orphan_files.Job(table=name, safety=AT_ONCE)
    assert remove_orphan_files.run(job, lake, clock=in_two_days).error is None
