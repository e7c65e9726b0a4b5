"""CPU cost of the modes of proof: whole compactions in this process, the modes in turn on copies of the same
tables.

    .venv/bin/python -m tests.bench.proof_modes [--rows 5000000] [--turns 3] [--cases pk1,app,agg4]

Tables that Java writes (`tests.bench.tables`): one bucket of five sorted runs, an append table of 400 files,
four buckets of partial-update, aggregation and a lookup changelog. Prints CPU seconds of a job (user and
system, without threads of others), the median of the turns, and how much more than the proof of keys each
mode costs. Shares are what counts: absolute times depend on the machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import lakecore
from lakecore.jobs import compact
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.tables import fresh_copy, prepare

MODES = tuple(compact.ProofMode)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--cases", default="pk1,app")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    cases = options.cases.split(",")
    conditions_then = conditions()
    warehouse = prepare(options.rows, cases)
    figures = [measured(warehouse, case, options.turns) for case in cases]
    write_figures("proof-modes", conditions_then, {"cases": figures}, options.figures)


def measured(warehouse: Path, case: str, turns: int) -> dict[str, Any]:
    """CPU seconds of each mode, and their share above that of the keys."""
    seconds: dict[str, list[float]] = {mode.value: [] for mode in MODES}
    rows = cpu(warehouse, case, MODES[0])[1]  # warm
    for _ in range(turns):
        for mode in MODES:
            seconds[mode.value].append(cpu(warehouse, case, mode)[0])
    middle = {mode: median(found) for mode, found in seconds.items()}
    base = middle[MODES[0].value]
    shares = {mode: round(found / base - 1, 4) for mode, found in middle.items()}
    print(
        f"{case}, {rows} rows: " + ", ".join(f"{m} {s:.2f} s (+{shares[m]:.1%})" for m, s in middle.items())
    )
    return {"case": case, "rows": rows, "cpu": middle, "above_keys": shares, "all": seconds}


def cpu(warehouse: Path, case: str, mode: compact.ProofMode) -> tuple[float, int]:
    """CPU seconds of one compaction, and the rows that it read."""
    catalog = lakecore.load_catalog(str(warehouse))
    strategy = compact.Strategy.UNIVERSAL if case.startswith("app") else compact.Strategy.FULL
    with fresh_copy(warehouse, case) as table:
        job = compact.Job(table=f"db.{table.name}", strategy=strategy, proof=mode, proof_seed="bench")
        start = time.process_time()
        report = compact.run(job, catalog)
        return time.process_time() - start, report.rows_in


if __name__ == "__main__":
    main()
