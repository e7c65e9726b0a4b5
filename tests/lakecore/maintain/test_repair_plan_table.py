"""How a repair plan is put together, as a text table: what each action finds is given, and so is what fsck found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lakecore.errors import CorruptDataError
from lakecore.maintain.repair import apply
from lakecore.maintain.repair.context import Action, RepairContext
from lakecore.maintain.repair.plan import ActionPreview
from lakecore.maintain.target import Target
from lakecore.verify.fsck.findings import Finding, FindingKind
from tests.support import datadriven
from tests.support.datadriven import Case
from tests.support.fake_clock import FakeClock

TESTDATA = Path(__file__).parent / "testdata"


class NamedTable:
    """A table of which a plan needs the name and the clock."""

    name = "d.t"
    clock = FakeClock()


class GivenAction:
    """An action that finds what the case says, and keeps the parameters that it was given."""

    def __init__(self, action: Action, lines: Mapping[str, str]) -> None:
        self.action = replace(action, look=self._look)
        self.lines = lines

    def _look(
        self, context: RepairContext, branch: str, parameters: Mapping[str, Any]
    ) -> ActionPreview | None:
        line = self.lines.get(branch)
        if line is None:
            return None
        if line == "unreadable":
            raise CorruptDataError("manifest-1", "ends too early")
        values = dict(word.split("=") for word in line.split())
        return ActionPreview(
            why=f"given {dict(parameters)}" if parameters else "",
            changes=("one",),
            rows=int(values.get("rows", "0")),
            paths=frozenset(values.get("settles", "").split(",")) - {""},
        )


def plan_answer(case: Case, patch: pytest.MonkeyPatch) -> str:
    """Lines: `fsck KIND PATH`, or an action, a branch (`*`: whole table), and what it finds there."""
    findings, found = [], dict[str, dict[str, str]]()
    for line in case.input:
        name, where, *rest = line.split(maxsplit=2)
        if name == "fsck":
            findings.append(Finding(FindingKind(where), rest[0], "p"))
        else:
            found.setdefault(name, {})["main" if where == "*" else where] = rest[0] if rest else ""
    actions = {
        name: GivenAction(action, found.get(name, {})).action for name, action in apply.ACTIONS.items()
    }
    patch.setattr(apply, "ACTIONS", actions)
    context = RepairContext(cast("Target", NamedTable()), cast("Any", None), "u")
    branches = case.args.get("branches", "main").split(",")
    plan = apply.make_plan(context, findings, branches, older_than_ms=5)
    lines = [
        f"{step.number}. {step.action} of {step.branch}"
        + (f", {step.rows_lost} rows are lost" if step.loses_rows else "")
        + (f", after {' '.join(map(str, step.needs))}" if step.needs else "")
        + (f", {step.why}" if step.why else "")
        for step in plan.steps
    ]
    lines += [f"later: {text}" for text in plan.later]
    lines += [f"advice for {one.path}: {one.advice}" for one in plan.advice]
    return "\n".join(lines) or "nothing"


def test_rules_of_repair_plans(rewrite: bool) -> None:
    def answer(case: Case) -> str:
        with pytest.MonkeyPatch.context() as patch:
            return plan_answer(case, patch)

    datadriven.check(TESTDATA / "repair_plan.txt", answer, rewrite)
