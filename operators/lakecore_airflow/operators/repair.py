"""This module has operators that repair hints and manifests, and remove references to missing files."""

from __future__ import annotations

from lakecore.jobs.definitions.repair import (
    CompactManifest,
    RemoveUnexistingFiles,
    RemoveUnexistingManifests,
    Repair,
    RepairEarliestSnapshot,
    RepairHints,
)
from lakecore_airflow.tasks.chore import ChoreOperator

__all__ = [
    "CompactManifestOperator",
    "RemoveUnexistingFilesOperator",
    "RemoveUnexistingManifestsOperator",
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


class RepairOperator(ChoreOperator):
    """Apply a repair plan of `fsck --plan`; a retry continues where the first try stopped.

    :param plan: the plan's JSON, as text or a mapping.
    :param steps: the numbers of the steps, as a list or separated by commas; None applies all, in order.
    :param allow_loss: also apply steps that lose rows, as the plan says.
    """

    definition = Repair
