"""Every chore on a small table, as one row each: what the table is before, what is run, what it may leave.

Faults and kills are injected into all of them alike; a new chore is one more row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import InvalidInputError, LakeError, NotFoundError
from lakecore.jobs import (
    analyze,
    compact,
    expire_changelogs,
    expire_snapshots,
    partitions,
    purge_files,
    quarantine,
    remove_orphan_files,
    rescale,
    rewrite_file_index,
)
from lakecore.jobs.repair import metadata as repair
from lakecore.jobs.repair import repair_plan, unexisting
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import auto_tags, batch_tags, branches, consumers, merge_branch, rollback, tags
from lakecore.verify.fsck.check import fsck
from tests.support.fake_clock import FakeClock
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put
from tests.support.maintained import NONE, OWNER, History, history

__all__ = ["CHORES", "FUTURE", "Chore", "check_rest", "run_chore", "tidy"]

Lake = FilesystemCatalog

FUTURE = FakeClock(4_000_000_000_000)
"""Later than the time of any file."""
KEEP = Safety(owner="test", quarantine=True)
AT_ONCE = Safety(owner="test", quarantine=False)
LONGER = {"changelog.num-retained.max": "6"}
INDEXED = {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}


@dataclass(frozen=True)
class Run:
    """A job of `d.k`. `clock`: not the warehouse's own."""

    module: Any
    kind: Any
    values: dict[str, Any]
    clock: FakeClock | None

    def __call__(self, lake: Lake, *, dry_run: bool = False) -> Any:
        values = self.values | ({"dry_run": True} if dry_run else {})
        return self.module.run(self.kind(**values), lake, clock=self.clock or lake.clock)


def run(module: Any, kind: Any, **parameters: Any) -> Run:
    """The job of `d.k`. `clock`: not the warehouse's own."""
    clock = parameters.pop("clock", None)
    values = {"table": "d.k"} | parameters
    if module not in (rewrite_file_index, compact):
        values.setdefault("safety", OWNER)
    return Run(module, kind, values, clock)


expire = run(expire_snapshots, expire_snapshots.Job, retain_max=2, retain_min=1)
expire_and_keep = run(expire_snapshots, expire_snapshots.Job, retain_max=2, retain_min=1, safety=KEEP)
expire_to_changelogs = run(expire_snapshots, expire_snapshots.Job, retain_max=2, retain_min=1, options=LONGER)
repair_hints = run(repair, repair.RepairHints)
remove_orphans = run(remove_orphan_files, remove_orphan_files.Job, clock=FUTURE)


def tidy(lake: Lake, table: str = "d.k") -> None:
    """What every night does: hints that a killed commit did not get to, files that it left."""
    run(repair, repair.RepairHints, table=table)(lake)
    run(remove_orphan_files, remove_orphan_files.Job, table=table, clock=FUTURE)(lake)


def roll_back_to_timestamp(lake: Lake) -> Any:
    time = lake.load_table("d.k")._stores.snapshots.load(6).time_millis
    return run(rollback, rollback.RollbackTo, timestamp_ms=time)(lake)


def undo(lake: Lake) -> Any:
    record = next(r for r in quarantine.runs_of(lake, "d.k") if r.keeps)
    return quarantine.run(quarantine.Undo(run_id=record.id, safety=OWNER), lake, clock=lake.clock)


def plan_path(lake: Lake) -> str:
    return f"{lake.warehouse}/plan.json"


def repair_as_planned(lake: Lake) -> Any:
    plan = json.loads(lake.file_io.read(plan_path(lake)))
    job = repair_plan.Job(table="d.k", plan=plan, allow_loss=True, safety=OWNER)
    return repair_plan.run(job, lake, clock=FUTURE)


def planned(lake: Lake) -> bytes:
    table = lake.load_table("d.k")
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=0)
    plan = repair_plan.plan_repair("d.k", lake, report, FUTURE, FUTURE.now_ms() - 1)
    return json.dumps(plan.to_json()).encode()


def purge(lake: Lake) -> Any:
    return quarantine.run(quarantine.Purge(ttl_ms=10**12, cap=0), lake, clock=lake.clock)


def empty_quarantine(lake: Lake) -> None:
    """Nothing can be taken back any more, and what stayed for that goes."""
    purge(lake)
    run(remove_orphan_files, remove_orphan_files.Job, safety=AT_ONCE, clock=FUTURE)(lake)


def remade(original: History, *work: Callable[[Lake], Any]) -> History:
    """The history after some more work."""
    for one in work:
        one(original.catalog)
    return History.of(original.catalog, original.table)


def branched(where: str | Lake) -> History:
    """With branch `x` from tag `a`, and a commit of its own there."""
    tables = remade(history(where), run(branches, branches.CreateBranch, branch="x", tag="a"))
    put(tables.table.at_branch("x"), [{"k": 77, "v": "on the branch"}])
    return remade(tables)


def busy(where: str | Lake) -> History:
    """Two snapshots, an earlier one as a changelog, with a tag, a branch, a consumer and a file that a writer left."""
    catalog = memory_catalog(where) if isinstance(where, str) else where
    table = key_table(catalog, changelog_producer="input")
    put(table, *([{"k": number, "v": f"v{number}"}] for number in range(3)))
    run(tags, tags.CreateTag, tag="a", snapshot=2)(catalog)
    run(branches, branches.CreateBranch, branch="x", tag="a")(catalog)
    expire_to_changelogs(catalog)
    table._stores.consumers.write("c", 2)
    catalog.file_io.write_new(f"{table.path}/bucket-0/left", b"x")
    return History.of(catalog, table)


def expired(where: str | Lake) -> History:
    return remade(history(where), expire)


def undoable(where: str | Lake) -> History:
    return remade(history(where), expire_and_keep)


def with_changelogs(where: str | Lake) -> History:
    return remade(history(where), expire_to_changelogs)


def littered(where: str | Lake) -> History:
    tables = history(where)
    for number, folder in enumerate(("bucket-0", "manifest", "snapshot")):
        tables.catalog.file_io.write_new(f"{tables.table.path}/{folder}/.{number}.tmp", b"x")
    return remade(tables)


def later(where: str | Lake) -> History:
    """With two commits a while after the others."""
    tables = history(where)
    tables.catalog.clock.sleep(0.01)
    put(tables.table, [{"k": 8, "v": "late"}], [{"k": 9, "v": "late"}])
    return remade(tables)


def followed(where: str | Lake) -> History:
    """With consumers."""
    tables = history(where)
    for name, position in (("c", 2), ("d", 5)):
        tables.table._stores.consumers.write(name, position)
    return remade(tables)


def misled(where: str | Lake) -> History:
    """With hints that are wrong or missing."""
    tables = history(where)
    tables.catalog.file_io.overwrite(tables.table._stores.paths.latest_hint, b"3")
    tables.catalog.file_io.delete(tables.table._stores.paths.earliest_hint)
    return remade(tables)


def dated(where: str | Lake) -> History:
    """A commit at noon of the first five days of November 2023; the older snapshots are held by tags alone."""
    catalog = memory_catalog(where) if isinstance(where, str) else where
    clock = FakeClock(1_698_840_000_000)
    past = replace(catalog, clock=clock)
    table = key_table(past)
    for number in range(5):
        put(table, [{"k": number, "v": f"v{number}"}, {"k": 0, "v": f"new{number}"}])
        if number == 3:
            job = compact.Job(table="d.k", strategy=compact.Strategy.FULL, commit_identifier=number)
            compact.run(job, past, clock=clock)
        clock.sleep(86_400)
    for tag, snapshot in (("2023-10-20", 1), ("2023-10-21", 2), ("2023-11-01", 3)):
        tags.run(tags.CreateTag(table="d.k", tag=tag, snapshot=snapshot), past, clock=clock)
    limits = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=2, older_than_ms=clock.now_ms())
    expire_snapshots.run(limits, past, clock=clock)
    return History.of(catalog, catalog.load_table("d.k"))


def partitioned(where: str | Lake) -> History:
    """Three partitions of two commits each."""
    catalog = memory_catalog(where) if isinstance(where, str) else where
    options = {"partition__timestamp_formatter": "yyyy-MM-dd", "partition__expiration_batch_size": "1"}
    columns = ("k INT", "v STRING", "p STRING")
    table = key_table(catalog, columns=columns, keys=("k", "p"), partitions=("p",), **options)
    for number in range(2):
        put(table, [{"k": day, "v": f"{number}", "p": f"2020-01-0{day}"} for day in (1, 2, 3)])
    return History.of(catalog, table)


def appended(where: str | Lake) -> History:
    """An append table with five commits."""
    catalog = memory_catalog(where) if isinstance(where, str) else where
    table = append_table(catalog)
    put(table, *([{"v": 9 - n, "p": "x"}, {"v": n, "p": "y"}] for n in range(5)))
    return History.of(catalog, table)


def apart(where: str | Lake) -> History:
    """An append table with two more commits on main, and two on branch `b`."""
    tables = remade(appended(where), run(branches, branches.CreateBranch, table="d.a", branch="b"))
    put(tables.table.at_branch("b"), *([{"v": n, "p": "branch"}] for n in (11, 12)))
    put(tables.table, *([{"v": n, "p": "main"}] for n in (1, 2)))
    return remade(tables)


def without_a_file(where: str | Lake) -> History:
    tables = appended(where)
    tables.catalog.file_io.delete(f"{tables.table.path}/bucket-0/{live_files(tables.table)[1].file_name}")
    return remade(tables)


def without_a_manifest(where: str | Lake) -> History:
    tables = appended(where)
    _lose_a_manifest(tables, 1)
    return remade(tables)


def damaged(where: str | Lake) -> History:
    """Without a manifest of the latest snapshot; and a plan."""
    tables = history(where)
    _lose_a_manifest(tables, -1)
    tables.catalog.file_io.write_new(plan_path(tables.catalog), planned(tables.catalog))
    return remade(tables)


def without_a_snapshot(where: str | Lake) -> History:
    """One is damaged, hints are wrong, a tag is of files that are gone; and a plan."""
    tables = misled(where)
    storage = tables.catalog.file_io
    storage.overwrite(tables.table._stores.paths.snapshot(3), b"{half")
    storage.write_new(
        tables.table._stores.paths.tag("old"),
        storage.read(tables.table._stores.paths.tag("b")).replace(b"-list-", b"-gone-"),
    )
    storage.write_new(plan_path(tables.catalog), planned(tables.catalog))
    return remade(tables)


def _lose_a_manifest(original: History, which: int) -> None:
    latest = original.table._stores.snapshots.load(original.table._stores.snapshots.list_ids()[-1])
    lost = original.table._stores.manifests.data_manifests(latest)[which]
    original.catalog.file_io.delete(original.table._stores.paths.manifest(lost.file_name))


NAMED = {"commit_user": "job", "commit_identifier": 7}


@dataclass(frozen=True, kw_only=True)
class Chore:
    """One row. `make`: the table before. `run`: the chore.

    `commits`: it makes a snapshot, so what a failed try wrote is left for the removal of orphans. `leaves`: so
    are files of the states that it took away. `two_runs`: after a failed try some of the roots wait in the
    quarantine of a run of their own, and what they share with others stays until that is purged. `refusal`: what it says when it is done already. `damage`: what
    the check says of older snapshots, before and after.
    """

    run: Callable[[Lake], Any]
    make: Callable[[str | Lake], History] = history
    commits: bool = False
    leaves: bool = False
    two_runs: bool = False
    refusal: type[LakeError] | None = None
    damage: str = NONE

    def again(self, lake: Lake) -> None:
        """What somebody does whose first try failed, whatever came of it."""
        try:
            self.run(lake)
        except LakeError as err:
            if self.refusal is None or not isinstance(err, self.refusal):
                raise
        if self.two_runs:
            empty_quarantine(lake)

    def attempt(self, lake: Lake) -> LakeError | None:
        """The error that ended it."""
        try:
            self.run(lake)
        except LakeError as err:
            return err
        return None


CHORES = {
    "expire": Chore(run=expire),
    "expire-and-keep": Chore(run=expire_and_keep),
    "expire-to-changelogs": Chore(run=expire_to_changelogs),
    "expire-changelogs": Chore(
        make=with_changelogs,
        run=run(expire_changelogs, expire_changelogs.Job, retain_max=4, retain_min=1),
    ),
    "create-tag": Chore(run=run(tags, tags.CreateTag, tag="new", snapshot=3)),
    "replace-tag": Chore(make=expired, run=run(tags, tags.ReplaceTag, tag="a", snapshot=6, safety=AT_ONCE)),
    "rename-tag": Chore(run=run(tags, tags.RenameTag, tag="a", target_tag="new"), refusal=NotFoundError),
    "delete-tag": Chore(
        make=expired, run=run(tags, tags.DeleteTag, tags=("a", "b")), refusal=NotFoundError, two_runs=True
    ),
    "expire-tags": Chore(make=expired, run=run(tags, tags.ExpireTags, older_than_ms=FUTURE.now_ms())),
    "trigger-tags": Chore(
        make=dated,
        run=run(
            auto_tags,
            auto_tags.Job,
            options={"tag.automatic-creation": "process-time", "tag.num-retained-max": "3"},
        ),
    ),
    "batch-tags": Chore(
        make=dated,
        run=run(
            batch_tags,
            batch_tags.Job,
            start="2023-11-01",
            date="2023-11-05",
            backfill=True,
            replace=True,
            num_retained_max=4,
        ),
    ),
    "reset-consumer": Chore(
        make=followed, run=run(consumers, consumers.ResetConsumer, consumer="d", next_snapshot=3)
    ),
    "forget-consumer": Chore(
        make=followed, run=run(consumers, consumers.ResetConsumer, consumer="d"), refusal=NotFoundError
    ),
    "clear-consumers": Chore(make=followed, run=run(consumers, consumers.ClearConsumers)),
    "expire-consumers": Chore(
        make=followed, run=run(consumers, consumers.ExpireConsumers, expiration_ms=1000, clock=FUTURE)
    ),
    "expire-partitions": Chore(
        make=partitioned,
        run=run(partitions, partitions.ExpirePartitions, expiration_ms=1000, **NAMED),
        commits=True,
    ),
    "drop-partition": Chore(
        make=partitioned,
        run=run(partitions, partitions.DropPartition, partitions="p=2020-01-01;p=2020-01-03", **NAMED),
        commits=True,
    ),
    "mark-partition-done": Chore(
        make=partitioned,
        run=run(partitions, partitions.MarkPartitionDone, partitions="p=2020-01-01;p=2020-01-02"),
    ),
    "create-branch": Chore(run=run(branches, branches.CreateBranch, branch="new", tag="a")),
    "create-branch-if-missing": Chore(
        run=run(branches, branches.CreateBranch, branch="new", tag="a", ignore_if_exists=True)
    ),
    "delete-branch": Chore(
        make=branched,
        run=run(branches, branches.DeleteBranch, branch="x"),
        leaves=True,
        refusal=NotFoundError,
    ),
    "rename-branch": Chore(
        make=branched,
        run=run(branches, branches.RenameBranch, branch="x", target_branch="y"),
        refusal=NotFoundError,
    ),
    "fast-forward": Chore(make=branched, run=run(branches, branches.FastForward, branch="x"), leaves=True),
    "rollback": Chore(run=run(rollback, rollback.RollbackTo, snapshot=3), leaves=True),
    "rollback-to-tag": Chore(make=expired, run=run(rollback, rollback.RollbackTo, tag="a"), leaves=True),
    "rollback-to-timestamp": Chore(make=later, run=roll_back_to_timestamp, leaves=True),
    "rollback-as-latest": Chore(
        run=run(rollback, rollback.RollbackToAsLatest, snapshot=3, **NAMED), commits=True
    ),
    "compact-manifest": Chore(run=run(repair, repair.CompactManifest, commit_user="job"), commits=True),
    "repair-hints": Chore(make=misled, run=repair_hints),
    "rewrite-file-index": Chore(
        run=run(
            rewrite_file_index,
            rewrite_file_index.Job,
            options=INDEXED,
            lease_ms=60_000,
            owner="test",
            **NAMED,
        ),
        commits=True,
    ),
    "analyze": Chore(run=run(analyze, analyze.Job, columns=("all",), **NAMED), commits=True),
    "rescale": Chore(
        make=partitioned,
        run=run(rescale, rescale.Job, bucket_num=2, where="p=2020-01-01", **NAMED),
        commits=True,
    ),
    "compact": Chore(
        run=run(compact, compact.Job, strategy=compact.Strategy.FULL, **NAMED),
        commits=True,
    ),
    "cluster": Chore(
        make=appended,
        run=run(
            compact,
            compact.Job,
            table="d.a",
            order_strategy=compact.OrderStrategy.ORDER,
            order_by=("v",),
            **NAMED,
        ),
        commits=True,
    ),
    "merge-branch": Chore(
        make=apart, run=run(merge_branch, merge_branch.Job, table="d.a", source_branch="b"), commits=True
    ),
    "remove-unexisting-files": Chore(
        make=without_a_file,
        run=run(unexisting, unexisting.RemoveUnexistingFiles, table="d.a", accept_rows=2),
        commits=True,
        damage="missing",
    ),
    "remove-unexisting-manifests": Chore(
        make=without_a_manifest,
        run=run(unexisting, unexisting.RemoveUnexistingManifests, table="d.a", accept_rows=2),
        commits=True,
        damage="missing",
    ),
    "repair": Chore(make=damaged, run=repair_as_planned, commits=True, damage="missing"),
    "repair-roots": Chore(
        make=without_a_snapshot, run=repair_as_planned, leaves=True, damage="not a snapshot|missing"
    ),
    "purge-files": Chore(
        make=busy,
        run=run(purge_files, purge_files.Job, clock=FUTURE, **NAMED),
        commits=True,
        two_runs=True,
    ),
    "orphans": Chore(make=littered, run=remove_orphans),
    "undo": Chore(make=undoable, run=undo, refusal=InvalidInputError),
    "purge": Chore(make=undoable, run=purge),
}


def run_chore(warehouse: str, name: str) -> None:
    """In a process of its own, whose clock may be ahead of storage, too (see `clocks_ahead_of_storage`)."""
    with patch("lakecore.jobs.runner.chore._CLOCK_AHEAD_MS", 1 << 62):
        CHORES[name].run(load_catalog(warehouse, **{"local.fsync": "false"}))


def check_rest(chore: Chore, original: History, where: str) -> None:
    """LATEST is right, and nothing is left over; after the next removal of orphans, of what writes files that a commit names.

    Nor is anything but temporary files of a process that was killed, which that removal finds, too. In a
    damaged table nobody can tell what is left over.
    """
    whole = chore.damage == NONE
    if chore.two_runs:
        empty_quarantine(original.catalog)
    if chore.commits:
        newest = original.table._stores.snapshots.list_ids()[-1]
        assert original.catalog.file_io.read(original.table._stores.paths.latest_hint) == b"%d" % newest, (
            where
        )
    if whole and chore.commits:
        tidy(original.catalog, original.table.name)
    elif whole and any(path.endswith(".tmp") for path in original.files()):
        run(remove_orphan_files, remove_orphan_files.Job, table=original.table.name, clock=FUTURE)(
            original.catalog
        )
    original.check_whole(where, orphans=whole and not chore.leaves, damage=chore.damage)
