"""Tables that lose files at random are repaired by plans until nothing is left to do; Java reads the outcome."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs import repair_plan
from lakecore.maintain.repair.plan import RepairPlan
from lakecore.verify.findings import FindingKind
from lakecore.verify.fsck import fsck
from tests.support.golden import GoldenTable, golden_tables
from tests.support.oracle import Oracle
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
    report = fsck(table.file_io, table.paths, now_ms=0)
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
    latest = twins.opened.snapshots.latest()
    assert latest is not None
    rows = oracle.read(twins.ours, golden.name)
    assert len(rows) == twins.opened.scan().to_arrow().num_rows
    report = fsck(twins.opened.file_io, twins.opened.paths, now_ms=0, deep=True)
    needed = f"by snapshot {latest.id})"
    found = [f for f in report.damage if f.problem.endswith(needed) and f.kind is not FindingKind.INDEX_FILE]
    assert [str(f) for f in found] == []  # but for a lost index of hashes, which reading does not need
