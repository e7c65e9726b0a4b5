"""This job copies a table, or all tables of a database, into another table or catalog.

The copy is made in `.lakecore/copies` of the target's warehouse, checked, and then moved to its place: in one
step where storage can, else file by file with the schemas last, so that no engine finds half a table.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.names import check_data_table
from lakecore.catalog.registry import load_catalog
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.clock import Clock, SystemClock
from lakecore.errors import (
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    explain,
)
from lakecore.executor import Executor
from lakecore.jobs.definitions.migration import Copy as Job
from lakecore.jobs.migration.copied_files import CopiedTable, copied_table
from lakecore.jobs.migration.copy_mark import CopyMark
from lakecore.jobs.migration.joined_report import joined_report
from lakecore.jobs.migration.table_copy import TableCopy
from lakecore.jobs.runner.report import Report
from lakecore.table import Table

__all__ = ["Job", "run"]

_TRIES = 3


def run(
    job: Job,
    lake: Catalog,
    executor: Executor | None = None,
    clock: Clock | None = None,
    target: Catalog | None = None,
) -> Report:
    """Copy the latest snapshot of a table, or of each table of a database. `target` is the catalog of the
    copy, when the caller has opened it.

    Of a database, a table that fails does not stop the others: the notes name it. Raises AlreadyExistsError,
    UnsupportedError, InvalidInputError and PrivilegeError before anything is written; ProofError when a copy
    is not what its source is; and the first error when all tables of a database fail.
    """
    clock = clock or SystemClock()
    started = clock.monotonic()
    opened = target is None and job.target_catalog is not None
    catalog = load_catalog(job.target_catalog) if opened else (target or lake)
    with closing(catalog) if opened else nullcontext():
        if not isinstance(catalog, WarehouseCatalog):
            raise UnsupportedError(
                f"copy to {job.target!r}: the server of a REST catalog makes its tables itself; copy into a "
                "catalog of another kind"
            )
        copy = _table if "." in job.source else _database
        report = copy(job, lake, catalog, clock)
    return replace(report, seconds=round(clock.monotonic() - started, 3))


def _database(job: Job, lake: Catalog, catalog: WarehouseCatalog, clock: Clock) -> Report:
    if "." in job.target or job.partitions is not None:
        raise InvalidInputError(
            f"copy of database {job.source!r}: the target is a database too, and partitions are those of one "
            "table"
        )
    reports, notes, errors = [], [], []
    for name in lake.list_tables(job.source):
        one = replace(job, source=f"{job.source}.{name}", target=f"{job.target}.{name}")
        try:
            reports.append(_table(one, lake, catalog, clock))
        except LakeError as err:
            errors.append(err)
            notes.append(f"{one.source} was not copied: {explain(err)}")
    report = Report(table="", job=job.command, dry_run=job.dry_run, nothing_to_do=not reports)
    return joined_report(report, reports, notes, errors)


def _table(job: Job, lake: Catalog, catalog: WarehouseCatalog, clock: Clock) -> Report:
    check_data_table(job.source, "copied")
    name = check_data_table(job.target, "the name of a copy")
    mark = CopyMark(catalog.file_io, catalog.warehouse, job.source, job.target)
    source, plan = _plan(job, lake)
    begun = mark.is_interrupted()
    if not begun:
        catalog._check_new_table(name, source.schema)
    report = Report(
        table=job.target, job=job.command, dry_run=job.dry_run, files=len(plan.files), bytes=plan.size
    )
    if job.dry_run:
        return report
    with catalog._removal.exclusive(job.target, job.command):
        catalog.create_database(name.database, if_not_exists=True)
        if begun:
            report = replace(report, notes=("an earlier run had made the copy; it was moved to its place",))
        else:
            plan = _build(job, lake, TableCopy(source, catalog._storage_of(name), mark.files, clock), plan)
            mark.begin()
        catalog._move_in(name, mark.files)
        mark.end()
    snapshot = catalog.load_table(job.target).latest_snapshot()
    files, size = len(plan.files), plan.size
    return replace(report, files=files, bytes=size, snapshot=None if snapshot is None else snapshot.id)


def _plan(job: Job, lake: Catalog) -> tuple[Table, CopiedTable]:
    source = lake.load_table(job.source)
    source._check_select()
    return source, copied_table(source, job.partitions)


def _build(job: Job, lake: Catalog, copy: TableCopy, plan: CopiedTable) -> CopiedTable:
    """Make the copy, of the next snapshot if that of `plan` expires meanwhile; return what was copied."""
    for _ in range(_TRIES):
        try:
            copy.build(plan)
        except NotFoundError:
            if plan.snapshot is None or copy.source._stores.snapshots.exists(plan.snapshot.id):
                raise
            source, plan = _plan(job, lake)
            copy = replace(copy, source=source)
        else:
            return plan
    raise UnavailableError(
        f"table {job.source!r}: its snapshots expired {_TRIES} times during the copy; let them live longer "
        "(snapshot.time-retained)"
    )
