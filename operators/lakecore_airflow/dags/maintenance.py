"""This module has the DAG that runs every night the chores that a policy has for each table, inside a
window.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from lakecore_airflow.dags.engines import ENGINE_DEFAULTS, dag_engine_param, engine_parameters, refuse_budgets
from lakecore_airflow.dags.parts import BLACKOUTS, CONNECTION, WINDOW, WINDOW_DEFAULTS, LakeDag, window_params
from lakecore_airflow.policy.maintain import MaintainTableOperator, PlanMaintenanceOperator
from lakecore_airflow.reports.outcome import LABEL

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    "schedule": "0 5 * * *",
    **WINDOW_DEFAULTS,
    "policy": None,
    "until": "08:00",
    **ENGINE_DEFAULTS,
    "engine": "local",
}

DOC = """
This DAG checks each table, expires its tags and snapshots and moves orphan files into the quarantine, as the
policy says. **Until a policy is named it changes nothing**: it checks every table and reports what
expiry and orphan removal would delete. A policy is named by the param `policy`, whose default is `policy` in
the table `[airflow.maintenance]` of `lakecore.toml`; where it is empty, by the Airflow variable
`lakecore_policy`. It is a list of rules, as YAML, or the path of a YAML file on the workers:

    - tables: ["shop.*"]
      except: ["shop.tmp_*"]
      chores:
        expire-snapshots: {max-deletes: 500}
        remove-orphan-files: {older-than: 2 d}
    - tables: ["shop.audit"]
      chores:
        expire-snapshots: off
        compact: {}

* Later rules win, chore by chore. Chores and parameters are those of the commands (`lakecore --help`); the
  options of each table say how long snapshots are kept (`snapshot.time-retained`, ...).
* Nothing is deleted that a snapshot, tag, branch or consumer still needs; the report of each task says what
  blocks expiry. `lakecore why DB.TABLE` explains it.
* A table in which the check or any chore finds damage is put on hold: nothing is removed from it
  until `lakecore fsck DB.TABLE` finds no damage, or until `lakecore release DB.TABLE`. Its task fails and
  says why; `lakecore holds` lists all such tables.
* Orphans wait in the quarantine for a week: `lakecore undo RUN` restores them.
* After `until` no further chore begins; the report names what is left, and the next night continues.
* During a black-out (`blackouts` in `[airflow]` of `lakecore.toml`: days and hours) no run is scheduled. A
  run that somebody starts then is skipped, and its log says why. The window ends when a black-out begins.
* Two runs never work on one table: each takes its lease. A retry finishes the work of a killed task.
"""


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    settings = lake.settings
    refuse_budgets(lake)
    params = {
        "policy": Param(
            settings["policy"],
            type=["null", "array", "string"],
            description="Rules, or the path of a YAML file on the workers. Empty: the variable "
            "lakecore_policy; without that, every table is only looked at.",
        ),
        **window_params(settings),
        "engine": dag_engine_param(lake, "tables"),
        "dry_run": Param(
            None,
            type=["null", "boolean"],
            title="Dry run",
            description="Only report what each table would lose. Empty: only while no policy is named.",
        ),
    }
    with lake.open(
        params,
        description="Chores for every table of the lake, by policy, inside a nightly window.",
        render_template_as_native_obj=True,
        tags=["lakecore", "maintenance"],
        doc_md=DOC,
    ) as dag:
        plan = PlanMaintenanceOperator(
            task_id="plan",
            policy="{{ params.policy or var.value.get('lakecore_policy', '') }}",
            dry_run="{{ params.dry_run }}",
            blackouts=BLACKOUTS,
            lake_conn_id=CONNECTION,
            doc_md="Which tables have chores: one task of `maintain` for each.",
        )
        MaintainTableOperator.partial(
            task_id="maintain",
            **WINDOW,
            **engine_parameters(lake),
            lake_conn_id=CONNECTION,
            max_active_tis_per_dag=4,
            map_index_template=LABEL,
            doc_md="The chores of one table, one after another. Its report is the XCom `return_value`.",
        ).expand_kwargs(plan.output)
    return dag
