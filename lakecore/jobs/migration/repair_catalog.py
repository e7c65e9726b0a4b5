"""This job adds tables whose files exist to a catalog's list of names, with their databases.

Nothing is removed: a name without files stays. It can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from lakecore.catalog.names import DATABASE_SUFFIX, check_name
from lakecore.clock import Clock, SystemClock
from lakecore.errors import LakeError, NotFoundError, UnsupportedError, explain
from lakecore.executor import Executor
from lakecore.fs.file_io import FileIO
from lakecore.jobs.definitions.repair import RepairCatalog as Job
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.report import Report
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore

__all__ = ["Job", "run"]


@runtime_checkable
class _Repairable(Protocol):
    """This is a catalog with a list of names apart from the files."""

    @property
    def file_io(self) -> FileIO: ...

    @property
    def warehouse(self) -> str: ...

    def list_databases(self) -> list[str]: ...

    def list_tables(self, database: str) -> list[str]: ...

    def database_path(self, database: str) -> str:
        """Return the directory of a database, whether it exists or not."""

    def repair_table(self, name: str) -> None:
        """Add one table to the names."""


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Add the tables below the target, each on its own: one that fails does not stop the others.

    Raises UnsupportedError for a catalog that finds tables by their files, NotFoundError for a target without
    files, and the first error when every table failed.
    """
    if not isinstance(lake, _Repairable):
        raise UnsupportedError("repair: this catalog has no list of names; it finds the files themselves")
    names, notes, errors = [], [], []
    for name in _targets(job.target, lake, clock or SystemClock()):
        try:
            lake.repair_table(name)
        except LakeError as err:
            errors.append(err)
            notes.append(f"{name} was not entered: {explain(err)}")
        else:
            names.append(name)
    if errors and not names:
        raise errors[0]
    if not names and job.target:
        raise NotFoundError(f"repair: there are no files of a table at {job.target!r} in {lake.warehouse}")
    return Report(table="", job="repair", names=tuple(names), notes=tuple(notes), nothing_to_do=not names)


def _targets(target: str, catalog: _Repairable, clock: Clock) -> Iterator[str]:
    """Yield the tables to enter: that of the target, or all with a schema below it."""
    database, _, table = target.partition(".")
    if table:
        yield target
        return
    for name in [check_name(database, "database")] if database else _databases(catalog):
        directory = catalog.database_path(name)
        for status in sorted(catalog.file_io.list(directory), key=lambda one: one.name):
            paths = TablePaths(f"{directory}/{status.name}")
            if not status.name.startswith(".") and SchemaStore(catalog.file_io, paths, clock).list_ids():
                yield f"{name}.{status.name}"


def _databases(catalog: _Repairable) -> list[str]:
    """Return the databases of the catalog, and those that are directories only."""
    directories = [status.name for status in catalog.file_io.list(catalog.warehouse)]
    names = [one.removesuffix(DATABASE_SUFFIX) for one in directories if one.endswith(DATABASE_SUFFIX)]
    existing = {name for name in names if name and not name.startswith(".")}
    return sorted(existing.union(catalog.list_databases()))
