"""This module lets a task run its job on a driver elsewhere: it writes the job to the warehouse, submits a
driver to Spark, and defers until the driver has written how it ended.

The task finds everything again in the warehouse: a retry, or a worker that starts anew, neither submits a job
that is done nor one whose driver may be alive.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.hooks import LakeHook, airflow_errors, is_permanent
from lakecore_airflow.tasks.engine import EngineTask
from lakecore_airflow.tasks.lease_wait import LeaseWaitTask
from lakecore_airflow.tasks.spark_submit import DriverProcess, log_tail, start_driver
from lakecore_airflow.tasks.submit_settings import SUBMIT, SubmitSettings
from lakecore_airflow.triggers import JobTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.jobs.definitions.table_job import Definition
    from lakecore.jobs.remote.plan import RunView
    from lakecore.jobs.remote.record import JobFile, RunResult, StepResult
    from lakecore.jobs.remote.store import JobStore

__all__ = [
    "SubmitTask",
    "check_finished",
    "error_of_step",
    "job_file",
    "job_id_of",
    "kind_of_error",
    "origin_of",
    "refuse_budget",
    "report_of",
]

_LOOK_S = 0.5
_KILL_S = 3.0
_PART = 40


class SubmitTask(EngineTask):
    """This operator can run its job on a driver elsewhere, with `engine="submit"`. `submit` is its field."""

    submit: Mapping[str, Any] | str | None = None
    _driver: DriverProcess | None = None
    _submitted: tuple[JobStore, str, str] | None = None

    @property
    def submits(self) -> bool:
        """Return whether the engine is `submit`. Raises InvalidInputError for settings without effect."""
        from lakecore.errors import InvalidInputError

        if self.engine != SUBMIT:
            if self.submit:
                raise InvalidInputError(f"submit is for engine=submit, and the engine is {self.engine}")
            return False
        if self.master:
            raise InvalidInputError(
                f"master={self.master!r} has no effect with engine=submit: the connection of Spark names the "
                "master"
            )
        return True

    def take_result(self, context: Context, result: RunResult) -> dict[str, Any]:
        """Return the XCom of a run that has ended. Raises the errors of its steps as those of the task."""
        raise NotImplementedError

    def submit_job(
        self, context: Context, hook: LakeHook, jobs: Sequence[Definition], until_ms: int | None = None
    ) -> RunResult:
        """Return the result of an earlier try; otherwise submit the jobs as the steps of one job, and defer.

        The XCom then comes from `take_result`. Raises TaskDeferred, InvalidInputError, UnavailableError.
        """
        from lakecore.jobs.remote.plan import Next, next_of_submitter

        settings = SubmitSettings.parse(self.submit)
        job = job_file(context["ti"], jobs, until_ms)
        store = hook.job_store()
        store.create(job)
        submission = str(context["ti"].try_number)
        view = store.view(job.id)
        match next_of_submitter(view):
            case Next.TAKE_RESULT:
                self.log.info("job %s is done: run %d", job.id, view.number)
                return store.result(job.id, view.number)
            case Next.WATCH:
                self.log.info("job %s was submitted before: run %d may be at work", job.id, view.number)
                return self._wait(store, job.id, submission, view.number - 1, settings, None)
            case Next.DECLARE_LOST:
                store.declare_lost(job.id, view.number)
        log = self._start(store, hook, settings, job.id, submission, view)
        return self._wait(store, job.id, submission, view.number, settings, log)

    def _start(
        self,
        store: JobStore,
        hook: LakeHook,
        settings: SubmitSettings,
        job_id: str,
        submission: str,
        before: RunView,
    ) -> str:
        """Start the driver, and wait until a runner has claimed the job or the cluster has the application.
        It returns the file with the output of spark-submit.
        """
        command, secrets = _command(hook, settings, job_id, submission)
        self._submitted = (store, job_id, submission)
        driver = self._driver = start_driver(settings, command, self.spark_conf or {}, job_id, secrets)
        self.log.info("job %s is submitted; the output of spark-submit is in %s", job_id, driver.log)
        waited = 0.0
        while store.view(job_id).number <= before.number:
            code = driver.process.poll()
            if code is not None and (code or not driver.in_cluster):
                if store.view(job_id).number > before.number:
                    break
                text = log_tail(driver.log)
                raise AirflowException(
                    f"job {job_id}: spark-submit ended with {code} before a driver began its work:\n{text}"
                )
            if code == 0:
                break
            if waited >= settings.start_s:
                driver.kill()
                raise AirflowException(f"job {job_id}: no driver began within {settings.start_s:.0f} s")
            store.clock.sleep(_LOOK_S)
            waited += _LOOK_S
        return driver.log

    def _wait(
        self,
        store: JobStore,
        job_id: str,
        submission: str,
        after: int,
        settings: SubmitSettings,
        log: str | None,
    ) -> RunResult:
        """Return the result of a run that has ended already, else defer."""
        view = store.view(job_id)
        if view.number > after and view.state is not None:
            self._tell_log(log)
            return store.result(job_id, view.number)
        record = view.record if view.number > after else None
        limit = self.execution_timeout
        name = submission if record is None else record.submission
        trigger = JobTrigger(
            job={"id": job_id, "after": after, "submission": name},
            lake_conn_id=self.lake_conn_id,
            poke_interval=settings.poke_interval,
            start_s=settings.start_s,
            cancel_at_ms=None if limit is None else store.clock.now_ms() + int(limit.total_seconds() * 1000),
        )
        self.log.info("the task waits for the end of job %s, without a worker", job_id)
        again = {"log": log, "wait_until_ms": getattr(self, "_wait_until_ms", 0)}
        self.defer(trigger=trigger, method_name="execute_after_submit", kwargs=again)
        raise AssertionError("a deferred task does not continue")

    def execute_after_submit(
        self, context: Context, event: dict[str, Any], log: str | None = None, wait_until_ms: int = 0
    ) -> dict[str, Any]:
        """Take the result that the driver wrote; if another chore held the table, wait for its lease. Raises
        AirflowException, which is retried, when the driver was lost.
        """
        from lakecore.errors import BusyError

        self._tell_log(log)
        status, job_id = event.get("status"), event.get("job_id")
        if status == "error":
            error = AirflowFailException if event.get("permanent") else AirflowException
            raise error(f"waiting for job {job_id} failed: {event.get('error')}")
        if status != "ended":
            raise AirflowException(f"job {job_id}: {_ENDS.get(str(status), status)}")
        with airflow_errors():
            result = LakeHook(self.lake_conn_id).job_store().result(str(job_id), int(event["run"]))
        try:
            return self.take_result(context, result)
        except BusyError as err:
            if isinstance(self, LeaseWaitTask):
                return self.wait_for_lease(err, wait_until_ms)
            raise AirflowException(f"BusyError: {err}") from None

    def on_kill(self) -> None:
        """Cancel the job, also one that waits in a queue of the cluster; stop a driver on this machine.

        This runs in a signal handler: another thread writes the mark, for some seconds at most.
        """
        submitted, driver = self._submitted, self._driver
        if submitted is None:
            super().on_kill()
            return
        self._killed = True
        store, job_id, submission = submitted

        def cancel() -> None:
            with suppress(Exception):
                store.cancel(job_id, submission)

        thread = threading.Thread(target=cancel, name="lakecore-cancel", daemon=True)
        thread.start()
        thread.join(_KILL_S)
        if driver is not None:
            driver.kill()
        raise AirflowException(f"killed while {self.doing}: what was committed remains")

    def _tell_log(self, log: str | None) -> None:
        """Copy the end of the output of spark-submit to the log of the task, and remove the file."""
        text = log_tail(log)
        if text and log is not None:
            self.log.info("the output of spark-submit ends with:\n%s", text)
            with suppress(OSError):
                Path(log).unlink()


_ENDS = {
    "lost": "its driver gave no sign of life any more, so it is lost; what it committed stays, and a retry "
    "submits the job again",
    "not-started": "no driver began in time; it was cancelled, and a retry submits it again",
    "timeout": "the execution timeout of the task is over, so the job was cancelled; what it committed stays",
}


def error_of_step(step: StepResult) -> AirflowException:
    """Return the error of the task for a step that failed; it is permanent if no retry can mend it."""
    error = AirflowFailException if is_permanent(kind_of_error(step)) else AirflowException
    return error(f"{step.error_class}: {step.error}")


def kind_of_error(step: StepResult) -> Exception:
    """Return an error of the type that a step failed with."""
    from lakecore import errors

    kind: Any = getattr(errors, step.error_class or "", Exception)
    is_known = isinstance(kind, type) and issubclass(kind, errors.LakeError)
    return kind.__new__(kind) if is_known else Exception()


def report_of(result: RunResult) -> dict[str, Any]:
    """Return the report of a job with one step. Raises its error as that of the task; BusyError when another
    chore held the table.
    """
    from lakecore.errors import BusyError

    check_finished(result)
    [step] = result.steps
    if step.error_class == "BusyError":
        raise BusyError(step.error)
    if step.error is not None:
        raise error_of_step(step)
    if step.report is None:
        _raise_unfinished(result)
    return dict(step.report)


def check_finished(result: RunResult) -> None:
    """Raise AirflowException, which is retried, for a run that was cancelled or lost."""
    if result.state.value in ("cancelled", "lost"):
        _raise_unfinished(result)


def _raise_unfinished(result: RunResult) -> NoReturn:
    raise AirflowException(f"the driver has not finished the job ({result.state.value}): {result.reason}")


def refuse_budget(task: Any) -> None:
    """Raise UnsupportedError if a task has a budget that a driver elsewhere could not observe."""
    from lakecore.errors import UnsupportedError

    budgets = [
        name
        for name in ("budget_bytes", "budget_core_seconds", "budget_money")
        if getattr(task, name, None) not in (None, "")
    ]
    if budgets:
        raise UnsupportedError(
            f"{budgets[0]} is not observed between the tables or chores of one job with engine=submit; leave "
            "it out, or use one task for each table"
        )


def origin_of(ti: Any) -> dict[str, Any]:
    """Return what the ledger records of who began a job."""
    names = {"dag": ti.dag_id, "run": ti.run_id, "task": ti.task_id, "map_index": ti.map_index}
    return {name: value if isinstance(value, int) else str(value) for name, value in names.items()}


def job_id_of(ti: Any, requests: Sequence[Mapping[str, Any]]) -> str:
    """Return the id of a job of a task instance: every try has the same one, and a cleared task another."""
    parts = (ti.dag_id, ti.task_id, ti.run_id, ti.map_index, getattr(ti, "max_tries", 0), *requests)
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]
    names = ("".join(c if c.isascii() and c.isalnum() else "-" for c in text[:_PART]) for text in parts[:2])
    return "j." + ".".join((*names, digest))


def job_file(ti: Any, jobs: Sequence[Definition], until_ms: int | None = None) -> JobFile:
    """Return the jobs as the steps of one job of a task instance. Raises InvalidInputError."""
    from lakecore.jobs.remote.record import JobFile
    from lakecore.jobs.remote.steps import step_of
    from lakecore.jobs.runner.origin import counted_run

    job_id = job_id_of(ti, [step_of(job).request for job in jobs])
    steps = tuple(step_of(_with_owner(job, job_id)) for job in jobs)
    return JobFile(id=job_id, steps=steps, until_ms=until_ms, origin=origin_of(ti), usage_key=counted_run())


def _with_owner(job: Any, owner: str) -> Definition:
    """Return the job whose lease belongs to the id of the file: its runs take it over from each other."""
    if hasattr(job, "safety"):
        return replace(job, safety=replace(job.safety, owner=owner))  # type: ignore[no-any-return]
    return replace(job, owner=owner) if hasattr(job, "owner") else job  # type: ignore[no-any-return]


def _command(
    hook: LakeHook, settings: SubmitSettings, job_id: str, submission: str
) -> tuple[Any, dict[str, str]]:
    """Return how the driver is started, and the variables with secrets, for a driver on this machine."""
    from lakecore.jobs.remote.command import remote_command

    options = {} if settings.catalog else hook.options()
    command = remote_command(job_id, hook.warehouse(), options, settings.catalog, submission)
    return command, {name: options[key] for name, key in command.secrets.items()}
