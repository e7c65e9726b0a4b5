"""The base of all maintenance operators. A concrete operator takes a few lines; each area has one file.

Every operator names the job of `lakecore.jobs` that it runs and the parameters that it takes. The parameters
are those of Paimon's procedures. They are templated, and an empty text means that a parameter is not given.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from operators.chore_request import ChoreRequest, ChoreResult
from operators.hooks import LakeHook, airflow_errors
from operators.identity import commit_identity
from operators.task import TableTask, xcom_summary

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.executor import Executor
    from lakecore.jobs.runner.chore import Lake, Report, Safety

__all__ = ["ChoreOperator", "flag", "lease_owner", "parsed", "sentence", "waiting_ms"]

_SHOWN = 5
_GENERAL = ("table", "preview", "quarantine", "wait", "lake_conn_id")


def _named_init(parameters: Sequence[str]) -> Callable[..., None]:
    """Build a constructor that takes the parameters by name, because mapping and `default_args` inspect its
    signature.
    """

    def init(self: ChoreOperator, **kwargs: Any) -> None:
        ChoreOperator.__init__(self, **kwargs)

    known = list(inspect.signature(ChoreOperator.__init__).parameters.values())
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in parameters]
    setattr(init, "__signature__", inspect.Signature([*known[:-1], *named, known[-1]]))  # noqa: B010
    return init


class ChoreOperator(TableTask):
    """The base of all maintenance operators. It has a table, a dry run and the safety settings, and returns a
    small JSON report as XCom.

    A task that is repeated after it was killed finishes what its first try began. Two tasks never work on one
    table at the same time: the second one fails and is retried. If a run used the quarantine, `lakecore undo`
    accepts the `run` of its report.

    :param table: `database.table`, or `database.table$branch_NAME`. (templated)
    :param dry_run: report what would happen and change nothing. (templated)
    :param quarantine: move files aside for a while instead of deleting them; None as the chore does by
        itself. (templated)
    :param wait: how long to wait for a table that another chore holds, for example `10 min`; the task fails
        for now when it is held for longer. (templated)
    """

    module: ClassVar[str]
    """The module of `lakecore.jobs` that has the job."""
    job: ClassVar[str] = "Job"
    """The name of its job class."""
    parameters: ClassVar[Mapping[str, str]] = {}
    """What the operator takes besides: name to kind (`text`, `int`, `bool`, `moment`, `span`,
    `options`, `names`).
    """
    settings: ClassVar[Sequence[str]] = ()
    """What the task takes that is no parameter of its job."""
    repeatable: ClassVar[bool] = False
    """Whether its commits are those of the task run: a retry whose first try has committed does nothing."""

    template_fields: Sequence[str] = _GENERAL
    ui_color = "#e8e3f3"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = (*cls.parameters, *cls.settings)
        cls.template_fields = (*_GENERAL, *own)
        setattr(cls, "__init__", _named_init(own))  # noqa: B010 - mypy takes it for a mistake

    def __init__(
        self,
        *,
        table: str,
        dry_run: bool | str = False,
        quarantine: bool | str | None = None,
        wait: str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        given = {name: kwargs.pop(name, None) for name in (*self.parameters, *self.settings)}
        super().__init__(**kwargs)
        self.table = table
        self.preview = dry_run
        self.quarantine = quarantine
        self.wait = wait
        self.lake_conn_id = lake_conn_id
        for name, value in given.items():
            setattr(self, name, value)

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs.runner.chore import Safety

        given = {name: getattr(self, name) for name in self.parameters}
        if self.repeatable:
            given["commit_user"], given["commit_identifier"] = commit_identity(context["ti"])
        with airflow_errors():
            safety = Safety(
                quarantine=flag("quarantine", self.quarantine),
                owner=lease_owner(context["ti"]),
                wait_ms=waiting_ms(self.wait),
            )
            dry_run = bool(flag("dry_run", self.preview))
            hook = LakeHook(self.lake_conn_id)
            with self.workers(hook) as executor:
                report = self.run_job(
                    self.table, given, hook.catalog(), safety, dry_run=dry_run, executor=executor
                )
        self.log.info("%s", sentence(report))
        return self.publish_report(context, report.job, _xcom_summary(report), report.names)

    def workers(self, hook: LakeHook) -> AbstractContextManager[Executor | None]:
        """Return the executor of the chore's units; None runs them in this process."""
        return nullcontext()

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Run the chore on behalf of a policy. Raises errors of lakecore."""
        report = cls.run_job(
            request.table,
            request.given,
            request.lake,
            request.safety,
            dry_run=request.dry_run,
            executor=request.executor,
        )
        return ChoreResult(job=report.job, report=_xcom_summary(report), text=sentence(report))

    @classmethod
    def run_job(
        cls,
        table: str,
        given: Mapping[str, Any],
        lake: Lake,
        safety: Safety,
        *,
        dry_run: bool = False,
        executor: Executor | None = None,
    ) -> Report:
        """Run the chore with parameters as users write them. Raises errors of lakecore."""
        module = importlib.import_module(f"lakecore.jobs.{cls.module}")
        values = {
            key: value
            for name, raw in given.items()
            for key, value in parsed(name, cls.parameters.get(name, "as it is"), raw).items()
        }
        job = getattr(module, cls.job)(table=table, dry_run=dry_run, safety=safety, **values)
        report: Report = module.run(job, lake, executor)
        return report


def _xcom_summary(report: Report) -> dict[str, Any]:
    """Shorten a report for XCom."""
    return xcom_summary(report.to_json(), "snapshots", "names", "notes")


def sentence(report: Report) -> str:
    """Return a line for the log that says what was done; it is short when there is little to say."""
    figures = {
        "would be done": report.dry_run,
        "nothing to do": report.nothing_to_do,
        f"{len(report.snapshots)} snapshots": report.snapshots,
        f"{report.files} files": report.files,
        f"{report.bytes} bytes": report.bytes,
        f"names: {', '.join(report.names[:_SHOWN])}{' …' if report.names[_SHOWN:] else ''}": report.names,
        f"snapshot {report.snapshot}": report.snapshot is not None,
        f"nothing more is done: {report.blocker}": report.blocker,
        report.held: report.held,
        f"kept in the quarantine, taken back by: lakecore undo {report.run}": (
            report.run and report.quarantined and report.files
        ),
        f"{report.resumed} interrupted runs were finished first": report.resumed,
        **dict.fromkeys(report.notes[:_SHOWN], True),
    }
    said = "; ".join(text for text, is_so in figures.items() if is_so) or "done"
    return f"{report.job} of {report.table}: {said} ({report.seconds:.1f} s)"


def flag(name: str, value: Any) -> bool | None:
    """Parse a boolean as a template renders it; an empty text is None. Raises InvalidInputError."""
    from lakecore.errors import InvalidInputError
    from lakecore.options import parse_bool

    if value is None or isinstance(value, bool):
        return value
    text = str(value).strip()
    try:
        return None if text in ("", "None") else parse_bool(text)
    except ValueError as err:
        raise InvalidInputError(f"{name}={value!r}: use true or false") from err


def waiting_ms(wait: str | None) -> int:
    """Return how many milliseconds a task waits for a table that another chore holds. Raises
    InvalidInputError.
    """
    from lakecore.jobs.runner.moment import parse_span

    text = str(wait or "").strip()
    return 0 if text in ("", "None") else parse_span(text, "wait")


def lease_owner(ti: Any) -> str:
    """Return the owner of a task's leases. It is the same for every try, so that a retry takes its own lease
    over at once.
    """
    return f"{ti.dag_id}/{ti.task_id}/{ti.run_id}/{ti.map_index}".replace(" ", "_")


def parsed(name: str, kind: str, value: Any) -> dict[str, Any]:
    """Convert a parameter to the argument of the job. The result is empty for an empty text, because rendered
    templates are text and an empty one means that nothing was given.
    """
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.runner.moment import parse_moment, parse_span

    if value is None or (isinstance(value, str) and value.strip() in ("", "None")):
        return {}
    if kind == "as it is":
        return {name: value}
    if kind == "moment":
        return {f"{name}_ms": parse_moment(str(value), name)}
    if kind == "span":
        return {f"{name}_ms": parse_span(str(value), name)}
    if kind == "options":
        return {name: dict(value)}
    if kind == "bool":
        return {name: flag(name, value)}
    if kind == "names":
        found = value.split(",") if isinstance(value, str) else value
        return {name: tuple(str(one).strip() for one in found)}
    try:
        return {name: int(value) if kind == "int" else str(value)}
    except ValueError as err:
        raise InvalidInputError(f"{name}={value!r}: use a whole number") from err
