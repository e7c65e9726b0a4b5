"""This module stores jobs in `<warehouse>/.lakecore/jobs/<id>/`; the package says what the files mean."""

from __future__ import annotations

import re
from typing import ClassVar

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.fs.file_io import FileStatus
from lakecore.fs.publish import publish_resolved
from lakecore.jobs.remote.plan import RunView
from lakecore.jobs.remote.record import (
    JobFile,
    RunRecord,
    RunResult,
    RunState,
    check_id,
    check_submission,
)
from lakecore.maintain.lease import process
from lakecore.maintain.service_store import ServiceStore

__all__ = ["RETENTION_MS", "JobStore"]

RETENTION_MS = 7 * 86_400_000
"""The files of a job are removed when none of them has changed for so long."""
_RUN = re.compile(r"(run|result)-([1-9][0-9]{0,8})\.json")


@dataclass(frozen=True)
class JobStore(ServiceStore):
    """It stores the jobs of a warehouse. All methods raise UnavailableError."""

    directory: ClassVar[str] = "jobs"

    clock: Clock

    def path(self, job_id: str) -> str:
        """Return the directory of a job. Raises InvalidInputError for what is no id."""
        return f"{self.root}/{check_id(job_id)}"

    def create(self, job: JobFile) -> None:
        """Write the request, which may be there already: a repeated submission changes nothing. Raises
        InvalidInputError for a request with secrets, CorruptDataError if a file of this name has another
        request.
        """
        path = f"{self.path(job.id)}/job.json"
        data = job.encoded()
        if publish_resolved(self.file_io, path, data, self.clock):
            return
        if JobFile.decoded(self.file_io.read(path), path) != JobFile.decoded(data, path):
            raise CorruptDataError(path, "it is the request of another job")

    def load(self, job_id: str) -> JobFile:
        """Return the request. Raises NotFoundError, CorruptDataError."""
        path = f"{self.path(job_id)}/job.json"
        try:
            job = JobFile.decoded(self.file_io.read(path), path)
        except NotFoundError as err:
            raise NotFoundError(
                f"{path}: there is no such job; check the warehouse and the id (jobs are removed a week "
                "after their end)"
            ) from err
        if job.id != job_id:
            raise CorruptDataError(path, f"it is the request of job {job.id!r}")
        return job

    def view(self, job_id: str) -> RunView:
        """Return what can be seen of the newest run. It costs a listing and a small read."""
        numbers: dict[str, set[int]] = {"run": set(), "result": set()}
        for status in self.file_io.list(self.path(job_id)):
            if match := _RUN.fullmatch(status.name):
                numbers[match[1]].add(int(match[2]))
        number = max(numbers["run"], default=0)
        if not number:
            return RunView()
        if number in numbers["result"]:
            return RunView(number=number, state=self.result(job_id, number).state)
        sign = self.file_io.read(self._run_path(job_id, number))
        record = _record(sign)
        ended = record is not None and process.has_ended(record.process)
        return RunView(number=number, sign=sign, record=record, process_ended=ended)

    def result(self, job_id: str, number: int) -> RunResult:
        """Return how a run ended. Raises NotFoundError while it has not, CorruptDataError."""
        path = self._result_path(job_id, number)
        return RunResult.decoded(self.file_io.read(path), path)

    def claim(self, job_id: str, number: int, record: RunRecord) -> bool:
        """Create the claim of a run. It returns False if another runner has this number."""
        return publish_resolved(self.file_io, self._run_path(job_id, number), record.encoded(), self.clock)

    def beat(self, job_id: str, number: int, record: RunRecord) -> None:
        """Replace the claim with a new sign of life. It is one write."""
        self.file_io.overwrite(self._run_path(job_id, number), record.encoded())

    def has_ended(self, job_id: str, number: int) -> bool:
        """Return whether a run has a result, or another runner has taken the job over."""
        paths = (self._result_path(job_id, number), self._run_path(job_id, number + 1))
        return any(self.file_io.stat(path) is not None for path in paths)

    def end(self, job_id: str, number: int, result: RunResult) -> bool:
        """Write how a run ended. It returns False if that is written already, which then counts."""
        path = self._result_path(job_id, number)
        return publish_resolved(self.file_io, path, result.encoded(), self.clock)

    def declare_lost(self, job_id: str, number: int) -> None:
        """Write down that a run is lost, unless it has ended meanwhile."""
        reason = "its runner gave no sign of life; look at the log of the driver"
        lost = RunResult(state=RunState.LOST, runner=self.clock.fresh_id(), reason=reason)
        self.end(job_id, number, lost)

    def cancel(self, job_id: str, submission: str) -> None:
        """Ask the runners of a submission to stop at their next safe point, also one that has not begun."""
        self.file_io.overwrite(self._cancel_path(job_id, submission), b"{}")

    def is_cancelled(self, job_id: str, submission: str) -> bool:
        """Return whether the runners of a submission are to stop."""
        return self.file_io.stat(self._cancel_path(job_id, submission)) is not None

    def tidy(self, job_id: str, retention_ms: int = RETENTION_MS) -> int:
        """Remove the jobs of which no file has changed for so long, by the clock of storage: the age is
        counted from the newest file of `job_id`, which was written just now. It returns their number.

        It costs a listing for each job, and a deletion for each file that is removed. The request goes
        first, so that a late runner finds no job instead of a fresh one.
        """
        now_ms = max((one.mtime_ms for one in self.file_io.list(self.path(job_id))), default=0)
        removed = 0
        for folder in self.file_io.list(self.root):
            files = self.file_io.list(folder.path) if folder.is_dir and folder.name != job_id else []
            if files and _is_old(files, now_ms - retention_ms):
                self._remove(folder.path, files)
                removed += 1
        return removed

    def _remove(self, folder: str, files: list[FileStatus]) -> None:
        for one in sorted(files, key=lambda file: file.name != "job.json"):
            self.file_io.delete(one.path)
        self.file_io.remove_directory(folder)

    def _run_path(self, job_id: str, number: int) -> str:
        return f"{self.path(job_id)}/run-{number}.json"

    def _result_path(self, job_id: str, number: int) -> str:
        return f"{self.path(job_id)}/result-{number}.json"

    def _cancel_path(self, job_id: str, submission: str) -> str:
        return f"{self.path(job_id)}/cancel-{check_submission(submission)}"


def _record(sign: bytes) -> RunRecord | None:
    """Parse a sign of life. One that is half written, or of a later release, still is a sign."""
    try:
        return RunRecord.decoded(sign, "run")
    except (CorruptDataError, UnsupportedError):
        return None


def _is_old(files: list[FileStatus], oldest_ms: int) -> bool:
    """Return whether all files are older; a file whose age is unknown is not old."""
    return all(0 < one.mtime_ms < oldest_ms and not one.is_dir for one in files)
