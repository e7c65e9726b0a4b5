"""This module has the operator that removes files that nothing refers to."""

from __future__ import annotations

from lakecore.jobs.definitions.expiry import RemoveOrphanFiles
from lakecore_airflow.tasks.engine_chore import EngineChoreOperator

__all__ = ["RemoveOrphanFilesOperator"]


class RemoveOrphanFilesOperator(EngineChoreOperator):
    """Move files that nothing refers to into the quarantine.

    :param older_than: younger files are left alone; None means a day ago.
    :param allow_empty: also clean a table without any snapshot, tag or changelog.
    :param external: also clean below `data-file.external-paths`; no table of another warehouse may use these
        paths.
    """

    definition = RemoveOrphanFiles
    doing = "looking for orphans"
