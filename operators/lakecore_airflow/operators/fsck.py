"""The operator that checks a table and plans its repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.jobs.definitions.repair import Fsck
from lakecore.jobs.definitions.table_job import Definition
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.assets import announce
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.reports.metrics import count
from lakecore_airflow.tasks.chore import lease_owner
from lakecore_airflow.tasks.chore_request import ChoreRequest, ChoreResult
from lakecore_airflow.tasks.job import JobTask, flag
from lakecore_airflow.tasks.table_task import TableTask, xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["FAIL_ON", "FsckChore", "FsckOperator"]

FAIL_ON = ("damage", "any", "nothing")


class FsckOperator(TableTask, JobTask):
    """Check a table: hints, snapshots, manifests, data files, key order, levels, totals and orphans. The
    operator returns counts and the first findings as a small JSON object, also when the task fails.

    The check changes nothing in the table. Damage puts the table on hold, so that nothing is removed from it.
    A check that finds no damage ends the holds that it can end.

    :param table: `database.table`. (templated)
    :param fail_on: `damage`: findings that can lose or change rows fail the task, at once, for no retry mends
        them; `any`: wrong hints and orphans, too; `nothing`: they are only reported. (templated)
    :param no_data: do not open data files: no row counts, no key order. (templated)
    :param deep: check every snapshot on its own and decode every column. (templated)
    :param older_than: younger files that nobody refers to are counted, but are no findings: a date and time;
        None: a day before the check. (templated)
    :param no_hold: neither put the table on hold for damage nor end its holds. (templated)
    :param plan: also make a plan of repair: the XCom `plan`, as JSON, is what `RepairOperator(plan=…)` takes.
        (templated)
    """

    definition = Fsck
    settings: ClassVar[Mapping[str, Any]] = {"fail_on": "damage", "plan": False}
    words: ClassVar[Mapping[str, Sequence[str]]] = {"fail_on": FAIL_ON}
    ui_color = "#e8e3f3"

    fail_on: str
    plan: bool | str

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.errors import InvalidInputError
        from lakecore.jobs import fsck
        from lakecore.jobs.definitions.values import new_job

        with airflow_errors():
            if self.fail_on not in FAIL_ON:
                raise InvalidInputError(f"fail_on={self.fail_on!r}: use one of {', '.join(FAIL_ON)}")
            planned = flag("plan", self.plan)
            catalog = LakeHook(self.lake_conn_id).catalog()
            job = new_job(Fsck, self.job_fields(context) | {"owner": lease_owner(context["ti"])})
            checked = fsck.run(job, catalog)
            if planned:
                context["ti"].xcom_push("plan", fsck.plan(checked, catalog, older_than_ms=job.older_than_ms))
        raw = {"job": "fsck"} | xcom_summary(checked.to_json(), "findings")
        count("fsck", raw)
        self._report = raw | {"nothing_to_do": True}  # a check reads the table, and changes nothing
        announce(context, self, "fsck", self._report, (self.names_are, ()))
        bad = {"damage": checked.report.damage, "any": checked.report.findings}.get(self.fail_on, ())
        for line in (*checked.report.findings[:20], *checked.holds):
            self.log.warning("%s", line)
        if bad:
            context["ti"].xcom_push("report", raw)
            rest = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            raise AirflowFailException(f"{self.table}: {bad[0]}{rest}")
        return raw


class FsckChore:
    """`FsckOperator` is a chore of a policy through this class. Damage fails the chore and puts the table
    on hold.
    """

    definition: ClassVar[type[Definition]] = Fsck
    repeatable: ClassVar[bool] = False

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Check the table. Raises CorruptDataError for the first finding that is damage. A dry run changes no
        hold.
        """
        from lakecore.jobs import fsck

        return cls.result_of(request, fsck.run(cls.job_of(request), request.lake).to_json())

    @classmethod
    def job_of(cls, request: ChoreRequest) -> Fsck:
        from lakecore.jobs.definitions.values import fields_of

        values = fields_of(Fsck, request.values, request.started_ms)
        holds = values.pop("holds", True) and not request.dry_run
        return Fsck(table=request.table, owner=request.safety.owner, holds=holds, **values)

    @classmethod
    def result_of(cls, request: ChoreRequest, report: Mapping[str, Any]) -> ChoreResult:
        """Return the result. Raises CorruptDataError for the first finding that is damage."""
        from lakecore.errors import CorruptDataError

        findings, holds = report["findings"], report["holds"]
        damage = [one for one in findings if one["damage"]]
        if damage:
            rest = f" (and {len(damage) - 1} more findings)" if len(damage) > 1 else ""
            error = CorruptDataError(damage[0]["path"], f"{damage[0]['problem']}{rest}")
            for note in holds:
                error.add_note(note)
            raise error
        raw = {"job": "fsck"} | xcom_summary(report, "findings")
        text = f"fsck of {request.table}: no damage, {len(findings)} other findings"
        return ChoreResult(job="fsck", report=raw, text="; ".join([text, *holds]))
