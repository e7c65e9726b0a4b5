"""This module has the base of all maintenance operators. A concrete operator takes a few lines; each area
has one file.

Every operator names the definition of its job. The parameters are those of Paimon's procedures. They are
templated, and an empty text means that a parameter is not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.jobs.definitions.table_job import Definition, TableJob
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.chore_request import ChoreRequest, ChoreResult
from lakecore_airflow.tasks.identity import commit_identity
from lakecore_airflow.tasks.lease_wait import LeaseWaitTask
from lakecore_airflow.tasks.table_task import TableTask, xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.executor import Executor

__all__ = ["ChoreOperator", "lease_owner", "sentence"]

_NAMES = 5


class ChoreOperator(TableTask, LeaseWaitTask):
    """This is the base of all maintenance operators. It has a table, a dry run and the safety settings,
    and returns a small JSON report as XCom.

    A task that is repeated after it was killed finishes what its first try began. Two tasks never work on one
    table at the same time: the second one fails and is retried. If a run used the quarantine, `lakecore undo`
    accepts the `run` of its report.

    :param table: `database.table`, or `database.table$branch_NAME`. (templated)
    :param dry_run: report what would happen and change nothing. (templated)
    :param quarantine: move files aside for a while instead of deleting them; None as the chore does by
        itself. (templated)
    :param wait: how long to wait for a table that another chore holds, for example `10 min`: the task defers,
        and uses neither a worker nor a retry. It fails for now when the table is held for longer. (templated)
    """

    definition: ClassVar[type[Definition]] = TableJob
    repeatable: ClassVar[bool] = False
    """It tells whether its commits are those of the task run: a retry whose first try has committed does
    nothing.
    """

    ui_color = "#e8e3f3"

    def run_job(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs.runner.dispatch import run_chore

        with airflow_errors():
            job, hook = self._job(context), LakeHook(self.lake_conn_id)
            with self.workers(hook) as executor:
                report = run_chore(job, hook.catalog(), executor)
        return self.finish(context, report.to_json())

    def _job(self, context: Context) -> Definition:
        """Return the job of this task. Raises InvalidInputError."""
        from lakecore.clock import SystemClock
        from lakecore.jobs.definitions.table_job import Safety
        from lakecore.jobs.definitions.values import fields_of, new_job

        values = self.job_fields(context)
        safety = fields_of(Safety, self.parameter_values(), SystemClock().now_ms())
        values["safety"] = Safety(**safety, owner=lease_owner(context["ti"]))
        if self.repeatable:
            values["commit_user"], values["commit_identifier"] = commit_identity(context["ti"])
        return new_job(self.definition, values)

    def finish(self, context: Context, report: Mapping[str, Any]) -> dict[str, Any]:
        """Return the XCom of a report, after it was told."""
        self.log.info("%s", sentence(report))
        return self.publish_report(context, report["job"], _xcom_summary(report), report["names"])

    def workers(self, hook: LakeHook) -> AbstractContextManager[Executor | None]:
        """Return the executor of the chore's units; None runs them in this process."""
        return nullcontext()

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Run the chore on behalf of a policy. Raises errors of lakecore."""
        from lakecore.jobs.runner.dispatch import run_chore

        report = run_chore(cls.job_of(request), request.lake, request.executor)
        return cls.result_of(request, report.to_json())

    @classmethod
    def job_of(cls, request: ChoreRequest) -> Definition:
        """Return the job of a request of a policy. Raises InvalidInputError."""
        from lakecore.jobs.definitions.values import new_job

        return new_job(cls.definition, request.job_fields(cls.definition) | {"safety": request.safety})

    @classmethod
    def result_of(cls, request: ChoreRequest, report: Mapping[str, Any]) -> ChoreResult:
        """Return the result for a policy, from the report of the job as JSON."""
        return ChoreResult(job=report["job"], report=_xcom_summary(report), text=sentence(report))


def _xcom_summary(report: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten a report for XCom."""
    return xcom_summary(report, "snapshots", "names", "notes")


def sentence(report: Mapping[str, Any]) -> str:
    """Return a line for the log that says what was done; it is short when there is little to say. The report
    is that of a chore as JSON.
    """
    names, snapshots, notes = report["names"], report["snapshots"], report["notes"]
    figures = {
        "would be done": report["dry_run"],
        "nothing to do": report["nothing_to_do"],
        f"{len(snapshots)} snapshots": snapshots,
        f"{report['files']} files": report["files"],
        f"{report['bytes']} bytes": report["bytes"],
        f"names: {', '.join(names[:_NAMES])}{' …' if names[_NAMES:] else ''}": names,
        f"snapshot {report['snapshot']}": report["snapshot"] is not None,
        f"nothing more is done: {report['blocker']}": report["blocker"],
        report["on_hold"]: report["on_hold"],
        f"kept in the quarantine, restored by: lakecore undo {report['run']}": (
            report["run"] and report["quarantined"] and report["files"]
        ),
        f"{report['resumed']} interrupted runs were finished first": report["resumed"],
        **dict.fromkeys(notes[:_NAMES], True),
    }
    summary = "; ".join(text for text, is_so in figures.items() if is_so) or "done"
    return f"{report['job']} of {report['table']}: {summary} ({report['seconds']:.1f} s)"


def lease_owner(ti: Any) -> str:
    """Return the owner of a task's leases. It is the same for every try, so that a retry takes its own lease
    over at once.
    """
    return f"{ti.dag_id}/{ti.task_id}/{ti.run_id}/{ti.map_index}".replace(" ", "_")
