"""Columns of rows that are there: what changes, what is refused, and what happens beside other commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import CommitConflictError, InvalidInputError, LakeError, UnsupportedError
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.table import Table
from lakecore.write.update import column_update
from tests.support.lake import append_table, memory_catalog

EVOLVING = {
    "row_tracking__enabled": "true",
    "data_evolution__enabled": "true",
    "deletion_vectors__enabled": "true",
}
COLUMNS = ("k INT NOT NULL", "v STRING", "m MAP<STRING, INT>", "x VECTOR<INT, 2>", "p STRING")


def table_of(*partitions: str, **more: str) -> tuple[Any, Table]:
    catalog = memory_catalog("updates")
    table = append_table(catalog, COLUMNS, partitions=partitions, **EVOLVING, **more)
    for start in range(0, 40, 20):
        rows = [
            {"k": k, "v": f"v{k}", "m": [("a", k)], "x": [k, k], "p": f"p{k % 2}"}
            for k in range(start, start + 20)
        ]
        table.append(pa.Table.from_pylist(rows, schema=table.scan().schema))
    return catalog, table


def state(catalog: Any) -> dict[int, tuple[Any, ...]]:
    """k, v, m and x by row id."""
    rows = catalog.load_table("d.a$row_tracking").scan().to_arrow().to_pylist()
    return {row["_ROW_ID"]: (row["k"], row["v"], row["m"], row["x"]) for row in rows}


def by_key(before: dict[int, tuple[Any, ...]], *keys: int) -> list[int]:
    return [row_id for key in keys for row_id, row in before.items() if row[0] == key]


def test_only_the_named_rows_and_columns_change() -> None:
    catalog, table = table_of("p")
    table.delete("k = 3")
    before = state(catalog)
    ids = by_key(before, 38, 5, 4)
    maps = pa.array([[("b", 1)], None, []], pa.map_(pa.string(), pa.int32()))
    data = pa.table({"_ROW_ID": ids, "v": ["new38", None, "new4"], "m": maps})
    assert table.update_columns(data).rows == 3
    expected = dict(before)
    for row_id, v, m in zip(ids, ["new38", None, "new4"], [[("b", 1)], None, []], strict=True):
        expected[row_id] = (before[row_id][0], v, m, before[row_id][3])
    assert state(catalog) == expected
    table.update_columns(pa.table({"_ROW_ID": ids[:1], "x": [[7, 8]], "k": [1038]}))
    expected[ids[0]] = (1038, *expected[ids[0]][1:3], [7, 8])
    assert state(catalog) == expected
    report = run(Job(table=table.name, strategy=Strategy.FULL), catalog)
    assert (report.error, report.after.files) == (None, 4)
    assert state(catalog) == expected
    assert table.update_columns(pa.table({"_ROW_ID": pa.array([], pa.int64()), "v": []})).rows == 0


@pytest.mark.parametrize("meanwhile", ["update", "compact", "append", "delete"])
def test_other_commits_meanwhile(meanwhile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update of the same rows is not lost, and a file that went away is found again in another."""
    catalog, table = table_of()
    table.append(pa.table({"k": pa.array([40], pa.int32()), "v": ["v40"], "p": ["p0"]}))
    before = state(catalog)
    first, second = by_key(before, 0, 2)
    tries = []
    inner = column_update.ColumnUpdate._try

    def beside(self: Any, snapshot: Any, values: Any, commit: Any) -> Any:
        tries.append(snapshot.id)
        if len(tries) == 1:
            if meanwhile == "update":
                monkeypatch.setattr(column_update.ColumnUpdate, "_try", inner)
                table.update_columns(pa.table({"_ROW_ID": [second], "v": ["theirs"]}))
                monkeypatch.setattr(column_update.ColumnUpdate, "_try", beside)
            elif meanwhile == "compact":
                assert run(Job(table=table.name, strategy=Strategy.FULL), catalog).picks_done
            elif meanwhile == "append":
                table.append(pa.table({"k": pa.array([41], pa.int32()), "p": ["p0"]}))
            else:
                table.delete("k = 2")
        return inner(
            self,
            self.scanner.stores.snapshots.load(tries[0]) if len(tries) == 1 else snapshot,
            values,
            commit,
        )

    monkeypatch.setattr(column_update.ColumnUpdate, "_try", beside)
    table.update_columns(pa.table({"_ROW_ID": [first], "v": ["ours"]}))
    after = state(catalog)
    assert len(tries) == (2 if meanwhile in ("update", "compact") else 1)
    expected = before | {first: (0, "ours", *before[first][2:])}
    if meanwhile == "update":
        expected[second] = (2, "theirs", *before[second][2:])
    if meanwhile == "append":
        expected[41] = (41, None, None, None)
    if meanwhile == "delete":
        del expected[second]
    assert after == expected


@pytest.mark.parametrize(
    ("data", "error", "problem"),
    [
        ({"_ROW_ID": [41], "v": ["x"]}, InvalidInputError, "no row with _ROW_ID 41"),
        ({"_ROW_ID": [1, 1], "v": ["x", "y"]}, InvalidInputError, "1 appears twice"),
        ({"_ROW_ID": [None], "v": ["x"]}, InvalidInputError, "row 0 has no value"),
        ({"v": ["x"]}, InvalidInputError, "must have _ROW_ID"),
        ({"_ROW_ID": [1]}, InvalidInputError, "at least one other column"),
        ({"_ROW_ID": [1], "p": ["x"]}, InvalidInputError, "a partition column"),
        ({"_ROW_ID": [1], "w": ["x"]}, InvalidInputError, "'w' is not in the table"),
        ({"_ROW_ID": [1], "k": pa.array([None], pa.int32())}, InvalidInputError, "column k is NOT NULL"),
    ],
)
def test_what_is_refused(data: Any, error: type[LakeError], problem: str) -> None:
    _, table = table_of("p", vector__file__format="avro")
    with pytest.raises(error, match=problem):
        table.update_columns(pa.table(data))
    assert table._stores.snapshots.latest_id() == 2


@pytest.mark.parametrize(
    ("kind", "one", "two", "what"),
    [("BLOB", b"one", b"two", "blobs"), ("VECTOR<INT, 1>", [1], [2], "vectors")],
)
def test_columns_apart_beside_other_updates(kind: str, one: Any, two: Any, what: str) -> None:
    """Of two updates of such a column of the same rows the second sees the first; other columns do not matter."""
    more = {"blob_descriptor_field": "r", "vector__file__format": "avro"}
    table = append_table(memory_catalog("updates"), ("k INT", f"b {kind}", "r BLOB"), **EVOLVING, **more)
    first = pa.Table.from_pylist([{"k": 1, "b": one}, {"k": 2, "b": two}], schema=table.scan().schema)
    table.append(first)
    base = table._stores.snapshots.latest()
    inner = column_update.ColumnUpdate._try
    table.update_columns(pa.table({"_ROW_ID": [0], "b": [two]}))
    update = column_update.ColumnUpdate(table._scanner, table._read_context())
    values = update._check(pa.table({"_ROW_ID": [1], "b": [one]}))
    with pytest.raises(CommitConflictError, match=f"wrote {what} for rows of"):
        inner(
            update,
            base,
            values,
            lambda messages, since: table._commit(messages, table._with_user(None), preconditions=since),
        )
    table.update_columns(pa.table({"_ROW_ID": [1], "b": [one], "k": [7]}))
    assert table.scan(columns=["k", "b"]).to_arrow().to_pylist() == [{"k": 1, "b": two}, {"k": 7, "b": one}]
    with pytest.raises(InvalidInputError, match="no reference to"):
        table.update_columns(pa.table({"_ROW_ID": [1], "r": [b"raw"]}))


def test_the_whole_table_has_to_evolve() -> None:
    table = append_table(memory_catalog("updates"), ("k INT",), row_tracking__enabled="true")
    with pytest.raises(UnsupportedError, match=r"data-evolution\.enabled=false"):
        table.update_columns(pa.table({"_ROW_ID": [0], "k": [1]}))
