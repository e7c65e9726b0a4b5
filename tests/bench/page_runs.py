"""CPU cost of late updates with and without copies of runs of pages: whole compactions in this process, in turns on copies of
the same tables.

    .venv/bin/python -m tests.bench.page_runs [--rows 3000000] [--turns 4] [--cases large1_5,top1_5,flat1_5]

The tables (`tests.bench.tables`) have a large file, which Java wrote as one row group or lakecore as ten, and five small ones with
updates in its last twelfth or everywhere. Without runs of pages whole row groups are copied, if no other file has keys among
theirs. Prints CPU seconds of a job (user and system). Shares are what counts: absolute times depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lakecore
from lakecore.jobs import compact
from lakecore.write.files import copy_blocks
from tests.bench.compact import CASES
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.tables import fresh_copy, prepare

SIDES = ("decoded", "copied")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--cases", default="large1_5,top1_5,flat1_5")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    cases = options.cases.split(",")
    measured = conditions()
    warehouse = prepare(options.rows, cases)
    figures = [in_turns(warehouse, case, options.turns) for case in cases]
    write_figures("page_runs", measured, {"rows": options.rows, "cases": figures}, options.figures)


def in_turns(warehouse: Path, case: str, turns: int) -> dict[str, Any]:
    """CPU seconds of each side in each turn, sorted, and the rows that it copied. The first turn does not count."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    copied: dict[str, int] = {}
    for turn in range(turns + 1):
        for side in SIDES:
            with pages_copied(side == "copied"):
                spent, copied[side] = cpu(warehouse, case)
            if turn:
                seconds[side].append(round(spent, 2))
    print(f"{case}: {seconds}, rows copied {copied}")
    return {
        "case": case,
        "about": CASES[case],
        "cpu": {side: sorted(found) for side, found in seconds.items()},
        "rows_copied": copied,
        "load_after": [round(load, 1) for load in os.getloadavg()],
    }


@contextmanager
def pages_copied(copied: bool) -> Iterator[None]:
    """Without copies of pages no page index is found."""
    if copied:
        yield
        return
    with patch.object(copy_blocks, "read_indexes", lambda source, footer: None):
        yield


def cpu(warehouse: Path, case: str) -> tuple[float, int]:
    """CPU seconds of one compaction, and the rows that it copied."""
    with fresh_copy(warehouse, case) as table:
        catalog = lakecore.load_catalog(str(warehouse))
        job = compact.Job(table=f"db.{table.name}", strategy=compact.Strategy.FULL)
        before = time.process_time()
        report = compact.run(job, catalog)
        return time.process_time() - before, report.rows_copied


if __name__ == "__main__":
    main()
