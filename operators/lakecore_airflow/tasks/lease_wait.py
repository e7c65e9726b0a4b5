"""This module lets a task wait for a table that another chore holds without a worker: it defers.

The task tries its job first. When the table's lease is held, the triggerer looks at the lease until it is
free or the time to wait has passed; then the task tries again, under the same name of its run.
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.hooks import airflow_errors
from lakecore_airflow.tasks.job import JobTask
from lakecore_airflow.triggers import WaitTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.errors import BusyError

__all__ = ["LeaseWaitTask"]

_LOOK_EVERY_S = 10.0
_LATE_S = 300
"""The triggerer may be this late before Airflow fails the task."""


class LeaseWaitTask(JobTask):
    """This operator tries its job, and defers while another chore holds its table and `wait` is not over."""

    table: str
    wait: str | None
    _wait_until_ms: int = 0

    @abstractmethod
    def run_job(self, context: Context) -> dict[str, Any]:
        """Run the job without waiting for the lease. Raises BusyError when another chore holds the table."""

    def parameter_values(self) -> dict[str, Any]:
        """Return the parameters of the job; the time to wait is the task's, not the job's."""
        return super().parameter_values() | {"wait": None}

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the job, or defer while another chore holds the table."""
        from lakecore.errors import BusyError

        with airflow_errors():
            self._wait_until_ms = self._wait_ends_ms()
        try:
            return self.run_job(context)
        except BusyError as err:
            return self.wait_for_lease(err, self._wait_until_ms)

    def execute_after_wait(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Try the job again, after the lease was free or the time was over."""
        from lakecore.errors import BusyError

        if event.get("status") != "found":
            error = AirflowFailException if event.get("permanent") else AirflowException
            raise error(f"waiting for the lease of {self.table} failed: {event.get('error', event)}")
        self._wait_until_ms = int(event["found"]["until_ms"])
        try:
            return self.run_job(context)
        except BusyError as err:
            return self.wait_for_lease(err, self._wait_until_ms)

    def _wait_ends_ms(self) -> int:
        """Return when the wait is over, in milliseconds since the epoch. Raises InvalidInputError."""
        from lakecore.clock import SystemClock
        from lakecore.jobs.definitions.values import is_given
        from lakecore.jobs.runner.moment import parse_span

        span = parse_span(str(self.wait), "wait") if is_given(self.wait) else 0
        return SystemClock().now_ms() + span

    def wait_for_lease(self, err: BusyError, until_ms: int) -> dict[str, Any]:
        """Wait in the triggerer. When the time is over, raises AirflowException, which is retried: the table
        is free again when the other task is done, so that nobody needs a traceback.
        """
        from lakecore.clock import SystemClock
        from lakecore.jobs.watching.waits import LEASE_FREE

        left_s = (until_ms - SystemClock().now_ms()) / 1000
        if left_s <= 0:
            raise AirflowException(f"BusyError: {err}") from None
        self.log.info("%s; the task waits for %.0f s at most, without a worker", err, left_s)
        self.defer(
            trigger=WaitTrigger(
                wait=LEASE_FREE,
                table=self.table,
                request={"until_ms": until_ms},
                lake_conn_id=self.lake_conn_id,
                poke_interval=min(_LOOK_EVERY_S, max(1.0, left_s)),
            ),
            method_name="execute_after_wait",
            timeout=timedelta(seconds=left_s + _LATE_S),
        )
        raise AssertionError("a deferred task does not continue")
