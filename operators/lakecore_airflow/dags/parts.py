"""This module has the parts that the DAGs of lakecore share: the frame of a DAG, params, and the tasks
that name tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param

from lakecore_airflow.airflow_names import CronTriggerTimetable
from lakecore_airflow.dags.deadlines import deadline_of
from lakecore_airflow.lake.tables import ListTablesOperator, NamedTablesOperator
from lakecore_airflow.settings import dag_id_of
from lakecore_airflow.tasks.submit_settings import SUBMIT
from lakecore_airflow.tasks.window import WINDOW_SETTINGS
from lakecore_airflow.timetables import OpenDaysTimetable

__all__ = [
    "BLACKOUTS",
    "CONNECTION",
    "DEADLINE_DEFAULTS",
    "EVERY_DAG",
    "TABLE_DEFAULTS",
    "WINDOW",
    "WINDOW_DEFAULTS",
    "LakeDag",
    "blackouts_param",
    "engine_param",
    "list_tables",
    "name_tables",
    "named_tables_param",
    "table_params",
    "until_param",
    "window_end_param",
    "window_params",
]

CONNECTION = "{{ params.lake_conn_id }}"
"""The connection of a task is that of its run."""
TABLE_DEFAULTS = {"database": "*", "include": "*", "exclude": ""}
"""These are the settings that `table_params` needs: they select all tables."""
EVERY_DAG = {"pool": "default_pool"}
"""These are the settings that all DAGs have: the pool of their tasks."""
BLACKOUTS = "{{ params.blackouts | tojson }}"
"""These are the black-outs of a run."""
DEADLINE_DEFAULTS = {"deadline": "", "deadline_callback": ""}
"""These are the settings of the deadline of a DAG."""
WINDOW_DEFAULTS: Mapping[str, Any] = {
    "until": None,
    "on_window_end": "skip",
    "window_grace": "30 min",
    "blackouts": [],
    "budget_bytes": "",
    "budget_core_seconds": "",
    "budget_money": "",
    **DEADLINE_DEFAULTS,
}
"""These are the settings of the window of a DAG, which `window_params` needs."""
WINDOW = {
    **{name: f"{{{{ params.{name} or '' }}}}" for name in ("until", *WINDOW_SETTINGS)},
    "blackouts": BLACKOUTS,
}
"""These are the arguments of a task whose window is that of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDag:
    """This is one DAG for one lake, before its tasks."""

    name: str
    """This is its short name: `nightly`."""
    connection: str
    """This is the connection of its lake."""
    settings: Mapping[str, Any]
    """These are its settings, complete."""

    @property
    def dag_id(self) -> str:
        """Return the id: `lakecore_nightly`, and for another connection than `lake_default` also that."""
        return dag_id_of(self.name, self.connection)

    def open(self, params: Mapping[str, Param], *, schedule: Any = None, **arguments: Any) -> DAG:
        """Return the DAG, which is a context manager for its tasks.

        `schedule`: in place of the cron expression of the setting `schedule`, whose runs stand for the day
        before. Empty: runs are started by hand.
        """
        cron, blackouts = self.settings["schedule"], self.settings.get("blackouts")
        if schedule is None and cron and blackouts:
            schedule = OpenDaysTimetable(cron, blackouts)
        elif schedule is None and cron:
            schedule = CronTriggerTimetable(cron, timezone="UTC", interval=timedelta(days=1))
        connection = Param(self.connection, type="string", description="The connection of the lake.")
        return DAG(
            self.dag_id,
            schedule=schedule,
            start_date=datetime(2020, 1, 1, tzinfo=UTC),
            catchup=False,
            default_args={
                "owner": "data-platform",
                "retries": 2,
                "retry_delay": timedelta(minutes=1),
                "pool": self.settings["pool"],
            },
            params={**params, "lake_conn_id": connection},
            deadline=deadline_of(self.settings, self.connection),
            **{"max_active_runs": 1} | arguments,
        )


def table_params(settings: Mapping[str, Any]) -> dict[str, Param]:
    """Return the params that choose tables."""
    return {
        "database": Param(
            settings["database"], type="string", description="Databases: patterns, such as shop*, crm"
        ),
        "include": Param(
            settings["include"],
            type="string",
            description="Only tables that match a pattern: orders*, shop.events",
        ),
        "exclude": Param(
            settings["exclude"] or None,
            type=["null", "string"],
            description="No table that matches one of these patterns.",
        ),
    }


def list_tables(purpose: str, **arguments: str) -> ListTablesOperator:
    """Return the task that lists the tables that `table_params` choose. `purpose` describes it in Airflow."""
    return ListTablesOperator(
        task_id="tables",
        database="{{ params.database }}",
        include="{{ params.include }}",
        exclude="{{ params.exclude or '' }}",
        lake_conn_id=CONNECTION,
        doc_md=purpose,
        **arguments,
    )


def named_tables_param(settings: Mapping[str, Any], description: str) -> dict[str, Param]:
    """Return the param `tables`, whose default is the setting of that name."""
    names = ", ".join(settings["tables"]) or None
    return {"tables": Param(names, type=["null", "string"], description=description)}


def name_tables(purpose: str) -> NamedTablesOperator:
    """Return the task that names the tables of the param `tables`. `purpose` describes it in Airflow."""
    return NamedTablesOperator(task_id="tables", tables="{{ params.tables or '' }}", doc_md=purpose)


def engine_param(value: str, work: str, engines: Sequence[str] = ("auto", "spark", "local")) -> Param:
    """Return the param of the engine. `work`: the kind of things that it rewrites."""
    text = (
        f"local: in the task's process, for {work} too small to be worth a Spark session; "
        "auto: a dry run decides"
    )
    if SUBMIT in engines:
        text += "; submit: on a driver that spark-submit starts, while the task is deferred"
    return Param(value, type="string", enum=list(engines), description=f"{text}.")


def until_param(value: str | None) -> Param:
    """Return the param of the end of the window."""
    return Param(
        value or None,
        type=["null", "string"],
        description="End of the window: HH:MM (UTC) after the run's start, or a date and time. "
        "Work in hand is committed, the rest is reported. Empty: no end.",
    )


def window_end_param(value: str) -> Param:
    """Return the param that says how tasks end that leave work to the next window."""
    return Param(
        value,
        type="string",
        enum=["success", "skip", "fail"],
        description="How a task that leaves work ends. skip: skipped if it did nothing; fail: failed.",
    )


def blackouts_param(value: Sequence[Mapping[str, Any]]) -> Param:
    """Return the param of black-outs."""
    return Param(
        list(value) or None,
        type=["null", "array"],
        items={"type": "object"},
        description="Days and hours at which nothing begins. Empty this to begin at any time.",
    )


def window_params(settings: Mapping[str, Any]) -> dict[str, Param]:
    """Return the params of the window: its end, the black-outs and the budget of a run."""
    texts = {
        "window_grace": "Stop a task that is still at work so long after the end: 30 min. Empty: never.",
        "budget_bytes": "Begin nothing more after so much was read to be rewritten: 200 gb. Empty: no limit.",
        "budget_core_seconds": "The same for core seconds.",
        "budget_money": "The same for money, by price_core_hour of the connection.",
    }
    return {
        "until": until_param(settings["until"]),
        "on_window_end": window_end_param(settings["on_window_end"]),
        "blackouts": blackouts_param(settings["blackouts"]),
        **{
            name: Param(settings[name] or None, type=["null", "string", "number"], description=text)
            for name, text in texts.items()
        },
    }
