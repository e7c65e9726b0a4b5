"""The effect of a check on the holds of its table: damage places one, a clean check ends those that
it can.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakecore.errors import LakeError
from lakecore.jobs.definitions.repair import Fsck
from lakecore.jobs.holds import recorded
from lakecore.maintain.deletion.runs import RunState, RunStore
from lakecore.maintain.holds.gate import how_it_ends
from lakecore.maintain.holds.plan import ended_by_check
from lakecore.maintain.holds.record import EndsWith, Hold
from lakecore.maintain.holds.store import HoldStore
from lakecore.verify.fsck.findings import Finding

__all__ = ["after_check"]

logger = logging.getLogger(__name__)

_JOB = "fsck"


def after_check(
    store: HoldStore, job: Fsck, damage: Sequence[Finding], before: Sequence[Hold], by: str
) -> tuple[str, ...]:
    """Place or end holds after a check, and return what happened, as text for users. `before` are
    the holds that existed when the check began.

    The function never raises: when the store cannot be written to, the check does not fail, but the result
    says so.
    """
    table = job.table
    try:
        if damage:
            return _place(store, table, damage, deep=job.deep, by=by)
        ended = ended_by_check(before, deep=job.deep, read_data=job.read_data)
        return _end(store, table, before, ended, by)
    except Exception as err:  # what the check found is what the caller has to hear of
        logger.exception("the holds of %s could not be changed", table)
        if damage:
            hint = f"run no chore that removes files, and use `lakecore hold {table} --reason TEXT`"
            return (f"the table could NOT be put on hold ({err}): {hint}",)
        return (f"the table stays on hold, because its release could not be written ({err}): run fsck again",)


def _place(
    store: HoldStore, table: str, damage: Sequence[Finding], *, deep: bool, by: str
) -> tuple[str, ...]:
    rest = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
    hold = Hold(
        id="",
        table=table,
        ends_with=EndsWith.DEEP_FSCK if deep else EndsWith.FSCK,
        reason=f"fsck found damage: {damage[0]}{rest}",
        since_ms=store.clock.now_ms(),
        error_class=_JOB,
        job=_JOB,
        by=by,
    )
    placed, new = store.place(hold)
    if new:
        _remember(store, table, "hold", {"user": by, "reason": placed.reason})
    state = "is on hold now" if new else "stays on hold"
    return (f"the table {state}: nothing is removed from it. {how_it_ends(table, (placed,))}",)


def _end(
    store: HoldStore, table: str, before: Sequence[Hold], ended: Sequence[Hold], by: str
) -> tuple[str, ...]:
    if ended:
        store.end(ended)
        _remember(store, table, "release", {"user": by, "holds": [hold.to_json() for hold in ended]})
    ended_ids = {hold.id for hold in ended}
    rest = tuple(hold for hold in before if hold.id not in ended_ids)
    notes = tuple(f"the hold has ended: {hold}" for hold in ended)
    return (*notes, *(f"the table is still on hold: {hold}. {how_it_ends(table, (hold,))}" for hold in rest))


def _remember(store: HoldStore, table: str, job: str, parameters: dict[str, object]) -> None:
    """Add a line to the ledger; the hold is valid without it."""
    try:
        record = recorded(store, table, job, parameters)
        RunStore(store.file_io, store.warehouse, store.clock).finish(record, RunState.DONE)
    except LakeError as err:
        logger.warning("the %s could not be recorded in the ledger of %s: %s", job, table, err)
