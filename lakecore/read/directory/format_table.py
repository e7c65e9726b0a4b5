"""This module has the format table: a directory of files that a catalog names as a table. It is read only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakecore.data_class import dataclass
from lakecore.metadata.options import TableOptions
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate
from lakecore.read.directory.directory_rows import DirectoryRows
from lakecore.read.directory.listing import data_files
from lakecore.read.directory.present_table import PresentTable
from lakecore.read.directory.rules import FormatRules, check_run_options
from lakecore.read.source.scan import Scan
from lakecore.row.partition_path import partition_spec
from lakecore.types.datatypes import RowType

__all__ = ["FORMAT_TABLE", "FormatTable", "FormatTablePartition"]

FORMAT_TABLE = "format-table"
"""This is the value of the option `type`."""


@dataclass(frozen=True, slots=True)
class FormatTablePartition:
    """This is a partition directory with its files; their rows are not counted."""

    spec: Mapping[str, str]
    """It has the text of each partition column, as a writer of Paimon names its directory."""
    path: str
    file_count: int
    file_size_in_bytes: int
    last_file_creation_time: int
    """It is the time of the newest file, in milliseconds since the epoch; 0 without one."""


@dataclass(frozen=True, repr=False)
class FormatTable(PresentTable):
    """This is a format table. It has `scan` and `partitions`; everything else of a table is refused, because
    it has no snapshots.
    """

    kind = FORMAT_TABLE
    title = "format table"
    refusal = "a format table: it has no snapshots, and can only be read; write its files with another engine"

    @property
    def row_type(self) -> RowType:
        """Return the columns, also those of partitions."""
        return self.schema.row_type

    def with_options(self, options: Mapping[str, str]) -> FormatTable:
        """Return a handle with options that hold for it only. Raises UnsupportedError for those without
        effect.
        """
        check_run_options(self.name, options)
        return replace(self, schema=replace(self.schema, options={**self.schema.options, **options}))

    def scan(
        self,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **travel: Any,
    ) -> Scan:
        """Scan like `Table.scan`, but only the present: there are no snapshots to name. It costs a listing
        for each directory, without those of partitions that `where` excludes.

        Raises UnsupportedError or InvalidOptionError for options that cannot be obeyed, InvalidInputError.
        """
        self._check_present(travel)
        return Scan.of(self._rows(), where, columns, limit)

    def partitions(self, where: str | None = None) -> list[FormatTablePartition]:
        """List the partitions for which the condition on partition columns is true, in order of their paths.
        It costs a listing for each directory.
        """
        rows = self._rows()
        partition_type = self.schema.partition_type
        predicate = None if where is None else parse_where(where, partition_type)
        listed = rows.partitions(predicate) if partition_type.fields else []
        return [self._partition(one.path, one.values, rows.rules) for one in listed]

    def _partition(self, path: str, values: Sequence[Any], rules: FormatRules) -> FormatTablePartition:
        files = data_files(self.file_io, path)
        spec = partition_spec(values, self.schema.partition_type, rules.default_name, self._legacy_names)
        return FormatTablePartition(
            spec=spec,
            path=path,
            file_count=len(files),
            file_size_in_bytes=sum(file.size for file in files),
            last_file_creation_time=max((file.mtime_ms for file in files), default=0),
        )

    @property
    def _legacy_names(self) -> bool:
        return TableOptions.from_schema(self.schema).partition_legacy_name

    def _rows(self) -> DirectoryRows:
        return DirectoryRows(
            description=self.name,
            row_type=self.schema.row_type,
            partition_keys=tuple(self.schema.partition_keys),
            location=self.path,
            file_io=self.file_io,
            rules=FormatRules.of(self.name, self.schema),
        )
