"""System tables through the catalog: filters, columns, limits, names, and that nothing writes to them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakecore.metadata.snapshot import CommitKind
from lakecore.system.system_table import SYSTEM_TABLES
from lakecore.table import Table
from tests.support.lake import key_table, memory_catalog, put


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("system")


@pytest.fixture
def table(catalog: FilesystemCatalog) -> Table:
    """Three snapshots; the last row of key 2 is a delete."""
    found = key_table(catalog, ("k INT", "v STRING"), changelog_producer="input")
    put(
        found,
        [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}],
        [{"k": 1, "v": "a", "_kind": "-U"}, {"k": 1, "v": "c", "_kind": "+U"}],
        [{"k": 2, "v": "b", "_kind": "-D"}],
    )
    return found


def rows(catalog: FilesystemCatalog, name: str, **scan: Any) -> list[tuple[Any, ...]]:
    found = catalog.load_table(name).scan(**scan).to_arrow()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def test_all_of_them_have_rows_of_their_columns(catalog: FilesystemCatalog, table: Table) -> None:
    for kind in set(SYSTEM_TABLES) - {"row_tracking"}:
        scan = catalog.load_table(f"d.k${kind}").scan()
        assert scan.to_arrow().schema.equals(scan.schema), kind
        if kind not in ("audit_log", "binlog", "ro"):
            assert [field.id for field in scan.row_type] == list(range(len(scan.row_type.names))), kind
    assert rows(catalog, "d.k$options") == [
        ("bucket", "1"),
        ("changelog-producer", "input"),
        ("write-only", "true"),
    ]


def test_they_are_scanned_like_tables(catalog: FilesystemCatalog, table: Table) -> None:
    wanted = {"where": "snapshot_id >= 2", "columns": ["snapshot_id", "commit_kind"]}
    assert rows(catalog, "d.k$snapshots", **wanted) == [(2, "APPEND"), (3, "APPEND")]
    assert len(rows(catalog, "d.k$snapshots", limit=1)) == 1
    assert len(rows(catalog, "d.k$files", snapshot=2, where="record_count = 2")) == 1
    assert rows(catalog, "d.k$buckets", columns=["record_count"], snapshot=1) == [(2,)]
    with pytest.raises(InvalidInputError, match="column 'x' is not in the table"):
        rows(catalog, "d.k$files", columns=["x"])
    with pytest.raises(InvalidInputError, match="a state and no changes"):
        rows(catalog, "d.k$files", incremental="1..2")


def test_rows_with_their_kinds(catalog: FilesystemCatalog, table: Table) -> None:
    assert rows(catalog, "d.k$audit_log") == [("+U", 1, "c"), ("-D", 2, "b")]
    assert rows(catalog, "d.k$audit_log", where="rowkind = '-D'", columns=["k"]) == [(2,)]
    assert rows(catalog, "d.k$audit_log", where="v = 'c'", columns=["rowkind"]) == [("+U",)]
    changes = rows(catalog, "d.k$binlog", incremental="0..3")
    assert changes == [("+I", [1], ["a"]), ("+I", [2], ["b"]), ("+U", [1, 1], ["a", "c"]), ("-D", [2], ["b"])]
    assert rows(catalog, "d.k$binlog", incremental="1..2", columns=["rowkind"]) == [("+U",)]
    assert rows(catalog, "d.k$ro") == []


def test_a_log_has_no_columns_of_its_snapshots(catalog: FilesystemCatalog, table: Table) -> None:
    for name, value in (("snapshot_id", "1"), ("commit_kind", "'APPEND'")):
        with pytest.raises(InvalidInputError, match=f"no column '{name}'; the columns are rowkind, k, v"):
            rows(catalog, "d.k$audit_log", where=f"{name} = {value}")
        assert rows(catalog, "d.k$snapshots", where=f"{name} = {value}")


def test_named_things(catalog: FilesystemCatalog, table: Table) -> None:
    table._stores.consumers.write("etl", 2)
    assert rows(catalog, "d.k$consumers") == [("etl", 2)]
    assert rows(catalog, "sys.tables", columns=["database_name", "table_name"]) == [("d", "k")]
    with pytest.raises(InvalidInputError, match="a system table of the catalog has no snapshot"):
        rows(catalog, "sys.tables", snapshot=1)


def test_only_reading_is_possible(catalog: FilesystemCatalog, table: Table) -> None:
    found = pickle.loads(pickle.dumps(catalog.load_table("d.k$files")))
    with pytest.raises(UnsupportedError, match=r"table d.k\$files is a system table: it can only be read"):
        found.write([])
    with pytest.raises(InvalidInputError, match="branch or system table cannot be dropped"):
        catalog.drop_table("d.k$files")
    with pytest.raises(InvalidInputError, match="system table"):
        catalog.create_table("d.x$files", {"columns": ["a INT"]})
    with pytest.raises(
        NotFoundError,
        match=r"this system table does not exist; the system tables are aggregation_fields, audit_log",
    ):
        catalog.load_table("d.k$fils")
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert (latest.id, latest.commit_kind) == (3, CommitKind.APPEND)
