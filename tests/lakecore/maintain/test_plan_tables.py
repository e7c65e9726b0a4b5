"""The rules of chores as text tables: each case in `testdata` is a situation, and what the plan decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.errors import CorruptDataError, LakeError, ProofError
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import rollback, tags
from lakecore.maintain.branches.plan import BranchHistory, check_mergeable
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet
from lakecore.maintain.holds.plan import effect_on, ended_by_check, ends_with, is_damage, replaced_by
from lakecore.maintain.holds.record import EndsWith, Hold
from lakecore.maintain.lease.lease import LeaseTimes, holder, leased
from lakecore.maintain.orphans.plan import OrphanCounts, OrphanLimits
from lakecore.maintain.partitions.plan import AgedPartition, ExpireRule, ExpireStrategy, expired_partitions
from lakecore.maintain.purge_files.plan import ExtraFiles, old_roots, remaining_roots, root_removal
from lakecore.maintain.repair.plan import ActionPreview, Growth, Step, remaining
from lakecore.maintain.tags.plan import AgedTag, expired_tags
from lakecore.maintain.unexisting.plan import AcceptedLoss
from lakecore.metadata.snapshot import CommitKind
from lakecore.types.text import parse_timestamp
from tests.support import datadriven
from tests.support.builders import snapshot, table_schema
from tests.support.datadriven import Case
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, memory_catalog, put

TESTDATA = Path(__file__).parent / "testdata"
DAY = 86_400_000


def millis(text: str) -> int:
    """A time as `2024-05-04` or `2024-05-04_12:00`."""
    return parse_timestamp(text.replace("_", " ")) // 1_000_000


def whole(case: Case, name: str) -> int | None:
    return int(case.args[name]) if name in case.args else None


def refusal(check: Callable[[], object]) -> str:
    """`allowed`, or the error."""
    try:
        check()
    except LakeError as err:
        return f"{type(err).__name__}: {err}"
    return "allowed"


def partition_answer(case: Case) -> str:
    """Lines: the values of a partition, parted by `/`, and when its youngest file was made."""
    columns = case.args.get("columns", "dt").split(",")
    rule = ExpireRule(
        expiration_ms=int(case.args["days"]) * DAY,
        strategy=ExpireStrategy(case.args.get("strategy", "values-time")),
        pattern=case.args["pattern"].replace("_", " ") if "pattern" in case.args else None,
        formatter=case.args.get("formatter"),
        max_expires=int(case.args.get("max", "100")),
    )
    found: dict[str, AgedPartition] = {}
    for line in case.input:
        name, _, updated = line.partition(" updated=")
        texts = tuple(None if text == "null" else text for text in name.split("/"))
        values = dict(zip(columns, texts, strict=True))
        made = millis(updated or "1970-01-01")
        found[name] = AgedPartition(values=values, texts=texts, updated_ms=made)
    names = {id(one): name for name, one in found.items()}
    parts = expired_partitions(list(found.values()), rule, millis(case.args["now"]))
    expired, timeless = (", ".join(names[id(one)] for one in part) for part in parts)
    return f"expires: {expired or 'nothing'}" + (f"\nhas no time: {timeless}" if timeless else "")


def tag_answer(case: Case) -> str:
    """Lines: a tag, the time that it was made (as it says), the time it lives, the time of its file."""
    found = []
    for line in case.input:
        name, *pairs = line.split()
        times = {key: int(value) for key, value in (pair.split("=") for pair in pairs)}
        found.append(
            AgedTag(
                name=name,
                created_ms=times.get("made"),
                retained_ms=times.get("lives"),
                written_ms=times.get("file", times.get("made", 0)),
            )
        )
    older, newest = whole(case, "older_than"), int(case.args.get("keep_newest", "0"))
    return " ".join(expired_tags(found, int(case.args["now"]), older, newest)) or "nothing"


def limit_answer(case: Case) -> str:
    """Checks of numbers that a table cannot have lost by itself."""
    given = {key: int(value) for key, value in case.args.items() if key not in ("max_share", "allow_empty")}
    share = float(case.args.get("max_share", "0.5"))
    if case.command == "loss":
        accepted = AcceptedLoss(rows=given.get("accept"), max_share=share)
        return refusal(lambda: accepted.check("d.t", "files", given["gone"], given["named"], given["rows"]))
    limits = OrphanLimits(
        older_than_ms=given.get("older_than", 0),
        max_share=share,
        few=given.get("few", 1000),
        allow_empty="allow_empty" in case.args,
    )
    if case.command == "time":
        return refusal(lambda: limits.check_time(given["now"]))
    if case.command == "roots":
        return refusal(lambda: limits.check_roots("d.t", given["roots"]))
    counts = OrphanCounts(
        files=given["files"],
        size=given.get("bytes", 0),
        orphans=given["orphans"],
        orphan_size=given.get("orphan_bytes", 0),
    )
    return refusal(lambda: limits.check_share("d.t", counts))


def hold_answer(case: Case) -> str:
    """Lines: a hold, the check that ends it, the file of its cause, since when."""
    holds = []
    for line in case.input if case.command != "effect" else ():
        name, ends, path, since = line.split()
        holds.append(
            Hold(
                id=name,
                table="d.t",
                ends_with=EndsWith(ends.replace("_", " ")),
                reason="r",
                since_ms=int(since),
                error_class="CorruptDataError",
                path=path,
            )
        )
    match case.command:
        case "effect":
            return "\n".join(f"{chore}: {effect_on(chore).value}" for chore in case.input)
        case "error":
            error: LakeError = ProofError("bucket 0", "rows differ")
            if "path" in case.args:
                error = CorruptDataError(case.args["path"], "damaged")
            damage = is_damage(error, "/w/.lakecore/")
            return f"a hold that ends with {ends_with(error).value}" if damage else "no hold"
        case "new":
            gone = replaced_by(holds[-1], holds[:-1])
        case _:
            gone = ended_by_check(holds, deep="deep" in case.args, read_data="no_data" not in case.args)
    return " ".join(hold.id for hold in gone) or "none"


def merge_answer(case: Case) -> str:
    """Lines: the branches that have a snapshot (`both`, `b`, `main`), its id, the kind of its commit."""
    sides = {}
    for branch in ("b", "main"):
        options = {key: "true" for key in case.args.get(f"{branch}_options", "").split(",") if key}
        keys = ("k",) if f"{branch}_key" in case.args else ()
        columns = case.args.get(f"{branch}_columns", "k:BIGINT").replace(":", " ").replace(",", ", ")
        schema = table_schema(columns, primary_keys=keys, options=options)
        found = []
        for place, number, kind in (line.split() for line in case.input):
            if place in ("both", branch):
                made = snapshot(int(number), commit_kind=CommitKind[kind])
                found.append(made if place == "both" else replace(made, base_manifest_list=branch))
        sides[branch] = BranchHistory(branch, schema, tuple(found))
    source = sides[case.args.get("source", "b")]
    return refusal(lambda: check_mergeable(source, sides["main"]))


def lease_answer(case: Case) -> str:
    """Lines: the number of a record, its owner, the second it lasts until. The present is second 1000."""
    storage, clock = MemoryFileIO("lease-table"), FakeClock(1_000_000)
    storage.clear()
    folder = "memory://lease-table/wh/.lakecore/leases/d.t"
    for number, owner, until in (line.split() for line in case.input):
        record = {"owner": f"{owner} id", "until_ms": int(until) * 1000}
        storage.write_new(f"{folder}/{number}", b"{" if owner == "?" else json.dumps(record).encode())
    who = holder(storage, "memory://lease-table/wh", "d.t", clock.now_ms()) or "nobody"

    def take() -> None:
        wait = int(case.args.get("wait", "0")) * 1000
        millis_ = int(case.args.get("seconds", "60")) * 1000
        with leased(
            storage, "memory://lease-table/wh", "d.t", "me", clock, LeaseTimes(millis_, wait)
        ) as lease:
            raise _TakenError(lease.path.rpartition("/")[2])

    try:
        found = refusal(take)
    except _TakenError as taken:
        found = f"taken as number {taken} after {sum(clock.slept):g} s"
    return f"held by {who}; {found}"


class _TakenError(Exception):
    """The lease was got; the text is its number."""


def rollback_answer(case: Case) -> str:
    """Lines: snapshots with their time in minutes, and tags of snapshots. What `rollback` would remove."""
    lake = replace(memory_catalog("rollback-table"), clock=(clock := FakeClock(0)))
    table = key_table(lake)
    for line in case.input:
        what, name, *rest = line.split()
        if what == "tag":
            tags.run(tags.CreateTag(table="d.k", tag=name, snapshot=int(rest[0])), lake, clock=clock)
        else:
            clock.time_ms = int(rest[0]) * 60_000
            put(table, [{"k": 1, "v": name}])
    given = {"timestamp_ms" if key == "minute" else key: value for key, value in case.args.items()}
    numbers = {key: int(value) for key, value in given.items() if key != "tag"}
    if "timestamp_ms" in numbers:
        numbers["timestamp_ms"] *= 60_000
    named = {"tag": given["tag"]} if "tag" in given else {}
    job = rollback.RollbackTo(table="d.k", dry_run=True, safety=Safety(owner="t"), **numbers, **named)
    try:
        report = rollback.run(job, lake, clock=clock)
    except LakeError as err:
        return f"{type(err).__name__}: {err}"
    gone = [*(f"snapshot {one}" for one in report.snapshots), *(f"tag {one}" for one in report.names)]
    return f"back to {report.snapshot or job.snapshot}; removes {', '.join(gone) or 'nothing'}"


def repair_answer(case: Case) -> str:
    """Lines: `planned` and `present` changes, by their names; `done` where the action finds nothing to do."""
    changes: dict[str, tuple[str, ...]] = {"planned": (), "present": ()}
    for line in case.input:
        word, *found = line.split()
        changes[word] = tuple(found)
    step = Step(
        number=1,
        action="rewrite",
        branch="main",
        why="w",
        changes=changes["planned"],
        rows_lost=0,
        loses="",
        undo=False,
    )
    now = None if "done" in changes else ActionPreview(why="w", changes=changes["present"])
    try:
        return " ".join(sorted(remaining(step, now, Growth(case.command)))) or "nothing"
    except LakeError as err:
        return f"{type(err).__name__}: {err}"


def purge_answer(case: Case) -> str:
    """Lines: the kind of a root, its branch, its name and the id of its snapshot; then consumers and files of branches."""
    roots, consumers, branches = [], [], []
    for line in case.input:
        kind, *words = line.split()
        if kind == "consumer":
            consumers.append(words[0])
        elif kind == "file":
            branches.append(PlannedDeletion(words[0], 0, ""))
        else:
            branch, name, number = words
            path = f"{kind} {name}" + ("" if branch == "main" else f" of {branch}")
            roots.append(Root(RootKind(kind), branch, name, path, snapshot(int(number))))
    every = RootSet(tuple(roots), ("main",))
    staying = remaining_roots(every, whole(case, "empty"))
    extra = ExtraFiles(branches=tuple(branches), consumers=tuple(consumers))
    removed = root_removal(old_roots(every, staying), extra)
    names = [", ".join(one) or "nothing" for one in ([r.path for r in staying], [d.path for d in removed])]
    return f"stays: {names[0]}\nis removed: {names[1]}"


TABLES = {
    "partition_expiry": partition_answer,
    "tag_expiry": tag_answer,
    "limits": limit_answer,
    "holds": hold_answer,
    "merge_branch": merge_answer,
    "lease": lease_answer,
    "rollback": rollback_answer,
    "repair": repair_answer,
    "purge_files": purge_answer,
}


@pytest.mark.parametrize("name", TABLES)
def test_rules_of_chores(name: str, rewrite: bool) -> None:
    datadriven.check(TESTDATA / f"{name}.txt", TABLES[name], rewrite)
