"""Accidents that happened to users of maintenance elsewhere, replayed: a ticket each.

Tags that fail to appear, and sort compactions, are tested with the jobs that make them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.executor import SerialExecutor
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.jobs.versions import branches, consumers, rollback, tags
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import put, rows_of
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
    job = expire_snapshots.Job(**{"table": "d.k", "retain_max": 2, "retain_min": 1, "safety": OWNER} | limits)
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
    made.catalog.file_io.overwrite(made.table._stores.paths.latest_hint, b"6")
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
        assert ("late" in made.table._stores.tags.list()) == isinstance(outcome[0], Report)
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
    assert len(branch._stores.snapshots.list_ids()) == len(made.table._stores.snapshots.list_ids()) == 1


def test_two_chores_do_not_meet(made: History) -> None:
    problems: list[LakeError] = []

    def second() -> None:
        try:
            expire(made.catalog, safety=Safety(owner="somebody else"))
        except LakeError as err:
            problems.append(err)

    expire(made.through(Meddling(made.catalog.file_io, "read", "/manifest/", second)))
    assert "is being maintained by test" in str(problems[0])


@pytest.mark.parametrize("gone", [(3,), (1,), (2, 3), (5,)], ids=str)
def test_a_gap_in_the_ids_does_not_stop_expiry(made: History, gone: tuple[int, ...]) -> None:
    """Java stops for good at the first snapshot that is missing (paimon issue 4743)."""
    for number in gone:
        made.catalog.file_io.delete(made.table._stores.paths.snapshot(number))
    report = expire(made.catalog)
    assert (report.nothing_to_do, made.table._stores.snapshots.list_ids()[-1]) == (False, 6)
    assert min(made.table._stores.snapshots.list_ids()) >= 5
    made.check_views(str(gone))
    remove_orphans(made.catalog)
    made.check_whole(str(gone), orphans=5 not in gone)


@pytest.mark.parametrize("first", ["expire", "delete"])
@pytest.mark.parametrize("deleted", ["a", "b", "c"])
def test_what_another_tag_has_stays(made: History, deleted: str, first: str) -> None:
    """Expiry and the deletion of a tag look at the neighbours alone (paimon issues 2409, 3693, 5237)."""
    lake = made.catalog
    tags.run(tags.CreateTag(table="d.k", tag="c", snapshot=3, safety=OWNER), lake, clock=lake.clock)
    made.rows["tag c"] = made.rows["snapshot 3"]

    def delete() -> None:
        job = tags.DeleteTag(table="d.k", tags=(deleted,), safety=Safety(owner="test", quarantine=False))
        tags.run(job, lake, clock=lake.clock)

    for step in (expire, delete) if first == "expire" else (delete, expire):
        step(lake) if step is expire else step()
        made.check_views(deleted)
        made.check_whole(deleted, orphans=True)
    assert made.table._stores.tags.list() == tuple(sorted({"a", "b", "c"} - {deleted}))


def test_a_branch_outlives_the_tag_it_was_made_from(made: History) -> None:
    """Its files went with the tag (paimon issues 6272, 8854)."""
    lake = made.catalog
    branches.run(branches.CreateBranch(table="d.k", branch="x", tag="a"), lake, clock=lake.clock)
    rows = views(made.table)
    expire(lake)
    job = tags.DeleteTag(table="d.k", tags=("a",), safety=Safety(owner="test", quarantine=False))
    tags.run(job, lake, clock=lake.clock)
    remove_orphans(lake)
    made.check_views("without its tag", rows)
    made.check_whole("without its tag", orphans=True)
    assert rows_of(made.table.at_branch("x")) == made.rows["tag a"]


def test_a_branch_that_is_there_stays_unless_it_is_half_made(made: History) -> None:
    """To `--ignore-if-exists` one with a schema and nothing else was as good as any."""

    def create(lake: FilesystemCatalog, branch: str, tag: str | None) -> Report:
        job = branches.CreateBranch(table="d.k", branch=branch, tag=tag, ignore_if_exists=True, safety=OWNER)
        return branches.run(job, lake, clock=lake.clock)

    lake = made.catalog
    create(lake, "empty", None)
    assert create(lake, "empty", "a").nothing_to_do
    assert made.table.at_branch("empty")._stores.snapshots.list_ids() == ()
    for number in itertools.count(1):
        storage = FaultyFileIO(lake.file_io, number, FaultMode.DEAD_AFTER_EFFECT)
        with contextlib.suppress(LakeError):
            create(made.through(storage), "x", "a")
        if "branch-x/schema" in storage.log[number - 1] and storage.log[number - 1].startswith("publish"):
            break
    with pytest.raises(AlreadyExistsError, match="only partly created from tag 'a'"):
        create(lake, "x", "b")
    assert create(lake, "x", "a").notes == (
        "branch x was created only in part by an earlier run: it is complete now",
    )
    assert rows_of(made.table.at_branch("x")) == made.rows["tag a"]
    assert create(lake, "x", "b").nothing_to_do


def test_a_tag_of_a_branch_protects_its_files(made: History) -> None:
    """Expiry of main and of the branch knew only main's tags (paimon issue 9867)."""
    lake = made.catalog
    branches.run(branches.CreateBranch(table="d.k", branch="x", tag="b"), lake, clock=lake.clock)
    branch = made.table.at_branch("x")
    put(branch, [{"k": 70, "v": "x"}])
    tags.run(tags.CreateTag(table="d.k$branch_x", tag="t", safety=OWNER), lake, clock=lake.clock)
    put(branch, [{"k": 71, "v": "x"}])
    compact.run(compact.Job(table="d.k$branch_x", strategy=compact.Strategy.FULL), lake, clock=lake.clock)
    tags.run(
        tags.DeleteTag(table="d.k", tags=("b",), safety=Safety(owner="test", quarantine=False)),
        lake,
        clock=lake.clock,
    )
    rows = views(made.table)
    for table in ("d.k$branch_x", "d.k"):
        expire(lake, table=table, retain_max=1)
        remove_orphans(lake)
        made.check_views(table, rows)
        made.check_whole(table, orphans=True)
    assert rows_of(branch, tag="t") == rows["tag t of x"]


def test_a_rollback_that_stops_halfway_leaves_a_row_of_snapshots_and_a_table_to_write_to(
    made: History,
) -> None:
    """From the oldest on, it left a gap behind which LATEST pointed; nobody could commit any more."""
    job = rollback.RollbackTo(table="d.k", snapshot=2, safety=OWNER)
    storage = FaultyFileIO(made.catalog.file_io)
    with pytest.MonkeyPatch.context() as patch:
        seen = []
        real = FaultyFileIO.move

        def move(self: FaultyFileIO, path: str, target: str) -> None:
            ids = made.table._stores.snapshots.list_ids()
            seen.append(ids)
            if len(ids) == 4:
                raise UnavailableError("the lights went out")
            real(self, path, target)

        patch.setattr(FaultyFileIO, "move", move)
        with pytest.raises(UnavailableError, match="lights"):
            rollback.run(job, made.through(storage), clock=made.catalog.clock)
    assert seen == [tuple(range(1, last + 1)) for last in (6, 5, 4)]
    put(made.table, [{"k": 99, "v": "between"}])
    assert rows_of(made.table) == sorted([*made.rows["snapshot 4"], (99, "between")], key=repr)
    rollback.run(job, made.catalog, clock=made.catalog.clock)
    assert made.table._stores.snapshots.list_ids() == (1, 2)
    made.check_views("rolled back")
    made.check_whole("rolled back", orphans=False)


@pytest.mark.parametrize(
    ("name", "part"),
    [("list", "/snapshot"), ("read", "snapshot/snapshot-5"), ("read", "/manifest/"), ("overwrite", "run.json"),
     ("delete", "snapshot-3"), ("list", "/tag"), ("overwrite", "EARLIEST"), ("delete", "bucket-0")],
)  # fmt: skip
def test_writers_and_compactions_go_on_while_snapshots_expire(made: History, name: str, part: str) -> None:
    """A file that was on its way out and is in the table again must not go (paimon issues 1790, 2131 of iceberg)."""
    lake = made.catalog

    def work() -> None:
        put(made.table, [{"k": 50, "v": "meanwhile"}])
        compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), lake, clock=lake.clock)
        job = rollback.RollbackToAsLatest(table="d.k", tag="a", safety=Safety(lease_ms=0))
        rollback.run(job, lake, clock=lake.clock)

    storage = Meddling(lake.file_io, name, part, work)
    expire(made.through(storage))
    assert rows_of(made.table) == made.rows["tag a"]
    made.check_views(part, views(made.table))
    made.check_whole(part, orphans=False)
    expire(lake)
    remove_orphans(lake)
    made.check_whole(part, orphans=True)


def test_files_that_nobody_has_committed_yet_are_too_young_to_go(made: History) -> None:
    """A writer may take hours from its first file to its commit (paimon issue 3074, amoro issue 2959)."""
    made.catalog.file_io.write_new(f"{made.table.path}/bucket-0/data-in-flight.parquet", b"x")
    before = made.files()
    young = remove_orphan_files.Job(table="d.k", safety=OWNER)
    assert remove_orphan_files.run(young, made.catalog).nothing_to_do  # a day, by the system's clock
    assert made.files() == before
    with pytest.raises(InvalidInputError, match="older-than must be in the past"):
        remove_orphan_files.run(replace(young, older_than_ms=FUTURE.now_ms()), made.catalog)


def test_a_forgotten_consumer_is_named_and_can_be_cleared(made: History) -> None:
    """It held back everything, and nothing said so (paimon issues 1348, 2675)."""
    made.table._stores.consumers.write("forgotten", 1)
    assert "consumer forgotten" in expire(made.catalog).blocker
    assert made.table._stores.snapshots.list_ids() == (1, 2, 3, 4, 5, 6)
    job = consumers.ExpireConsumers(table="d.k", expiration_ms=1000, safety=OWNER)
    assert consumers.run(job, made.catalog, clock=FUTURE).names == ("forgotten",)
    expire(made.catalog)
    assert made.table._stores.snapshots.list_ids() == (5, 6)
    made.check_views("cleared")


def test_a_run_that_was_stopped_is_not_taken_for_done(made: History) -> None:
    """It said that all went well, and nothing had happened (iceberg issue 17202)."""
    before = made.files()
    for number in range(600):
        made.catalog.file_io.write_new(f"{made.table.path}/bucket-0/data-{number}.parquet", b"x")
    workers = SerialExecutor()
    workers.cancel()
    job = remove_orphan_files.Job(table="d.k", safety=OWNER)
    with pytest.raises(UnavailableError, match="stopped before all files were removed"):
        remove_orphan_files.run(job, made.catalog, workers, FUTURE)
    assert len(made.files()) == len(before) + 600
    assert remove_orphan_files.run(job, made.catalog, clock=FUTURE).resumed == 1
    assert made.files() == before
