"""This module makes a repair plan from a table and what fsck found, and applies its steps."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.maintain.repair.contents import DAMAGED_FILES, FILES, MANIFESTS, ORPHANS, VECTORS
from lakecore.maintain.repair.context import Action, ActionResult, RepairContext
from lakecore.maintain.repair.hash_index import HASHES
from lakecore.maintain.repair.levels import LEVELS
from lakecore.maintain.repair.metadata import (
    BROKEN_ROOTS,
    EARLIEST,
    HINTS,
    LOST_BRANCH,
    LOST_CHANGELOG,
    ROLLBACK,
    TOTALS,
)
from lakecore.maintain.repair.plan import ActionPreview, Advice, RepairPlan, Step, remaining
from lakecore.maintain.repair.statistics import STATISTICS
from lakecore.maintain.repair.times import TIMES
from lakecore.store.paths import MAIN_BRANCH
from lakecore.verify.fsck.findings import Finding, FindingKind

__all__ = ["ACTIONS", "ORPHAN_STEP", "apply_step", "make_plan", "pending_changes"]

logger = logging.getLogger(__name__)

ORPHAN_STEP = "remove-orphan-files"
"""This action is the only one that removes files beyond what is broken."""

ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        "set-aside-branch": LOST_BRANCH,
        "roll-back": ROLLBACK,
        "set-aside-damaged": DAMAGED_FILES,
        "remove-unexisting-manifests": MANIFESTS,
        "supersede-latest": LOST_CHANGELOG,
        "set-aside-unreadable": BROKEN_ROOTS,
        "remove-unexisting-files": FILES,
        "remove-stale-vectors": VECTORS,
        "rebuild-hash-index": HASHES,
        "lower-overlapping-files": LEVELS,
        "rewrite-times": TIMES,
        "correct-statistics": STATISTICS,
        "correct-totals": TOTALS,
        "repair-hints": HINTS,
        "repair-earliest-snapshot": EARLIEST,
        ORPHAN_STEP: ORPHANS,
    }
)
"""These are the actions in the order in which they are applied: those on which the next ones rely come
first.
"""

_ADVICE = {
    FindingKind.SCHEMA: "restore the schema file from a copy; without it no file written with it can be read",
    FindingKind.DATA_FILE: "restore it from a copy; if only old snapshots need it, let these expire; if it "
    "is damaged, remove it and run remove-unexisting-files, or roll back",
    FindingKind.BYTES: "restore it from a copy; if only old snapshots need it, let these expire",
    FindingKind.INDEX_FILE: "if only old snapshots need it, let these expire; lost deletion vectors cannot "
    "be rebuilt: restore the file from a copy, or roll back",
    FindingKind.LEVELS: "if only old snapshots have it, let these expire; with this merge engine, "
    "deletion vectors or changelog it is not known how the rows of both files add "
    "up: write the rows of the bucket again from their source, or roll back",
    FindingKind.BUCKETS: "a writer continued with another bucket count after the partition was rescaled or "
    "option bucket was changed: stop the writers, roll back to the snapshot before they wrote, set option "
    "bucket, and write their rows again; or overwrite the partition from its source. Rows that wait for a "
    "bucket get one, as the newest of their keys, when option bucket is -2 again and the table is compacted",
    FindingKind.KEY_ORDER: "merges follow the order of keys, and it is not known which rows they missed: "
    "write the rows of its bucket again from their source, or roll back",
    FindingKind.ROWS: "the file can be decoded, so either the file or its metadata belongs to another "
    "file, and it is not known which: restore it from a copy, or write the rows of "
    "its bucket again from their source",
    FindingKind.COLUMN_STATISTICS: "if only old snapshots have these statistics, let them expire; otherwise "
    "reads without a filter are right: read its rows in that way, and write them "
    "again",
    FindingKind.TIMES: "lakecore can read them: compact its bucket fully with lakecore; if only old "
    "snapshots or changelogs need it, let these expire",
    FindingKind.REFERENCES: "a compaction by lakecore before November 2026 wrote the bytes in place of the "
    "references, which lakecore can read and Java cannot: if an older snapshot or "
    "tag has the references, write again what it returns with "
    "blob-as-descriptor=true (update-columns by _ROW_ID, or an upsert); otherwise "
    "store the bytes elsewhere and write references to them",
    FindingKind.TOTALS: "only the next commit relies on it: let the snapshot expire",
    FindingKind.SNAPSHOT: "expire the snapshots before it, or continue to read after it",
}
_OTHERWISE = "roll back to a snapshot or tag without it, or write the affected rows again"


def make_plan(
    context: RepairContext, findings: Sequence[Finding], branches: Sequence[str], older_than_ms: int
) -> RepairPlan:
    """Return the plan of a repair; it only reads. `branches` are all branches, main first; orphans younger
    than `older_than_ms` do not count.

    What an action cannot examine because of other damage is in `later`. Raises UnavailableError.
    """
    step_parameters = _parameters(findings, older_than_ms)
    steps: list[Step] = []
    later: list[str] = []
    settled: set[str] = set()
    ended: set[str] = set()
    """Branches of which nothing more can be said before the steps so far are done."""
    for name, action in ACTIONS.items():
        for branch in (MAIN_BRANCH,) if action.whole_table else branches:
            if branch in ended or (action.needs_final_files and branch in _renewed_branches(steps)):
                continue
            parameters = step_parameters.get(name, {})
            try:
                work = action.look(context, branch, parameters)
            except (CorruptDataError, NotFoundError, UnsupportedError) as err:
                later.append(f"{name} of branch {branch}: {err}")
                continue
            if work is not None:
                steps.append(_step(len(steps) + 1, name, branch, work, parameters, steps))
                settled |= work.paths
                ended |= {branch} if action.last_of_branch else set()
    later += [f"further damage of branch {branch}" for branch in sorted(ended | _renewed_branches(steps))]
    rest = tuple(
        Advice(finding.path, finding.problem, _ADVICE.get(finding.kind, _OTHERWISE))
        for finding in findings
        if finding.path not in settled and finding.kind is not FindingKind.ORPHAN
    )
    table, now = context.main.name, context.main.clock.now_ms()
    return RepairPlan(table=table, made_ms=now, steps=tuple(steps), advice=rest, later=tuple(later))


def _renewed_branches(steps: Sequence[Step]) -> set[str]:
    """Return the branches that have other files after some steps."""
    return {step.branch for step in steps if ACTIONS[step.action].changes_files}


def _parameters(findings: Sequence[Finding], older_than_ms: int) -> Mapping[str, dict[str, Any]]:
    """Return the parameters, by names of actions, that actions cannot find themselves, or only by reading
    everything.
    """
    unreadable = sorted({f.path for f in findings if f.kind is FindingKind.BYTES})
    described = sorted({f.path for f in findings if f.kind is FindingKind.COLUMN_STATISTICS})
    unread = sorted({f.path for f in findings if f.kind is FindingKind.TIMES})
    indexes = sorted({f.path for f in findings if f.kind is FindingKind.INDEX_FILE})
    return {
        "set-aside-damaged": {"unreadable": unreadable} if unreadable else {},
        "rewrite-times": {"unread": unread} if unread else {},
        "correct-statistics": {"described": described} if described else {},
        "rebuild-hash-index": {"damaged": indexes} if indexes else {},
        ORPHAN_STEP: {"older_than_ms": older_than_ms},
    }


def pending_changes(context: RepairContext, step: Step) -> frozenset[str]:
    """Return the changes of a step that are still to be made. Raises InvalidInputError when the plan is
    stale.
    """
    action = _action(step)
    now = action.look(context, step.branch, step.parameters)
    return remaining(step, now, action.growth)


def apply_step(context: RepairContext, step: Step) -> ActionResult | None:
    """Check it against the table as it is now and carry it out; None when there is nothing left of it."""
    pending = pending_changes(context, step)
    if not pending:
        return None
    result = _action(step).do(context, step.branch, step.parameters, pending)
    if result == ActionResult():
        return None
    logger.info("%s: step %d (%s) was applied: %s", context.main.name, step.number, step.action, result)
    return result


def _action(step: Step) -> Action:
    if step.action not in ACTIONS:
        raise UnsupportedError(
            f"step {step.number}: action {step.action!r} is unknown to this release; use the "
            "release that created the plan"
        )
    return ACTIONS[step.action]


def _step(
    number: int,
    name: str,
    branch: str,
    work: ActionPreview,
    parameters: dict[str, Any],
    before: Sequence[Step],
) -> Step:
    needs = tuple(one.number for one in before if one.branch == branch or ACTIONS[name].whole_table)
    return Step(
        number=number,
        action=name,
        branch=branch,
        why=work.why,
        changes=work.changes,
        rows_lost=work.rows,
        loses=work.loses,
        undo=work.undo,
        needs=needs,
        parameters=parameters,
    )
