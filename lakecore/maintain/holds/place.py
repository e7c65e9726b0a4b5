"""This module puts a table on hold because of an error, before the error reaches the caller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lakecore.errors import LakeError
from lakecore.maintain.holds.gate import how_it_ends
from lakecore.maintain.holds.plan import ends_with, is_damage
from lakecore.maintain.holds.record import Hold
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.holds.user import this_user

__all__ = ["hold_on_damage", "place_hold_for"]

logger = logging.getLogger(__name__)

_NOTE = "the table is on hold now"
_REPLACED = "the name has another table now, which is not on hold; run the job again"


@contextmanager
def hold_on_damage(
    store: HoldStore,
    table: str,
    job: str,
    by: str,
    *,
    enabled: bool = True,
    is_replaced: Callable[[], bool] | None = None,
) -> Iterator[None]:
    """Put the table on hold if a CorruptDataError or ProofError is raised within the block; the error is
    raised all the same. `is_replaced` as for `place_hold_for`.
    """
    try:
        yield
    except LakeError as err:
        if enabled:
            place_hold_for(err, store, table, job, by, is_replaced)
        raise


def place_hold_for(
    error: LakeError,
    store: HoldStore,
    table: str,
    job: str,
    by: str,
    is_replaced: Callable[[], bool] | None = None,
) -> None:
    """Place the hold that the error asks for, if any. Never raises: what happened is a note of the error.

    `job`: the chore that failed; `by`: its run; empty: the user of this process. `is_replaced` says whether
    the name has another table by now, whose files are not those that are missing: it is not put on hold.
    """
    has_note = any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ()))
    if has_note or not is_damage(error, f"{store.warehouse.rstrip('/')}/.lakecore/"):
        return
    with suppress(LakeError):
        if is_replaced is not None and is_replaced():
            error.add_note(_REPLACED)
            return
    try:
        stored_hold, _ = store.place(_hold(error, table, store.clock.now_ms(), job, by or this_user()))
    except Exception as failure:  # the original error is what the caller has to hear of
        logger.exception("%s could not be put on hold", table)
        error.add_note(
            f"the table could NOT be put on hold ({failure}): run no job that removes files, "
            f"and put the table on hold with `lakecore hold {table} --reason TEXT`"
        )
        return
    logger.error("%s is on hold: %s", table, stored_hold.reason)
    error.add_note(f"{_NOTE}: no job removes files from it. {how_it_ends(table, (stored_hold,))}")


def _hold(error: LakeError, table: str, now_ms: int, job: str, by: str) -> Hold:
    return Hold(
        id="",
        table=table,
        ends_with=ends_with(error),
        reason=f"{type(error).__name__}: {': '.join(str(part) for part in error.args)}",
        since_ms=now_ms,
        error_class=type(error).__name__,
        path=str(error.args[0]),
        job=job,
        by=by,
    )
