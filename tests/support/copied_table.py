"""An append table of a few files with one large row group each, and compactions of it that copy them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact

__all__ = ["NAME", "ROWS", "compacted", "new_table", "opened", "rows_of"]

NAME = "d.t"
ROWS = 10_000
COLUMNS = (
    "id BIGINT NOT NULL",
    "name STRING",
    "price DOUBLE",
    "amount DECIMAL(12, 2)",
    "tags ARRAY<STRING>",
)


def rows_of(number: int, count: int = ROWS) -> pa.Table:
    first = number * count
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([None if one % 7 == 0 else f"name {one % 40} of {number}" for one in ids]),
            "price": pa.array([one / 8 - 100 for one in ids], pa.float64()),
            "amount": pa.array([Decimal(one) / 4 for one in ids], pa.decimal128(12, 2)),
            "tags": pa.array([[str(one % 3)] * (one % 3) for one in ids], pa.list_(pa.string())),
        }
    )


def opened(folder: Path) -> FilesystemCatalog:
    """The lake of a folder; a folder may be a copy of another, which is quicker than a new table."""
    return load_catalog(str(folder), **{"local.fsync": "false"})


def new_table(
    folder: Path, files: int = 3, count: int = ROWS, options: Mapping[str, str] | None = None
) -> FilesystemCatalog:
    """The lake with a table of so many files."""
    folder.mkdir(exist_ok=True)
    catalog = opened(folder)
    catalog.create_database("d")
    chosen = {"bucket": "-1", "write-only": "true", "compaction.min.file-num": "2"}
    catalog.create_table(
        NAME, TableDefinition.from_json({"columns": list(COLUMNS), "options": chosen | dict(options or {})})
    )
    for number in range(files):
        catalog.load_table(NAME).append(rows_of(number, count))
    return catalog


def compacted(catalog: FilesystemCatalog, copy: CopyMode = CopyMode.LARGE, **job: Any) -> compact.Report:
    chosen: Mapping[str, Any] = {"strategy": compact.Strategy.FULL} | job
    return compact.run(compact.Job(table=NAME, copy=copy, **chosen), catalog)
