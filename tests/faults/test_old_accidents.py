"""Accidents that happened to users of maintenance elsewhere, replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import LakeError, NotFoundError, UnavailableError, UnsupportedError
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.jobs import branches, compact, expire_snapshots, quarantine, remove_orphan_files, tags, why
from lakecore.jobs.chore import Report, Safety
from lakecore.verify.fsck import fsck
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO
from tests.support.killing_fs import KillPoint, run_and_die
from tests.support.lake import key_table, put, rows_of
from tests.support.maintained import OWNER, History, history, views
from tests.support.meddling_fs import Meddling

FUTURE = FakeClock(4_000_000_000_000)


class Forgetful(FaultyFileIO):
    """Lists directories that contain `part` as empty, from the `nth` time on, or only then."""

    def __init__(self, inner: FileIO, part: str, nth: int, *, once: bool) -> None:
        super().__init__(inner)
        self._part, self._left, self._once = part, nth, once

    def list(self, path: str) -> list[FileStatus]:
        if self._part in path:
            self._left -= 1
            if self._left == -1 or (self._left < 0 and not self._once):
                return []
        return super().list(path)


def expire(lake: FilesystemCatalog, **limits: Any) -> Report:
    job = expire_snapshots.Job(table="d.k", **{"retain_max": 2, "retain_min": 1, "safety": OWNER} | limits)
    return expire_snapshots.run(job, lake, clock=lake.clock)


def remove_orphans(lake: FilesystemCatalog, **limits: Any) -> Report:
    job = remove_orphan_files.Job(table="d.k", **{"safety": OWNER} | limits)
    return remove_orphan_files.run(job, lake, clock=FUTURE)


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    return history(f"accident-{request.node.name}")


def test_orphan_cleaning_while_expiry_goes_on_keeps_everything(made: History) -> None:
    """Snapshots vanish between their listing and their reading (paimon issue 7710)."""
    storage = Meddling(made.catalog.file_io, "read", "snapshot/snapshot-1", lambda: expire(made.catalog))
    remove_orphans(made.through(storage))
    made.check_views("afterwards")
    made.check_whole("afterwards", orphans=True)


@pytest.mark.parametrize("job", [remove_orphans, expire], ids=lambda job: job.__name__)
@pytest.mark.parametrize("folder", ["/snapshot", "/tag", "/branch"])
@pytest.mark.parametrize("nth", [0, 1])
def test_a_directory_that_is_listed_as_empty_deletes_nothing_that_is_needed(
    made: History, job: Callable[..., Report], folder: str, nth: int
) -> None:
    """A storage service that answers wrongly once or from then on (paimon issue 7920)."""
    storage = Forgetful(made.catalog.file_io, f"d.db/k{folder}", nth, once=folder == "/tag")
    problem: LakeError | None = None
    try:
        job(made.through(storage))
    except LakeError as err:
        problem = err
    if folder == "/snapshot" and (job is expire or nth == 0):
        assert isinstance(problem, UnavailableError)
    made.check_views(str(problem))
    made.check_whole(str(problem), orphans=False)


def test_a_table_without_snapshots_is_left_alone(made: History) -> None:
    storage = made.catalog.file_io
    for path in made.files():
        if "/snapshot/" in path or "/tag/" in path:
            storage.delete(path)
    left = made.files()
    with pytest.raises(UnsupportedError, match="allow-empty"):
        remove_orphans(made.catalog)
    assert made.files() == left


def test_too_many_orphans_are_taken_for_a_mistake(made: History) -> None:
    for number in range(30):
        made.catalog.file_io.write_new(f"{made.table.path}/bucket-0/data-{number}.parquet", b"x" * 10_000)
    with pytest.raises(UnsupportedError, match="max-share"):
        remove_orphans(made.catalog, few=10)
    assert remove_orphans(made.catalog, few=10, max_share=1.0).files == 30


def test_files_of_a_slow_writer_that_commits_meanwhile_are_spared(made: History) -> None:
    """They are old when they are committed: only the second look at the roots can tell."""
    image = set(made.files())
    put(made.table, [{"k": 500, "v": "slow"}])
    late = {path: made.catalog.file_io.read(path) for path in made.files() - image}
    hidden = {p: d for p, d in late.items() if "/snapshot/" in p}
    for path in hidden:
        made.catalog.file_io.delete(path)
    made.catalog.file_io.overwrite(made.table.paths.latest_hint, b"6")
    rows = rows_of(made.table)

    def commit() -> None:
        for path, data in hidden.items():
            made.catalog.file_io.overwrite(path, data)

    report = remove_orphans(made.through(Meddling(made.catalog.file_io, "list", "/bucket-0", commit)))
    assert report.spared > 0
    assert rows_of(made.table) == sorted([*rows, (500, "slow")], key=repr)
    made.check_whole("afterwards", orphans=False)
    assert remove_orphans(made.catalog).nothing_to_do


def test_a_tag_made_while_its_snapshot_expires_either_holds_or_fails(made: History) -> None:
    """Whichever is first: no tag is left without its files (paimon issue 9220)."""
    for name, part in (
        ("delete", "snapshot/snapshot-1"),
        ("delete", "snapshot/snapshot-3"),
        ("list", "/tag"),
    ):
        made.reset()
        outcome: list[object] = []

        def tag(outcome: list[object] = outcome) -> None:
            job = tags.CreateTag(table="d.k", tag="late", snapshot=3, safety=Safety(lease_ms=0))
            try:
                outcome.append(tags.run(job, made.catalog, clock=made.catalog.clock))
            except NotFoundError as err:
                outcome.append(err)

        expire(made.through(Meddling(made.catalog.file_io, name, part, tag)))
        made.check_whole(part, orphans=True)
        assert ("late" in made.table.tags.list()) == isinstance(outcome[0], Report)
        assert rows_of(made.table, tag="late") == made.rows["snapshot 3"]


def test_expiry_of_a_branch_leaves_main_alone_and_the_other_way_round(made: History) -> None:
    """They share their files; a compaction on one removes what the other still has (paimon issue 9867)."""
    branches.run(
        branches.CreateBranch(table="d.k", branch="x", tag="b"), made.catalog, clock=made.catalog.clock
    )
    branch = made.table.at_branch("x")
    for number in range(3):
        put(branch, [{"k": number, "v": "on the branch"}])
    compact.run(
        compact.Job(table="d.k$branch_x", strategy=compact.Strategy.FULL),
        made.catalog,
        clock=made.catalog.clock,
    )
    rows, all_rows = rows_of(branch), views(made.table)
    for table in ("d.k$branch_x", "d.k"):
        job = expire_snapshots.Job(
            table=table, retain_max=1, retain_min=1, older_than_ms=4 * 10**12, safety=OWNER
        )
        assert expire_snapshots.run(job, made.catalog, clock=made.catalog.clock).files > 0
        made.check_views(table, all_rows)
        made.check_whole(table, orphans=True)
        assert rows_of(made.table.at_branch("x")) == rows
    assert len(branch.snapshots.list_ids()) == len(made.table.snapshots.list_ids()) == 1


def test_two_chores_do_not_meet(made: History) -> None:
    problems: list[LakeError] = []

    def second() -> None:
        try:
            expire(made.catalog, safety=Safety(owner="somebody else"))
        except LakeError as err:
            problems.append(err)

    expire(made.through(Meddling(made.catalog.file_io, "read", "/manifest/", second)))
    assert "is being maintained by test" in str(problems[0])


def test_why_names_what_holds_a_file_and_a_snapshot(made: History) -> None:
    store = made.table.snapshots
    manifest = store.load(2).base_manifest_list
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=Safety(quarantine=True))
    expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)

    def ask(subject: str | None) -> Report:
        return why.run(why.Job(table="d.k", subject=subject), made.catalog, clock=made.catalog.clock)

    assert ask(manifest).names == ("tag a", "snapshot 2 in quarantine")
    assert ask("2").names == ("tag a",)
    assert ask("nothing.parquet").nothing_to_do
    assert [name.split(" keeps")[0] for name in ask(None).names] == ["tag a", "tag b"]


def test_the_quarantine_is_emptied_by_age_and_by_size(made: History) -> None:
    report = expire(made.catalog, safety=Safety(owner="test", quarantine=True))
    kept = made.quarantined()
    assert kept == report.files
    purge = quarantine.Purge(ttl_ms=10**12, cap=10**12)
    assert quarantine.run(purge, made.catalog, clock=made.catalog.clock).nothing_to_do
    quarantine.run(replace(purge, cap=0), made.catalog, clock=made.catalog.clock)
    assert made.quarantined() == 0
    with pytest.raises(LakeError, match="purged"):
        quarantine.run(quarantine.Undo(run_id=str(report.run)), made.catalog, clock=made.catalog.clock)


KILLS = {
    "before the plan is written": KillPoint(name="overwrite", part="run.json"),
    "between two snapshots": KillPoint(name="delete", part="snapshot/snapshot-2", after=True),
    "among the files": KillPoint(name="delete", part="manifest/", nth=3),
}


def _expire_on_disk(warehouse: str) -> Report:
    job = expire_snapshots.Job(
        table="d.k", retain_max=2, retain_min=1, older_than_ms=4 * 10**12, safety=OWNER
    )
    return expire_snapshots.run(job, load_catalog(warehouse))


@pytest.mark.slow
@pytest.mark.parametrize("point", KILLS)
def test_a_killed_expiry_is_finished_by_the_next(point: str, tmp_path: Path) -> None:
    lake = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    table = key_table(lake)
    put(table, *([{"k": number, "v": "x"}] for number in range(5)))
    run_and_die(KILLS[point], _expire_on_disk, lake.warehouse)
    for snapshot in table.snapshots.list_ids():
        assert len(rows_of(table, snapshot=snapshot)) == snapshot
    _expire_on_disk(lake.warehouse)
    assert table.snapshots.list_ids() == (5,)
    report = fsck(table.file_io, table.paths, now_ms=0, deep=True, read_data=True)
    assert report.findings == ()
