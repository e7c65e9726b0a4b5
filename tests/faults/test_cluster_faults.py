"""Storage fails at operation 1, 2, 3, … of putting rows in order: the rows stay, and a second try finishes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from lakecore.errors import CommitUncertainError, LakeError
from lakecore.jobs.compact import Job, OrderStrategy, run
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, live_files, memory_catalog, paths_of, put, rows_of

CASES = [
    pytest.param(FaultMode.ERROR, "false", id="error"),
    pytest.param(FaultMode.ERROR, "true", id="error-incremental"),
    pytest.param(FaultMode.INTERRUPTED_AFTER_EFFECT, "false", marks=pytest.mark.slow, id="interrupted"),
]


@pytest.mark.parametrize(("mode", "incremental"), CASES)
def test_every_operation_fails_once(mode: FaultMode, incremental: str) -> None:
    catalog = memory_catalog("fault-cluster")
    options = {"deletion_vectors__enabled": "true", "num_sorted_run__compaction_trigger": "2"}
    table = append_table(
        catalog,
        partitions=("p",),
        clustering__incremental=incremental,
        clustering__columns="v",
        **options,
    )
    put(table, *([{"v": 9 - n, "p": "a"}, {"v": n % 2, "p": "b"}] for n in range(2)))
    table.delete("v = 9")
    image = {path: catalog.file_io.read(path) for path in paths_of(table, "")}
    rows = rows_of(table)
    strategy = OrderStrategy.ORDER if incremental == "false" else OrderStrategy.NONE
    job = Job(table=table.name, order_strategy=strategy, commit_user="job", commit_identifier=7)
    for number in itertools.count(1):
        catalog.file_io.clear()  # type: ignore[attr-defined]
        for path, data in image.items():
            catalog.file_io.write_new(path, data)
        storage = FaultyFileIO(catalog.file_io, number, mode)
        error = None
        try:
            run(job, replace(catalog, file_io=storage), clock=catalog.clock)
        except (LakeError, KeyboardInterrupt) as err:
            error = err
        if storage.fired and image == {path: catalog.file_io.read(path) for path in paths_of(table, "")}:
            continue  # what the job does with these bytes is known
        where = f"operation {number} ({storage.log[number - 1 : number]}), {error!r}"
        assert rows_of(table) == rows, where
        report = fsck(
            table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True
        )
        assert report.damage == (), where
        stray = [f.path for f in report.findings if f.kind is FindingKind.ORPHAN]
        if mode is FaultMode.ERROR and not isinstance(error, CommitUncertainError):
            failed = storage.log[number - 1] if storage.fired else ""
            assert [path for path in stray if failed not in (f"delete {path}", f"abort {path}")] == [], where
        again = run(job, catalog, clock=catalog.clock)
        assert again.error is None, where
        assert (len(again.snapshots) in (1, 2), len(live_files(table))) == (True, 2), where
        assert rows_of(table) == rows, where
        if not storage.fired:
            assert (error, number > 20) == (None, True)
            return
