"""What a submitter, a runner and a watcher decide, as a text table: a line of input is a sign of life, seen ten seconds after the one before."""

from __future__ import annotations

from pathlib import Path

from lakecore.jobs.remote.plan import (
    LatestSign,
    Look,
    RunView,
    next_of_runner,
    next_of_submitter,
    next_of_watcher,
)
from lakecore.jobs.remote.record import RunState
from tests.support import datadriven
from tests.support.datadriven import Case

TESTDATA = Path(__file__).parent / "testdata"
STEP_S = 10.0


def answer(case: Case) -> str:
    state = RunState(case.args["state"]) if "state" in case.args else None
    number = int(case.args.get("number", 0))
    ended = case.args.get("ended") == "yes"
    if case.command == "submitter":
        return next_of_submitter(RunView(number=number, state=state, process_ended=ended)).value
    watched = LatestSign(-1 if case.command == "runner" else 0, b"", 0.0)
    lines = []
    for look_number, sign in enumerate(case.input or ("-",)):
        view = RunView(number=number, state=state, sign=sign.encode(), process_ended=ended)
        now = look_number * STEP_S
        look: Look
        if case.command == "runner":
            look = next_of_runner(view, watched, now)
        else:
            start_s = float(case.args.get("start", 1000))
            look = next_of_watcher(view, watched, now, int(case.args["after"]), start_s)
        watched = look.watched
        lines.append(f"{now}: {look.next.value}")
    return "\n".join(lines)


def test_plan(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "plan.txt", answer, rewrite)
