"""Deletes and rows of one key on every level, compacted by Java and by lakecore: rows, levels and changes are equal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.jobs.compact import ProofMode, Strategy
from tests.support.lake import live_files, put
from tests.support.oracle import Oracle, findings
from tests.support.tall_tree import CASES, ENGINES, PRODUCERS, definition, run_limit, stages

pytestmark = pytest.mark.slow

AFTER = [None, run_limit(1), run_limit(2), run_limit(3, 3), None]
"""Options of the compaction after each stage, and of one more; None: a full one."""


@pytest.mark.parametrize(("engine", "producer"), CASES)
def test_java_and_lakecore_compact_alike(
    engine: str, producer: str, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """Java's 2.0 compacts the other half of the cases."""
    java = oracles["1.4.2" if CASES.index((engine, producer)) % 2 else "2.0.0"]
    options = {**ENGINES[engine], **PRODUCERS[producer]}
    catalog = load_catalog(tmp_path)
    ours, theirs = (catalog.create_table(name, definition(options)) for name in ("d.ours", "d.theirs"))
    commits = [*stages(deletes=engine != "first-row"), []]
    for number, (written, extra) in enumerate(zip(commits, AFTER, strict=True)):
        put(ours, *written)
        put(theirs, *written)
        strategy = Strategy.FULL if extra is None else Strategy.UNIVERSAL
        proof = list(ProofMode)[number % 3]
        job = compact.Job(table="d.ours", strategy=strategy, proof=proof, options=extra or {})
        assert not compact.run(job, catalog).dropped
        java.compact(tmp_path, "d.theirs", full=extra is None, options=extra)
        found, wanted = (sorted(file.level for file in live_files(table)) for table in (ours, theirs))
        assert found == wanted, number
        assert java.read(tmp_path, "d.ours") == java.read(tmp_path, "d.theirs"), number
    assert findings(java.fsck(tmp_path, "d.ours")) == set()
    assert changes(java, tmp_path, "d.ours") == changes(java, tmp_path, "d.theirs")


def changes(java: Oracle, warehouse: Path, table: str) -> list[list[str]]:
    """The lines of each plan of Java's stream from the first snapshot on."""
    plans = java.call("stream", warehouse, table, "--from-snapshot", 1)
    return [sorted(json.dumps(row, sort_keys=True) for row in plan["rows"]) for plan in plans]
