"""This module resolves views of blobs: values that name a row and a column of another table.

Rule of the format: the latest snapshot of the other table determines the value, which may be another view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.format.blob.descriptors import View, decode_view
from lakecore.metadata.dedicated_columns import BLOB_AS_DESCRIPTOR, BLOB_VIEW_RESOLVE, is_blob, view_columns
from lakecore.metadata.manifest.row_range import RowRange, row_ranges
from lakecore.metadata.row_kind import ROW_ID_NAME
from lakecore.predicate.tree import In, Predicate
from lakecore.read.context import ReadContext
from lakecore.scan.scanner import Scanner
from lakecore.scan.split import Split
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_stores import TableStores

__all__ = ["BlobViews", "Joined"]

_DATABASE = ".db"

Joined: TypeAlias = Callable[
    [ReadContext, str, RowRange, Sequence[str], Split, Predicate], Iterator[pa.RecordBatch]
]
"""This function reads columns of some rows of a range, with blobs as references."""


def _decode(value: bytes, where: str) -> View:
    view = decode_view(value)
    if view is None:
        raise CorruptDataError(
            where, f"it has a value of {len(value)} bytes that is not a reference to a blob view"
        )
    return view


@dataclass(frozen=True)
class BlobViews:
    """It resolves the views in columns of the table of `context`. It plans each table that they name once.

    `joined` reads the other table. It holds the references of the rows of one batch.
    """

    context: ReadContext
    joined: Joined
    _tables: dict[str, _Upstream] = field(default_factory=dict)

    def resolve(self, name: str, column: pa.Array) -> pa.Array:
        """Return references to the bytes that views mean, also for views of views; null where there is none.

        Raises NotFoundError for a table, column or row that does not exist, UnsupportedError for what this
        release does not resolve, CorruptDataError for bytes that are no view, and for cyclic views.
        """
        where = f"{self.context.paths.table_path} column {name}"
        views = [None if value is None else _decode(value, where) for value in column.to_pylist()]
        values: dict[View, View | bytes | None] = {}
        open_views = set(filter(None, views))
        while open_views:
            values |= self._values(open_views, where)
            open_views = {value for value in values.values() if isinstance(value, tuple)} - values.keys()
        return pa.array([None if view is None else _end(view, values, where) for view in views], pa.binary())

    def _values(self, views: Iterable[View], where: str) -> dict[View, View | bytes | None]:
        """Return the contents of the rows that views name: a reference, a null, or another view."""
        rows_of: dict[str, dict[int, set[int]]] = {}
        for table, field_id, row_id in views:
            rows_of.setdefault(table, {}).setdefault(field_id, set()).add(row_id)
        values: dict[View, View | bytes | None] = {}
        for table, rows in rows_of.items():
            if table not in self._tables:
                self._tables[table] = _open(self.context, table, where)
            values |= self._tables[table].values(self.joined, rows, where)
        return values


def _end(view: View, values: Mapping[View, View | bytes | None], where: str) -> bytes | None:
    """Return the value behind the last view of a chain."""
    views: set[View] = set()
    value: View | bytes | None = view
    while isinstance(value, tuple):
        if value in views:
            table, _, row_id = view
            raise CorruptDataError(where, f"the blob view of row {row_id} of table {table} refers to itself")
        views.add(value)
        value = values[value]
    return value


@dataclass(frozen=True)
class _Upstream:
    """A table that views name: its row ranges in the order of their ids."""

    name: str
    context: ReadContext
    ranges: tuple[tuple[Split, RowRange], ...]

    def values(
        self, joined: Joined, row_ids_of: Mapping[int, set[int]], where: str
    ) -> dict[View, View | bytes | None]:
        """Read values. `row_ids_of` maps field ids to row ids."""
        values: dict[View, View | bytes | None] = {}
        for field_id, row_ids in row_ids_of.items():
            column = self._column(field_id, where)
            viewing = column in view_columns(self.context.schema.options)
            for row, value in self._rows(joined, column, row_ids):
                further = viewing and value is not None
                values[self.name, field_id, row] = _decode(value or b"", where) if further else value
            missing = [row for row in row_ids if (self.name, field_id, row) not in values]
            if missing:
                raise NotFoundError(
                    f"{where}: table {self.name} has no row {min(missing)}, to which a blob view refers"
                )
        return values

    def _rows(self, joined: Joined, column: str, row_ids: set[int]) -> Iterator[tuple[int, bytes | None]]:
        """Yield row ids and values for the existing ones of `row_ids`."""
        ids = np.array(sorted(row_ids), np.int64)
        for split, rows in self.ranges:
            low, high = np.searchsorted(ids, (rows.first, rows.first + rows.count)).tolist()
            if low == high:
                continue
            ctx = self.context.in_partition(split.partition)
            directory = ctx.bucket_dir(split.partition, split.bucket)
            condition = In(ROW_ID_NAME, tuple(ids[low:high].tolist()))
            for batch in joined(ctx, directory, rows, (ROW_ID_NAME, column), split, condition):
                here = batch.filter(pc.is_in(batch.column(0), value_set=pa.array(ids[low:high])))
                yield from zip(*(here.column(at).to_pylist() for at in (0, 1)), strict=True)

    def _column(self, field_id: int, where: str) -> str:
        schema = self.context.schema
        column = next((one for one in schema.fields if one.id == field_id), None)
        if column is None or not is_blob(column.type):
            problem = (
                f"table {self.name} has no BLOB column with field id {field_id}, to which a blob view refers"
            )
            raise NotFoundError(f"{where}: {problem}")
        return column.name


def _open(context: ReadContext, name: str, where: str) -> _Upstream:
    paths = _paths(context.paths, name, where)
    schema = SchemaStore(context.file_io, paths).latest()
    if schema is None:
        raise NotFoundError(
            f"{where}: there is no table {name} at {paths.root}, although blob views refer to it"
        )
    referring = {BLOB_AS_DESCRIPTOR.key: "true", BLOB_VIEW_RESOLVE.key: "false"}
    schema = replace(schema, options={**schema.options, **referring})
    stores = TableStores(schema, context.file_io, paths)
    scanner = Scanner(name, stores)
    reading = ReadContext(context.file_io, paths, schema, stores.schemas, orc_zone=context.orc_zone)
    if not reading.options.data_evolution:
        raise UnsupportedError(
            f"{where}: blob views refer to table {name}, which lacks option data-evolution.enabled=true; use "
            "another engine"
        )
    latest = stores.snapshots.latest()
    splits = () if latest is None else scanner.plan(latest, schema)
    ranges = ((split, rows) for split in splits for rows in row_ranges(split.files))
    return _Upstream(name, reading, tuple(sorted(ranges, key=lambda match: match[1].first)))


def _paths(paths: TablePaths, name: str, where: str) -> TablePaths:
    """Resolve a table name. Rule of this catalog: a table is stored in the directory of its database."""
    parent, _, _ = paths.table_path.rpartition("/")
    warehouse, _, folder = parent.rpartition("/")
    database, dot, table = name.partition(".")
    table, _, branch = table.partition("$branch_")
    if not folder.endswith(_DATABASE) or not dot or "$" in table or not table:
        raise UnsupportedError(
            f"{where}: blob views refer to table {name}, whose location is unknown; use another engine"
        )
    table_paths = TablePaths(f"{warehouse}/{database}{_DATABASE}/{table}")
    return table_paths.with_branch(branch) if branch else table_paths
