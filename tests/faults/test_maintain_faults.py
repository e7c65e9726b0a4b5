"""Storage fails at operation 1, 2, 3, … of every chore: what can be seen is whole, a second run finishes the work.

In the end the files on disk are exactly those of a run without failures, and the quarantine has the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import LakeError
from lakecore.jobs import branches, expire_changelogs, expire_snapshots, remove_orphan_files, rollback, tags
from lakecore.jobs.chore import Report, Safety
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import put
from tests.support.maintained import OWNER, History, history

Chore = Callable[[FilesystemCatalog], Report]

FUTURE_MS = 4_000_000_000_000
"""Later than the time of any file in memory."""
KEEP = Safety(owner="test", quarantine=True)
LONGER = {"changelog.num-retained.max": "6"}


def expire(lake: FilesystemCatalog) -> Report:
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=OWNER)
    return expire_snapshots.run(job, lake, clock=lake.clock)


def expire_and_keep(lake: FilesystemCatalog) -> Report:
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=KEEP)
    return expire_snapshots.run(job, lake, clock=lake.clock)


def expire_to_changelogs(lake: FilesystemCatalog) -> Report:
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, options=LONGER, safety=OWNER)
    return expire_snapshots.run(job, lake, clock=lake.clock)


def expire_old_changelogs(lake: FilesystemCatalog) -> Report:
    job = expire_changelogs.Job(table="d.k", retain_max=4, retain_min=1, safety=OWNER)
    return expire_changelogs.run(job, lake, clock=lake.clock)


def delete_tag(lake: FilesystemCatalog) -> Report:
    """The first try may have got as far as the tag: then there is only the rest to finish."""
    found = [tag for tag in ("a", "b") if tag in lake.load_table("d.k").tags.list()]
    job = tags.DeleteTag(table="d.k", tags=tuple(found), safety=OWNER)
    return tags.run(job, lake, clock=lake.clock)


def replace_tag(lake: FilesystemCatalog) -> Report:
    job = tags.ReplaceTag(table="d.k", tag="a", snapshot=6, safety=Safety(owner="test", quarantine=False))
    return tags.run(job, lake, clock=lake.clock)


def roll_back(lake: FilesystemCatalog) -> Report:
    job = rollback.RollbackTo(table="d.k", snapshot=3, safety=OWNER)
    return rollback.run(job, lake, clock=lake.clock)


def roll_back_to_tag(lake: FilesystemCatalog) -> Report:
    return rollback.run(rollback.RollbackTo(table="d.k", tag="a", safety=OWNER), lake, clock=lake.clock)


def remove_orphans(lake: FilesystemCatalog) -> Report:
    job = remove_orphan_files.Job(table="d.k", safety=OWNER)
    return remove_orphan_files.run(job, lake, clock=FakeClock(FUTURE_MS))


def create_branch(lake: FilesystemCatalog) -> Report:
    job = branches.CreateBranch(table="d.k", branch="new", tag="a", safety=OWNER)
    return branches.run(job, lake, clock=lake.clock)


def delete_branch(lake: FilesystemCatalog) -> Report:
    if not list(lake.file_io.list(f"{lake.load_table('d.k').path}/branch/branch-x")):
        return expire_snapshots.run(expire_snapshots.Job(table="d.k", safety=OWNER), lake, clock=lake.clock)
    job = branches.DeleteBranch(table="d.k", branch="x", safety=OWNER)
    return branches.run(job, lake, clock=lake.clock)


def rename_branch(lake: FilesystemCatalog) -> Report:
    if "x" not in lake.load_table("d.k").branches.list():
        return expire_snapshots.run(expire_snapshots.Job(table="d.k", safety=OWNER), lake, clock=lake.clock)
    job = branches.RenameBranch(table="d.k", branch="x", target_branch="y", safety=OWNER)
    return branches.run(job, lake, clock=lake.clock)


def fast_forward(lake: FilesystemCatalog) -> Report:
    job = branches.FastForward(table="d.k", branch="x", safety=OWNER)
    return branches.run(job, lake, clock=lake.clock)


def branched(name: str) -> History:
    """With branch `x` from tag `a`, and a commit of its own there."""
    made = history(name)
    job = branches.CreateBranch(table="d.k", branch="x", tag="a")
    branches.run(job, made.catalog, clock=made.catalog.clock)
    put(made.table.at_branch("x"), [{"k": 77, "v": "on the branch"}])
    return History.of(made.catalog, made.table)


def expired(name: str) -> History:
    made = history(name)
    expire(made.catalog)
    return replace(History.of(made.catalog, made.table), rows=made.rows)


def littered(name: str) -> History:
    made = history(name)
    for number, folder in enumerate(("bucket-0", "manifest", "snapshot")):
        made.catalog.file_io.write_new(f"{made.table.path}/{folder}/.{number}.tmp", b"x")
    return History.of(made.catalog, made.table)


def plain(name: str) -> History:
    return history(name)


def with_changelogs(name: str) -> History:
    made = history(name)
    expire_to_changelogs(made.catalog)
    return History.of(made.catalog, made.table)


CHORES: dict[str, tuple[Callable[[str], History], Chore]] = {
    "expire": (plain, expire),
    "expire-and-keep": (plain, expire_and_keep),
    "expire-to-changelogs": (plain, expire_to_changelogs),
    "expire-changelogs": (with_changelogs, expire_old_changelogs),
    "delete-tag": (expired, delete_tag),
    "replace-tag": (expired, replace_tag),
    "rollback": (plain, roll_back),
    "rollback-to-tag": (expired, roll_back_to_tag),
    "orphans": (littered, remove_orphans),
    "create-branch": (plain, create_branch),
    "delete-branch": (branched, delete_branch),
    "rename-branch": (branched, rename_branch),
    "fast-forward": (branched, fast_forward),
}
MODES = {
    "expire": (FaultMode.ERROR, FaultMode.DEAD, FaultMode.TORN),
    "expire-and-keep": (FaultMode.DEAD_AFTER_EFFECT,),
    "expire-to-changelogs": (FaultMode.DEAD_AFTER_EFFECT,),
    "expire-changelogs": (FaultMode.DEAD,),
    "delete-tag": (FaultMode.DEAD,),
    "replace-tag": (FaultMode.ERROR,),
    "rollback": (FaultMode.DEAD_AFTER_EFFECT,),
    "rollback-to-tag": (FaultMode.DEAD,),
    "orphans": (FaultMode.DEAD,),
    "create-branch": (FaultMode.DEAD,),
    "delete-branch": (FaultMode.DEAD,),
    "rename-branch": (FaultMode.DEAD_AFTER_EFFECT,),
    "fast-forward": (FaultMode.DEAD,),
}
"""All for one, for the others those that find the most; what removes files is the same code for all."""
LEAVE_ORPHANS = ("rollback", "rollback-to-tag", "delete-branch", "fast-forward")
"""What only the removed roots needed stays for the quarantine, then for the removal of orphans."""
FAST = {("expire", FaultMode.TORN), ("expire-and-keep", FaultMode.DEAD_AFTER_EFFECT)}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(
            name, mode, id=f"{name}-{mode.value}", marks=[] if (name, mode) in FAST else [pytest.mark.slow]
        )
        for name, modes in MODES.items()
        for mode in modes
    ],
)
def test_every_operation_fails_once(name: str, mode: FaultMode) -> None:
    make, chore = CHORES[name]
    made = make(f"maintain-{name}-{mode.value}")
    before = made.files()
    chore(made.catalog)
    made.check_whole(name, orphans=name not in LEAVE_ORPHANS)
    done, kept = made.files(), made.quarantined()
    assert done != before or name == "replace-tag"
    replaced = {"replace-tag": "tag a", "fast-forward": ""}.get(name)
    whole, left_over = set[object](), {made.state()}
    for number in itertools.count(1):
        made.reset()
        storage = FaultyFileIO(made.catalog.file_io, fail_at=number, mode=mode)
        try:
            chore(made.through(storage))
            problem = None
        except LakeError as err:
            problem = err
        if storage.fired and made.untouched():
            continue
        where = f"operation {number} ({storage.log[number - 1 : number]}), then {problem!r}"
        if (state := made.state()) not in whole:
            whole.add(state)
            made.check_views(where, replaced=replaced)
            made.check_whole(where, orphans=False)
        chore(made.catalog)
        if (state := made.state()) not in left_over:
            left_over.add(state)
            made.check_views(where, replaced=replaced)
            made.check_whole(where, orphans=name not in LEAVE_ORPHANS)
        assert made.files() == done, where
        assert made.quarantined() == kept, where
        if not storage.fired:
            assert number > 15
            return
