"""This module has jobs that make tables of directories, and of other tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Parameter
from lakecore.jobs.definitions.table_job import Definition

__all__ = ["Copy", "MigrateDatabase", "MigrateTable"]


@dataclass(frozen=True, kw_only=True)
class _Migration(Definition):
    """A request to migrate; the files of the source stay."""

    names_run: ClassVar[bool] = False

    source: Annotated[
        str, Parameter("Name the directory, in the storage of the warehouse.", on_command=False)
    ]
    partition_types: Annotated[
        Mapping[str, str], Parameter("Set the type of a partition column; it is STRING by default.")
    ] = field(default_factory=dict)
    table_options: Annotated[Mapping[str, str], Parameter("Set an option of the new table.")] = field(
        default_factory=dict
    )
    dry_run: Annotated[bool, Parameter("Say what would be migrated, and write nothing.")] = False


@dataclass(frozen=True, kw_only=True)
class MigrateTable(_Migration):
    """Make a table of the data files of a directory, which are copied, not rewritten."""

    command: ClassVar[str] = "migrate-table"
    module: ClassVar[str] = "migration.migrate_table"

    target: Annotated[str, Parameter("Name the new table.", on_command=False)]


@dataclass(frozen=True, kw_only=True)
class MigrateDatabase(_Migration):
    """Make a table of each directory below a directory."""

    command: ClassVar[str] = "migrate-database"
    module: ClassVar[str] = "migration.migrate_database"

    target: Annotated[str, Parameter("Name the database of the new tables.", on_command=False)]


@dataclass(frozen=True, kw_only=True)
class Copy(Definition):
    """Copy the files of the latest snapshot of a table into a new table, or of all tables of a database into
    another database. Branches, tags and older snapshots are not copied.
    """

    command: ClassVar[str] = "copy"
    module: ClassVar[str] = "migration.copy_table"
    names_run: ClassVar[bool] = False

    source: Annotated[str, Parameter("Name the table or the database.", on_command=False)]
    target: Annotated[str, Parameter("Name the new table, or the database.", on_command=False)]
    target_catalog: Annotated[
        str | None,
        Parameter("Name the catalog of the copy, or its warehouse; by default that of the source."),
    ] = None
    partitions: Annotated[
        str | None,
        Parameter(
            "Copy only these partitions of a table: 'dt=a,hh=b;dt=c'.", flags=("--partitions", "--where")
        ),
    ] = None
    dry_run: Annotated[bool, Parameter("Say what would be copied, and write nothing.")] = False
