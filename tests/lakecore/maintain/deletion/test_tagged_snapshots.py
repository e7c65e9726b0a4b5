"""A snapshot made from a tag has no changelog any more: that is no damage, and no chore stops there."""

from __future__ import annotations

import pytest

from lakecore.errors import NotFoundError
from lakecore.jobs import expire_snapshots
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.metadata.snapshot import Snapshot
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.lake import put
from tests.support.maintained import History, history

OWNER = Safety(owner="test")


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    """Snapshot 2 has expired with its changelog, tag `a` of it is there."""
    made = history(f"tagged-{request.node.name}")
    expire(made, 2)
    return made


def expire(made: History, retained: int) -> object:
    job = expire_snapshots.Job(table="d.k", retain_max=retained, retain_min=1, safety=OWNER)
    return expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)


def findings(made: History, branch: str = "main") -> list[FindingKind]:
    table = made.catalog.load_table("d.k" if branch == "main" else f"d.k$branch_{branch}")
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=made.catalog.clock.now_ms(), deep=True)
    return [finding.kind for finding in report.findings]


def test_of_a_branch_from_a_tag(made: History) -> None:
    clock = made.catalog.clock
    branches.run(branches.CreateBranch(table="d.k", branch="x", tag="a"), made.catalog, clock=clock)
    branch = made.table._stores.paths.with_branch("x")
    assert (
        Snapshot.from_json(made.catalog.file_io.read(branch.snapshot(2)), "").changelog_manifest_list is None
    )
    assert findings(made) == []
    copied = made.catalog.file_io.read(branch.tag("a"))
    made.catalog.file_io.overwrite(branch.snapshot(2), copied)  # so does Java, with the name of the changelog
    assert findings(made) == []
    put(made.table, [{"k": 9, "v": "new"}])
    expire(made, 1)
    assert made.table._stores.snapshots.list_ids()[0] > 2
    assert findings(made) == []


def test_of_a_rollback_to_a_tag(made: History) -> None:
    """As Java does it: the snapshot is a copy of the tag, and names the changelog that is gone."""
    clock = made.catalog.clock
    rollback.run(rollback.RollbackTo(table="d.k", tag="a", safety=OWNER), made.catalog, clock=clock)
    paths, storage = made.table._stores.paths, made.catalog.file_io
    storage.overwrite(paths.snapshot(2), storage.read(paths.tag("a")))
    assert made.table._stores.snapshots.list_ids() == (2,)
    assert set(findings(made)) == {FindingKind.ORPHAN}
    put(made.table, [{"k": 9, "v": "new"}])
    tags.run(tags.DeleteTag(table="d.k", tags=("a",), safety=OWNER), made.catalog, clock=clock)
    assert FindingKind.HINT in findings(made), "nothing tells now that it was made from a tag"
    expire(made, 1)
    assert made.table._stores.snapshots.list_ids() == (3,)


def test_a_changelog_that_another_snapshot_has_lost_is_damage(made: History) -> None:
    put(made.table, [{"k": 9, "v": "new"}])
    last = made.table._stores.snapshots.load(made.table._stores.snapshots.list_ids()[-1])
    assert last.changelog_manifest_list is not None
    made.catalog.file_io.delete(made.table._stores.paths.manifest(last.changelog_manifest_list))
    assert set(findings(made)) == {FindingKind.MANIFEST, FindingKind.ORPHAN}
    with pytest.raises(NotFoundError, match="is missing, so it is not known"):
        expire(made, 1)
