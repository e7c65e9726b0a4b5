"""What became slower: figures that were measured now, next to the committed ones of the same benches.

    python -m tests.bench.check [--allowed 10] [--figures DIRECTORY] [BENCH ...]

Without `--figures` it runs the benches first (all of `make bench` without names) and leaves docs/figures alone. A machine
has another speed than that of the committed figures, so that a time of lakecore counts in units of the same time of a
peer (Java, pypaimon-rust, Paimon's connector) where both files have one. The exit code is 1 if something is slower by
more than the allowed percentage, or if a figure is missing, 2 if figures cannot be compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakecore.data_class import dataclass
from tests.bench.__main__ import benches
from tests.bench.figures import FIGURES
from tests.bench.tables import CACHE

PEERS = ("java", "rust", "paimon")
TIMES = ("seconds", "cpu", "ms", "us")
RATES = ("per_second",)
SIZES = ("rows", "files", "tables")
NAMES = ("case", "copy", "engine", "count", "files")

Path_ = tuple[str, ...]


class NotComparableError(Exception):
    """The two files are of different benches or sizes."""


@dataclass(frozen=True)
class Change:
    """How a time of lakecore changed: `factor` above 1 is slower. `peer`: it is in units of that one's time."""

    figure: str
    committed: float
    measured: float
    factor: float
    peer: str | None

    def __str__(self) -> str:
        unit = f"in units of {self.peer}'s time" if self.peer else "without a peer, the machine counts"
        return (
            f"{self.figure}: {self.measured:.4g} instead of {self.committed:.4g}, "
            f"{self.factor:.2f} times ({unit})"
        )


@dataclass(frozen=True)
class Comparison:
    """All times and rates of lakecore that both have, and the names of those that are not in the new figures."""

    changes: tuple[Change, ...]
    missing: tuple[str, ...]

    def slower(self, allowed_percent: float) -> list[Change]:
        """The changes above the allowed percentage, the largest first."""
        beyond = [one for one in self.changes if one.factor > 1 + allowed_percent / 100]
        return sorted(beyond, key=lambda one: -one.factor)


def compare(committed: Mapping[str, Any], measured: Mapping[str, Any]) -> Comparison:
    """Compare the figures of two files of one bench. Raises NotComparableError for other sizes."""
    for size in SIZES:
        if committed.get(size) != measured.get(size):
            raise NotComparableError(
                f"the committed figures have {size} {committed.get(size)}, these have {measured.get(size)}"
            )
    before, now = dict(_numbers(committed)), dict(_numbers(measured))
    changes, missing = [], []
    for path, value in before.items():
        is_rate = path[-1].endswith(RATES)
        if any(part in PEERS for part in path) or not (is_rate or path[-1].split("_")[-1] in TIMES):
            continue
        name = " ".join(part for part in path if part != "lakecore")
        if path not in now:
            missing.append(name)
            continue
        if value <= 0 or now[path] <= 0:  # below what the clock of the bench tells apart
            continue
        ratio = value / now[path] if is_rate else now[path] / value
        peer, speed = _peer(path, before, now, is_rate)
        changes.append(Change(name, value, now[path], ratio / speed, peer))
    return Comparison(tuple(changes), tuple(missing))


def _peer(
    path: Path_, before: Mapping[Path_, float], now: Mapping[Path_, float], is_rate: bool
) -> tuple[str | None, float]:
    """The first peer with the same figure in both files, and how much slower it became; 1 without a peer."""
    for peer in PEERS:
        other = tuple(peer if part == "lakecore" else part for part in path)
        if other != path and before.get(other, 0) > 0 and now.get(other, 0) > 0:
            change = now[other] / before[other]
            return peer, 1 / change if is_rate else change
    return None, 1.0


def _numbers(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, float]]:
    """The numbers of the figures by path; members of a list have their names (`case`), not their places."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, (*path, str(key)))
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, Mapping):
                name = " ".join(str(inner[key]) for key in NAMES if key in inner)
                yield from _numbers(inner, (*path[:-1], name))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def measure(names: Sequence[str], folder: Path) -> list[str]:
    """Run benches, whose figures go into the folder. Returns the names of those that failed."""
    failed = []
    for name, *arguments in benches(small=False):
        if name in names:
            command = [sys.executable, "-m", f"tests.bench.{name}", *arguments, "--figures", str(folder)]
            if subprocess.run(command, check=False).returncode:
                failed.append(name)
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    known = [name for name, *_ in benches(small=False)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="BENCH", help=f"of {', '.join(known)}")
    parser.add_argument("--allowed", type=float, default=10.0, help="percent that may be lost")
    parser.add_argument("--figures", type=Path, help="compare these, and run nothing")
    options = parser.parse_args(argv)
    names = options.names or known
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"unknown benches: {', '.join(unknown)}; there are {', '.join(known)}")
    folder, failed = options.figures or CACHE / "check-figures", []
    if options.figures is None:
        failed = measure(names, folder)
    result = 1 if failed else 0
    for name in names:
        result = max(result, 1 if name in failed else _report(name, folder, options.allowed))
    if failed:
        print(f"failed: {', '.join(failed)}")
    return result


def _report(name: str, folder: Path, allowed: float) -> int:
    """Print what became slower in one bench. Returns 0, 1 or 2 as the module says."""
    try:
        committed = json.loads((FIGURES / f"{name}.json").read_text())["figures"]
        comparison = compare(committed, json.loads((folder / f"{name}.json").read_text())["figures"])
    except (FileNotFoundError, NotComparableError) as err:
        print(f"{name}: cannot be compared: {err}")
        return 2
    slower = comparison.slower(allowed)
    print(f"{name}: {len(comparison.changes)} figures, {len(slower)} slower by more than {allowed:g} %")
    for change in slower:
        print(f"  {change}")
    for figure in comparison.missing:
        print(f"  {figure}: not measured")
    return 1 if slower or comparison.missing or not comparison.changes else 0


if __name__ == "__main__":
    sys.exit(main())
