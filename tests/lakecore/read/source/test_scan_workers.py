"""Parts of a large scan that several workers read at once: each row once, and the last parts are cut where not every
worker would have one.
"""

from __future__ import annotations

import pickle
from typing import Any
from unittest.mock import patch

import pytest

from lakecore.read.file import file_reader
from lakecore.read.source import scan as scans
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.table import Table
from tests.support.lake import append_table, key_table, memory_catalog, put


def tables(kind: str) -> Table:
    catalog = memory_catalog("scan-workers")
    if kind == "append":
        table = append_table(catalog, source__split__target_size="1 b", source__split__open_file_cost="1 b")
        put(table, *([{"v": n, "p": "x"}, {"v": -n, "p": "y"}] for n in range(5)))
        return table
    table = key_table(catalog, bucket="3", write_only="true")
    put(table, *([{"k": k, "v": f"{k} of {n}"} for k in range(n, 90, n + 1)] for n in range(4)))
    return table


def rows_of(table: Table, **scan: Any) -> list[str]:
    return sorted(repr(row) for row in table.scan(**scan).to_arrow().to_pylist())


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_the_last_parts_are_cut_for_workers_that_would_be_idle(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables(kind)
    alone = rows_of(table), rows_of(table, where="v is not null")
    parts = len(table.scan().plan())
    cuts: list[int] = []
    cut = SnapshotRows.cut

    def counted(self: SnapshotRows, part: Any, size: int, where: Any) -> Any:
        cuts.append(size)
        assert size <= part.size, "a share is smaller than the part"
        return cut(self, part, size, where)

    monkeypatch.setattr(SnapshotRows, "cut", counted)
    monkeypatch.setattr(scans, "_LARGE", 0)
    for workers in (1, 2, 3, 4):
        monkeypatch.setattr(scans.os, "cpu_count", lambda workers=workers: workers)
        cuts.clear()
        assert rows_of(table) == alone[0]
        assert len(cuts) == (parts % workers if parts > workers else 0)
        cuts.clear()
        assert rows_of(table, where="v is not null") == alone[1]
        assert cuts == [], "with a condition the parts stay whole"


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_parts_of_what_changed_are_read_once(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only parts of a snapshot are cut."""
    table = tables("append")
    alone = rows_of(table, incremental="1..4")
    monkeypatch.setattr(scans, "_LARGE", 0)
    monkeypatch.setattr(scans.os, "cpu_count", lambda: workers)
    assert rows_of(table, incremental="1..4") == alone
    assert len(alone) == 6


def test_columns_are_matched_once_for_files_of_one_schema() -> None:
    catalog = memory_catalog("scan-columns")
    table = append_table(catalog)
    put(table, *([{"v": n, "p": "x"}] for n in range(4)))
    catalog.alter_table(table.name, [{"op": "add", "name": "w", "type": "INT"}])
    table = catalog.load_table(table.name)
    put(table, *([{"v": n, "p": "y", "w": n}] for n in range(3)))
    with patch.object(file_reader, "read_columns", wraps=file_reader.read_columns) as matched:
        rows = table.scan().to_arrow().to_pylist()
    assert matched.call_count == 2
    assert sorted((row["p"], row["v"], row["w"]) for row in rows) == [
        *(("x", n, None) for n in range(4)),
        *(("y", n, n) for n in range(3)),
    ]


def test_files_of_one_schema_with_other_stored_columns_are_matched_again() -> None:
    """A file may lack a column that its schema has; and what was matched does not travel with a context."""
    catalog = memory_catalog("scan-stored")
    table = append_table(catalog)
    put(table, [{"v": 1, "p": "x"}], [{"v": 2, "p": "y"}])
    source = table.scan().source
    assert isinstance(source, SnapshotRows)
    context = source.context
    assert table.scan().to_arrow().num_rows == 2
    (part, *_) = table.scan().plan()
    assert len(list(source.read(part, ("v", "p"), None, kinds=False))) == 2
    assert len(context.file_columns) == 1
    assert pickle.loads(pickle.dumps(context)).file_columns == {}
    ((stored, plan),) = context.file_columns.values()
    context.file_columns.update(dict.fromkeys(context.file_columns, (stored.remove(0), plan)))
    batches = list(source.read(part, ("v", "p"), None, kinds=False))
    assert [row["v"] for batch in batches for row in batch.to_pylist()] == [1, 2]
    assert context.file_columns == dict.fromkeys(context.file_columns, (stored, plan))


def test_columns_of_another_request_are_matched_again() -> None:
    """Reads of one context may want other columns, and in another order."""
    table = append_table(memory_catalog("scan-requests"))
    put(table, [{"v": 1, "p": "x"}], [{"v": 2, "p": "y"}])
    source = table.scan().source
    assert isinstance(source, SnapshotRows)
    (part, *_) = table.scan().plan()
    for columns in (("p",), ("v",), ("v", "p"), ("p", "v")):
        batches = list(source.read(part, columns, None, kinds=False))
        assert [batch.schema.names for batch in batches] == [list(columns)] * 2
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert rows == [{name: {"v": n, "p": p}[name] for name in columns} for n, p in ((1, "x"), (2, "y"))]
