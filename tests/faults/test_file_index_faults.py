"""Storage fails at operation 1, 2, 3, … of rewriting file indexes: the rows stay, and a second try finishes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from lakecore.errors import CommitUncertainError, LakeError
from lakecore.jobs.rewrite_file_index import Job, run
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, live_files, memory_catalog, paths_of, put, rows_of

OPTIONS = {
    "file-index.bitmap.columns": "v",
    "file-index.bsi.columns": "v",
    "file-index.in-manifest-threshold": "1 b",
}
MODES = (
    FaultMode.ERROR,
    FaultMode.ERROR_AFTER_EFFECT,
    FaultMode.TORN,
    FaultMode.INTERRUPTED_AFTER_EFFECT,
)
SETTLED = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT)


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[] if mode is FaultMode.ERROR else [pytest.mark.slow]) for mode in MODES],
    ids=lambda mode: mode.value,
)
def test_every_operation_fails_once(mode: FaultMode) -> None:
    catalog = memory_catalog("fault-index")
    table = append_table(catalog, partitions=("p",))
    put(table, *([{"v": n, "p": "a"}, {"v": n, "p": "b"}] for n in range(2)))
    run(
        Job(table=table.name, options={"file-index.bsi.columns": "v"}, where="p=a"),
        catalog,
        clock=catalog.clock,
    )
    image = {path: catalog.file_io.read(path) for path in paths_of(table, "")}
    before, rows = live_files(table), rows_of(table)
    job = Job(table=table.name, options=OPTIONS, commit_user="job", commit_identifier=7)
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
        assert {f.file_name for f in live_files(table)} == {f.file_name for f in before}, where
        report = fsck(
            table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True
        )
        assert report.damage == (), where
        stray = [f.path for f in report.findings if f.kind is FindingKind.ORPHAN]
        if mode in SETTLED and not isinstance(error, CommitUncertainError):
            failed = storage.log[number - 1] if storage.fired else ""
            assert [path for path in stray if failed not in (f"delete {path}", f"abort {path}")] == [], where
        again = run(job, catalog, clock=catalog.clock)
        assert again.error is None, where
        assert all(file.extra_files for file in live_files(table)), where
        assert rows_of(table) == rows, where
        if again.files:
            report = fsck(table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms())
            left = [f.path for f in report.findings if f.kind is FindingKind.ORPHAN and "/bucket-" in f.path]
            assert left == [], where
        if not storage.fired:
            assert (error, number > 20) == (None, True)
            return
