"""Writers that place keys compete: a key is never in two buckets or partitions, and no row is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitConflictError, LakeError
from lakecore.table import Table
from tests.support.lake import memory_catalog, paths_of, put, rows_of

DYNAMIC = {
    "columns": ["p STRING", "k INT", "v STRING"],
    "partitionKeys": ["p"],
    "primaryKeys": ["p", "k"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"},
}


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("placing")


def row(partition: str, key: int, value: str = "x") -> dict[str, Any]:
    return {"p": partition, "k": key, "v": value}


def interrupted(table: Table, rows: list[dict[str, Any]], meanwhile: Any) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, with something happening after the first."""
    for number, one in enumerate(rows):
        yield pa.RecordBatch.from_pylist([one])
        if number == 0:
            meanwhile(table)


@pytest.mark.parametrize(
    ("meanwhile", "conflicts"),
    [
        (lambda table: put(table, [row("a", 100)]), True),
        (lambda table: put(table, [row("b", 100)]), False),
        (lambda table: put(table, [row("a", 1)]), False),
        (lambda table: table.overwrite(pa.Table.from_pylist([row("a", 7)])), True),
        (lambda table: table.overwrite(pa.Table.from_pylist([])), False),
        (lambda table: table.overwrite(pa.Table.from_pylist([]), "p=a"), True),
    ],
    ids=["new-key", "other-partition", "known-key", "overwrite", "overwrite-nothing", "emptied"],
)
def test_keys_placed_meanwhile_are_a_conflict(
    catalog: FilesystemCatalog, meanwhile: Any, conflicts: bool
) -> None:
    table = catalog.create_table("d.t", DYNAMIC)
    put(table, [row("a", 1), row("b", 1)])
    stream = interrupted(table, [row("a", 1, "new"), row("a", 50)], meanwhile)
    if not conflicts:
        table.write(stream)
        assert ("a", 1, "new") in rows_of(table)
        return
    with pytest.raises(CommitConflictError, match="placed keys"):
        table.write(stream)
    named = {file.file_name for n in table.snapshots.list_ids()
             for file in table.scanner.index_files(table.snapshots.load(n))}  # fmt: skip
    assert {path.rsplit("/", 1)[1] for path in paths_of(table, "/index/")} == named


def test_writers_at_once_place_every_key_once(catalog: FilesystemCatalog) -> None:
    name = catalog.create_table("d.t", DYNAMIC).name
    errors: list[LakeError] = []

    def write(number: int) -> None:
        for start in range(0, 30, 10):
            rows = [row("a", key, f"{number}") for key in range(start, start + 10)]
            try:
                catalog.load_table(name).write(pa.Table.from_pylist(rows))
            except CommitConflictError as err:
                errors.append(err)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = catalog.load_table(name)
    keys = [key for _, key, _ in rows_of(table)]
    assert len(keys) == len(set(keys))
    assert errors or len(keys) == 30
    hashes = [value for file in table.scanner.index_files(table.snapshots.latest())
              for value in table.indexes.read_hashes(file).tolist()]  # fmt: skip
    assert len(hashes) == len(set(hashes)) == len(keys)
