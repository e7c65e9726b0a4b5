"""This module runs a job from its file: it claims the job, gives signs of life, and writes the result."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import BusyError, LakeError
from lakecore.executor import Executor
from lakecore.jobs.remote.plan import LatestSign, Next, next_of_runner
from lakecore.jobs.remote.record import (
    STALE_S,
    JobFile,
    RunRecord,
    RunResult,
    RunState,
    StepResult,
    StepState,
    check_submission,
)
from lakecore.jobs.remote.steps import run_step
from lakecore.jobs.remote.store import JobStore
from lakecore.jobs.runner.origin import count_usage, set_origin
from lakecore.maintain.lease.process import this_process

__all__ = ["BeatTimes", "JobRunner"]

logger = logging.getLogger(__name__)

_LOOK_S = 1.0
_TIDIED_BY = 20
"""One run of so many removes old jobs: it lists the files of every job."""


@dataclass(frozen=True, slots=True)
class BeatTimes:
    """It says how often a runner gives a sign of life, and after what silence it counts as lost."""

    beat_s: float = 5.0
    stale_s: float = STALE_S


@dataclass(frozen=True, slots=True)
class JobRunner:
    """It runs jobs of a warehouse in this process, with its units on an executor."""

    store: JobStore
    lake: Any
    executor: Executor
    times: BeatTimes = BeatTimes()
    stop: threading.Event = field(default_factory=threading.Event)
    """A run ends like a cancelled one when it is set."""

    def run(self, job_id: str, submission: str = "") -> RunResult:
        """Run a job unless it is done, and return how it ended.

        The runner waits for the silence of an earlier one that gave no result, if it cannot see that its
        process has ended. A sign of life costs three requests. Raises BusyError when the earlier one is
        alive, or when another runner took this one's place; NotFoundError without such a job;
        UnavailableError when the claim or the result cannot be written.
        """
        store = self.store
        check_submission(submission)
        job = store.load(job_id)
        watched = LatestSign(-1, b"", 0.0)
        while True:
            view = store.view(job_id)
            look = next_of_runner(view, watched, store.clock.monotonic())
            watched = look.watched
            match look.next:
                case Next.TAKE_RESULT:
                    return store.result(job_id, view.number)
                case Next.STOP:
                    raise BusyError(f"job {job_id}: another runner is at work; it is run {view.number}")
                case Next.DECLARE_LOST:
                    store.declare_lost(job_id, view.number)
                case Next.CLAIM:
                    record = RunRecord(
                        runner=store.clock.fresh_id(),
                        submission=submission,
                        stale_s=self.times.stale_s,
                        process=this_process(),
                    )
                    if store.claim(job_id, view.number + 1, record):
                        run = _Run(store, job, view.number + 1, record, self.executor, self.times)
                        return run.to_its_end(self.lake, self.stop)
                case _:
                    store.clock.sleep(_LOOK_S)


@dataclass
class _Run:
    """This is a run that this process has claimed."""

    store: JobStore
    job: JobFile
    number: int
    record: RunRecord
    executor: Executor
    times: BeatTimes
    cancelled: str = ""
    """It says why the run is to stop."""
    superseded: bool = False
    progress: Mapping[str, Any] = field(default_factory=dict)
    _beats: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def to_its_end(self, lake: Any, stop: threading.Event) -> RunResult:
        """Run the steps and write the result. Raises BusyError if the run was declared lost meanwhile."""
        set_origin(dict(self.job.origin))
        if self.job.usage_key is not None:
            count_usage(self.job.usage_key)
        clock = self.store.clock
        began = clock.monotonic()
        self._look(stop)
        beats = threading.Thread(target=self._beat, args=(stop,), name="lakecore-job-beat", daemon=True)
        beats.start()
        try:
            steps = tuple(self._steps(lake))
        finally:
            self._ended.set()
            beats.join()
        result = RunResult(
            state=self._state(steps),
            runner=self.record.runner,
            steps=steps,
            seconds=round(clock.monotonic() - began, 3),
            reason=self.cancelled,
        )
        if self.superseded or not self.store.end(self.job.id, self.number, result):
            raise BusyError(
                f"job {self.job.id}: run {self.number} was declared lost, so its result does not count; what "
                "it committed stays, and the next run finds that"
            )
        self._tidy()
        return result

    def _steps(self, lake: Any) -> list[StepResult]:
        results = []
        for step in self.job.steps:
            if self._why_not():
                results.append(StepResult(command=step.command, state=StepState.LEFT))
                continue
            results.append(run_step(step, lake, self.executor, self.store.clock, self._tell))
        return results

    def _why_not(self) -> str:
        """Return why no further step begins; the text is empty while one may."""
        if self.superseded:
            return "another runner took over"
        if self.cancelled:
            return self.cancelled
        until_ms = self.job.until_ms
        return "the window is over" if until_ms is not None and self.store.clock.now_ms() >= until_ms else ""

    def _state(self, steps: tuple[StepResult, ...]) -> RunState:
        if self.cancelled:
            return RunState.CANCELLED
        failed = any(one.state is StepState.FAILED for one in steps)
        return RunState.FAILED if failed else RunState.DONE

    def _tell(self, progress: Mapping[str, Any]) -> None:
        self.progress = dict(progress)

    def _beat(self, stop: threading.Event) -> None:
        while not self._ended.wait(self.times.beat_s):
            self._look(stop)

    def _look(self, stop: threading.Event) -> None:
        """Stop the units if somebody wants that, and give a sign of life. A failure of storage is a missed
        beat: the next one may succeed.
        """
        try:
            self.superseded = self.superseded or self.store.has_ended(self.job.id, self.number)
            if stop.is_set():
                self._cancel("its process was asked to end")
            elif self.store.is_cancelled(self.job.id, self.record.submission):
                self._cancel("it was cancelled")
            if self.superseded:
                self.executor.cancel()
                return
            self._beats += 1
            self.store.beat(self.job.id, self.number, self._next_record())
        except LakeError as err:
            logger.warning("job %s: no sign of life could be given: %s", self.job.id, err)

    def _next_record(self) -> RunRecord:
        first = self.record
        return RunRecord(
            runner=first.runner,
            submission=first.submission,
            beat=self._beats,
            stale_s=first.stale_s,
            process=first.process,
            progress=self.progress,
        )

    def _cancel(self, reason: str) -> None:
        if not self.cancelled:
            logger.warning("job %s stops: %s", self.job.id, reason)
        self.cancelled = self.cancelled or reason
        self.executor.cancel()

    def _tidy(self) -> None:
        """Remove old jobs if the id of this run is one of those that do. What fails, a later run does."""
        if zlib.crc32(self.record.runner.encode()) % _TIDIED_BY:
            return
        try:
            self.store.tidy(self.job.id)
        except LakeError as err:
            logger.warning("files of old jobs were not removed: %s", err)
