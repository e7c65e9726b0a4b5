"""This module has operators that make tables of directories, and of other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecore.jobs.definitions.migration import Copy, MigrateDatabase, MigrateTable
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.job import JobTask

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CopyOperator", "MigrateDatabaseOperator", "MigrateTableOperator"]


class _MigrateTask(JobTask):
    """An operator that migrates; its XCom is the report."""

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs.definitions.values import new_job
        from lakecore.jobs.runner.dispatch import run_chore

        with airflow_errors():
            job = new_job(self.definition, self.job_fields(context))
            report = run_chore(job, LakeHook(self.lake_conn_id).catalog())
        self.log.info("%d files of %s were copied", report.files, self.source)
        return report.to_json()


class MigrateTableOperator(_MigrateTask):
    """Make a table of the data files of a directory, which are copied and stay.

    :param source: the directory, in the storage of the warehouse. (templated)
    :param target: the new table. (templated)
    :param partition_types: the types of partition columns, by column; STRING for others. (templated)
    :param table_options: options of the new table. (templated)
    """

    definition = MigrateTable
    required = ("source", "target")


class MigrateDatabaseOperator(_MigrateTask):
    """Make a table of each directory below a directory.

    :param source: the directory, in the storage of the warehouse. (templated)
    :param target: the database of the new tables. (templated)
    :param partition_types: the types of partition columns, by column; STRING for others. (templated)
    :param table_options: options of the new tables. (templated)
    """

    definition = MigrateDatabase
    required = ("source", "target")


class CopyOperator(JobTask):
    """Copy the latest snapshot of a table into a new table, or those of all tables of a database.

    :param source: the table, or the database. (templated)
    :param target: the new table, or the database of the new tables. (templated)
    :param target_catalog: the connection of the catalog of the copy; None: that of the source. (templated)
    :param partitions: only these partitions of a table, `dt=a,hh=b;dt=c`. (templated)
    """

    definition = Copy
    required = ("source", "target")

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs.definitions.values import new_job
        from lakecore.jobs.migration import copy_table

        with airflow_errors():
            job = new_job(Copy, self.job_fields(context))
            target = LakeHook(job.target_catalog).catalog() if job.target_catalog else None
            report = copy_table.run(job, LakeHook(self.lake_conn_id).catalog(), target=target)
        self.log.info("%d files of %s were copied to %s", report.files, self.source, self.target)
        return report.to_json()
