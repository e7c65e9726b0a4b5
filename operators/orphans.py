"""Removal of files that nothing refers to, as an Airflow task."""

from __future__ import annotations

from typing import ClassVar

from operators.engine_chore import EngineChoreOperator

__all__ = ["RemoveOrphanFilesOperator"]


class RemoveOrphanFilesOperator(EngineChoreOperator):
    """Move files that nothing refers to into the quarantine.

    :param older_than: younger files are left alone; None is a day ago.
    :param allow_empty: also for a table without any snapshot, tag or changelog.
    :param external: also below `data-file.external-paths`; no table of another warehouse may use them.
    """

    doing = "looking for orphans"
    module = "remove_orphan_files"
    parameters: ClassVar = {"older_than": "moment", "allow_empty": "bool", "external": "bool"}
