"""This module has operators that remove files that nothing refers to, and that empty a table."""

from __future__ import annotations

from lakecore.jobs.definitions.expiry import PurgeFiles, RemoveOrphanFiles
from lakecore_airflow.tasks.engine_chore import EngineChoreOperator

__all__ = ["PurgeFilesOperator", "RemoveOrphanFilesOperator"]


class RemoveOrphanFilesOperator(EngineChoreOperator):
    """Move files that nothing refers to into the quarantine.

    :param older_than: younger files are left alone; None means a day ago.
    :param allow_empty: also clean a table without any snapshot, tag or changelog.
    :param external: also clean below `data-file.external-paths`; no table of another warehouse may use these
        paths.
    """

    definition = RemoveOrphanFiles
    doing = "looking for orphans"


class PurgeFilesOperator(EngineChoreOperator):
    """Empty a table, and move its branches, tags, consumers, changelogs, older snapshots and all their files
    into the quarantine. A retry does not remove rows that were added after the first try's commit.

    :param older_than: files that nothing refers to stay if they are younger; None means a day ago.
    """

    definition = PurgeFiles
    doing = "looking for files"
    repeatable = True
