"""This module has operators that repair hints and manifests, and remove references to missing files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecore.jobs.definitions.repair import (
    ApplyRepairPlan,
    CompactManifest,
    RemoveUnexistingFiles,
    RemoveUnexistingManifests,
    RepairCatalog,
    RepairEarliestSnapshot,
    RepairHints,
)
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.chore import ChoreOperator
from lakecore_airflow.tasks.job import JobTask

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = [
    "ApplyRepairPlanOperator",
    "CompactManifestOperator",
    "RemoveUnexistingFilesOperator",
    "RemoveUnexistingManifestsOperator",
    "RepairCatalogOperator",
    "RepairEarliestSnapshotOperator",
    "RepairHintsOperator",
    "RepairOperator",
]


class RepairHintsOperator(ChoreOperator):
    """Correct the hints LATEST and EARLIEST of a table to match the snapshots that exist."""

    definition = RepairHints


class RepairEarliestSnapshotOperator(ChoreOperator):
    """Set the hint EARLIEST to `snapshot`, the first snapshot after a gap in the ids."""

    definition = RepairEarliestSnapshot


class CompactManifestOperator(ChoreOperator):
    """Rewrite many small manifests as a few large ones. No row changes."""

    definition = CompactManifest
    repeatable = True


class RemoveUnexistingFilesOperator(ChoreOperator):
    """Commit a snapshot without the data files that no longer exist; their rows are lost.

    :param accept_rows: how many rows may be lost; with None no row may be lost, and the task fails and names
        the missing files.
    """

    definition = RemoveUnexistingFiles
    repeatable = True


class RemoveUnexistingManifestsOperator(ChoreOperator):
    """Commit a snapshot without the manifests that no longer exist; the parameters are those for files.

    :param accept_revived: accept that files which a lost manifest removed may come back.
    """

    definition = RemoveUnexistingManifests
    repeatable = True


class ApplyRepairPlanOperator(ChoreOperator):
    """Apply a repair plan of `fsck --plan`; a retry continues where the first try stopped.

    :param plan: the plan's JSON, as text or a mapping.
    :param steps: the numbers of the steps, as a list or separated by commas; None applies all, in order.
    :param allow_loss: also apply steps that lose rows, as the plan says.
    """

    definition = ApplyRepairPlan


RepairOperator = ApplyRepairPlanOperator
"""This is the old name, for one release more."""


class RepairCatalogOperator(JobTask):
    """Add tables whose files exist to the catalog's list of names, as Paimon's procedure `repair` does.

    :param target: a database, or a table; empty means all databases. (templated)
    """

    definition = RepairCatalog

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs.definitions.values import new_job
        from lakecore.jobs.migration import repair_catalog

        with airflow_errors():
            job = new_job(RepairCatalog, self.job_fields(context))
            report = repair_catalog.run(job, LakeHook(self.lake_conn_id).catalog())
        self.log.info("%d tables were entered", len(report.names))
        return report.to_json()
