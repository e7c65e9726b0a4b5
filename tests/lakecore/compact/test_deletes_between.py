"""Deletes that rest between level 0 and the last one, and keys that come back above them: nothing is refused."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs import compact
from lakecore.jobs.compact import ProofMode, Strategy
from lakecore.table import Table
from tests.support.lake import live_files, memory_catalog, put, rows_of
from tests.support.tall_tree import CASES, ENGINES, PRODUCERS, definition, run_limit, stages

KEYS, SAMPLED, FULL = ProofMode
REACH: dict[str, dict[str, str] | None] = {
    "level 0": run_limit(3),
    "levels 0 and 3": run_limit(3, 3),
    "levels 0, 3 and 4": run_limit(3, 4),
    "all levels": None,
}
"""What the last compaction takes up. None: a full one."""
FORGETFUL = ("levels 0 and 3", "levels 0, 3 and 4")
"""A delete and a later row of an aggregation become an insert (rule of the format), which no longer removes the
rows of levels that are merged later; interop compares these with Java."""


def run(catalog: FilesystemCatalog, options: dict[str, str] | None, proof: ProofMode) -> None:
    strategy = Strategy.FULL if options is None else Strategy.UNIVERSAL
    job = compact.Job(table="d.k", strategy=strategy, proof=proof, options=options or {})
    assert not compact.run(job, catalog).dropped


def grown(catalog: FilesystemCatalog, options: dict[str, str], proof: ProofMode) -> Table:
    """Rows on levels 5, 4, 3 and 0."""
    table = catalog.create_table("d.k", definition(options))
    for stage, commits in enumerate(stages(deletes=options.get("merge-engine") != "first-row")):
        put(table, *commits)
        if stage < 3:
            run(catalog, run_limit(stage) if stage else None, proof)
    assert sorted({file.level for file in live_files(table)}) == [0, 3, 4, 5]
    return table


def applied(lines: Iterable[dict[str, Any]]) -> dict[int, tuple[Any, ...]]:
    """The rows that a stream ends with; a line that does not fit those before it is an error."""
    rows: dict[int, tuple[Any, ...]] = {}
    for line in lines:
        kind, key, rest = line["_VALUE_KIND"], line["k"], (line["n"], line["s"])
        if kind in (0, 2):
            assert (key in rows) == (kind == 2 and key in rows), line
            rows[key] = rest
        else:
            assert rows[key] == rest, line
            if kind == 3:
                del rows[key]
    return rows


@pytest.mark.parametrize(("engine", "producer"), CASES)
@pytest.mark.parametrize(
    ("reach", "proof"), [*zip(REACH, cycle([KEYS, SAMPLED, FULL])), ("all levels", KEYS)]
)
def test_every_way_in_which_a_key_can_lie_is_compacted(
    engine: str, producer: str, proof: ProofMode, reach: str
) -> None:
    catalog = memory_catalog("deletes-between")
    options = {**ENGINES[engine], **PRODUCERS[producer]}
    table = grown(catalog, options, proof)
    hidden = "deletion-vectors.enabled" in options or engine == "first-row"
    before = None if hidden else rows_of(table)
    run(catalog, REACH[reach], proof)
    after = rows_of(table)
    assert 0 not in {file.level for file in live_files(table)}
    if before is not None and not (engine == "aggregation" and reach in FORGETFUL):
        assert after == before
    run(catalog, None, proof)
    assert rows_of(table) == after
    if "changelog-producer" in options:
        lines = [
            row for change in table.stream(snapshot=1) for b in change.to_batches() for row in b.to_pylist()
        ]
        assert sorted((k, *rest) for k, rest in applied(lines).items()) == sorted(after)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction", "lookup and deletion vectors"])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
def test_level_1_is_above_level_0_too(engine: str, producer: str) -> None:
    """A tree of two levels: rows of level 1 are what was."""
    catalog = memory_catalog("two-levels")
    options = {**ENGINES[engine], **PRODUCERS[producer], "num-levels": "2"}
    table = catalog.create_table("d.k", definition(options))
    for n in range(3):
        put(table, [{"k": k, "n": n, "s": f"{k}.{n}"} for k in range(0, 20, n + 1)])
        run(catalog, None, SAMPLED)
        put(table, [{"k": k, "n": n, "s": "", "_kind": "-D"} for k in range(n, 20, 7)])
        run(catalog, None, FULL)
    assert {file.level for file in live_files(table)} == {1}
    lines = [row for change in table.stream(snapshot=1) for b in change.to_batches() for row in b.to_pylist()]
    assert sorted((k, *rest) for k, rest in applied(lines).items()) == sorted(rows_of(table))
    assert any(line["_VALUE_KIND"] == 1 for line in lines)
