"""This module looks at a job from elsewhere, for who submitted it and waits for its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.jobs.remote.plan import LatestSign, Next, next_of_watcher
from lakecore.jobs.remote.store import JobStore

__all__ = ["JobWatch", "WatchedRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """This is what a look at a job has found."""

    status: str
    """It is `ended`, with the number of the run that has a result; `lost`, where this look has declared it
    lost; `not-started`; or `running`.
    """
    run: int = 0
    progress: Mapping[str, Any] = field(default_factory=dict)


class JobWatch:
    """It waits for a run whose number is greater than `after`."""

    def __init__(self, store: JobStore, job_id: str, after: int, start_s: float) -> None:
        """Create the watch. `start_s` is how long it waits for such a run to begin."""
        self._store = store
        self._job_id = job_id
        self._after = after
        self._start_s = start_s
        self._watched: LatestSign | None = None

    def look(self) -> WatchedRun:
        """Look once: it costs a listing and a small read. Raises UnavailableError."""
        view, now = self._store.view(self._job_id), self._store.clock.monotonic()
        watched = LatestSign(0, b"", now) if self._watched is None else self._watched
        look = next_of_watcher(view, watched, now, self._after, self._start_s)
        self._watched = look.watched
        match look.next:
            case Next.TAKE_RESULT:
                return WatchedRun(status="ended", run=view.number)
            case Next.GIVE_UP:
                return WatchedRun(status="not-started")
            case Next.DECLARE_LOST:
                self._store.declare_lost(self._job_id, view.number)
                return WatchedRun(status="lost", run=view.number)
        if view.number <= self._after:
            return WatchedRun(status="running")
        progress = {} if view.record is None else view.record.progress
        return WatchedRun(status="running", run=view.number, progress=progress)
