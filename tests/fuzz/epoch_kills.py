"""Kills streaming queries of Spark at each step of an epoch: `python -m tests.fuzz.epoch_kills [--step 1] [--most 200]`.

Both sinks copy a table that Java writes. At change 1, 2, 3, … that an epoch makes to the lake, to Spark's checkpoint
or to the local state of buckets, the driver is killed with SIGKILL, with its JVM and its Python workers, and in
another round the process alone that makes the change: a Python worker that writes, the process that commits, or the
JVM. The query is started again on its checkpoint, and ends. After each kill Java finds every row exactly once; at the
end its check finds no damage in the copy. A round ends with the first epoch that has fewer changes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.epoch_kills import SCOPES, SINKS, EpochKills
from tests.support.oracle import Oracle

JAVA = "1.4.2"


def kill_everywhere(
    sink: str, scope: str, numbers: range, report: Callable[[dict[str, Any]], object]
) -> None:
    """Kill the query of one sink at these changes; `report` gets what was done after each kill, and at the end. Raises
    AssertionError.
    """
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="lakecore-epochs-") as folder,
        Oracle(JAVA) as oracle,
        EpochKills(Path(folder), sink, oracle) as kills,
    ):
        for number in numbers:
            if not kills.kill_at(number, scope):
                break
            print(f"{sink}, {scope}: {number}: {kills.places[-1]}", flush=True)
            report(what_was_done(kills, began, whole=False))
        else:
            raise AssertionError(f"an epoch has more changes than {numbers[-1]}")
        kills.check_files()
        report(what_was_done(kills, began, whole=True))


def what_was_done(kills: EpochKills, began: float, *, whole: bool) -> dict[str, Any]:
    """The counts of a run. `whole`: the last epoch had no more changes, and the files were checked."""
    latest = kills.copy.latest_snapshot()
    return {
        "whole": whole,
        "kills": len(kills.places),
        "kills by place": by_place(kills.places),
        "queries that failed while the driver went on": len(kills.failures),
        "commits of Java to the source": kills.commits,
        "snapshots of the copy": latest.id if latest else 0,
        "seconds": round(time.monotonic() - began),
    }


def by_place(changes: Sequence[str]) -> dict[str, int]:
    """How often something was killed in each folder of the lake, the checkpoint and the local state."""
    return dict(Counter(_place(change) for change in changes).most_common())


def _place(change: str) -> str:
    """`python create lake/d.db/copy/manifest/manifest-1` happens in `lake manifest`."""
    path = change.split(" ", 2)[2]
    place, *within = path.split("/")
    if place == "tmp":
        return "local state"
    if place == "checkpoint":
        return f"checkpoint {within[0] if len(within) > 1 else ''}".strip()
    if within[:2] == [".lakecore", "streams"]:
        return "lake intents"
    if within[:2] == ["d.db", "source"]:
        return f"source {within[2]}"
    folders = [name for name in within[2:-1] if not name.startswith("bucket-")]
    return f"lake {folders[0] if folders else 'data'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the first change at which something is killed")
    parser.add_argument("--step", type=int, default=1, help="kill at each change of this distance")
    parser.add_argument("--most", type=int, default=200, help="an epoch with more changes is a failure")
    parser.add_argument("--sinks", nargs="+", default=list(SINKS), choices=SINKS)
    parser.add_argument("--scopes", nargs="+", default=list(SCOPES), choices=SCOPES)
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    wanted = parser.parse_args()
    measured = conditions((JAVA,))
    numbers = range(wanted.first, wanted.most, wanted.step)
    figures: dict[str, Any] = {"first": wanted.first, "step": wanted.step, "kills": 0}
    runs: dict[str, dict[str, Any]] = {}

    def report(name: str, run: dict[str, Any]) -> None:
        """Write the figures so far: all of them take more than an hour."""
        runs[name] = run
        figures.update({"kills": sum(one["kills"] for one in runs.values()), **runs})
        write_figures("epoch_kills", measured, figures, wanted.folder)

    for scope in wanted.scopes:
        for sink in wanted.sinks:
            kill_everywhere(sink, scope, numbers, partial(report, f"{sink}, {scope}"))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
