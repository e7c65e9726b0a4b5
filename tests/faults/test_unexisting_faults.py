"""Files that are gone, and storage that only says so: nothing is dropped by mistake, and nothing half."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidInputError, LakeError, UnavailableError, UnsupportedError
from lakecore.fs.file_io import FileStatus
from lakecore.jobs import quarantine
from lakecore.jobs.repair import unexisting
from lakecore.jobs.runner.chore import Report
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.runs import Removal, RunState, RunStore
from lakecore.verify.fsck.check import fsck
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, live_files, memory_catalog, paths_of, put, rows_of
from tests.support.maintained import OWNER, History
from tests.support.meddling_fs import Meddling


class Wrong(FaultyFileIO):
    """Listings of paths with `part` are empty, and with `blind` looks at files find nothing."""

    def __init__(self, inner: Any, part: str, *, blind: bool = False, broken: bool = False) -> None:
        super().__init__(inner)
        self._part, self._blind, self._broken = part, blind, broken

    def list(self, path: str) -> list[FileStatus]:
        if self._part in path and self._broken:
            raise UnavailableError(f"{path}: storage is away")
        return [] if self._part in path else super().list(path)

    def stat(self, path: str) -> FileStatus | None:
        return None if self._blind and self._part in path else super().stat(path)


def appended(name: str) -> History:
    """Five appends of two rows, in a file and a manifest each."""
    lake = memory_catalog(name)
    table = append_table(lake)
    put(table, *([{"v": n, "p": "x"}, {"v": n, "p": "y"}] for n in range(5)))
    return History.of(lake, table)


def lost(name: str) -> History:
    """The same without the second file."""
    made = appended(name)
    made.catalog.file_io.delete(f"{made.table.path}/bucket-0/{live_files(made.table)[1].file_name}")
    return History(made.catalog, made.table, {p: made.catalog.file_io.read(p) for p in _paths(made)}, {})


def _paths(made: History) -> list[str]:
    return [path for path in made.image if made.catalog.file_io.stat(path) is not None]


def remove(lake: FilesystemCatalog, kind: Any = unexisting.RemoveUnexistingFiles, **other: Any) -> Report:
    job = kind(**{"table": "d.a", "accept_rows": 2, "safety": OWNER} | other)
    return unexisting.run(job, lake, clock=lake.clock)


BOTH = [unexisting.RemoveUnexistingFiles, unexisting.RemoveUnexistingManifests]


@pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.__name__)
def test_a_wrong_listing_alone_proves_nothing(kind: Any) -> None:
    made = appended(f"unexisting-list-{kind.__name__}")
    part = "/bucket-0" if kind is unexisting.RemoveUnexistingFiles else "/manifest"
    assert remove(made.through(Wrong(made.catalog.file_io, part)), kind).nothing_to_do
    with pytest.raises(UnavailableError):
        remove(made.through(Wrong(made.catalog.file_io, part, broken=True)), kind)
    assert made.untouched()


@pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.__name__)
def test_storage_that_finds_nothing_at_all_is_not_believed(kind: Any) -> None:
    made = appended(f"unexisting-blind-{kind.__name__}")
    part = "/bucket-0/" if kind is unexisting.RemoveUnexistingFiles else "/manifest/manifest-"
    storage = Wrong(made.catalog.file_io, part.rpartition("/")[0], blind=True)
    with pytest.raises(UnsupportedError, match=r"5 of 5 .* seem to be missing"):
        remove(made.through(storage), kind, accept_rows=10)
    assert made.untouched()


def test_a_file_that_is_back_stops_the_commit() -> None:
    made = appended("unexisting-back")
    storage = made.catalog.file_io
    path = f"{made.table.path}/bucket-0/{live_files(made.table)[1].file_name}"
    data = storage.read(path)
    storage.delete(path)
    looks = itertools.count()

    class Returning(FaultyFileIO):
        def stat(self, where: str) -> FileStatus | None:
            if where == path and next(looks) == 1:
                storage.write_new(path, data)
            return super().stat(where)

    with pytest.raises(UnavailableError, match="exists now"):
        remove(made.through(Returning(storage)))
    assert made.untouched()


def with_vectors(name: str) -> tuple[History, dict[str, bytes]]:
    """Two partitions with two files, both in one index file of deletion vectors; the first one is lost: their contents."""
    lake = memory_catalog(name)
    table = append_table(lake, partitions=("p",), deletion_vectors__enabled="true")
    put(table, *([{"v": v, "p": p} for v in range(3) for p in ("x", "y")] for _ in range(2)))
    table.delete("v = 1")
    first = {file.file_name for file in live_files(table)[:2]}
    paths = [path for path in paths_of(table) if path.rpartition("/")[2] in first]
    contents = {path: lake.file_io.read(path) for path in paths}
    for path in paths:
        lake.file_io.delete(path)
    return History.of(lake, table), contents


@pytest.mark.parametrize("storage_fails", [False, True], ids=["a file is back", "an index file fails"])
def test_new_index_files_are_removed_when_nothing_is_committed(*, storage_fails: bool) -> None:
    made, contents = with_vectors(f"unexisting-vectors-{storage_fails}")
    storage, (path, *_) = made.catalog.file_io, sorted(contents)
    new = [0]

    class Disturbed(FaultyFileIO):
        def operation(self, name: str, where: str, effect: Any, torn: Any = None) -> Any:
            if name in ("write_new", "open_output") and "/index/" in where:
                new[0] += 1
                if storage_fails and new[0] == 2:
                    raise UnavailableError(f"{where}: storage is away")
                if new[0] == 1 and not storage_fails:
                    storage.write_new(path, contents[path])
            return super().operation(name, where, effect, torn)

    with pytest.raises(UnavailableError, match="storage is away" if storage_fails else "exists now"):
        remove(made.through(Disturbed(storage)), accept_rows=6)
    assert new == [2]
    if not storage_fails:
        storage.delete(path)
    assert made.untouched()
    assert remove(made.catalog, accept_rows=6).snapshot == 4
    assert rows_of(made.table) == sorted([(v, p) for v in (0, 2) for p in ("x", "y")], key=repr)
    made.check_whole("removed", orphans=True, damage="")


def test_loss_is_accepted_by_number() -> None:
    made = lost("unexisting-accept")
    for accept in (None, 1):
        with pytest.raises(InvalidInputError, match="--accept-rows 2"):
            remove(made.catalog, accept_rows=accept)
    assert made.untouched()
    planned = remove(made.catalog, dry_run=True, accept_rows=None)
    assert planned.notes[0] == "these rows are lost: bucket 0: 1 file with 2 rows"
    assert made.untouched()


def test_what_the_quarantine_has_is_not_given_up() -> None:
    made = appended("unexisting-kept")
    lake = made.catalog
    path = f"{made.table.path}/bucket-0/{live_files(made.table)[1].file_name}"
    runs = RunStore(lake.file_io, lake.warehouse, lake.clock)
    record = runs.begin(
        "d.a", "by-mistake", Removal(files=(PlannedDeletion(path, 1, "a mistake"),)), quarantine=True
    )
    lake.file_io.move(path, runs.quarantine_path(record, 0, path))
    runs.finish(record, RunState.QUARANTINED)
    with pytest.raises(UnsupportedError, match=f"lakecore undo {record.id}"):
        remove(lake)
    quarantine.run(quarantine.Undo(run_id=record.id), lake, clock=lake.clock)
    assert remove(lake).nothing_to_do


def test_an_append_at_the_same_time_is_kept() -> None:
    made = lost("unexisting-append")
    storage = Meddling(
        made.catalog.file_io, "publish", "snapshot/snapshot-6", lambda: put(made.table, [{"v": 9, "p": "z"}])
    )
    assert remove(made.through(storage)).snapshot == 7
    assert len(rows_of(made.table)) == 9


@pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.DEAD_AFTER_EFFECT])
def test_every_operation_fails_once(kind: Any, mode: FaultMode) -> None:
    made = lost(f"unexisting-{kind.__name__}-{mode.value}")
    if kind is unexisting.RemoveUnexistingManifests:
        made = appended(f"unexisting-{kind.__name__}-{mode.value}")
        latest = made.table._stores.snapshots.load(5)
        second = made.table._stores.manifests.data_manifests(latest)[1]
        path = made.table._stores.paths.manifest(second.file_name)
        made.catalog.file_io.delete(path)
        made.image.pop(path)
    for number in itertools.count(1):
        made.reset()
        storage = FaultyFileIO(made.catalog.file_io, fail_at=number, mode=mode)
        with contextlib.suppress(LakeError):
            remove(made.through(storage), kind)
        remove(made.catalog, kind)
        table = made.catalog.load_table("d.a")
        assert len(rows_of(table)) == 8, storage.log[number - 1 : number]
        assert table._stores.snapshots.latest_id() == 6
        put(table, [{"v": 9, "p": "z"}])
        report = fsck(table._stores.file_io, table._stores.paths, now_ms=0)
        assert [f for f in report.damage if "missing" not in f.problem] == []
        if not storage.fired:
            assert number > 15
            return
