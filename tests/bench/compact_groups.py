"""Benchmark: the dry run of a compaction of a table of very many files, in groups of buckets and as a whole.

    .venv/bin/python -m tests.bench.compact_groups --files 1000000 --groups 250000,1000000

The table is that of `tests.bench.plan_java`, written by Java Paimon; it has no data files, so that nothing is run. Each size
of groups has a process of its own, from process start. A size that is not below the number of files means the whole table.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.plan_groups import run
from tests.bench.plan_java import made
from tests.bench.tables import PAIMON


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--groups", default="250000,1000000", help="files of a group, separated by commas")
    parser.add_argument("--strategies", default="full", help="separated by commas")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warehouse, table = made(options.files)
    if options.plan:
        strategy, most = options.plan.split(":")
        print(json.dumps(planned(warehouse, table, strategy, int(most))))
        return
    measured = conditions([PAIMON])
    own = [sys.executable, "-m", "tests.bench.compact_groups", "--files", str(options.files), "--plan"]
    figures: dict[str, Any] = {"files": options.files}
    for strategy in options.strategies.split(","):
        for most in options.groups.split(","):
            figures[f"{strategy}, groups of {int(most):,}"] = run([*own, f"{strategy}:{most}"], "")
            print(strategy, most, figures, file=sys.stderr)
    write_figures("compact_groups", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


def planned(warehouse: Path, table: str, strategy: str, most: int) -> dict[str, int]:
    """Plan the compaction in groups of at most `most` files, and return what the report says."""
    from lakecore import load_catalog
    from lakecore.jobs import compact
    from lakecore.jobs.compact.task import CompactTask

    CompactTask.group_files = most
    job = compact.Job(table=f"db.{table}", strategy=compact.Strategy(strategy), dry_run=True)
    report = compact.run(job, load_catalog(str(warehouse)))
    return {
        "files": report.before.files,
        "picks": report.picks_left,
        "files_after": report.after.files,
        "rows_after": report.after.rows,
    }


if __name__ == "__main__":
    main()
