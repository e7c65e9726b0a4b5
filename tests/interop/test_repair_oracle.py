"""Tables that lose files at random are repaired by plans until nothing is left to do; Java reads the outcome."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.commit.request import CommitRequest
from lakecore.jobs import compact
from lakecore.jobs.repair import repair_plan
from lakecore.maintain.repair.plan import RepairPlan
from lakecore.metadata.commit_message import CommitMessage
from lakecore.verify.fsck.check import fsck
from tests.support.broken_writer import tell_wrong_statistics
from tests.support.golden import GoldenTable, golden_tables
from tests.support.oracle import Oracle, findings
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

SEEDS = range(8)
ROUNDS = 4


def _damage(table: Path, rng: random.Random) -> None:
    """One to three files of any kind but schemas and consumers are gone or half of what they were."""
    files = [
        p for p in sorted(table.rglob("*")) if p.is_file() and p.parent.name not in ("schema", "consumer")
    ]
    for path in rng.sample(files, min(len(files), rng.choice([1, 1, 2, 3]))):
        if rng.random() < 0.3:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        else:
            path.unlink()


def _plan(lake: FilesystemCatalog, name: str) -> RepairPlan:
    table = lake.load_table(name)
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=0)
    plan = repair_plan.plan_repair(name, lake, report, older_than_ms=1)
    return RepairPlan.from_json(json.loads(json.dumps(plan.to_json())))


def _chosen(seed: int) -> GoldenTable:
    found = [
        t for t in golden_tables() if len(t.facts["snapshots"]) > 3 and "evolution" not in str(t.options)
    ]
    return random.Random(seed).choice(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_is_whole(seed: int, tmp_path: Path, oracles: dict[str, Oracle]) -> None:
    golden = _chosen(seed)
    twins = Twins.of_golden(golden, tmp_path)
    _damage(twins.path(twins.ours), random.Random(seed))
    plan = _plan(twins.lake, golden.name)
    for _ in range(ROUNDS):
        if not plan.steps:
            break
        job = repair_plan.Job(table=golden.name, plan=plan.to_json(), allow_loss=True)
        repair_plan.run(job, twins.lake)
        assert repair_plan.run(job, twins.lake).nothing_to_do
        plan = _plan(twins.lake, golden.name)
    assert plan.steps == ()
    oracle = oracles["2.0.0" if golden.version == "2.0.0" else "1.4.2"]
    latest = twins.opened._stores.snapshots.latest()
    assert latest is not None
    rows = oracle.read(twins.ours, golden.name)
    assert len(rows) == twins.opened.scan().to_arrow().num_rows
    report = fsck(twins.opened._stores.file_io, twins.opened._stores.paths, now_ms=0, deep=True)
    found = [f for f in report.damage if f.problem.endswith(f"by snapshot {latest.id})")]
    assert [str(f) for f in found] == []


def test_java_goes_on_with_a_hash_index_that_was_made_again(
    tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    """Each bucket's index is lost or zeroed in turn; afterwards it says what Java's said of the keys there are."""
    twins = Twins.of_golden(next(t for t in golden_tables() if t.table == "a_pk_dynamic"), tmp_path)
    name, table = twins.opened.name, twins.opened
    files = table._scanner.index_files(table._stores.snapshots.latest())
    before = {(f.partition, f.bucket): set(table._stores.indexes.read_hashes(f).tolist()) for f in files}
    for number, file in enumerate(files):
        path = Path(table._stores.indexes.path(file))
        path.unlink() if number % 2 else path.write_bytes(bytes(path.stat().st_size))
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True, read_data=True)
    plan = repair_plan.plan_repair(name, twins.lake, report, older_than_ms=1)
    assert [(step.action, len(step.changes)) for step in plan.steps] == [("rebuild-hash-index", len(files))]
    repair_plan.run(repair_plan.Job(table=name, plan=plan.to_json()), twins.lake)
    after = table._scanner.index_files(table._stores.snapshots.latest())
    made = {(f.partition, f.bucket): set(table._stores.indexes.read_hashes(f).tolist()) for f in after}
    assert {place: hashes <= before[place] for place, hashes in made.items()} == dict.fromkeys(before, True)
    for java in oracles.values():
        rows = [json.loads(line) for line in java.read(twins.ours, name)]
        java.write(twins.ours, name, [{**row, "_kind": "+I"} for row in rows])
        assert [json.loads(line) for line in java.read(twins.ours, name)] == rows
    fresh = twins.lake.load_table(name)
    latest = fresh._stores.snapshots.latest()
    assert latest is not None
    found = fsck(fresh._stores.file_io, fresh._stores.paths, now_ms=0, deep=True, read_data=True).damage
    assert [str(f) for f in found if f.problem.endswith(f"by snapshot {latest.id})")] == []


def test_java_reads_and_compacts_files_that_were_lowered(
    tmp_path: Path, oracles: dict[str, Oracle], monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = next(t for t in golden_tables() if t.table == "a_pk_dedup_b1")
    twins = Twins.of_golden(golden, tmp_path)
    name, table, java = golden.name, twins.opened, oracles[golden.version]
    compact.run(compact.Job(table=name, strategy=compact.Strategy.FULL), twins.lake)
    rows = java.read(twins.ours, name)
    java.write(twins.ours, name, [json.loads(line) for line in rows[: len(rows) // 2]])
    [entry] = [
        one
        for one in table._scanner.live_entries(table._stores.snapshots.latest()).rows()
        if one.file.level == 0
    ]
    moved = {"compact_before": (entry.file,), "compact_after": (replace(entry.file, level=5),)}
    with monkeypatch.context() as patch:
        patch.setattr("lakecore.commit.attempt.find_conflicts", lambda *_: ())
        message = CommitMessage(
            partition=entry.partition, bucket=0, total_buckets=entry.total_buckets, **moved
        )
        table._committer().commit([message], CommitRequest(user="broken", identifier=1))
    assert len(java.read(twins.ours, name)) > len(rows)
    plan = _plan(twins.lake, name)
    assert [step.action for step in plan.steps] == ["lower-overlapping-files"]
    repair_plan.run(repair_plan.Job(table=name, plan=plan.to_json()), twins.lake)
    assert _plan(twins.lake, name).steps == ()
    for judge in oracles.values():
        assert judge.read(twins.ours, name) == rows
        judge.compact(twins.ours, name, full=True)
        assert judge.read(twins.ours, name) == rows
    java.call("expire-snapshots", twins.ours, name, "--retain-max", "1", "--retain-min", "1")
    assert java.read(twins.ours, name) == rows
    assert findings(java.fsck(twins.ours, name)) == set()


@pytest.mark.parametrize("case", ["a_pk_dedup_b1", "a_dv_pk"])
def test_statistics_are_those_that_java_wrote(case: str, tmp_path: Path, oracles: dict[str, Oracle]) -> None:
    golden = next(t for t in golden_tables() if t.table == case)
    twins = Twins.of_golden(golden, tmp_path)
    table, java = twins.opened, oracles[golden.version]
    rows = java.read(twins.ours, golden.name)
    before = {f.file_name: f for f in table._scanner.live_entries(table._stores.snapshots.latest()).files()}
    name = tell_wrong_statistics(twins.lake, table)
    java.call("expire-snapshots", twins.ours, golden.name, "--retain-max", "1", "--retain-min", "1")
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True, read_data=True)
    plan = repair_plan.plan_repair(golden.name, twins.lake, report, older_than_ms=1)
    assert [step.action for step in plan.steps] == ["correct-statistics"]
    repair_plan.run(repair_plan.Job(table=golden.name, plan=plan.to_json()), twins.lake)
    after = {f.file_name: f for f in table._scanner.live_entries(table._stores.snapshots.latest()).files()}
    assert after.keys() == before.keys()
    assert (after[name].key_stats, after[name].value_stats) == (
        before[name].key_stats,
        before[name].value_stats,
    )
    for judge in oracles.values():
        assert judge.read(twins.ours, golden.name) == rows
        judge.compact(twins.ours, golden.name, full=True)
        assert judge.read(twins.ours, golden.name) == rows
    java.call("expire-snapshots", twins.ours, golden.name, "--retain-max", "1", "--retain-min", "1")
    assert findings(java.fsck(twins.ours, golden.name)) == set()
