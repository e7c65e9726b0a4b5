"""What runs of the fuzzer did, as a figure.

`python -m tests.fuzz.tally RUN.json… [--older RUN.json…]` makes `docs/figures/fuzz.json`; the older runs are of the same
histories on an older commit.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.figures import conditions, write_figures
from tests.fuzz.history import NEW, OLD

__all__ = ["COUNTED", "Tally", "combined"]

COUNTED = ("clean", "without_judge", "failed", "done", "refused", "left_out")


@dataclass
class Tally:
    """Counts of one run. `clean` and `without_judge`: histories, by judge. `failed`: histories, by kind.

    `done`: steps and comparisons by who did them; `refused`: what lakecore would not do, and Java did instead;
    `left_out`: what Java would not do with its own table.
    """

    first_seed: int
    clean: Counter[str] = field(default_factory=Counter)
    without_judge: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def as_run(self, next_seed: int, seconds: float, measured: Mapping[str, Any]) -> dict[str, Any]:
        """Plain values. `seconds`: wall time, also of making failures smaller."""
        counts = {name: dict(getattr(self, name).most_common()) for name in COUNTED}
        about = {"seeds": [self.first_seed, next_seed - 1], "seconds": round(seconds)}
        return {"measured": dict(measured), **about, **counts}

    def report(self, next_seed: int, seconds: float) -> str:
        """The most common of everything, as text."""
        clean, judged = sum(self.clean.values()), sum(self.without_judge.values())
        seeds = f"seeds {self.first_seed} to {next_seed - 1}"
        lines = [f"{seeds}: {clean} clean, {judged} without a judge, {dict(self.failed)}, {seconds:.0f} s"]
        for name in ("done", "refused", "left_out"):
            counts = getattr(self, name)
            lines.append(f"{name}: {sum(counts.values())}")
            lines += [f"  {count:6d}  {what}" for what, count in counts.most_common(40)]
        return "\n".join(lines)


def run_conditions() -> dict[str, Any]:
    """Of a run that begins now."""
    return conditions((OLD, NEW))


def combined(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums over runs, and what each of them was."""
    sums: dict[str, Any] = {}
    for name in COUNTED:
        counts: Counter[str] = Counter()
        for run in runs:
            counts.update(run[name])
        sums[name] = dict(counts.most_common())
    histories = {name: sum(sums[name].values()) for name in ("clean", "without_judge", "failed")}
    keys = ("commit", "dirty", "date", "load_before")
    parts = [
        {
            **{key: run["measured"][key] for key in keys},
            "seeds": run["seeds"],
            "seconds": run["seconds"],
            "failed": sum(run["failed"].values()),
        }
        for run in runs
    ]
    return {"histories": histories, **sums, "runs": parts}


def main() -> None:
    """Combine the runs of the given files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--older", type=Path, nargs="*", default=[])
    parser.add_argument("--note", help="what a reader should know of these runs")
    wanted = parser.parse_args()
    runs = _loaded(wanted.runs)
    older = {"older": combined(_loaded(wanted.older))} if wanted.older else {}
    about = {"about": wanted.note} if wanted.note else {}
    print(write_figures("fuzz", runs[-1]["measured"], about | combined(runs) | older))


def _loaded(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The oldest run first."""
    return sorted(
        (json.loads(file.read_text()) for file in files), key=lambda run: str(run["measured"]["date"])
    )


if __name__ == "__main__":
    main()
