"""Hints, manifests and what is gone set right as Airflow tasks."""

from __future__ import annotations

from typing import ClassVar

from operators.chore import ChoreOperator

__all__ = [
    "CompactManifestOperator",
    "RemoveUnexistingFilesOperator",
    "RemoveUnexistingManifestsOperator",
    "RepairEarliestSnapshotOperator",
    "RepairHintsOperator",
    "RepairOperator",
]


class RepairHintsOperator(ChoreOperator):
    """Let the hints LATEST and EARLIEST of a table say what is there."""

    module = "repair"
    job = "RepairHints"


class RepairEarliestSnapshotOperator(ChoreOperator):
    """Let the hint EARLIEST say `snapshot`, which follows a gap in the ids."""

    module = "repair"
    job = "RepairEarliestSnapshot"
    parameters: ClassVar = {"snapshot": "int"}


class CompactManifestOperator(ChoreOperator):
    """Rewrite many small manifests as few; changes no row."""

    module = "repair"
    job = "CompactManifest"
    parameters: ClassVar = {"options": "options"}
    repeatable = True


class RemoveUnexistingFilesOperator(ChoreOperator):
    """Commit a snapshot without the data files that are gone; their rows are lost.

    :param accept_rows: so many rows may be lost; None: none, and the task fails saying what is gone.
    """

    module = "unexisting"
    job = "RemoveUnexistingFiles"
    parameters: ClassVar = {"accept_rows": "int"}
    repeatable = True


class RemoveUnexistingManifestsOperator(ChoreOperator):
    """Commit a snapshot without the manifests that are gone; parameters as for files.

    :param accept_revived: files that a lost manifest removed may come back.
    """

    module = "unexisting"
    job = "RemoveUnexistingManifests"
    parameters: ClassVar = {**RemoveUnexistingFilesOperator.parameters, "accept_revived": "bool"}
    repeatable = True


class RepairOperator(ChoreOperator):
    """Apply a repair plan of `fsck --plan`; a retry goes on where the first try stopped.

    :param plan: its JSON, as text or a mapping.
    :param steps: numbers of steps, as a list or split by commas; None is all of them, in order.
    :param allow_loss: also steps that lose rows, as the plan says.
    """

    module = "repair_plan"
    parameters: ClassVar = {"plan": "as it is", "steps": "names", "allow_loss": "bool"}
