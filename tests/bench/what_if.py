"""Benchmark: how far the estimates of `what-if` are from what compactions and expiry really did.

    .venv/bin/python -m tests.bench.what_if --commits 120

Three tables get the same rows. lakecore compacts and expires the first after each commit by its options, Java Paimon's writer
compacts the second while it writes, and nothing compacts the third. A replay of these options on each history is held against
what happened: on the first two the compactions of the history say how much a merge leaves, on the third nothing does.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.jobs import compact, expire_snapshots, what_if
from lakecore.jobs.what_if import Job, Report
from lakecore.jobs.what_if.report import CompactionFigures
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.tables import PAIMON
from tests.support.fake_clock import FakeClock
from tests.support.oracle import Oracle

__all__ = ["COMPARED", "by_java", "by_lakecore", "compared"]

HOUR = 3_600_000
POLICY = {"num-sorted-run.compaction-trigger": "3"}
LIMITS = {"snapshot.num-retained.max": "5", "snapshot.num-retained.min": "1"}
COMPARED = (
    "compactions",
    "read_bytes",
    "written_bytes",
    "write_amplification",
    "average_runs",
    "most_runs",
    "files",
)


def rows(number: int) -> list[dict[str, Any]]:
    """One commit: 100 keys, of which most were written before, with values that no codec makes smaller."""
    chance = random.Random(number)
    keys = sorted(chance.sample(range(100 + 10 * number), 100))
    return [{"k": key, "v": chance.randbytes(200).hex()} for key in keys]


def by_lakecore(
    warehouse: str, commits: int, *, compacts: bool = True, limits: Mapping[str, str] | None = None
) -> tuple[FilesystemCatalog, dict[str, int]]:
    """Make the history, with an hour between commits; return what the expiry removed of it."""
    catalog = replace(load_catalog(warehouse, create_warehouse=True), clock=FakeClock())
    table = catalog.create_table("d.k", _definition({"write-only": "true"}))
    removed = {"snapshots": 0, "files": 0, "bytes": 0}

    def expire() -> None:
        if limits is not None:
            job = expire_snapshots.Job(table="d.k", options=dict(limits))
            report = expire_snapshots.run(job, catalog, clock=catalog.clock)
            removed["snapshots"] += len(report.snapshots)
            removed["files"] += report.files
            removed["bytes"] += report.bytes

    for number in range(commits):
        catalog.clock.time_ms += HOUR
        table.write(pa.Table.from_pylist(rows(number)))
        expire()
        if compacts:
            job = compact.Job(table="d.k", commit_identifier=number)
            if compact.run(job, catalog, clock=catalog.clock).snapshots:
                expire()
    return catalog, removed


def by_java(warehouse: Path, commits: int, oracle: Oracle) -> FilesystemCatalog:
    """Let Java Paimon write the same rows; it compacts while it writes."""
    oracle.create(warehouse, "d.k", _definition({}))
    for number in range(commits):
        oracle.write(warehouse, "d.k", rows(number), "--identifier", number)
    return load_catalog(str(warehouse))


def compared(report: Report) -> dict[str, Any]:
    """Return what happened, what the replay of the same options says, and the second divided by the first."""
    was, own = report.compaction[:2]
    return {"happened": _facts(was), "replayed": _facts(own), "ratio": _ratios(was, own)}


def _facts(one: CompactionFigures) -> dict[str, Any]:
    return {name: getattr(one, name) for name in COMPARED} | {
        "exact_picks": one.exact_picks,
        "picks": one.picks,
    }


def _ratios(was: CompactionFigures, own: CompactionFigures) -> dict[str, float]:
    pairs = ((name, getattr(was, name), getattr(own, name)) for name in COMPARED)
    return {name: round(said / happened, 3) for name, happened, said in pairs if happened}


def _definition(options: Mapping[str, str]) -> dict[str, Any]:
    return {
        "columns": ["k INT", "v STRING"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", **POLICY, **options},
    }


def histories(folder: Path, commits: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the figures of each history."""
    catalog, _ = by_lakecore(str(folder / "ours"), commits)
    report = what_if.run(Job(table="d.k", options=LIMITS), catalog, clock=catalog.clock)
    expiry = report.expiry[-1]
    replayed = {
        "snapshots": expiry.expired_snapshots,
        "files": expiry.removed_files,
        "bytes": expiry.removed_bytes,
    }
    with_merges = what_if.run(Job(table="d.k", chores=("compact",)), catalog, clock=catalog.clock)
    yield "compacted by lakecore", compared(with_merges)
    plain, _ = by_lakecore(str(folder / "plain"), commits, compacts=False)
    alone = what_if.run(Job(table="d.k", chores=("compact",)), plain, clock=plain.clock)
    happened = with_merges.compaction[0]
    yield (
        "never compacted",
        {
            "happened": _facts(happened),
            "replayed": _facts(alone.compaction[1]),
            "ratio": _ratios(happened, alone.compaction[1]),
        },
    )
    _, removed = by_lakecore(str(folder / "expired"), commits, limits=LIMITS)
    yield "expired by lakecore", {"happened": removed, "replayed": replayed}
    with Oracle(PAIMON) as oracle:
        java = by_java(folder / "java", commits, oracle)
    yield "compacted by Java's writer", compared(what_if.run(Job(table="d.k", chores=("compact",)), java))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=120)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args()
    measured = conditions([PAIMON])
    with tempfile.TemporaryDirectory() as folder:
        figures = {"commits": options.commits, **dict(histories(Path(folder), options.commits))}
    write_figures("what_if", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
