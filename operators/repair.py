"""Hints and manifests set right as Airflow tasks."""

from __future__ import annotations

from typing import ClassVar

from operators.chore import ChoreOperator

__all__ = ["CompactManifestOperator", "RepairHintsOperator"]


class RepairHintsOperator(ChoreOperator):
    """Let the hints LATEST and EARLIEST of a table say what is there."""

    module = "repair"
    job = "RepairHints"


class CompactManifestOperator(ChoreOperator):
    """Rewrite many small manifests as few; changes no row."""

    module = "repair"
    job = "CompactManifest"
    parameters: ClassVar = {"options": "options"}
