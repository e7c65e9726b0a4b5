"""Columns that lie in files of their own (blobs, vectors, data evolution), judged by Java Paimon."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import load_catalog
from lakecore.jobs import compact
from lakecore.verify.fsck.check import fsck
from tests.interop.evolution import (
    BLOBS,
    EVOLVING,
    LISTS,
    MAPS,
    VECTORS,
    Rows,
    columns,
    ours,
    places,
    without_age,
)
from tests.interop.test_blob_references_oracle import whole
from tests.support.golden import canonical
from tests.support.lake import live_files
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("version", "kind", "options", "rows"),
    [
        ("2.0.0", "VECTOR<FLOAT, 3>", {"bucket": "-1"}, VECTORS),
        ("1.4.2", "VECTOR<FLOAT, 3>", {"bucket": "-1", "file.format": "avro"}, VECTORS),
        ("2.0.0", "VECTOR<DOUBLE, 3>", {**EVOLVING, "vector.file.format": "avro"}, VECTORS),
        ("2.0.0", "VECTOR<FLOAT, 3>", {**EVOLVING, "vector.file.format": "parquet"}, VECTORS),
        ("1.4.2", "BLOB", {**EVOLVING, "blob.target-file-size": "40 b"}, BLOBS),
        ("2.0.0", "BLOB", {**EVOLVING, "blob.target-file-size": "1 b"}, BLOBS),
        ("2.0.0", "ARRAY<BLOB>", {**EVOLVING, "blob.target-file-size": "60 b"}, LISTS),
        ("2.0.0", "MAP<STRING, BLOB>", EVOLVING, MAPS),
    ],
)
def test_vectors_and_blobs_of_java(
    version: str,
    kind: str,
    options: Mapping[str, str],
    rows: Rows,
    oracles: dict[str, Oracle],
    tmp_path: Path,
) -> None:
    java, other = oracles[version], "v" if "VECTOR" in kind else "b"
    java.create(tmp_path, "d.t", {"columns": ["k INT", f"{other} {kind}"], "options": dict(options)})
    for part in (rows, rows[1:], rows * 3):
        java.write(tmp_path, "d.t", part)
    table = load_catalog(str(tmp_path)).load_table("d.t")
    everything = java.read(tmp_path, "d.t")
    assert ours(table) == everything
    assert ours(table, columns=[other]) == canonical({other: json.loads(r)[other]} for r in everything)
    assert ours(table, where="k > 1") == [row for row in everything if json.loads(row)["k"] > 1]
    assert ours(table, where=f"{other} is not null", columns=["k"]) == canonical(
        {"k": row["k"]} for row in map(json.loads, everything) if row[other] is not None
    )


def test_blobs_written_over(oracle2: Oracle, tmp_path: Path) -> None:
    """Newer blob files that cover some rows only, or leave rows as they were; and deleted rows."""
    java = oracle2
    options = {**EVOLVING, "deletion-vectors.enabled": "true", "blob.target-file-size": "1 b"}
    java.create(tmp_path, "d.t", {"columns": ["k INT", "b BLOB", "c BLOB", "n INT"], "options": options})
    java.write(tmp_path, "d.t", [{"k": n, "b": f"0x{n:02x}", "c": "0xff", "n": n} for n in range(10)])
    java.write(tmp_path, "d.t", [{"k": n, "b": None, "c": "0xee", "n": n} for n in range(10, 15)])
    columns(java, tmp_path, "d.t", 0, [{"b": v} for v in ("older", "0xaa01", None, "0xaa03", *["older"] * 6)])
    columns(
        java, tmp_path, "d.t", 10, [{"b": v, "n": 7} for v in ("0xbb", "older", None, "0xbb03", "0xbb04")]
    )
    table = load_catalog(str(tmp_path)).load_table("d.t")
    for deleted in ("", "1,3,12", "0,14"):
        if deleted:
            java.call("delete-row-ids", tmp_path, "d.t", deleted)
        assert ours(table) == java.read(tmp_path, "d.t")
        assert ours(table, columns=["b"]) == canonical(
            {"b": json.loads(r)["b"]} for r in java.read(tmp_path, "d.t")
        )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("BLOB", {"blob.target-file-size": "100 b", "target-file-size": "3 kb"}),
        ("ARRAY<BLOB>", {}),
        ("MAP<BIGINT, BLOB>", {}),
        ("VECTOR<FLOAT, 3>", {"vector.file.format": "avro"}),
        ("VECTOR<INT, 3>", {"vector.file.format": "parquet", "target-file-size": "2 kb"}),
        ("VECTOR<DOUBLE, 3> NOT NULL", {}),
    ],
)
def test_java_reads_our_blobs_and_vectors(
    kind: str, options: Mapping[str, str], oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    catalog = load_catalog(str(tmp_path))
    columns_ = ["p STRING", "k INT", f"x {kind}", "s STRING"]
    catalog.create_table(
        "d.t", {"columns": columns_, "partitionKeys": ["p"], "options": {**EVOLVING, **options}}
    )
    table = catalog.load_table("d.t")
    empty = [0, 0, 0] if "NOT NULL" in kind else None

    def value(n: int) -> Any:
        blob = bytes([n % 256]) * (n % 40)
        other = [blob, None, b""][: n % 4] if kind == "ARRAY<BLOB>" else [(n, blob), (-1, None)][: n % 3]
        found = blob if kind == "BLOB" else other if "BLOB" in kind else [n, n + 1, n + 2]
        return empty if n % 7 == 3 else found

    rows = [{"p": f"{n % 2}", "k": n, "x": value(n), "s": f"{n * 7919 % 1000}"} for n in range(300)]
    for part in (rows, rows[:5]):
        table.append(pa.Table.from_pylist(part, schema=table.scan().schema))
    expected = ours(table)
    assert canonical({"k": json.loads(r)["k"]} for r in expected) == canonical(
        {"k": r["k"]} for r in rows + rows[:5]
    )
    judges = [java for v, java in oracles.items() if v == "2.0.0" or kind == "BLOB" or "avro" in str(options)]
    for java in judges:
        assert java.read(tmp_path, "d.t") == expected
    assert findings(judges[-1].fsck(tmp_path, "d.t")) == set()
    assert not fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True).findings
    before = [without_age(row) for row in judges[-1].read(tmp_path, "d.t$row_tracking")]
    assert sorted(row["_ROW_ID"] for row in before) == list(range(305))
    judges[-1].write(
        tmp_path, "d.t", [{"p": "1", "k": 900, "x": None if empty is None else empty, "s": "java"}]
    )
    assert compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog).error is None
    for java in judges:
        assert java.read(tmp_path, "d.t") == ours(table)
    after = [without_age(row) for row in judges[-1].read(tmp_path, "d.t$row_tracking")]
    assert [row for row in after if row["k"] != 900] == before


def test_columns_that_we_write_over(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """Both releases read them, compact them, and write over them again."""
    java, newer = oracles.values()
    columns_ = ["k INT", "s STRING", "n DECIMAL(9, 2)", "b BLOB"]
    java.create(
        tmp_path, "d.t", {"columns": columns_, "options": {**EVOLVING, "compaction.min.file-num": "2"}}
    )
    for start in (0, 10):
        rows = [{"k": start + k, "s": f"s{k}", "n": "1.50", "b": f"0x{k:02x}"} for k in range(10)]
        java.write(tmp_path, "d.t", rows)
    catalog = load_catalog(str(tmp_path))
    table = catalog.load_table("d.t")
    expected = {n: {"k": n, "s": f"s{n % 10}", "n": "1.50", "b": f"0x{n % 10:02x}"} for n in range(20)}
    changes = [{13: "ours"}, {0: None, 13: "again", 19: "x"}, {5: "y"}]
    for number, change in enumerate(changes):
        given = pa.table({"_ROW_ID": list(change), "s": list(change.values())})
        assert table.update_columns(given).rows == len(change)
        for row_id, value in change.items():
            expected[row_id]["s"] = value
        for judge in (java, newer):
            assert judge.read(tmp_path, "d.t") == ours(table) == canonical(expected.values())
            assert findings(judge.fsck(tmp_path, "d.t")) == set()
        ids = {row["_ROW_ID"]: row["k"] for row in map(json.loads, newer.read(tmp_path, "d.t$row_tracking"))}
        assert ids == {n: n for n in range(20)}
        if number == 1:
            columns(newer, tmp_path, "d.t", 0, [{"n": "9.00"}] * 20)
            expected |= {n: expected[n] | {"n": "9.00"} for n in range(20)}
        elif number == 0:
            java.compact(tmp_path, "d.t")


def test_blobs_that_we_write_over(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """A column of blobs, alone and beside others, of rows in several ranges; older files are many, or partial."""
    java, newer = oracles.values()
    options = {**EVOLVING, "compaction.min.file-num": "2", "blob.target-file-size": "60 b"}
    java.create(tmp_path, "d.t", {"columns": ["k INT", "s STRING", "b BLOB"], "options": options})
    for start in (0, 10):
        rows = [{"k": start + k, "s": "s", "b": f"0x{k:02x}" * k if k else None} for k in range(10)]
        rows = [{**row, "b": row["b"] and "0x" + row["b"].replace("0x", "")} for row in rows]
        java.write(tmp_path, "d.t", rows)
    catalog = load_catalog(str(tmp_path))
    table = catalog.load_table("d.t")
    expected = {row["k"]: row for row in map(json.loads, java.read(tmp_path, "d.t"))}
    for number, change in enumerate([{13: b"one"}, {0: b"", 13: None, 19: b"x" * 90}, {3: b"three"}]):
        given: dict[str, Any] = {"_ROW_ID": list(change), "b": pa.array(change.values(), pa.binary())}
        if number == 1:
            given["s"] = ["t"] * len(change)
        assert table.update_columns(pa.table(given)).rows == len(change)
        for row_id, value in change.items():
            expected[row_id]["b"] = None if value is None else f"0x{value.hex()}"
            expected[row_id]["s"] = "t" if number == 1 else expected[row_id]["s"]
        for judge in (java, newer):
            assert judge.read(tmp_path, "d.t") == ours(table) == canonical(expected.values())
        assert findings(newer.fsck(tmp_path, "d.t")) == set()
        assert not fsck(
            table._stores.file_io, table._stores.paths, now_ms=0, deep=True, read_data=True
        ).findings
        new = [
            file
            for file in live_files(table)
            if file.max_sequence_number == table._stores.snapshots.latest_id()
        ]
        rows = sorted(file.row_count for file in new if file.write_cols == ("b",))
        assert rows == [[5], [2, 5, 5], [20]][number], "no other file of blobs is written anew"
        if number == 0:
            java.compact(tmp_path, "d.t")
        elif number == 1:
            columns(newer, tmp_path, "d.t", 0, [{"b": "older"}, {"b": "0x77"}])  # 1.4.2 cannot read this
            expected[1]["b"] = "0x77"


def test_vectors_that_we_write_over(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """One of two columns of a vector file, or one that no file has; after a new schema, format and name, too."""
    java, newer = oracles.values()
    options = {**EVOLVING, "vector.file.format": "avro", "vector.target-file-size": "1 b"}
    spec = {"columns": ["k INT", "v VECTOR<FLOAT, 2>", "w VECTOR<INT, 2>"], "options": options}
    newer.create(tmp_path, "d.t", {**spec, "options": {**options, "compaction.min.file-num": "2"}})
    for start in (0, 10):
        rows = [{"k": n, "v": [n + 0.5, 1.5], "w": [n, 1]} for n in range(start, start + 10)]
        newer.write(tmp_path, "d.t", rows)
    catalog = load_catalog(str(tmp_path))
    expected = {n: {"k": n, "v": [n + 0.5, 1.5], "w": [n, 1]} for n in range(20)}
    format_ = {"op": "set", "key": "vector.file.format", "value": "parquet"}
    later = [{"op": "rename", "name": "w", "to": "x"}, {"op": "add", "name": "a", "type": "VECTOR<INT, 1>"}]
    for number, (name, ids, changes) in enumerate(
        [("w", [13, 2], []), ("v", [5], [format_]), ("x", [13, 0], later), ("a", [19], []), ("a", [18], [])]
    ):
        for change in changes:
            newer.call("alter", tmp_path, "d.t", json.dumps([change]))
            if "to" in change:
                expected = {n: {**row, "x": row["w"], "a": None} for n, row in expected.items()}
                expected = {n: {k: row[k] for k in ("k", "v", "x", "a")} for n, row in expected.items()}
        table = catalog.load_table("d.t")
        values = [None, [7.0 if name == "v" else 7] * (1 if name == "a" else 2)][-len(ids) :]
        data = pa.table({"_ROW_ID": ids, name: pa.array(values)})
        assert table.update_columns(data).rows == len(ids)
        for row_id, value in zip(ids, values, strict=True):
            expected[row_id][name] = value
        assert canonical(expected.values()) == whole(newer, table)
        if number == 0:  # it knows no vectors in parquet
            assert java.read(tmp_path, "d.t") == ours(table)
        if number == 1:
            newer.compact(tmp_path, "d.t")
    add = {"op": "add", "name": "d", "type": "BLOB"}
    newer.call("alter", tmp_path, "d.t", json.dumps([add]))
    for n in (
        20,
        21,
    ):  # with other columns in files of their own than the rows before: not to be joined with these
        newer.write(tmp_path, "d.t", [{"k": n, "v": None, "x": [n, n], "a": [n], "d": "0x01"}])
    before = newer.read(tmp_path, "d.t")
    report = compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
    table = catalog.load_table("d.t")
    assert (report.error, whole(newer, table)) == (None, before)
    assert (20, 2, ("k",)) in {(f.first_row_id, f.row_count, f.write_cols) for f in live_files(table)}


@pytest.mark.parametrize("who", ["ours", "java"])
def test_compaction_joins_ordinary_columns(who: str, oracle2: Oracle, tmp_path: Path) -> None:
    """Blob and vector files stay; the vectors of deleted rows move with the rows. Java on top of ours, too."""
    java = oracle2
    options = {**EVOLVING, "deletion-vectors.enabled": "true", "vector.file.format": "avro"}
    options["compaction.min.file-num"] = "2"
    spec = {"columns": ["k INT", "b BLOB", "v VECTOR<FLOAT, 2>", "n INT"], "options": options}
    java.create(tmp_path, "d.t", spec)
    for start in range(0, 60, 10):
        rows = [{"k": n, "b": f"0x{n:02x}", "v": [n, 1], "n": n} for n in range(start, start + 10)]
        java.write(tmp_path, "d.t", rows)
    columns(java, tmp_path, "d.t", 10, [{"n": 1000 + n} for n in range(10)])
    java.call("delete-row-ids", tmp_path, "d.t", "0,12,19,59")
    catalog = load_catalog(str(tmp_path))
    table = catalog.load_table("d.t")
    if who == "ours":  # by a column of each kind of file; 12 is gone already
        assert table.delete("n = 1003 or k = 12 or k > 57 or b = x'20'").rows == 3
        assert table.delete("k > 57").rows == 0
        left = {json.loads(row)["k"] for row in java.read(tmp_path, "d.t")}
        assert set(range(60)) - left == {0, 12, 13, 19, 32, 58, 59}
    ids = "d.t$row_tracking"
    before = [without_age(row) for row in java.read(tmp_path, ids)]
    for round_ in range(2):
        if who == "ours":
            report = compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
            assert (report.error, report.files_out) == (None, 1)
            assert findings(java.fsck(tmp_path, "d.t")) == set()
            assert not fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True).findings
        else:
            java.compact(tmp_path, "d.t")
        ordinary = [file for file in live_files(table) if file.write_cols == ("k", "n")]
        assert [(file.first_row_id, file.row_count) for file in ordinary] == [(0, 60 + 10 * round_)]
        assert [without_age(row) for row in java.read(tmp_path, ids)] == before
        assert ours(table) == java.read(tmp_path, "d.t")
        rows = [{"k": n, "b": None, "v": [n, 2], "n": n} for n in range(60, 70)]
        java.write(tmp_path, "d.t", rows)
        before = [without_age(row) for row in java.read(tmp_path, ids)]


@pytest.mark.parametrize("kind", ["BLOB", "ARRAY<BLOB>"])
def test_blob_files_are_joined_as_java_joins_them(kind: str, oracle2: Oracle, tmp_path: Path) -> None:
    """Of two copies of a table we compact one and Java the other: the same rows lie in the same files."""
    java, homes = oracle2, (tmp_path / "ours", tmp_path / "java")
    options = {**EVOLVING, "deletion-vectors.enabled": "true", "blob-compaction.enabled": "true"}
    options |= {
        "compaction.min.file-num": "2",
        "source.split.open-file-cost": "1 b",
        "target-file-size": "3 kb",
    }
    options["blob.target-file-size"] = "220 b" if kind == "BLOB" else "700 b"
    spec = {"columns": ["k INT", f"b {kind}", f"c {kind}", "s STRING"], "options": options}
    homes[0].mkdir()
    java.create(homes[0], "d.t", spec)
    seven = "0x07" if kind == "BLOB" else ["0x07"]
    for start in range(0, 60, 10):
        blobs = ["0x" + "ab" * (n % 7) if n % 4 else None for n in range(start, start + 10)]
        rows = [{"b": b if kind == "BLOB" else b and [b, None], "c": seven} for b in blobs]
        text = "x" * 30 * (start // 20)
        java.write(homes[0], "d.t", [{"k": start + n, **row, "s": text} for n, row in enumerate(rows)])
    older = ("older", None, "older") if kind == "BLOB" else (None, seven, None)
    columns(java, homes[0], "d.t", 11, [{"b": value} for value in older])
    java.call("delete-row-ids", homes[0], "d.t", "1,12,22")
    for _ in range(2 if kind == "BLOB" else 1):
        shutil.copytree(homes[0], homes[1], dirs_exist_ok=True)
        catalogs = [load_catalog(str(home)) for home in homes]
        before = [without_age(row) for row in java.read(homes[0], "d.t$row_tracking")]
        for _ in "12":  # one of ours goes on until nothing is left to do
            java.compact(homes[1], "d.t")
        report = compact.run(compact.Job(table="d.t"), catalogs[0])
        assert report.error is None
        assert whole(java, catalogs[0].load_table("d.t")) == java.read(homes[1], "d.t")
        told = [java.read(home, "d.t$row_tracking") for home in homes]
        assert told[0] == told[1]
        assert [without_age(row) for row in told[0]] == before
        mine, theirs = (sorted(map(places, live_files(catalog.load_table("d.t")))) for catalog in catalogs)
        assert mine == theirs
        assert any(rows > 10 for _, rows, names, *_ in mine if names == ("c",))
        more = [{"k": 100 + n, "b": None, "c": seven, "s": ""} for n in range(9)]
        java.write(homes[0], "d.t", more)
        shutil.rmtree(homes[1])


def test_vectors_stay_when_their_format_is_set_later(oracle2: Oracle, tmp_path: Path) -> None:
    """Vectors among ordinary columns stay there, those in files of their own too, when it is unset again."""
    java = oracle2
    java.create(tmp_path, "d.t", {"columns": ["k INT", "v VECTOR<FLOAT, 2>"], "options": EVOLVING})
    catalog = load_catalog(str(tmp_path))
    key = {"key": "vector.file.format"}
    for start, change in (
        (0, None),
        (20, {"op": "set", **key, "value": "avro"}),
        (40, {"op": "unset", **key}),
    ):
        if change is not None:
            java.call("alter", tmp_path, "d.t", json.dumps([change]))
        for first in (start, start + 10):
            java.write(tmp_path, "d.t", [{"k": first + n, "v": [n, start]} for n in range(10)])
        before = java.read(tmp_path, "d.t")
        report = compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
        assert (report.error, report.files_out) == (None, 1)
        assert before == java.read(tmp_path, "d.t") == ours(catalog.load_table("d.t"))
