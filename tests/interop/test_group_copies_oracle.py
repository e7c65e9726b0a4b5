"""Merges that copy row groups, or runs of pages, of a file with late rows: Java 1.4.2 and 2.0.0 read what a merge without copies leaves,
with conditions on every column, and find no damage; pypaimon and pypaimon-rust read the same rows. Java and lakecore write the
large file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.format.parquet import layout
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from tests.fuzz.parquet_shapes import file_paths
from tests.support.oracle import Oracle, findings
from tests.support.paimon_libraries import LIBRARIES, ReadTable, paimon_library
from tests.support.parquet_readers import conditions_of, local_readers, rows_of_readers

pytestmark = pytest.mark.slow

NAME = "d.t"
ROWS = 3000
ONE_GROUP = "java, one row group"
COLUMNS = (
    "id BIGINT NOT NULL",
    "part STRING NOT NULL",
    "name STRING",
    "price DOUBLE",
    "amount DECIMAL(12, 2)",
    "at TIMESTAMP(6)",
    "tags ARRAY<STRING>",
)
WHERE = (
    None,
    ["=", "id", 1500],
    [">", "id", 2950],
    ["=", "name", "late 7"],
    [">", "price", 370.0],
    ["<", "price", -0.5],
)


def rows(keys: Iterable[int], text: str) -> list[dict[str, Any]]:
    """Rows in key order; all row groups have other bounds."""
    start = datetime.fromisoformat("2026-01-01")
    return [
        {
            "id": key,
            "part": f"p{key % 7:03}",
            "name": None if key % 11 == 0 else f"{text} {key % 60}",
            "price": -0.0 if key % 100 == 0 else key / 8 - 1,
            "amount": None if key % 13 == 0 else Decimal(key) / 4,
            "at": start + timedelta(seconds=key),
            "tags": [str(key % 3)] * (key % 3),
        }
        for key in keys
    ]


def put(catalog: FilesystemCatalog, found: list[dict[str, Any]]) -> None:
    types = {
        "id": pa.int64(), "part": pa.string(), "name": pa.string(), "price": pa.float64(),
        "amount": pa.decimal128(12, 2), "at": pa.timestamp("us"), "tags": pa.list_(pa.string()),
    }  # fmt: skip
    catalog.load_table(NAME).write(pa.Table.from_pylist(found, pa.schema(list(types.items()))))


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return row | {
        "amount": None if row["amount"] is None else f"{row['amount']:.2f}",
        "at": row["at"].isoformat(sep=" ", timespec="microseconds"),
    }


def table_of(folder: Path, java: Oracle, by: str, monkeypatch: pytest.MonkeyPatch) -> FilesystemCatalog:
    folder.mkdir()
    catalog = load_catalog(str(folder), **{"local.fsync": "false"})
    catalog.create_database("d")
    options = {
        "bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "1 ms",
        "file.block-size": "128 mb" if by == ONE_GROUP else "4 kb", "parquet.page.row.count.limit": "40",
    }  # fmt: skip
    java.create(folder, NAME, {"columns": list(COLUMNS), "primaryKeys": ["id", "part"], "options": options})
    if by in ("java", ONE_GROUP):
        java.write(folder, NAME, map(as_json, rows(range(ROWS), "old")))
    else:
        monkeypatch.setattr(layout, "_ROW_GROUP_ROWS", 200)
        put(catalog, rows(range(ROWS), "old"))
    put(catalog, rows(range(2400, 2500, 3), "late"))
    java.write(folder, NAME, map(as_json, rows([2407, ROWS - 1, ROWS + 5, ROWS + 6], "late")))
    return catalog


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ReadTable]]:
    folder = tmp_path_factory.mktemp("libraries")
    with ExitStack() as stack:
        yield {name: stack.enter_context(paimon_library(name, folder)) for name in LIBRARIES}


@pytest.mark.parametrize("by", ["java", ONE_GROUP, "lakecore"])
def test_java_and_others_read_row_groups_and_runs_of_pages_that_were_copied(
    by: str,
    oracles: dict[str, Oracle],
    libraries: dict[str, ReadTable],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {}
    readers = local_readers()
    for copy in (CopyMode.NONE, CopyMode.ALL):
        folder = tmp_path / copy.value
        catalog = table_of(folder, oracles["1.4.2"], by, monkeypatch)
        before = catalog.load_table(NAME).scan().to_arrow()
        report = compact.run(compact.Job(table=NAME, strategy=compact.Strategy.FULL, copy=copy), catalog)
        if copy is CopyMode.ALL:
            assert ROWS // 2 < report.rows_copied < ROWS
        java_rows = {
            (version, str(where)): java.read(
                folder, NAME, **({} if where is None else {"where": json.dumps(where)})
            )
            for version, java in oracles.items()
            for where in WHERE
        }
        for java in oracles.values():
            assert findings(java.fsck(folder, NAME)) == set()
        clauses = [*conditions_of(before), "price < -0.5"]  # of rows in row groups that are copied
        whole = {name: read(folder, NAME).sort_by("id").to_pylist() for name, read in libraries.items()}
        assert all(whole.values())
        found[copy] = java_rows, rows_of_readers(readers, file_paths(catalog), clauses), whole
    assert found[CopyMode.ALL] == found[CopyMode.NONE]
    assert all(len(java_rows) for java_rows in found[CopyMode.ALL][0].values())
