"""The operator that looks at all tables of a lake and stores how healthy they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecore.jobs.definitions.survey import SurveyTables
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.reports.metrics import count_states
from lakecore_airflow.tasks.job import JobTask

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["SurveyOperator"]

_WORST = 20


class SurveyOperator(JobTask):
    """Look at all tables of a lake, and store how healthy each one is: the page *Lake* shows it, and
    `lakecore health` lists it. The operator changes no table. The XCom has the number of tables in each
    state, and the worst tables.

    A table that cannot be read is a state of the survey, not a failure of the task.

    :param including_databases: regular expression for whole names of databases. (templated)
    :param including_tables: the same for `database.table`. (templated)
    :param excluding_tables: the same, of tables to leave out; None for none. (templated)
    :param history: also add up the bytes that only older snapshots need. (templated)
    :param max_concurrent_tables: how many tables are looked at at once. (templated)
    :param dry_run: look at the tables, and store nothing. (templated)
    """

    definition = SurveyTables
    ui_color = "#e3ecf8"

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs import survey
        from lakecore.jobs.definitions.values import new_job

        with airflow_errors():
            job = new_job(SurveyTables, self.job_fields(context))
            result = survey.run(job, LakeHook(self.lake_conn_id).catalog())
        states = survey.counts(result)
        worst = sorted(result.tables, key=lambda record: (record.score, record.table))[:_WORST]
        for record in worst:
            if record.state.value != "ok":
                state = record.state.value
                self.log.info("%s is %s (%d): %s", record.table, state, record.score, record.reasons)
        self.log.info("%d tables in %.1f s: %s", len(result.tables), result.seconds, states)
        count_states(states)
        return {
            "job": "survey",
            "tables": len(result.tables),
            "states": states,
            "seconds": result.seconds,
            "worst": [{"table": one.table, "state": one.state.value, "score": one.score} for one in worst],
        }
