"""This job makes a table of each directory below a directory, one after the other."""

from __future__ import annotations

from dataclasses import replace

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.privileges.grants import Privilege
from lakecore.clock import Clock, SystemClock
from lakecore.errors import LakeError, NotFoundError, explain
from lakecore.executor import Executor
from lakecore.fs.resolve import plain_path
from lakecore.jobs.definitions.migration import MigrateDatabase as Job
from lakecore.jobs.definitions.migration import MigrateTable
from lakecore.jobs.migration import migrate_table
from lakecore.jobs.migration.joined_report import joined_report
from lakecore.jobs.runner.report import Report
from lakecore.jobs.runner.rights import grants_of

__all__ = ["Job", "run"]


def run(job: Job, lake: Catalog, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Make a table of each directory. One that fails does not stop the others: the notes name it, and tables
    that were migrated stay. Raises the first error when all fail, and PrivilegeError for a user without
    ADMIN.
    """
    grants_of(lake).check(Privilege.ADMIN)
    clock = clock or SystemClock()
    started = clock.monotonic()
    root = plain_path(job.source)
    directories = [
        one for one in lake.file_io.list(root) if one.is_dir and not one.name.startswith((".", "_"))
    ]
    if not directories:
        raise NotFoundError(f"{root} has no directories of tables")
    if not job.dry_run:
        lake.create_database(job.target, if_not_exists=True)
    reports, notes, errors = [], [], []
    for directory in sorted(directories, key=lambda one: one.name):
        name = directory.name
        one = MigrateTable(
            source=directory.path,
            target=f"{job.target}.{name}",
            partition_types=job.partition_types,
            table_options=job.table_options,
            dry_run=job.dry_run,
        )
        try:
            reports.append(migrate_table.run(one, lake, executor, clock))
        except LakeError as err:
            errors.append(err)
            notes.append(f"{one.target} was not migrated: {explain(err)}")
    report = joined_report(Report(table="", job=job.command, dry_run=job.dry_run), reports, notes, errors)
    return replace(report, seconds=round(clock.monotonic() - started, 3))
