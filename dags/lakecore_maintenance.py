"""Run every night the chores that a policy has for each table of the lake, inside a window."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param

from operators.maintain import MaintainTableOperator, PlanMaintenanceOperator

DOC = """
This DAG checks each table, expires its tags and snapshots and moves orphan files into the quarantine, as the
policy says. The policy is a list of rules, or the path of a YAML file on the workers (variable
`LAKECORE_POLICY` of the DAG processor):

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
* Two runs never work on one table: each takes its lease. A retry finishes the work of a killed task.
"""

# Empty: no schedule, runs are started by hand.
CRON = os.environ.get("LAKECORE_MAINTENANCE_CRON", "0 5 * * *")

POLICY = os.environ.get("LAKECORE_POLICY") or [
    {
        "tables": ["*"],
        "chores": {
            "fsck": {"no-data": True},
            "expire-tags": {},
            "expire-snapshots": {"max-deletes": 500},
            "remove-orphan-files": {"older-than": "2 d"},
        },
    }
]

with DAG(
    "lakecore_maintenance",
    description="Chores for every table of the lake, by policy, inside a nightly window.",
    schedule=CronTriggerTimetable(CRON, timezone="UTC", interval=timedelta(days=1)) if CRON else None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    render_template_as_native_obj=True,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(minutes=2)},
    params={
        "policy": Param(
            POLICY, type=["array", "string"], description="Rules, or the path of a YAML file on the workers."
        ),
        "until": Param(
            "08:00",
            type=["null", "string"],
            description="End of the window: HH:MM (UTC) after the run's start, or a date and time. "
            "Empty: no end.",
        ),
        "engine": Param(
            "local", enum=["local", "spark"], description="Where files are rewritten, and many deleted."
        ),
        "dry_run": Param(
            False, type="boolean", description="Only report what each table would lose.", title="Dry run"
        ),
    },
    tags=["lakecore", "maintenance"],
    doc_md=DOC,
):
    plan = PlanMaintenanceOperator(
        task_id="plan",
        policy="{{ params.policy }}",
        doc_md="Which tables have chores: one task of `maintain` for each.",
    )
    MaintainTableOperator.partial(
        task_id="maintain",
        until="{{ params.until or '' }}",
        dry_run="{{ params.dry_run }}",
        engine="{{ params.engine }}",
        max_active_tis_per_dag=4,
        map_index_template="{{ task.table }}",
        doc_md="The chores of one table, one after another. Its report is the XCom `return_value`.",
    ).expand_kwargs(plan.output)
