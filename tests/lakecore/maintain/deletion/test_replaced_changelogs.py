"""Changelogs of a history that was replaced: their numbers are those of other snapshots by now."""

from __future__ import annotations

import json

import pytest

from lakecore.errors import CorruptDataError
from lakecore.jobs import expire_snapshots, quarantine
from lakecore.jobs.definitions.repair import Undo
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches
from tests.support.lake import put, rows_of
from tests.support.maintained import History, history

OWNER = Safety(owner="test")


def expire(made: History, retained: int, table: str = "d.k") -> None:
    job = expire_snapshots.Job(table=table, retain_max=retained, retain_min=1, safety=OWNER)
    expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    """Snapshots 1 to 4 are changelogs, branch `x` has tag `b` (4) and one commit of its own."""
    made = history(f"replaced-{request.node.name}", **{"changelog.num-retained.max": "100"})
    branches.run(
        branches.CreateBranch(table="d.k", branch="x", tag="b"), made.catalog, clock=made.catalog.clock
    )
    put(made.catalog.load_table("d.k$branch_x"), [{"k": 8, "v": "of the branch"}])
    put(made.table, [{"k": 9, "v": "of main"}])
    expire(made, 1)
    return made


def changelog_ids(made: History) -> tuple[int, ...]:
    return made.table._stores.changelogs.list_ids()


def test_a_fast_forward_removes_those_that_the_branch_replaces(made: History) -> None:
    """The one of snapshot 4, which the branch has, stays: its rows are part of the new history."""
    assert changelog_ids(made) == (1, 2, 3, 4, 5, 6)
    job = branches.FastForward(table="d.k", branch="x", safety=OWNER)
    report = branches.run(job, made.catalog, clock=made.catalog.clock)
    assert changelog_ids(made) == (1, 2, 3, 4)
    for number in range(3):
        put(made.table, [{"k": number, "v": "after"}])
    expire(made, 1)
    assert changelog_ids(made) == (1, 2, 3, 4, 5, 6, 7)
    assert report.run is not None


def test_undo_of_a_fast_forward_has_them_again(made: History) -> None:
    before = made.state()
    job = branches.FastForward(table="d.k", branch="x", safety=OWNER)
    report = branches.run(job, made.catalog, clock=made.catalog.clock)
    assert report.run is not None
    paths = made.table._stores.paths
    made.catalog.file_io.delete(
        paths.snapshot(4)
    )  # the fast-forward copied them; main had them as changelogs
    made.catalog.file_io.delete(paths.snapshot(5))
    quarantine.run(Undo(run_id=report.run, safety=OWNER), made.catalog, clock=made.catalog.clock)
    assert changelog_ids(made) == (1, 2, 3, 4, 5, 6)
    assert {path for path, _ in before} <= {path for path, _ in made.state()}


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ({"timeMillis": 1, "deltaManifestList": "of-another-history"}, True),
        ({"timeMillis": 1, "changelogManifestList": "of snapshot 3"}, True),
        ({}, False),
        ({"timeMillis": 1}, False),
    ],
)
def test_an_expiry_takes_the_place_of_an_earlier_one(change: dict[str, object], replaced: bool) -> None:
    """As Java's does, whose fast-forwards leave them; the same changelog in other bytes stays as it is."""
    made = history("placed", **{"changelog.num-retained.max": "100"})
    storage, paths = made.catalog.file_io, made.table._stores.paths
    own = storage.read(paths.snapshot(2))
    if "changelogManifestList" in change:
        change = change | {"changelogManifestList": made.table.snapshot(3).changelog_manifest_list}
    other = json.dumps(json.loads(own) | change).encode()
    assert other != own
    storage.overwrite(paths.changelog(2), other)
    expire(made, 2)
    assert changelog_ids(made) == (1, 2, 3, 4)
    assert storage.read(paths.changelog(2)) == (own if replaced else other)


def test_an_expiry_leaves_one_that_is_not_older() -> None:
    made = history("newer", **{"changelog.num-retained.max": "100"})
    storage, paths = made.catalog.file_io, made.table._stores.paths
    own = json.loads(storage.read(paths.snapshot(2)))
    newer = json.dumps(own | {"deltaManifestList": "of-another-history"}).encode()
    storage.overwrite(paths.changelog(2), newer)
    with pytest.raises(CorruptDataError, match="does not match snapshot 2"):
        expire(made, 2)
    assert storage.read(paths.changelog(2)) == newer
    assert made.table._stores.snapshots.exists(2)


def test_a_fast_forward_takes_a_tag_that_lacks_a_field_for_the_same_snapshot() -> None:
    """Java 1.4 tags a snapshot of Java 2.0 without its `uuid`; the branch has it from the tag."""
    made = history("uuid")
    storage, paths = made.catalog.file_io, made.table._stores.paths
    own = json.loads(storage.read(paths.snapshot(6)))
    storage.overwrite(paths.snapshot(6), json.dumps(own | {"uuid": "4748555b-2a96-4780"}).encode())
    storage.write_new(paths.tag("c"), json.dumps(own).encode())
    clock = made.catalog.clock
    branches.run(branches.CreateBranch(table="d.k", branch="y", tag="c"), made.catalog, clock=clock)
    put(made.catalog.load_table("d.k$branch_y"), [{"k": 8, "v": "of the branch"}])
    branches.run(branches.FastForward(table="d.k", branch="y", safety=OWNER), made.catalog, clock=clock)
    assert made.table._stores.snapshots.list_ids() == (1, 2, 3, 4, 5, 6, 7)
    assert (8, "of the branch") in rows_of(made.table)
