"""This module decides what a submitter, a runner and a watcher do with a job, from what they see of it. It is
pure: the time is an argument.
"""

from __future__ import annotations

from enum import Enum

from lakecore.data_class import dataclass
from lakecore.jobs.remote.record import STALE_S, RunRecord, RunState

__all__ = ["LatestSign", "Look", "Next", "RunView", "next_of_runner", "next_of_submitter", "next_of_watcher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """This is what is known of the newest run of a job."""

    number: int = 0
    """It is 0 where nobody has claimed the job."""
    state: RunState | None = None
    """It is None while the run has no result."""
    sign: bytes = b""
    """These are the bytes of its claim file, which change with every sign of life."""
    record: RunRecord | None = None
    """This is what the sign says; None where it cannot be read."""
    process_ended: bool = False
    """It is known that the process of its runner has ended: it ran on this machine."""

    @property
    def stale_s(self) -> float:
        """Return the silence in seconds after which the run is lost."""
        return STALE_S if self.record is None else self.record.stale_s


class Next(Enum):
    """This enum says what to do next."""

    CLAIM = "claim"
    """Create the claim of the next run, and work."""
    DECLARE_LOST = "declare lost"
    """Write down that the newest run is lost, then look again."""
    WATCH = "watch"
    """Look again later."""
    STOP = "stop"
    """Another runner is at work."""
    SUBMIT = "submit"
    TAKE_RESULT = "take result"
    """Take the result of the newest run."""
    GIVE_UP = "give up"
    """No runner has begun in time."""


@dataclass(frozen=True, slots=True)
class LatestSign:
    """This is the sign of life that a watcher saw last, and when it saw it first by its monotonic clock."""

    number: int
    sign: bytes
    since: float


@dataclass(frozen=True, slots=True)
class Look:
    """This is what a look at a run decides, and what the next look needs."""

    next: Next
    watched: LatestSign


def next_of_submitter(view: RunView) -> Next:
    """Return whether a job is submitted: not if it is done, and not while a run of it may be alive."""
    if view.state is RunState.DONE:
        return Next.TAKE_RESULT
    if view.number and view.state is None:
        return Next.DECLARE_LOST if view.process_ended else Next.WATCH
    return Next.SUBMIT


def next_of_runner(view: RunView, watched: LatestSign, now: float) -> Look:
    """Return whether a runner that was started works. Without a result, it works only when the newest run is
    lost; it stops as soon as that run shows a sign of life.
    """
    first = watched.number != view.number
    latest = _latest_sign(view, watched, now)
    if not view.number or view.state in (RunState.FAILED, RunState.CANCELLED, RunState.LOST):
        return Look(Next.CLAIM, latest)
    if view.state is RunState.DONE:
        return Look(Next.TAKE_RESULT, latest)
    if _is_lost(view, latest, now):
        return Look(Next.DECLARE_LOST, latest)
    return Look(Next.WATCH if first or latest == watched else Next.STOP, latest)


def next_of_watcher(view: RunView, watched: LatestSign, now: float, after: int, start_s: float) -> Look:
    """Return what a watcher does that waits for a run with a number greater than `after`. `start_s` is how
    long it waits for such a run to begin.
    """
    if view.number <= after:
        latest = watched if watched.number == 0 else LatestSign(0, b"", now)
        return Look(Next.GIVE_UP if now - latest.since >= start_s else Next.WATCH, latest)
    latest = _latest_sign(view, watched, now)
    if view.state is not None:
        return Look(Next.TAKE_RESULT, latest)
    return Look(Next.DECLARE_LOST if _is_lost(view, latest, now) else Next.WATCH, latest)


def _latest_sign(view: RunView, watched: LatestSign, now: float) -> LatestSign:
    same = (watched.number, watched.sign) == (view.number, view.sign)
    return watched if same else LatestSign(view.number, view.sign, now)


def _is_lost(view: RunView, sign: LatestSign, now: float) -> bool:
    return view.process_ended or now - sign.since >= view.stale_s
