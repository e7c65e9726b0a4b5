"""Damage is planned for, repaired step by step, and taken back; a plan of yesterday is refused."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.commit.request import CommitRequest
from lakecore.errors import InvalidInputError, LakeError
from lakecore.jobs import expire_snapshots, quarantine
from lakecore.jobs.repair import repair_plan
from lakecore.jobs.runner.chore import Report
from lakecore.maintain.repair.plan import RepairPlan
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import ManifestEntry
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import Finding, FindingKind
from tests.support.broken_writer import tell_wrong_statistics
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.killing_fs import CHANGES
from tests.support.lake import live_files, put, rows_of
from tests.support.maintained import OWNER, History, history, views

FUTURE_MS = 4_000_000_000_000


def checked(made: History) -> tuple[Finding, ...]:
    table = made.table
    return fsck(table._stores.file_io, table._stores.paths.with_branch("main"), now_ms=0).findings


def planned(made: History, *, deep: bool = True) -> RepairPlan:
    """As it is read back from its file."""
    table = made.table
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=deep, read_data=deep)
    clock = FakeClock(FUTURE_MS)  # the time of files in memory is that of the machine
    plan = repair_plan.plan_repair("d.k", made.catalog, report, clock, FUTURE_MS - 1)
    return RepairPlan.from_json(json.loads(json.dumps(plan.to_json())))


def apply(made: FilesystemCatalog, plan: RepairPlan, *steps: int, **other: Any) -> Report:
    job = repair_plan.Job(
        **{"table": "d.k", "plan": plan.to_json(), "steps": steps, "allow_loss": True, "safety": OWNER}
        | other
    )
    return repair_plan.run(job, made, clock=FakeClock(FUTURE_MS))


def _hint(made: History) -> None:
    made.catalog.file_io.overwrite(made.table._stores.paths.latest_hint, b"2")


def _gap(made: History) -> None:
    made.catalog.file_io.delete(made.table._stores.paths.snapshot(3))
    made.catalog.file_io.overwrite(made.table._stores.paths.earliest_hint, b"1")


def _orphan(made: History) -> None:
    made.catalog.file_io.write_new(f"{made.table.path}/bucket-0/data-planted-0.parquet", b"x")


def _lost_file(made: History) -> None:
    made.catalog.file_io.delete(f"{made.table.path}/bucket-0/{live_files(made.table)[-1].file_name}")


def _lost_manifest(made: History) -> None:
    latest = made.table._stores.snapshots.latest()
    assert latest is not None
    [delta] = made.table._stores.manifests.read_list(latest.delta_manifest_list)
    made.catalog.file_io.delete(made.table._stores.paths.manifest(delta.file_name))


def _lost_changelog(made: History) -> None:
    latest = made.table._stores.snapshots.latest()
    assert latest is not None
    assert latest.changelog_manifest_list is not None
    made.catalog.file_io.delete(made.table._stores.paths.manifest(latest.changelog_manifest_list))


def _lost_list(made: History) -> None:
    latest = made.table._stores.snapshots.latest()
    assert latest is not None
    made.catalog.file_io.delete(made.table._stores.paths.manifest(latest.delta_manifest_list))


def _expire(made: History) -> None:
    job = expire_snapshots.Job(table="d.k", retain_max=1, retain_min=1, safety=OWNER)
    expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)


def _lost_tag(made: History) -> None:
    _expire(made)
    tagged = made.table._stores.tags.load("a")
    made.catalog.file_io.delete(made.table._stores.paths.manifest(tagged.base_manifest_list))


def _lost_snapshot(made: History) -> None:
    made.catalog.file_io.overwrite(made.table._stores.paths.snapshot(3), b"{half")


def _lost_branch(made: History) -> None:
    made.catalog.file_io.write_new(f"{made.table.path}/branch/branch-x/snapshot/snapshot-1", b"{}")


def _newest_hashes(made: History) -> str:
    """Which no tag needs."""
    files = made.table._scanner.index_files(made.table._stores.snapshots.latest())
    return max(made.table._stores.indexes.path(file) for file in files)


def _lost_hashes(made: History) -> None:
    made.catalog.file_io.delete(_newest_hashes(made))


def _wrong_hashes(made: History) -> None:
    path = _newest_hashes(made)
    made.catalog.file_io.overwrite(path, bytes(len(made.catalog.file_io.read(path))))


def _wrong_bytes(made: History) -> None:
    path = f"{made.table.path}/bucket-0/{live_files(made.table)[-1].file_name}"
    data = made.catalog.file_io.read(path)
    made.catalog.file_io.overwrite(path, data[:8] + bytes(60) + data[68:])


def _wrong_total(made: History) -> None:
    path = made.table._stores.paths.snapshot(6)
    raw = json.loads(made.catalog.file_io.read(path))
    made.catalog.file_io.overwrite(path, json.dumps({**raw, "totalRecordCount": 77}).encode())


def _overlap(made: History) -> None:
    """The newest file on the level of the compacted one, as a broken writer may leave it."""
    [entry] = [one for one in _entries(made) if one.file.level == 0]
    moved = {"compact_before": (entry.file,), "compact_after": (replace(entry.file, level=5),)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecore.commit.attempt.find_conflicts", lambda *_: ())
        message = CommitMessage(partition=entry.partition, bucket=0, total_buckets=1, **moved)
        made.table._committer().commit([message], CommitRequest(user="broken", identifier=1))
    assert len(rows_of(made.table)) > len({row[0] for row in rows_of(made.table)})


def _wrong_statistics(made: History) -> None:
    """Of a file that no older snapshot describes right."""
    tell_wrong_statistics(made.catalog, made.table)
    _expire(made)


def _entries(made: History) -> list[ManifestEntry]:
    return made.table._scanner.live_entries(made.table._stores.snapshots.latest()).rows()


DYNAMIC = {"bucket": "-1", "dynamic_bucket__target_row_num": "2"}
DAMAGE: dict[str, tuple[Callable[[History], None], tuple[str, ...]]] = {
    "hint": (_hint, ("repair-hints",)),
    "gap": (_gap, ("repair-earliest-snapshot", "remove-orphan-files")),
    "orphan": (_orphan, ("remove-orphan-files",)),
    "lost file": (_lost_file, ("remove-unexisting-files",)),
    "lost manifest": (_lost_manifest, ("remove-unexisting-manifests",)),
    "lost changelog": (_lost_changelog, ("supersede-latest",)),
    "lost list": (_lost_list, ("roll-back",)),
    "lost tag": (_lost_tag, ("set-aside-unreadable",)),
    "lost snapshot": (_lost_snapshot, ("set-aside-unreadable",)),
    "lost branch": (_lost_branch, ("set-aside-branch",)),
    "lost hashes": (_lost_hashes, ("rebuild-hash-index",)),
    "wrong hashes": (_wrong_hashes, ("rebuild-hash-index",)),
    "wrong bytes": (_wrong_bytes, ("set-aside-damaged",)),
    "wrong total": (_wrong_total, ("correct-totals",)),
    "wrong statistics": (_wrong_statistics, ("correct-statistics",)),
    "overlap": (_overlap, ("lower-overlapping-files",)),
}
LOSES = ("lost file", "lost manifest", "lost list", "lost snapshot", "wrong bytes")
LEFT = {
    "lost file": "missing (needed by",
    "lost hashes": "missing (needed by",
    "wrong bytes": "missing (needed by",
    "gap": "are missing before it",
    "wrong total": "totalRecordCount is 77",
    "wrong statistics": "statistics of column",
    "overlap": "overlap on level 5",
}
"""What is wrong with older snapshots, until they expire."""


def damaged(case: str, name: str) -> History:
    options = DYNAMIC if case.endswith("hashes") else {}
    made = history(f"repair-{name}-{case.replace(' ', '-')}", snapshot__expire__limit="50", **options)
    for one in KILLED.get(case, (case,)):
        DAMAGE[one][0](made)
    storage = made.catalog.file_io
    now = {path: storage.read(path) for path in _all(made)}
    return replace(made, image=now)


def _all(made: History) -> set[str]:
    found, folders = set(), [made.catalog.warehouse]
    while folders:
        for status in made.catalog.file_io.list(folders.pop()):
            if status.is_dir:
                folders.append(status.path)
            else:
                found.add(status.path)
    return found


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_repaired_by_its_plan_once(case: str) -> None:
    made = damaged(case, "once")
    plan = planned(made)
    assert tuple(step.action for step in plan.steps) == DAMAGE[case][1]
    assert made.untouched()
    assert any("changes would" in note for note in apply(made.catalog, plan, dry_run=True).notes)
    assert made.untouched()
    if case in LOSES:
        with pytest.raises(InvalidInputError, match="--allow-loss"):
            apply(made.catalog, plan, allow_loss=False)
        assert made.untouched()
    report = apply(made.catalog, plan)
    assert not report.nothing_to_do
    again = apply(made.catalog, plan)
    assert again.nothing_to_do
    assert all("already done" in note for note in again.notes)
    for _ in range(2):
        apply(made.catalog, planned(made))
    found = [str(f) for f in checked(made) if f.kind.value != "orphan"]
    assert [text for text in found if LEFT.get(case, "\0") not in text] == []
    assert rows_of(made.table)
    assert len(rows_of(made.table)) == len({row[0] for row in rows_of(made.table)})
    assert planned(made).steps == ()
    put(made.table, [{"k": 900, "v": "after"}])
    _expire(made)
    assert (900, "after") in rows_of(made.table)
    assert [f for f in checked(made) if f.kind.is_damage] == []


@pytest.mark.parametrize(
    "case", ["orphan", "lost list", "lost tag", "lost snapshot", "lost branch", "wrong bytes"]
)
def test_what_was_set_aside_comes_back(case: str) -> None:
    made = damaged(case, "undo")
    before = made.files()
    report = apply(made.catalog, planned(made))
    assert before - made.files()
    quarantine.run(quarantine.Undo(run_id=str(report.run)), made.catalog, clock=made.catalog.clock)
    hints = {path for path in before ^ made.files() if path.endswith(("/LATEST", "/EARLIEST"))}
    assert before ^ made.files() == hints
    assert all(
        made.catalog.file_io.read(path) == made.image[path] for path in before - hints if "ST" not in path
    )


def test_a_plan_of_yesterday_is_refused() -> None:
    made = damaged("lost file", "stale")
    plan = planned(made)
    other = live_files(made.table)[0].file_name
    made.catalog.file_io.delete(f"{made.table.path}/bucket-0/{other}")
    with pytest.raises(InvalidInputError, match=f"stale, because the plan lacks .*{other}"):
        apply(made.catalog, plan)
    made.catalog.file_io.write_new(f"{made.table.path}/bucket-0/{other}", b"not looked into")
    with pytest.raises(InvalidInputError, match="no step 9; steps: 1"):
        apply(made.catalog, plan, 9)
    with pytest.raises(InvalidInputError, match=r"for table d\.k"):
        apply(made.catalog, plan, table="d.other")
    with pytest.raises(InvalidInputError, match="not a repair plan"):
        RepairPlan.from_json({"version": 1})
    for wrong in ({"plan": "{"}, {"steps": ("x",)}):
        with pytest.raises(InvalidInputError, match=r"not a repair plan|step numbers"):
            repair_plan.run(
                repair_plan.Job(**{"table": "d.k", "plan": json.dumps(plan.to_json())} | wrong), made.catalog
            )


def test_only_planned_orphans_go() -> None:
    made = damaged("orphan", "planned")
    plan = planned(made)
    made.catalog.file_io.write_new(f"{made.table.path}/bucket-0/data-later-0.parquet", b"x")
    assert apply(made.catalog, plan).files == 1
    assert any("data-later" in path for path in made.files())


KILLED = {
    **{case: (case,) for case in ("lost changelog", "lost hashes", "wrong bytes", "wrong statistics")},
    "several": ("hint", "lost tag", "lost branch", "lost file"),
    "gap and hint": ("gap", "hint"),
    "manifest and snapshot": ("lost snapshot", "lost manifest"),
    "list and snapshot": ("lost snapshot", "lost list", "orphan"),
    "overlap and total": ("wrong total", "overlap", "hint"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", KILLED)
def test_a_killed_plan_goes_on_or_a_new_one_does_the_same(case: str) -> None:
    """Killed after each change that it makes: the same plan ends it, and so does one made then; either way the
    same snapshots and tags can be read as after a run that nothing stopped.
    """
    made = damaged(case, "killed")
    deep = case.startswith("wrong")
    plan, counted = planned(made, deep=deep), FaultyFileIO(made.catalog.file_io)
    apply(made.through(counted), plan)
    repaired(made, deep=deep)
    right, seen = views(made.table), set[object]()
    for number, where in enumerate(counted.log, 1):
        if where.split()[0] not in CHANGES or "/.lakecore/leases/" in where:
            continue
        for goes_on in (True, False):
            made.reset()
            storage = FaultyFileIO(made.catalog.file_io, number, FaultMode.DEAD_AFTER_EFFECT)
            with contextlib.suppress(LakeError):
                apply(made.through(storage), plan)
            if (state := (goes_on, _shape(made))) in seen:
                continue
            seen.add(state)
            if goes_on:
                apply(made.catalog, plan)
            repaired(made, deep=deep)
            assert views(made.table) == right, (where, goes_on)
            damage = [str(f) for f in checked(made) if f.kind is not FindingKind.ORPHAN]
            allowed = [LEFT[one] for one in KILLED[case] if one in LEFT]
            assert [text for text in damage if not any(map(text.count, allowed))] == [], (where, goes_on)
    assert len(seen) > 3


def repaired(made: History, *, deep: bool) -> None:
    """By new plans, as many as it takes."""
    for _ in range(3):
        if not (plan := planned(made, deep=deep)).steps:
            return
        apply(made.catalog, plan)
    assert planned(made, deep=deep).steps == ()


def _shape(made: History) -> frozenset[tuple[str, int]]:
    """Files by place, and by size or as a hint: fresh names differ from run to run."""
    paths = [path for path in _all(made) if "/leases/" not in path and "/history/" not in path]
    data = {path: made.catalog.file_io.read(path) for path in paths}
    told = {path: int(said) if said.isdigit() else -len(said) for path, said in data.items()}
    return frozenset((re.sub(r"[0-9a-f]{8}[-0-9a-f]+", "", path), number) for path, number in told.items())
