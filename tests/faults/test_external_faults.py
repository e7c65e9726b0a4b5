"""Storage fails at operation 1, 2, 3, … of a compaction whose new files are outside of the table's directory: the same rows,
and nothing stays out there that no snapshot names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import CommitUncertainError, LakeError
from lakecore.executor import SerialExecutor
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.fault_turns import failing_operations
from tests.support.lake import append_table, key_table, put, rows_of

pytestmark = pytest.mark.slow

NAME = "fault-external"
OUT = f"memory://{NAME}/out"
MODES = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD)
PLACES = {
    "data-file.external-paths": f"{OUT}/a, {OUT}/b",
    "data-file.external-paths.strategy": "round-robin",
}


def lake_with(kind: str) -> tuple[FilesystemCatalog, Table]:
    MemoryFileIO(NAME).clear()
    catalog = replace(load_catalog(f"memory://{NAME}/wh", **{"external-roots": OUT}), clock=FakeClock())
    if kind == "append":
        table = append_table(catalog, **PLACES)
        put(table, *([{"v": n, "p": "x"}] for n in range(4)))
    else:
        indexed = {"file-index.bitmap.columns": "v", "file-index.in-manifest-threshold": "1 b"}
        table = key_table(catalog, **PLACES, **indexed, changelog__producer="lookup")
        put(table, *([{"k": k, "v": f"{n}"} for k in (n, n + 1)] for n in range(3)))
    return catalog, table


def outside(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if path.startswith(f"{OUT}/")}


def named(table: Table) -> set[str]:
    """Files outside that a snapshot names, as new or as removed."""
    stores = table._stores
    found: set[str] = set()
    for number in stores.snapshots.list_ids():
        snapshot = stores.snapshots.load(number)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list]
        for name in filter(None, lists):
            for file in stores.manifests.read(stores.manifests.read_list(name)).files():
                found.update(stores.paths.all_files("", file))
    return outside(found)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("lookup", FaultMode.ERROR), ("append", FaultMode.ERROR_AFTER_EFFECT), ("lookup", FaultMode.DEAD)],
)
def test_nothing_stays_outside_that_nobody_names(kind: str, mode: FaultMode) -> None:
    catalog, table = lake_with(kind)
    storage = MemoryFileIO(NAME)
    image, before = dict(storage._files), rows_of(table)
    job = Job(table=table.name, strategy=Strategy.FULL, commit_user="job", commit_identifier=7)
    run(job, catalog, clock=catalog.clock)
    made = outside(storage._files) - image.keys()
    assert made
    for number in failing_operations(mode, MODES):
        storage._files.clear()
        storage._files.update(image)
        failing = FaultyFileIO(catalog.file_io, fail_at=number, mode=mode)
        error: LakeError | None = None
        try:
            run(job, replace(catalog, file_io=failing), clock=catalog.clock)
        except LakeError as err:
            error = err
        where = f"operation {number} ({failing.log[number - 1 : number]}), then {error!r}"
        table = catalog.load_table(table.name)
        assert rows_of(table) == before, where
        if mode is not FaultMode.DEAD and not isinstance(error, CommitUncertainError):
            stray = outside(storage._files) - named(table)
            assert {path for path in stray if f"delete {path}" not in failing.log} == set(), where
        run(job, catalog, clock=catalog.clock)
        table = catalog.load_table(table.name)
        assert rows_of(table) == before, where
        assert named(table) - storage._files.keys() == set(), where
        stray = outside(storage._files) - named(table)
        assert {path for path in stray if f"delete {path}" not in failing.log} == set(), where
        if not failing.fired:
            assert error is None
            assert number > 30
            return


class ExecutorWithLostAttempts(SerialExecutor):
    """An engine that runs each unit again after the process of its first attempt, which had written its files, was killed."""

    name = "spark"

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            function(task)
            yield function(task)


@pytest.mark.parametrize("kind", ["append", "lookup"])
def test_files_of_attempts_that_were_killed_do_not_stay_outside(kind: str) -> None:
    catalog, table = lake_with(kind)
    before, storage = rows_of(table), MemoryFileIO(NAME)
    image = set(storage._files)
    report = run(
        Job(table=table.name, strategy=Strategy.FULL),
        catalog,
        clock=catalog.clock,
        executor=ExecutorWithLostAttempts(),
    )
    assert report.error is None
    table = catalog.load_table(table.name)
    assert rows_of(table) == before
    assert outside(storage._files) - image
    assert outside(storage._files) - named(table) == set()
