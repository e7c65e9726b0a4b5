"""Java expires snapshots on a copy: exactly the files that a replay names are gone."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.clock import SystemClock
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.what_if.expiry import history_of
from lakecore.maintain.replay.plan import ExpiryRules, replay_expiry
from lakecore.metadata.manifest.byte_words import hash_bytes
from tests.support.golden import GoldenTable, golden_tables
from tests.support.oracle import Oracle
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

MANY = 2**31 - 1


def _sampled() -> list[GoldenTable]:
    """Every fortieth table with a history, and those with tags or branches; Java keeps no changelogs longer here."""
    found = [table for table in golden_tables() if len(table.facts["snapshots"]) > 3]
    found = [table for table in found if "changelog.num-retained.min" not in table.options]
    return [t for n, t in enumerate(found) if n % 40 == 0 or "tag" in t.table or "branch" in t.table]


@pytest.mark.parametrize("golden", _sampled(), ids=lambda table: table.name)
def test_java_removes_what_the_replay_names(
    golden: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    twins = Twins.of_golden(golden, tmp_path)
    oracle = oracles["2.0.0" if golden.version == "2.0.0" else "1.4.2"]
    keep = max(1, len(golden.facts["snapshots"]) // 3)
    before, now = twins.files(twins.java), int(time.time() * 1000)
    flags = ["--retain-max", keep, "--retain-min", 1, "--max-deletes", MANY, "--older-than", now]
    oracle.call("expire-snapshots", twins.java, twins.table, *flags)
    gone = {name for name in before - twins.files(twins.java) if not name.startswith("snapshot/")}
    rules = ExpiryRules(retain_max=keep, retain_min=1, retention_ms=0, max_deletes=MANY)
    target = target_of(twins.opened, twins.lake, SystemClock())
    history = history_of(target)
    holders = tuple(replace(one, retained_ms=None) for one in history.holders)  # its command leaves tags
    replayed = replay_expiry(replace(history, holders=holders), rules, [now], now)
    named = {name for step in replayed.steps for name in step.names.tolist()}
    root = target.paths.table_path
    ways = {
        name: hash_bytes([name.rpartition("/")[2].encode(), f"{root}/{name}".encode()]).tolist()
        for name in gone | twins.files(twins.ours)
    }
    ours = {name for name, hashes in ways.items() if named.intersection(hashes)}
    assert gone - ours == set()
    assert {name for name in ours - gone if "/changelog-" not in name} == set()
