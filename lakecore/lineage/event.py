"""This module has the events of lineage as frozen values, in the terms of OpenLineage."""

from __future__ import annotations

from lakecore.data_class import dataclass

__all__ = ["LineageDataset", "LineageEvent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageDataset:
    """It is a version of a table that was read or written."""

    table_path: str
    """It is the directory of the table."""
    branch: str
    snapshot_id: int | None
    """None means a table without snapshots."""
    columns: tuple[tuple[str, str], ...]
    """These are the names and types of the columns that were read, or of all columns."""
    system_table: str = ""
    """It is the name of a system table that is made of metadata, such as `files`."""

    @property
    def namespace(self) -> str:
        """Return the namespace by OpenLineage's rules for files: the store and its bucket, or `file`."""
        scheme, separator, rest = self.table_path.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}" if separator else "file"

    @property
    def name(self) -> str:
        """Return the path in the namespace."""
        _, separator, rest = self.table_path.partition("://")
        path = rest.partition("/")[2] if separator else self.table_path
        return f"{path}${self.system_table}" if self.system_table else path


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageEvent:
    """It says what a job did, when it was done, or that it failed. Events of one job have one run id."""

    run_id: str
    """It is a UUID."""
    job: str
    """It is the name that `lineage_job` gave, the name of a job of maintenance, or `read` or `write`."""
    time_ms: int
    inputs: tuple[LineageDataset, ...] = ()
    outputs: tuple[LineageDataset, ...] = ()
    rows_written: int | None = None
    """It is the number of rows in new files, less those in removed files; None for a read."""
    failure: str | None = None
    """It is the error that ended the job, None for what was done. The inputs and outputs are then those of
    the events before it.
    """
