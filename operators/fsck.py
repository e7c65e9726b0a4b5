"""The operator that checks a table and plans its repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from operators.chore import flag, lease_owner, parsed
from operators.chore_request import ChoreRequest, ChoreResult
from operators.hooks import LakeHook, airflow_errors
from operators.links import ReportLink, TableLink
from operators.metrics import count
from operators.task import xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

__all__ = ["FAIL_ON", "FsckChore", "FsckOperator"]

FAIL_ON = ("damage", "any", "nothing")


class FsckOperator(BaseOperator):
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
    :param plan: also make a plan of repair: the XCom `plan`, as JSON, is what `RepairOperator(plan=…)` takes.
        (templated)
    """

    template_fields: Sequence[str] = (
        "table",
        "fail_on",
        "no_data",
        "deep",
        "older_than",
        "plan",
        "lake_conn_id",
    )
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(), TableLink())
    ui_color = "#e8e3f3"

    def __init__(
        self,
        *,
        table: str,
        fail_on: str = "damage",
        no_data: bool | str = False,
        deep: bool | str = False,
        older_than: str | None = None,
        plan: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.fail_on = fail_on
        self.no_data = no_data
        self.deep = deep
        self.older_than = older_than
        self.plan = plan
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.errors import InvalidInputError
        from lakecore.jobs import fsck

        with airflow_errors():
            if self.fail_on not in FAIL_ON:
                raise InvalidInputError(f"fail_on={self.fail_on!r}: use one of {', '.join(FAIL_ON)}")
            wanted = {name: bool(flag(name, getattr(self, name))) for name in ("no_data", "deep", "plan")}
            catalog = LakeHook(self.lake_conn_id).catalog()
            moment = parsed("older_than", "moment", self.older_than)
            job = fsck.Job(
                table=self.table,
                deep=wanted["deep"],
                read_data=not wanted["no_data"],
                owner=lease_owner(context["ti"]),
                **moment,
            )
            checked = fsck.run(job, catalog)
            if wanted["plan"]:
                context["ti"].xcom_push("plan", fsck.plan(checked, catalog, **moment))
        raw = {"job": "fsck"} | xcom_summary(checked.to_json(), "findings")
        count("fsck", raw)
        bad = {"damage": checked.report.damage, "any": checked.report.findings}.get(self.fail_on, ())
        for line in (*checked.report.findings[:20], *checked.holds):
            self.log.warning("%s", line)
        if bad:
            context["ti"].xcom_push("report", raw)
            rest = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            raise AirflowFailException(f"{self.table}: {bad[0]}{rest}")
        return raw


class FsckChore:
    """`FsckOperator` as a chore of a policy. Damage fails the chore and puts the table on hold."""

    parameters: ClassVar[Mapping[str, str]] = {"no_data": "bool", "deep": "bool"}
    repeatable: ClassVar[bool] = False

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Check the table. Raises CorruptDataError for the first finding that is damage. A dry run changes no
        hold.
        """
        from lakecore.errors import CorruptDataError
        from lakecore.jobs import fsck

        wanted = {name: bool(flag(name, value)) for name, value in request.given.items()}
        job = fsck.Job(
            table=request.table,
            deep=wanted.get("deep", False),
            read_data=not wanted.get("no_data", False),
            holds=not request.dry_run,
            owner=request.safety.owner,
        )
        checked = fsck.run(job, request.lake)
        damage = checked.report.damage
        if damage:
            rest = f" (and {len(damage) - 1} more findings)" if len(damage) > 1 else ""
            error = CorruptDataError(damage[0].path, f"{damage[0].problem}{rest}")
            for note in checked.holds:
                error.add_note(note)
            raise error
        raw = {"job": "fsck"} | xcom_summary(checked.to_json(), "findings")
        text = f"fsck of {request.table}: no damage, {len(checked.report.findings)} other findings"
        return ChoreResult(job="fsck", report=raw, text="; ".join([text, *checked.holds]))
