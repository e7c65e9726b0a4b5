"""This module has the partitions of a REST catalog: those that its server keeps, or those of the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from lakecore.catalog.names import TableName
from lakecore.catalog.objects.file_tables import file_table_of
from lakecore.catalog.partitions.file_partitions import (
    data_table,
    directory_partitions,
    drop_rows,
    file_partitions,
)
from lakecore.catalog.partitions.partition import Partition, PartitionPage, PartitionRequest
from lakecore.catalog.partitions.selection import complete_specs, parse_request, select_partitions
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.resource_paths import ResourcePaths
from lakecore.data_class import dataclass
from lakecore.errors import UnavailableError, UnsupportedError
from lakecore.store.partition_list import PartitionTexts
from lakecore.table import Table

__all__ = ["RestDoneMarks", "RestPartitions"]


@dataclass(frozen=True)
class RestDoneMarks:
    """These are the marks of complete partitions of one table, which the server keeps. Servers of Paimon 1.4
    have no request for `add`.
    """

    client: RestClient
    table: str
    path: tuple[str, ...]
    """This is the path of the table's partitions."""
    keys: Sequence[str]
    """These are the partition columns, in order."""

    def mark_done(self, partitions: Sequence[PartitionTexts]) -> None:
        """Let the server mark partitions as complete. Raises UnsupportedError where it keeps none."""
        path = (*self.path, "mark")
        self.client.post(f"mark partitions of {self.table!r}", path, {"specs": self._specs(partitions)})

    def add(self, partitions: Sequence[PartitionTexts]) -> None:
        """Add partitions to those of the server. Raises as `RestPartitions.create`."""
        body = {"partitionSpecs": self._specs(partitions), "ignoreIfExists": True}
        self.client.post(f"create partitions of {self.table!r}", self.path, body)

    def _specs(self, partitions: Sequence[PartitionTexts]) -> list[dict[str, str]]:
        return [dict(zip(self.keys, one, strict=True)) for one in partitions]


@dataclass(frozen=True)
class RestPartitions:
    """These are the partitions of a server. It keeps them for tables with `metastore.partitioned-table=true`;
    for others it answers 501, and then they are listed by their files, as in Java.
    """

    client: RestClient
    paths: ResourcePaths
    load: Callable[[str], Table]
    """It loads a table."""
    check_droppable: Callable[[str], None]
    """It raises OnHoldError for a table whose rows must not be dropped."""

    def list(
        self, table: str, *, partitions: PartitionRequest | None = None, where: str | None = None
    ) -> list[Partition]:
        """List the partitions as `Partitions.list` says. It costs a request for each page; the selection is
        made here.
        """
        loaded = self.load(table)
        if (files := file_table_of(loaded)) is not None:
            return directory_partitions(files, partitions, where)
        loaded = data_table(loaded, table)
        loaded._check_select()
        specs = None if partitions is None else parse_request(partitions, loaded.schema)
        what = f"list partitions of {table!r}"
        try:
            raw = self.client.list(what, self._path(table), "partitions")
        except UnsupportedError:
            listed = file_partitions(loaded)
        else:
            listed = [_partition(what, one) for one in raw]
        return select_partitions(listed, loaded.schema, specs, where)

    def list_page(
        self, table: str, *, limit: int | None = None, token: str | None = None, pattern: str | None = None
    ) -> PartitionPage:
        """Return the page of the server, or all partitions by their files where it keeps none."""
        query = {"maxResults": limit, "pageToken": token, "partitionNamePattern": pattern}
        what = f"list partitions of {table!r}"
        try:
            texts = {key: str(value) for key, value in query.items() if value is not None}
            answer = self.client.get(what, self._path(table), texts)
        except UnsupportedError:
            if pattern is not None or token is not None:
                raise
            return PartitionPage(tuple(self.list(table)))
        raw = answer.get("partitions") or []
        if not isinstance(raw, list):
            raise _no_partition(what)
        return PartitionPage(tuple(_partition(what, one) for one in raw), answer.get("nextPageToken") or None)

    def create(self, table: str, partitions: PartitionRequest) -> None:
        """Add partitions to those of the server. Raises UnavailableError or InvalidInputError where it has no
        such request, as servers of Paimon 1.4.
        """
        body = {"partitionSpecs": self._specs(table, partitions), "ignoreIfExists": True}
        self.client.post(f"create partitions of {table!r}", self._path(table), body)

    def drop(self, table: str, partitions: PartitionRequest) -> int | None:
        """Remove all rows of the partitions; the server forgets a partition without files."""
        loaded = data_table(self.load(table), table)
        self.check_droppable(table)
        return drop_rows(loaded, partitions)

    def alter(self, table: str, partitions: Sequence[Partition]) -> NoReturn:
        """Raise UnsupportedError: servers take counts with a commit only."""
        raise UnsupportedError(
            f"table {table!r}: a REST catalog changes the counts of partitions with commits only; write rows"
        )

    def mark_done(self, table: str, partitions: PartitionRequest) -> None:
        """Let the server mark partitions as complete. Raises UnsupportedError where it keeps none."""
        body = {"specs": self._specs(table, partitions)}
        self.client.post(f"mark partitions of {table!r}", self._path(table, "mark"), body)

    def _specs(self, table: str, partitions: PartitionRequest) -> Sequence[Mapping[str, str]]:
        loaded = data_table(self.load(table), table)
        return complete_specs(parse_request(partitions, loaded.schema), loaded.schema)

    def _path(self, table: str, *parts: str) -> tuple[str, ...]:
        return self.paths.table(TableName.parse(table), "partitions", *parts)


def _partition(what: str, raw: Any) -> Partition:
    """Parse a partition of an answer. Raises UnavailableError."""
    try:
        spec = {str(key): str(value) for key, value in raw["spec"].items()}
        counts = [int(raw[key]) for key in _COUNTS]
        is_done, options = raw.get("done") is True, dict(raw.get("options") or {})
        audit = {own: raw.get(key) for own, key in _AUDIT.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        raise _no_partition(what) from err
    rows, size, files, newest, buckets = counts
    return Partition(
        spec=spec,
        record_count=rows,
        file_size_in_bytes=size,
        file_count=files,
        last_file_creation_time=newest,
        total_buckets=buckets,
        is_done=is_done,
        options=options,
        **audit,
    )


_COUNTS = ("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime", "totalBuckets")
_AUDIT: Mapping[str, str] = {
    "created_at": "createdAt",
    "created_by": "createdBy",
    "updated_at": "updatedAt",
    "updated_by": "updatedBy",
}


def _no_partition(what: str) -> UnavailableError:
    return UnavailableError(f"{what}: the answer lists no partitions; look into the log of the server")
