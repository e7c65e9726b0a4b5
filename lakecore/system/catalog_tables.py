"""This module has the tables of the database `sys`, which describe a whole warehouse. Those of Paimon are
here; they cost a look at every table. `lakecore.catalog.warehouse.record_tables` has those of lakecore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias
from urllib.parse import unquote

from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import InvalidInputError, NotFoundError, PrivilegeError, UnsupportedError
from lakecore.predicate.tree import Predicate
from lakecore.read.source.readable import Readable
from lakecore.read.source.scan import Scan
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path
from lakecore.scan.support import has_snapshots
from lakecore.system.columns import columns
from lakecore.system.counts import partition_counts
from lakecore.system.view import Row, ViewRows
from lakecore.types.datatypes import RowType

__all__ = ["CATALOG_DATABASE", "CATALOG_TABLES", "REMOVED_TABLES", "CatalogTable", "catalog_table"]

CATALOG_DATABASE = "sys"

Named: TypeAlias = tuple[str, str, Readable]
"""These are the database, the table's name, and the table itself."""


def _tables(tables: Iterable[Named], _: Mapping[str, str]) -> Iterator[Row]:
    for database, name, table in tables:
        raw = table.schema.options
        yield (
            database,
            name,
            raw.get("type", "table"),
            bool(table.schema.partition_keys),
            bool(table.schema.primary_keys),
            raw.get("owner"),
            _number(raw.get("createdAt")),
            raw.get("createdBy"),
            _number(raw.get("updatedAt")),
            raw.get("updatedBy"),
            None,
            None,
            None,
            None,
        )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _table_options(tables: Iterable[Named], _: Mapping[str, str]) -> Iterator[Row]:
    for database, name, table in tables:
        for key, value in {**table.schema.options, "path": table.path}.items():
            yield database, name, key, value


def _partitions(tables: Iterable[Named], _: Mapping[str, str]) -> Iterator[Row]:
    for database, name, table in tables:
        if not has_snapshots(table.schema):
            continue  # a table without snapshots: its partitions are directories, which are not looked at
        try:
            latest = table._stores.snapshots.latest()
        except PrivilegeError:
            continue  # of tables that the user may not read nothing is listed
        partition_type, options = table.schema.partition_type, table.options
        if latest is None or not partition_type.fields:
            continue
        for partition, count in partition_counts(table, latest).items():
            text = partition_path(
                decode_row(partition, partition_type),
                partition_type,
                options.partition_default_name,
                legacy_name=options.partition_legacy_name,
            )
            yield database, name, unquote(text), count.rows, count.size, count.files, count.newest, False


def _catalog_options(_: Iterable[Named], options: Mapping[str, str]) -> Iterable[Row]:
    return options.items()


Maker: TypeAlias = Callable[[Iterable[Named], Mapping[str, str]], Iterable[Row]]
_NAME_COLUMNS = ("database_name STRING", "table_name STRING")
_KINDS: Mapping[str, tuple[RowType, Maker]] = {
    "all_table_options": (columns(*_NAME_COLUMNS, "key STRING", "value STRING"), _table_options),
    "catalog_options": (columns("key STRING NOT NULL", "value STRING NOT NULL"), _catalog_options),
    "partitions": (
        columns(
            *_NAME_COLUMNS,
            "partition_name STRING",
            "record_count BIGINT",
            "file_size_in_bytes BIGINT",
            "file_count BIGINT",
            "last_file_creation_time BIGINT",
            "done BOOLEAN",
        ),
        _partitions,
    ),
    "tables": (
        columns(
            *_NAME_COLUMNS,
            "table_type STRING",
            "partitioned BOOLEAN",
            "primary_key BOOLEAN",
            "owner STRING",
            "created_at BIGINT",
            "created_by STRING",
            "updated_at BIGINT",
            "updated_by STRING",
            "record_count BIGINT",
            "file_size_in_bytes BIGINT",
            "file_count BIGINT",
            "last_file_creation_time BIGINT",
        ),
        _tables,
    ),
}
CATALOG_TABLES = tuple(_KINDS)
"""These are the tables of `sys` that Paimon has."""
REMOVED_TABLES = ("source_table_lineage", "sink_table_lineage")
"""Early releases of Paimon had these; 1.4 and 2.0 do not."""


@dataclass(frozen=True)
class CatalogTable:
    """This is one table of `sys`, with its columns. `make` computes its rows again at each scan; `make_some`
    computes at least those that fulfil a filter, where that costs less.
    """

    kind: str
    row_type: RowType
    make: Callable[[], Iterable[Row]]
    make_some: Callable[[Predicate], Iterable[Row]] | None = None

    def __repr__(self) -> str:
        return one_line("CatalogTable", self.name, {})

    @property
    def name(self) -> str:
        return f"{CATALOG_DATABASE}.{self.kind}"

    def scan(
        self,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **travel: Any,
    ) -> Scan:
        """Scan like `Table.scan`, but only the present: there are no snapshots to name."""
        for name, value in travel.items():
            if value is not None:
                raise InvalidInputError(
                    f"table {self.name}: a system table of the catalog has no {name}; leave it out"
                )
        rows = ViewRows(self.name, self.row_type, self.make, self.make_some)
        return Scan.of(rows, where, columns, limit)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(f"table {self.name} is a system table: it can only be read")


def catalog_table(
    kind: str, tables: Callable[[], Iterable[Named]], options: Mapping[str, str]
) -> CatalogTable:
    """Return a table of `CATALOG_TABLES`. `tables` lists the warehouse again at each scan; `options` are
    those of the catalog. Raises NotFoundError for one of `REMOVED_TABLES`.
    """
    if kind in REMOVED_TABLES:
        raise NotFoundError(
            f"table '{CATALOG_DATABASE}.{kind}' does not exist: Paimon 1.4 and 2.0 have no such table; let a "
            "function of the group lakecore.lineage take the events of reads and commits (see "
            "docs/maintenance.md)"
        )
    row_type, maker = _KINDS[kind]
    return CatalogTable(kind, row_type, partial(_rows_of, maker, tables, options))


def _rows_of(
    maker: Maker, tables: Callable[[], Iterable[Named]], options: Mapping[str, str]
) -> Iterable[Row]:
    return maker(tables(), options)
