"""Real streaming jobs of Flink into each kind of table, killed and restored, while lakecore maintains the tables.

    python -m tests.fuzz.flink_soak [--count 30000] [--rate 1000] [--kills 2] [--at-once 3] [--only append,lookup]

For each release of Paimon's connector and each job of `tests/support/flink_jobs.py`: a job of Flink writes numbered rows, a
second one follows the table into a copy, and lakecore compacts, expires, removes orphans and checks at random. Flink is killed
with SIGKILL `--kills` times and goes on from its newest checkpoints. At the end all orphans are removed, and the table as Flink reads it, as lakecore reads
it, and the copy hold exactly the rows that follow from the numbers, and Java's check of the table finds nothing. Figures:
`docs/figures/flink_soak.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.flink_jobs import JOBS, Flink, Job, flink
from tests.support.lake import rows_of
from tests.support.night_shift import NightShift
from tests.support.oracle import findings

JAVA = ("1.4.2", "2.0.0")


@dataclass
class Soak:
    """`count` rows of each source, `rate` a second; Flink is killed `kills` times while a group of jobs runs."""

    count: int
    rate: int
    kills: int
    dice: random.Random
    steps: Counter[str] = field(default_factory=Counter)
    jobs: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    finished_before_kill: int = 0

    def run(self, folder: Path, version: str, jobs: Sequence[Job]) -> None:
        """Run these jobs at once until they end, in a new warehouse in `folder`."""
        warehouse, checkpoints = folder / "lake", folder / "checkpoints"
        with flink(warehouse, version) as engine:
            for job in jobs:
                job.create(engine)
            lake = load_catalog(str(warehouse))
            with NightShift(lake, [job.table for job in jobs], self.dice.randrange(1 << 30)) as night:
                writers = self._start(engine, jobs, checkpoints)
                for _ in range(self.kills):
                    time.sleep(self.dice.uniform(0.3, 0.8) * self.count / self.rate / self.kills)
                    began = {job for job in jobs if _has_checkpoint(job, checkpoints)}
                    ended = {
                        job for job, writer in zip(jobs, writers, strict=True) if _finished(engine, writer)
                    }
                    engine.restart()
                    ended |= {job for job in began if not _has_checkpoint(job, checkpoints)}
                    writers = self._start(engine, jobs, checkpoints, ended)
                while "RUNNING" in (states := [_state(engine, writer) for writer in writers]):
                    time.sleep(1)
                copies = {job.name: job.wait_for_copy(engine, self.count) for job in jobs if job.follow}
            night.remove_all_orphans()
            self.steps.update(night.done)
            self.failures += [f"{version}: {problem}" for problem in night.errors + night.damage]
            for job, state in zip(jobs, states, strict=True):
                self.jobs.append(f"{version} {job.name}")
                problems = [] if state == "FINISHED" else [state]
                problems += self._differences(engine, lake, job, copies.get(job.name))
                self.failures += [f"{version} {job.name}: {problem}" for problem in problems]

    def _start(
        self, engine: Flink, jobs: Sequence[Job], checkpoints: Path, ended: Collection[Job] = ()
    ) -> list[int | None]:
        """Start the jobs, but for the writers that have ended: without checkpoints they would write all rows again."""
        writers = []
        for job in jobs:
            over = job in ended
            self.finished_before_kill += over
            writers.append(None if over else job.start_writer(engine, self.count, self.rate, checkpoints))
            job.start_copier(engine, checkpoints)
        return writers

    def _differences(
        self, engine: Flink, lake: FilesystemCatalog, job: Job, copy: list[tuple[str, ...]] | None
    ) -> list[str]:
        wanted = job.rows(self.count)
        ours = sorted(tuple(map(str, row)) for row in rows_of(lake.load_table(job.table)))
        views = {"Flink": engine.sql(f"SELECT * FROM `{job.name}`"), "lakecore": ours}
        if copy is not None:
            views["the copy"] = copy
        wrong = [
            f"{who} has other rows: {_sample(rows, wanted)}" for who, rows in views.items() if rows != wanted
        ]
        damage = findings(engine.oracle.fsck(engine.warehouse, job.table))
        return wrong + [f"Java's fsck: {finding}" for finding in damage]


def _has_checkpoint(job: Job, checkpoints: Path) -> bool:
    return any(job.writer_checkpoints(checkpoints).glob("*/chk-*/_metadata"))


def _finished(engine: Flink, writer: int | None) -> bool:
    return _state(engine, writer) == "FINISHED"


def _state(engine: Flink, writer: int | None) -> str:
    """The state of a writer; one that was not started again had finished."""
    return "FINISHED" if writer is None else engine.state(writer)


def _sample(rows: Sequence[tuple[str, ...]], wanted: Sequence[tuple[str, ...]]) -> str:
    """Some of the rows that are too many, and of those that are missing."""
    more, missing = Counter(rows) - Counter(wanted), Counter(wanted) - Counter(rows)
    few = [list(itertools.islice(some, 3)) for some in (more, missing)]
    return f"{more.total()} too many, such as {few[0]}; {missing.total()} missing, such as {few[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30_000, help="rows of each source")
    parser.add_argument("--rate", type=int, default=1_000, help="rows of a source in one second")
    parser.add_argument(
        "--kills", type=int, default=2, help="how often Flink is killed while a group of jobs runs"
    )
    parser.add_argument("--at-once", type=int, default=3, help="how many jobs run at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of jobs")
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    args = parser.parse_args()
    measured = conditions(JAVA)
    soak = Soak(args.count, args.rate, args.kills, random.Random(args.seed))
    chosen = [job for job in JOBS if not args.only or job.name in args.only.split(",")]
    for version in JAVA:
        for start in range(0, len(chosen), args.at_once):
            with tempfile.TemporaryDirectory(prefix="lakecore-flink-") as folder:
                soak.run(Path(folder), version, chosen[start : start + args.at_once])
            print(soak.jobs[-args.at_once :], soak.failures, flush=True)
    figures = {
        "rows_of_a_job": args.count,
        "rows_per_second": args.rate,
        "kills_of_a_group": args.kills,
        "seed": args.seed,
        "jobs": soak.jobs,
        "writers_that_finished_before_a_kill": soak.finished_before_kill,
        "maintenance": dict(sorted(soak.steps.items())),
        "failures": soak.failures,
    }
    print(json.dumps(figures, indent=2))
    print(write_figures("flink_soak", measured, figures, args.folder))
    sys.exit(bool(soak.failures))


if __name__ == "__main__":
    main()
