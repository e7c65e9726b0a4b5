"""This module has the DAG that does what a person asks for on a page of the lake, once."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.python import BranchPythonOperator
from airflow.sdk import DAG, Param

from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.dags.engines import ENGINE_DEFAULTS, dag_engine_param, engine_parameters
from lakecore_airflow.dags.parts import CONNECTION, LakeDag
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.operators.fsck import FsckOperator
from lakecore_airflow.operators.holds import HoldTableOperator, ReleaseTableOperator
from lakecore_airflow.operators.ledger import PurgeQuarantineOperator, UndoOperator
from lakecore_airflow.policy.maintain import MaintainTableOperator, PlanMaintenanceOperator
from lakecore_airflow.reports.outcome import LABEL
from lakecore_airflow.rights import ActionRequest, Rights

__all__ = ["ACTIONS", "DEFAULTS", "build"]

DEFAULTS = {"schedule": None, **ENGINE_DEFAULTS, "policy": None, "rights": None}

ACTIONS = ("compact", "maintain", "hold", "release", "undo", "purge", "fsck")
"""Each is the id of a task; `plan` comes before `maintain`."""

DOC = """
This DAG does one thing, which the param `action` names: it compacts or maintains a table, puts it on hold or
releases it, takes a run of the quarantine back or deletes its files for good, or checks a table. The pages of
the lake start its runs, first as a dry run. It has no schedule.

Who may start runs of this DAG may do these things on every lake that Airflow has a connection to, unless
`lakecore.toml` has rules `[[airflow.rights]]`: then the task `choose` refuses what no rule allows the user
who started the run. The audit log has a line for each start, and the ledger of the lake (`lakecore attempts`)
names the run.

* `maintain` runs the chores of the policy for the table: that of `lakecore_maintenance` (`policy` in the
  table `[airflow.maintenance]` of `lakecore.toml`), else the Airflow variable `lakecore_policy`. Without a
  policy it only reports.
* `undo` and `purge` need `run`; `purge` without one deletes what is in the quarantine for more than a week.
"""


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    text = {"type": ["null", "string"]}
    params = {
        "action": Param("fsck", enum=list(ACTIONS), description="What is to be done."),
        "table": Param(None, **text, description="The table, database.table."),
        "run": Param(None, **text, description="undo, purge: the run, as the page Quarantine names it."),
        "reason": Param(None, **text, description="hold: why, for everyone whose chore the hold stops."),
        "strategy": Param(
            "universal", enum=["universal", "full"], description="compact: what needs it, or all."
        ),
        "dry_run": Param(True, type="boolean", description="Only report what would be done."),
        "engine": dag_engine_param(lake, "tables"),
    }
    with lake.open(
        params,
        description="What a person asks for on a page of the lake.",
        tags=["lakecore"],
        doc_md=DOC,
        max_active_runs=16,
    ) as dag:
        choose = BranchPythonOperator(
            task_id="choose", python_callable=_chosen_task, op_kwargs={"rights": lake.settings["rights"]}
        )
        choose >> _actions(lake)
    return dag


def _actions(lake: LakeDag) -> list[Any]:
    table = {"table": "{{ params.table or '' }}", "lake_conn_id": CONNECTION}
    dry_run = "{{ params.dry_run }}"
    plan = PlanMaintenanceOperator(
        task_id="plan",
        policy=lake.settings["policy"] or "{{ var.value.get('lakecore_policy', '') }}",
        tables="{{ params.table or '' }}",
        dry_run=dry_run,
        lake_conn_id=CONNECTION,
    )
    MaintainTableOperator.partial(
        task_id="maintain", **engine_parameters(lake), lake_conn_id=CONNECTION, map_index_template=LABEL
    ).expand_kwargs(plan.output)
    return [
        plan,
        CompactTableOperator(
            task_id="compact",
            strategy="{{ params.strategy }}",
            **engine_parameters(lake),
            dry_run=dry_run,
            wait="10 min",
            **table,
        ),
        HoldTableOperator(task_id="hold", reason="{{ params.reason or '' }}", user=_PERSON, **table),
        ReleaseTableOperator(task_id="release", user=_PERSON, **table),
        UndoOperator(
            task_id="undo", undo_run="{{ params.run or '' }}", dry_run=dry_run, lake_conn_id=CONNECTION
        ),
        PurgeQuarantineOperator(
            task_id="purge", purge_run="{{ params.run or '' }}", dry_run=dry_run, lake_conn_id=CONNECTION
        ),
        FsckOperator(task_id="fsck", fail_on="damage", **table),
    ]


_PERSON = "{{ dag_run.triggering_user_name or 'airflow' }}"


def _chosen_task(params: dict[str, Any], dag_run: Any, rights: Any) -> str:
    """Return the task of the action. Raises AirflowFailException for what the user may not do: the pages
    check the same, but a run may be started elsewhere.
    """
    action = str(params["action"])
    request = ActionRequest(
        user=getattr(dag_run, "triggering_user_name", None) or "",
        action=action,
        connection=str(params["lake_conn_id"]),
        table=str(params["table"] or ""),
    )
    if refusal := Rights.parse(rights).refusal(request):
        raise AirflowFailException(refusal)
    return "plan" if action == "maintain" else action
