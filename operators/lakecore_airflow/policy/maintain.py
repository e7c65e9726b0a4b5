"""Maintenance by policy: one document says which chores each table of the lake gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakecore.jobs.definitions.parameter import Kind, parameters_by_name
from lakecore.jobs.definitions.table_job import Safety
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.hooks import LakeHook, airflow_errors, is_permanent
from lakecore_airflow.lake.tables import check_map_length, tables_of
from lakecore_airflow.operators.consumers import ExpireConsumersOperator
from lakecore_airflow.operators.expire import ExpireChangelogsOperator, ExpireSnapshotsOperator
from lakecore_airflow.operators.fsck import FsckChore
from lakecore_airflow.operators.orphans import RemoveOrphanFilesOperator
from lakecore_airflow.operators.partitions import ExpirePartitionsOperator
from lakecore_airflow.operators.period_tags import (
    CreateBatchTagsOperator,
    TriggerTagAutomaticCreationOperator,
)
from lakecore_airflow.operators.repair import CompactManifestOperator
from lakecore_airflow.operators.tags import ExpireTagsOperator
from lakecore_airflow.policy.policy_text import read_policy
from lakecore_airflow.policy.rewriting import CompactChore, RewriteFileIndexChore
from lakecore_airflow.secrets import LakeTask
from lakecore_airflow.tasks.chore import lease_owner
from lakecore_airflow.tasks.chore_request import ChoreRequest, ChoreResult, PolicyChore
from lakecore_airflow.tasks.engine import AUTO
from lakecore_airflow.tasks.identity import commit_identity
from lakecore_airflow.tasks.job import check_word, flag
from lakecore_airflow.tasks.submit import SubmitTask, check_finished, kind_of_error, refuse_budget
from lakecore_airflow.tasks.submit_settings import SUBMIT
from lakecore_airflow.tasks.table_task import TableTask, tell_outcome
from lakecore_airflow.tasks.window import (
    WINDOW_ENDS,
    WINDOW_SETTINGS,
    TaskWindow,
    WindowTask,
    end_with_work_left,
    run_started_ms,
    skip_in_blackout,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.errors import LakeError
    from lakecore.executor import Executor
    from lakecore.jobs.engines.engine_choice import Engines
    from lakecore.jobs.remote.record import RunResult, StepResult

__all__ = ["CHORES", "PREVIEW", "MaintainTableOperator", "PlanMaintenanceOperator"]

CHORES: Mapping[str, type[PolicyChore]] = {
    "fsck": FsckChore,
    "trigger-tag-automatic-creation": TriggerTagAutomaticCreationOperator,
    "create-batch-tags": CreateBatchTagsOperator,
    "expire-partitions": ExpirePartitionsOperator,
    "compact": CompactChore,
    "rewrite-file-index": RewriteFileIndexChore,
    "expire-tags": ExpireTagsOperator,
    "expire-consumers": ExpireConsumersOperator,
    "expire-snapshots": ExpireSnapshotsOperator,
    "expire-changelogs": ExpireChangelogsOperator,
    "compact-manifest": CompactManifestOperator,
    "remove-orphan-files": RemoveOrphanFilesOperator,
}
"""A policy may ask for these chores, which are in the order in which a table gets them: the check first,
for what it finds keeps the others from removing anything; tags before the snapshots expire, what is rewritten
before the snapshots with the old files expire.
"""

_OF_THE_TASK = ("dry_run", "until", "wait")
"""Parameters that the task gives to all chores; a policy does not."""
_REPORTED = (
    "job",
    "run",
    "snapshot",
    "files",
    "bytes",
    "files_in",
    "files_out",
    "before",
    "after",
    "forecast",
    "bytes_in",
    "engine",
    "engine_reason",
    "picks_left",
    "files_left",
    "dropped_count",
    "snapshots_count",
    "findings_count",
    "on_hold",
    "dry_run",
    "notes",
    "names_count",
    "blocker",
    "seconds",
)


PREVIEW: Sequence[Mapping[str, Any]] = (
    {
        "tables": ["*"],
        "chores": {
            "fsck": {"no-data": True},
            "expire-tags": {},
            "expire-snapshots": {"max-deletes": 500},
            "remove-orphan-files": {"older-than": "2 d"},
        },
    },
)
"""While nobody has named a policy, this work is reported and not done."""


class PlanMaintenanceOperator(LakeTask):
    """Return the tables of the lake for which a policy has chores, as `[{"table": …, "chores": {…}}]`, in a
    dry run also with `"dry_run": true`. `MaintainTableOperator` is mapped over this list.

    Without a policy nothing may be removed: every table is checked, and its task reports in a dry run what
    expiry and orphan removal would delete (`PREVIEW`).

    :param policy: a list of rules (see `lakecore.jobs.policy`), the same as YAML text, or the path of a YAML
        file that has one. Empty: there is no policy. (templated)
    :param tables: names `database.table`, split by commas: only these; None: all. (templated)
    :param dry_run: whether the tasks only report. None: only while there is no policy. (templated)
    :param blackouts: skip this task, and so the DAG run, on these days and at these hours, unless it is a dry
        run: a list of `{"days", "hours", "why", "time_zone"}`. (templated)
    """

    template_fields: Sequence[str] = ("policy", "tables", "dry_run", "blackouts", "lake_conn_id")

    def __init__(
        self,
        *,
        policy: Sequence[Mapping[str, Any]] | str | None = None,
        tables: str | None = None,
        dry_run: bool | str | None = None,
        blackouts: Sequence[Mapping[str, Any]] | str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy = policy
        self.tables = tables
        setattr(self, "dry_run", dry_run)  # noqa: B010 - in place of a method that nothing calls
        self.blackouts = blackouts
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from lakecore.jobs.policy import chores_of, parse_policy

        by_policy = bool(self.policy)
        with airflow_errors():
            dry_run = flag("dry_run", self.dry_run)
            if by_policy and not dry_run:
                skip_in_blackout(self.blackouts)
            rules = parse_policy(read_policy(self.policy or PREVIEW), CHORES)
            catalog = LakeHook(self.lake_conn_id).catalog()
            tables = [name for database in catalog.list_databases() for name in tables_of(catalog, database)]
            tables = _only(tables, self.tables)
        extra = {"dry_run": True} if dry_run or not by_policy else {}
        planned = [{"table": table, "chores": chores_of(table, rules), **extra} for table in tables]
        with_chores = [one for one in planned if one["chores"]]
        self.log.info("%d of %d tables have chores", len(with_chores), len(tables))
        if not by_policy:
            self.log.warning(
                "nothing is removed, because no policy is named: the tasks report what expiry and "
                "orphan removal would delete; name one with the param policy, the Airflow variable "
                "lakecore_policy, or policy in the table [airflow.maintenance] of lakecore.toml"
            )
        check_map_length(with_chores, "tables")
        return with_chores


class MaintainTableOperator(WindowTask, SubmitTask, TableTask):
    """Run the chores of one table, one after another, within a window. The operator returns a small JSON
    object that says what each chore did.

    A chore that fails does not stop the next one. The task fails at the end, and is retried when a retry may
    help. A chore that a hold on the table stops is listed in `on_hold` of the report. It fails the task
    without a retry, unless a person asked for the hold. A chore that this release cannot run on the table is
    skipped, and the report says why. Each chore takes the table's lease, so that two runs never work on one
    table.

    :param chores: name to parameters, both as commands have them: `{"expire-snapshots": {"retain-max": 50}}`.
        A time may be given as an age, `2 d` before the run started. (templated)
    :param until: begin no further chore after this time: a date and time, or `HH:MM` (UTC) after the run's
        start. (templated) A compaction that runs then commits what is proven and leaves the rest.
    :param on_window_end: how the task ends when chores are left, because the window is over, a black-out has
        begun or the budget is used up: `success`; `skip`: it is skipped if no chore began; `fail`: it fails,
        without a retry. (templated)
    :param window_grace: stop the task, as by `execution_timeout`, when it is still at work so long after
        `until`: `30 min`; None: never. (templated)
    :param blackouts: days and hours at which no chore begins, as a list of `{"days", "hours", "why",
        "time_zone"}`; the beginning of the next one is the end of the window. (templated)
    :param budget_bytes: begin no chore once the tasks of the same DAG run have read or removed so many
        bytes, `200 gb`; None: no limit. (templated)
    :param budget_core_seconds: the same for the core seconds of these tasks. (templated)
    :param budget_money: the same for their money, by the prices of the connection. (templated)
    :param dry_run: report what would happen and change nothing. (templated)
    :param wait: how long each chore waits for a table that another task holds, for example `10 min`.
        (templated)
    :param engine: where files are rewritten, and where many are deleted or listed: `local`; `spark`: a
        session starts with the first work for it; `auto`: Spark from the chore on with which the
        forecasts of `compact` and `rewrite-file-index` are longer than Spark takes with its start, else
        `local`; `submit`: all chores on one driver that spark-submit starts, while the task is deferred.
        (templated)
    :param master: Spark master; None takes the connection's, else `local[*]`. (templated)
    :param spark_conf: settings of the Spark session. (templated)
    :param submit: with `engine="submit"`, how the driver is submitted: `{"conn_id": "spark_default"}`; see
        docs/airflow.md. (templated)
    """

    doing = "maintaining a table"
    takes_auto = True
    template_fields: Sequence[str] = (
        "table",
        "chores",
        "until",
        *WINDOW_SETTINGS,
        "dry_run",
        "wait",
        "engine",
        "master",
        "spark_conf",
        "submit",
        "lake_conn_id",
    )
    ui_color = "#e8e3f3"

    def __init__(
        self,
        *,
        table: str,
        chores: Mapping[str, Mapping[str, Any]],
        until: str | None = None,
        on_window_end: str = "success",
        window_grace: str | None = None,
        blackouts: Sequence[Mapping[str, Any]] | str | None = None,
        budget_bytes: str | int | None = None,
        budget_core_seconds: str | float | None = None,
        budget_money: str | float | None = None,
        dry_run: bool | str = False,
        wait: str | None = None,
        engine: str = "local",
        master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        submit: Mapping[str, Any] | str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_word(self.task_id, "engine", engine, ("spark", "local", AUTO, SUBMIT))
        check_word(self.task_id, "on_window_end", on_window_end, WINDOW_ENDS)
        self.table = table
        self.chores = chores
        self.until = until
        self.on_window_end = on_window_end
        self.window_grace = window_grace
        self.blackouts = blackouts
        self.budget_bytes = budget_bytes
        self.budget_core_seconds = budget_core_seconds
        self.budget_money = budget_money
        setattr(self, "dry_run", dry_run)  # noqa: B010 - in place of a method that nothing calls
        self.wait = wait
        self.engine = engine
        self.master = master
        self.spark_conf = spark_conf
        self.submit = submit
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        errors: list[LakeError] = []
        with airflow_errors():
            report = self._empty_report()
            hook, names = LakeHook(self.lake_conn_id), _order(self.chores)
            window = self.open_window(context, hook, dry_run=report["dry_run"])
            if self.submits:
                result = self._submit(context, hook, window)
                if result is None:
                    for name in names:
                        self._leave(name, window.reason_to_stop(), report, hook)
                    return self._end(context, report, errors)
                return self.take_result(context, result)
            with self.engines(hook) as engines:
                request = self._request(context, hook, window.end_ms)
                for name, parameters in names.items():
                    if self._killed:
                        raise AirflowException(f"killed before {name} of {self.table}")
                    if reason := window.reason_to_stop():
                        self._leave(name, reason, report, hook)
                        continue
                    request = replace(request, executor=self._executor_of_chore(engines))
                    errors += self._try(name, parameters, request, context, report)
        return self._end(context, report, errors)

    def _executor_of_chore(self, engines: Executor | Engines) -> Executor:
        """Return the executor of the next chore, which is stopped when the task is killed. With `auto` each
        chore whose forecast counts chooses; once a session runs, every chore uses it.
        """
        from lakecore.jobs.engines.engine_choice import Engines

        if isinstance(engines, Engines):
            self._executor = engines.for_table()
            return self._executor
        return engines

    def _leave(self, name: str, reason: str, report: dict[str, Any], hook: LakeHook) -> None:
        """Add a chore that is left for the next window to the report, and to the ledger."""
        from lakecore.clock import SystemClock
        from lakecore.jobs.runner.attempt import record_left

        report["left"].append(name)
        report["left_because"] = reason
        if not report["dry_run"]:
            record_left(hook.catalog(), self.table, name, SystemClock(), reason)

    def _empty_report(self) -> dict[str, Any]:
        """Return the report of a task that has done nothing yet. Raises InvalidInputError."""
        on_hold: dict[str, str] = {}
        report: dict[str, Any] = {"table": self.table, "done": [], "refused": {}, "on_hold": on_hold}
        report["held"] = on_hold  # the earlier key, for one release
        return report | {"failed": {}, "left": [], "dry_run": bool(flag("dry_run", self.dry_run))}

    def _request(self, context: Context, hook: LakeHook, until_ms: int | None) -> ChoreRequest:
        """Return what the requests of all chores share. Raises InvalidInputError."""
        from lakecore.clock import SystemClock
        from lakecore.executor import SerialExecutor
        from lakecore.jobs.definitions.values import fields_of

        clock = SystemClock()
        safety = fields_of(Safety, {"wait": self.wait}, clock.now_ms())
        return ChoreRequest(
            table=self.table,
            values={},
            lake=hook.catalog(),
            safety=Safety(owner=lease_owner(context["ti"]), **safety),
            executor=SerialExecutor(),
            dry_run=bool(flag("dry_run", self.dry_run)),
            until_ms=until_ms,
            started_ms=run_started_ms(context, clock),
        )

    def _submit(self, context: Context, hook: LakeHook, window: TaskWindow) -> RunResult | None:
        """Submit the chores as one job, and defer; None where nothing may begin. Raises InvalidInputError."""
        refuse_budget(self)
        if window.reason_to_stop():
            return None
        request = self._request(context, hook, window.end_ms)
        jobs = [
            CHORES[name].job_of(self._chore_request(name, parameters, request, context))
            for name, parameters in _order(self.chores).items()
        ]
        return self.submit_job(context, hook, jobs, window.end_ms)

    def take_result(self, context: Context, result: RunResult) -> dict[str, Any]:
        """Return the XCom of chores that ran on a driver elsewhere."""
        with airflow_errors():
            check_finished(result)
            errors: list[LakeError] = []
            report, names = self._empty_report(), _order(self.chores)
            request = self._request(context, LakeHook(self.lake_conn_id), None)
            for name, step in zip(names, result.steps, strict=True):
                if step.state.value == "left":
                    self._leave(name, "the window is over", report, LakeHook(self.lake_conn_id))
                    continue
                errors += self._add_result(
                    name, partial(self._tell_step, name, step, request, context), report
                )
        return self._end(context, report, errors)

    def _tell_step(
        self, name: str, step: StepResult, request: ChoreRequest, context: Context
    ) -> dict[str, Any]:
        """Tell the result of a step, as `_do` tells that of a chore. Raises the error of the step."""
        from lakecore.errors import LakeError, OnHoldError

        if step.report is not None and step.error is None:
            return self._publish(CHORES[name].result_of(request, step.report), context)
        error = kind_of_error(step)
        if isinstance(error, OnHoldError):
            raise OnHoldError(step.error or "", step.automatic_hold)
        if isinstance(error, LakeError):
            error.args = (step.error,)
            raise error
        raise LakeError(f"{step.error_class}: {step.error}")

    def _try(
        self,
        name: str,
        parameters: Mapping[str, Any],
        request: ChoreRequest,
        context: Context,
        report: dict[str, Any],
    ) -> list[LakeError]:
        """Run the chore and return its error, if any; the result is added to `report`."""
        return self._add_result(name, partial(self._do, name, parameters, request, context), report)

    def _add_result(
        self, name: str, result_of: Callable[[], dict[str, Any]], report: dict[str, Any]
    ) -> list[LakeError]:
        """Add the result of a chore to `report`; return its error, if any."""
        from lakecore.errors import LakeError, OnHoldError, UnsupportedError, explain

        try:
            result = result_of()
            report["done"].append(result)
            if result.get("on_hold"):
                report["on_hold"][name] = result["on_hold"]
        except UnsupportedError as err:
            report["refused"][name] = str(err)
        except OnHoldError as err:
            self.log.warning("%s", err)
            report["on_hold"][name] = str(err)
            return [err] if err.automatic else []
        except LakeError as err:
            self.log.exception("%s of %s failed", name, self.table)
            report["failed"][name] = f"{type(err).__name__}: {explain(err)}"
            return [err]
        return []

    def _do(
        self,
        name: str,
        parameters: Mapping[str, Any],
        request: ChoreRequest,
        context: Context,
    ) -> dict[str, Any]:
        chore = CHORES[name]
        result = chore.run_chore(self._chore_request(name, parameters, request, context))
        return self._publish(result, context)

    def _chore_request(
        self, name: str, parameters: Mapping[str, Any], request: ChoreRequest, context: Context
    ) -> ChoreRequest:
        """Return the request of one chore. Raises InvalidInputError."""
        from lakecore.jobs.definitions.values import fields_of

        chore = CHORES[name]
        values = _job_values(chore, name, parameters, request.started_ms)
        safety_fields = fields_of(Safety, {"quarantine": values.pop("quarantine", None)}, request.started_ms)
        safety = replace(request.safety, quarantine=safety_fields.get("quarantine"))
        user, identifier = commit_identity(context["ti"], name)
        commit = {"commit_user": user, "commit_identifier": identifier} if chore.repeatable else {}
        return replace(request, values=values, commit=commit, safety=safety)

    def _publish(self, result: ChoreResult, context: Context) -> dict[str, Any]:
        """Tell the result of a chore, and return what the report of the task has of it."""
        self.log.info("%s", result.text)
        publish_report = self.publish_report(context, result.job, result.report)
        return {key: publish_report[key] for key in _REPORTED if publish_report.get(key)}

    def _end(self, context: Context, report: dict[str, Any], errors: Sequence[Exception]) -> dict[str, Any]:
        if report["dry_run"]:
            self.log.warning("this was a dry run: nothing was changed")
        text = f"{report.get('left_because')}; left for the next run: {', '.join(report['left'])}"
        if report["left"]:
            self.log.warning("%s", text)
        tell_outcome(context, report)
        if errors or report["left"]:
            context["ti"].xcom_push("report", report)
        if errors:
            error = AirflowFailException if all(map(is_permanent, errors)) else AirflowException
            problems = [f"{k}: {v}" for k, v in report["failed"].items()]
            problems += [f"on hold, so not done: {', '.join(report['on_hold'])}"] if report["on_hold"] else []
            raise error(f"{self.table}: {'; '.join(problems)}")
        if report["left"]:
            end_with_work_left(
                self.on_window_end, f"{self.table}: {text}", idle=len(report["left"]) == len(self.chores)
            )
        return report


def _only(tables: Sequence[str], names: str | None) -> list[str]:
    """Return the tables that are named, or all. Raises InvalidInputError for one that is not among them."""
    from lakecore.errors import InvalidInputError

    chosen = [name.strip() for name in (names or "").split(",") if name.strip()]
    strange = sorted(set(chosen) - set(tables))
    if strange:
        raise InvalidInputError(f"the lake has no table {strange[0]!r}")
    return chosen or list(tables)


def _order(chores: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    from lakecore.errors import InvalidInputError

    strange = sorted(set(chores) - set(CHORES))
    if strange:
        raise InvalidInputError(f"chore {strange[0]!r} does not exist; the chores are {', '.join(CHORES)}")
    return {name: chores[name] or {} for name in CHORES if name in chores}


def _job_values(
    chore: type[PolicyChore], name: str, parameters: Mapping[str, Any], started_ms: int
) -> dict[str, Any]:
    """Return the parameters by the names of the job; an age becomes a time."""
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.runner.moment import parse_span

    values = {key.replace("-", "_"): value for key, value in parameters.items()}
    declared = parameters_by_name(chore.definition)
    accepted = [*(one for one in declared if one not in _OF_THE_TASK), "quarantine"]
    strange = sorted(set(values) - set(accepted))
    if strange:
        names = ", ".join(one.replace("_", "-") for one in accepted)
        raise InvalidInputError(f"{name} has no parameter {strange[0].replace('_', '-')!r}; it has {names}")
    for key, value in values.items():
        if key not in declared or declared[key].kind is not Kind.MOMENT or str(value).strip().isdigit():
            continue
        try:
            values[key] = started_ms - parse_span(str(value), key)
        except InvalidInputError:
            continue  # a date and time
    return values
