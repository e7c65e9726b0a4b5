"""Random cases until the time is over; each that is bad is printed."""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import tests.fuzz.changes_beneath as package
from lakecore.errors import LakeError
from lakecore.fs.file_io import FileIO
from tests.fuzz.changes_beneath.changes import CHANGES
from tests.fuzz.changes_beneath.chores import CHORES
from tests.fuzz.changes_beneath.judge import Case, Verdict, judged
from tests.fuzz.changes_beneath.place import Place
from tests.fuzz.changes_beneath.shapes import SHAPES
from tests.fuzz.changes_beneath.step import Step
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.oracle import Oracle

_KILLS = (FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT, FaultMode.TORN)
_AT_A_BORDER = 0.7
"""This share of the cases is at the first operation of its sort, such as the first read after a list."""


@dataclass
class _Operations:
    """These are the operations of one chore on one kind of table."""

    count: int
    borders: list[int]


class _Campaign:
    def __init__(self, place: Place, args: argparse.Namespace) -> None:
        self.place, self.args = place, args
        self.dice = random.Random(args.seed)
        self.tally: Counter[str] = Counter()
        self.bad = 0
        self._operations: dict[tuple[str, str], _Operations | None] = {}

    def run(self) -> None:
        cells = self._cells()
        end = time.monotonic() + self.args.minutes * 60
        number = 0
        while cells and time.monotonic() < end:
            if number % len(cells) == 0:
                self.dice.shuffle(cells)
            shape, chore, change = cells[number % len(cells)]
            number += 1
            operations = self._operations_of(shape, chore)
            if operations is not None:
                self._judge(self._drawn(shape, chore, change, operations))
        print(f"{self.tally.total()} cases of {len(cells)} cells, {self.bad} bad")

    def _cells(self) -> list[tuple[str, Step, Step]]:
        shapes = _chosen(self.args.shapes, SHAPES)
        chores = _chosen(self.args.chores, (one.name for one in CHORES))
        changes = _chosen(self.args.changes, (one.name for one in CHANGES))
        return [
            (shape, chore, change)
            for shape in shapes
            for chore in CHORES
            for change in CHANGES
            if chore.name in chores and change.name in changes and chore.fits(shape) and change.fits(shape)
            if change.beneath_writers or not chore.writes
        ]

    def _drawn(self, shape: str, chore: Step, change: Step, operations: _Operations) -> Case:
        dice = self.dice
        at_border = dice.random() < _AT_A_BORDER
        operation = dice.choice(operations.borders) if at_border else dice.randint(1, operations.count)
        kill = dice.choice(_KILLS) if chore.killed and dice.random() < self.args.kills else None
        return Case(shape, chore, change, operation, dice.choice(("old", "new")), kill)

    def _operations_of(self, shape: str, chore: Step) -> _Operations | None:
        """Do the chore alone once. None, and a line, if lakecore refuses it for these tables."""
        if (shape, chore.name) not in self._operations:
            self._operations[shape, chore.name] = self._counted(shape, chore)
        return self._operations[shape, chore.name]

    def _counted(self, shape: str, chore: Step) -> _Operations | None:
        storage: list[FaultyFileIO] = []

        def counting(inner: FileIO) -> FaultyFileIO:
            storage.append(FaultyFileIO(inner))
            return storage[0]

        try:
            moment = self.place.reset(shape)
            chore.prepare(self.place, self.place.catalog(), moment)
            chore.act(self.place, self.place.catalog(counting), moment)
        except LakeError as err:
            print(f"{shape} | {chore.name}: {type(err).__name__}: {str(err)[:200]}", flush=True)
            return None
        return _Operations(storage[0].count, _borders(storage[0].log))

    def _judge(self, case: Case) -> None:
        try:
            verdict = judged(self.place, case)
        except Exception as err:  # noqa: BLE001 - the next case is judged, too
            traceback.print_exception(err, limit=-6)
            verdict = Verdict([f"the case itself failed: {type(err).__name__}: {str(err)[:300]}"])
        if verdict is None:
            return
        self.tally[case.chore.name] += 1
        if verdict.problems:
            self.bad += 1
            _print_bad(case, verdict)
        if self.args.result:
            self._record(case, verdict)

    def _record(self, case: Case, verdict: Verdict) -> None:
        line = {
            "shape": case.shape,
            "chore": case.chore.name,
            "change": case.change.name,
            "java": case.java,
            "operation": case.operation,
            "kill": case.kill.value if case.kill else None,
            "error": _text(verdict.error),
            "change_error": _text(verdict.change_error),
            "problems": verdict.problems,
        }
        with Path(self.args.result).open("a") as file:
            file.write(json.dumps(line) + "\n")


def _chosen(text: str, names: Iterable[str]) -> list[str]:
    known = list(names)
    chosen = [name for name in text.split(",") if name]
    if unknown := set(chosen) - set(known):
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return chosen or known


def _borders(log: list[str]) -> list[int]:
    """The operations whose kind differs from that of the one before: the same call on a like path."""
    kinds = [re.sub(r"[0-9a-f-]{20,}|\d+", "#", line) for line in log]
    return [at for at, kind in enumerate(kinds, 1) if at == 1 or kind != kinds[at - 2]]


def _text(error: BaseException | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {str(error)[:300]}"


def _print_bad(case: Case, verdict: Verdict) -> None:
    print(f"BAD {case} {verdict.at}")
    for name in ("first", "error", "change_error"):
        print(f"    {name}: {_text(getattr(verdict, name))}")
    for problem in verdict.problems:
        print(f"    {problem[:600]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=package.__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--shapes", default="", help="names with commas; all by default")
    parser.add_argument("--chores", default="")
    parser.add_argument("--changes", default="")
    parser.add_argument("--kills", type=float, default=0.3, help="the share of cases whose chore is killed")
    parser.add_argument("--result", default="", help="add a line of JSON for each case to this file")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    ahead = patch("lakecore.jobs.runner.chore._CLOCK_AHEAD_MS", 1 << 62)
    root = tempfile.TemporaryDirectory(prefix="beneath-")
    with ahead, root as folder, Oracle("1.4.2") as old, Oracle("2.0.0") as new:
        _Campaign(Place(Path(folder), {"old": old, "new": new}), args).run()


if __name__ == "__main__":
    main()
