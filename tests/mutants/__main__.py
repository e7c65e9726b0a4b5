"""`make mutants`: puts every bug of the list into a copy of the tree, one at a time, and asks two questions.

    python -m tests.mutants [--part battery|tests|both] [--only ID …] [--area AREA …] [--changed] [--jobs 1]
                            [--minutes M] [--quick] [--figures DIRECTORY] [--summary]
                            [--random COUNT [--seed 1] [--of PATH …]]

Does a test fail? And where the bug makes a compaction write wrong rows: does the default proof, or the check of the commit,
refuse them? Results are kept in `.cache/mutants` and hold until what they depend on changes; a run that is stopped goes on
where it was. `--changed`: mutants of files that differ from the last commit's parent. `--baseline`: no bug at all, which must
leave the battery as it is, and every test that caught something green. `--summary`: what is known, without running anything.
`--random`: instead of the lists, so many bugs drawn from the source of these files and folders (`random_bugs`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.mutants.cases import CASES
from tests.mutants.catalogue import LISTS, ROOT, Mutant, mutants
from tests.mutants.children import collect_tests, warm_up
from tests.mutants.choice import Wave
from tests.mutants.random_bugs import bugs
from tests.mutants.runner import CACHE, Result, Runner

PARTS = ("battery", "tests")
_TESTS = [f"tests/{name}" for name in ("lakecore", "faults", "golden", "operators", "contract", "model")]
"""What is imported before the first mutant; other tests are when they are run."""
_SECONDS, _QUICK_SECONDS = 120, 20
"""Time that one test has."""
_QUICK_WAVES = 2
"""The test that caught it before, or a few more, and the likeliest ones."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=(*PARTS, "both"), default="both")
    parser.add_argument("--only", nargs="+", metavar="ID", default=[])
    parser.add_argument("--area", nargs="+", default=[])
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None, help="begin no other mutant after so long")
    parser.add_argument("--quick", action="store_true", help="of the tests only the likeliest ones")
    parser.add_argument("--figures", type=Path, default=FIGURES)
    parser.add_argument("--lists", type=Path, default=LISTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--cases", nargs="+", default=list(CASES), metavar="CASE", help="of the battery")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--baseline", action="store_true")
    parser.add_argument("--random", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", nargs="+", type=Path, default=[ROOT / "lakecore"], metavar="PATH")
    wanted = parser.parse_args()
    measured = conditions()
    chosen = _chosen(wanted)
    runners = [
        Runner(
            number,
            wanted.cache.resolve(),
            ROOT,
            tuple(wanted.cases),
            _QUICK_SECONDS if wanted.quick else _SECONDS,
        )
        for number in range(wanted.jobs)
    ]
    parts = PARTS if wanted.part == "both" else (wanted.part,)
    if wanted.baseline:
        sys.exit(_baseline(chosen, runners[0]))
    if not wanted.summary:
        warm_up(ROOT)
        until = None if wanted.minutes is None else time.monotonic() + wanted.minutes * 60
        for part in parts:
            _run_all(_mixed(chosen), part, runners, until, quick=wanted.quick)
    figures = _figures(chosen, runners[0])
    _show(figures, runners[0])
    some = wanted.only or wanted.area or wanted.changed or wanted.random
    if not some or wanted.figures != FIGURES:
        write_figures("mutants", measured, figures, wanted.figures)


def _chosen(wanted: argparse.Namespace) -> list[Mutant]:
    found = _all_of(wanted)
    if unknown := set(wanted.only) - {mutant.id for mutant in found}:
        sys.exit(f"no such mutant: {', '.join(sorted(unknown))}")
    if wanted.only:
        found = [mutant for mutant in found if mutant.id in wanted.only]
    if wanted.area:
        found = [mutant for mutant in found if mutant.area in wanted.area]
    if wanted.changed:
        command = ["git", "-C", str(ROOT), "diff", "--name-only", "HEAD~1"]
        changed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        found = [mutant for mutant in found if mutant.file in changed]
    return found


def _all_of(wanted: argparse.Namespace) -> list[Mutant]:
    if not wanted.random:
        return list(mutants(wanted.lists))
    if missing := [str(path) for path in wanted.of if not path.exists()]:
        sys.exit(f"no such file or folder: {', '.join(missing)}")
    return bugs([path.resolve() for path in wanted.of], wanted.seed, wanted.random)


def _mixed(chosen: Sequence[Mutant]) -> list[Mutant]:
    """In an order that has nothing to do with what they are about: a run that is stopped is a fair sample."""
    return sorted(chosen, key=lambda mutant: mutant.digest)


def _run_all(
    chosen: Sequence[Mutant], part: str, runners: Sequence[Runner], until: float | None, *, quick: bool
) -> None:
    if part == "battery":
        _ = runners[0].tables  # once, before several want them
    else:
        collect_tests(ROOT, _TESTS)
    if len(runners) == 1:
        _run_share(chosen, part, runners[0], until, quick)
        return
    context = get_context("fork")
    shares = [chosen[runner.number :: len(runners)] for runner in runners]
    workers = [
        context.Process(target=_run_share, args=(share, part, runner, until, quick))
        for share, runner in zip(shares, runners, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _run_share(share: Sequence[Mutant], part: str, runner: Runner, until: float | None, quick: bool) -> None:
    try:
        for mutant in share:
            _run_one(mutant, part, runner, until, quick)
    finally:
        runner.close()


def _run_one(mutant: Mutant, part: str, runner: Runner, until: float | None, quick: bool) -> None:
    if runner.kept(mutant, part) is not None or (until is not None and time.monotonic() > until):
        return
    result = (
        runner.battery(mutant)
        if part == "battery"
        else runner.tests(mutant, most=_QUICK_WAVES if quick else None)
    )
    if result["verdict"] == "caught" or not quick:
        runner.keep(mutant, part, result)
    why = result.get("why") or result.get("by") or mutant.says
    print(f"{part} {result['verdict']:9} {result['seconds']:6.1f} s  {mutant.id}  {why[:160]}", flush=True)


def _baseline(chosen: Sequence[Mutant], runner: Runner) -> int:
    """No bug: the battery is as it should be, and the tests that caught bugs pass."""
    warm_up(ROOT)
    found = runner.battery(None)
    print(f"battery: {found['verdict']} {found['why']}")
    kept = (runner.kept(mutant, "tests") for mutant in chosen)
    killers = sorted({one["by"] for one in kept if one is not None and "::" in one["by"]})
    red = set(runner.red)
    for start in range(0, len(killers), 100):
        tests = [test for test in killers[start : start + 100] if test not in red]
        while (result := runner.tests(None, [Wave(tuple(tests))]))["verdict"] != "survived" and result[
            "by"
        ] in tests:
            red.add(result["by"])
            tests.remove(result["by"])
    (runner.cache / "red.json").write_text(json.dumps(sorted(red), indent=1))
    print(f"{len(killers)} tests caught bugs; without a bug these fail: {sorted(red)}")
    return 1 if red or found["verdict"] != "same" else 0


def _figures(chosen: Sequence[Mutant], runner: Runner) -> dict[str, Any]:
    areas: dict[str, dict[str, Any]] = {}
    for mutant in chosen:
        area = areas.setdefault(mutant.area, {"mutants": 0, "tests": Counter(), "battery": Counter()})
        area["mutants"] += 1
        for part in PARTS:
            found = runner.kept(mutant, part)
            area[part]["not tried" if found is None else found["verdict"]] += 1
    known = {part: {m.id: found for m in chosen if (found := runner.kept(m, part))} for part in PARTS}
    by_id = {mutant.id: mutant for mutant in chosen}
    return {
        "mutants": len(chosen),
        "areas": {
            name: {**area, **{part: dict(area[part]) for part in PARTS}} for name, area in areas.items()
        },
        "tests": _shares(known["tests"], ("caught",), ("survived",)),
        "battery": _shares(known["battery"], ("refused", "conflict", "error"), ("wrong",)),
        "survived_tests": [
            {"id": name, "says": by_id[name].says, "tests_run": found["passed"]}
            for name, found in known["tests"].items()
            if found["verdict"] != "caught"
        ],
        "wrong_rows": [
            {
                "id": name,
                "says": by_id[name].says,
                "why": found["why"],
                "cases": found["cases"].get("wrong", []),
            }
            for name, found in known["battery"].items()
            if found["verdict"] == "wrong"
        ],
    }


def _shares(results: dict[str, Result], good: Sequence[str], bad: Sequence[str]) -> dict[str, Any]:
    count = Counter(found["verdict"] for found in results.values())
    fine, failed = sum(count[one] for one in good), sum(count[one] for one in bad)
    share = round(100 * fine / (fine + failed), 1) if fine + failed else None
    return {**dict(count), "percent": share}


def _show(figures: dict[str, Any], runner: Runner) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "area",
        "mutants",
        "tests: caught",
        "survived",
        "battery: no effect",
        "stopped",
        "wrong rows",
        title="mutants",
    )
    for name, area in figures["areas"].items():
        tests, runs = area["tests"], area["battery"]
        stopped = sum(runs.get(one, 0) for one in ("refused", "conflict", "error"))
        same = sum(runs.get(one, 0) for one in ("same", "changed"))
        cells = (
            area["mutants"],
            tests.get("caught", 0),
            tests.get("survived", 0),
            same,
            stopped,
            runs.get("wrong", 0),
        )
        table.add_row(name, *map(str, cells))
    console = Console(width=120)
    console.print(table)
    console.print(f"tests: {figures['tests']}\nbattery: {figures['battery']}")
    for one in figures["survived_tests"]:
        console.print(f"no test fails: {one['id']}: {one['says']}", highlight=False)
    for one in figures["wrong_rows"]:
        console.print(f"wrong rows: {one['id']}: {one['says']} ({one['why']})", highlight=False)
    console.print(f"kept in {runner.cache}")


if __name__ == "__main__":
    main()
