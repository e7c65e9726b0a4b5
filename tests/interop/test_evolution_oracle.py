"""Columns that lie in files of their own (blobs, vectors, data evolution), judged by Java Paimon."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import load_catalog
from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError
from lakecore.format.blob.descriptors import encode_reference, encode_view, is_reference
from lakecore.jobs import compact, remove_orphan_files
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from lakecore.write.update import column_update
from tests.support.golden import canonical
from tests.support.lake import live_files
from tests.support.oracle import Oracle, OracleError, findings

pytestmark = pytest.mark.slow

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}
Rows = Sequence[Mapping[str, Any]]


def ours(table: Table, **scan: Any) -> list[str]:
    rows = table.scan(**scan)
    return canonical(line for batch in rows.to_batches() for line in batch_to_json(batch, rows.row_type))


def columns(oracle: Oracle, warehouse: Path, name: str, first: int, rows: Rows) -> None:
    """Java writes some columns of the rows from row id `first` on."""
    file = warehouse / "columns.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    oracle.call(
        "write-columns", warehouse, name, file, "--columns", ",".join(rows[0]), "--first-row-id", first
    )


VECTORS = [{"k": 1, "v": [1.5, 2.5, -1]}, {"k": 2, "v": None}, {"k": 3, "v": [0, 0, 0.25]}]
BLOBS = [{"k": 1, "b": "0x0102"}, {"k": 2, "b": None}, {"k": 3, "b": "0x"}, {"k": 4, "b": "0x" + "ab" * 50}]


LISTS = [{"k": k, "b": b} for k, b in enumerate([["0x01", None, "0x"], None, [], ["0x" + "cd" * 70]])]
MAPS = [{"k": k, "b": b} for k, b in enumerate([[["a", "0x01"], ["ö", None]], None, [], [["", "0x"]]])]


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


def places(file: DataFile) -> tuple[Any, ...]:
    low, high = file.min_sequence_number, file.max_sequence_number
    return file.first_row_id, file.row_count, file.write_cols, low, high


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


def without_age(line: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(line).items() if name != "_SEQUENCE_NUMBER"}


def test_references_to_blobs(oracle2: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given as references, a blob is not touched; a column of references is followed. Bytes in their place, which
    earlier releases wrote, are found, and can be replaced by what an older snapshot has.
    """
    source = tmp_path / "bytes"
    source.write_bytes(b"0123456789")
    spec = {"columns": ["k INT", "b BLOB", "r BLOB"], "options": {**EVOLVING, "blob-descriptor-field": "r"}}
    oracle2.create(tmp_path, "d.t", spec)
    reference = {"uri": f"file:{source}", "offset": 3, "length": 4}
    oracle2.write(tmp_path, "d.t", [{"k": 1, "b": "0x01", "r": reference}, {"k": 2, "b": None, "r": None}])
    table = load_catalog(str(tmp_path)).load_table("d.t")
    assert ours(table) == oracle2.read(tmp_path, "d.t")
    assert table.scan().to_arrow().column("r").to_pylist() == [b"3456", None]
    found = table.with_options({"blob-as-descriptor": "true"}).scan().to_arrow().to_pydict()
    (blob,) = (tmp_path / "d.db/t/bucket-0").glob("*.blob")
    for value, path, place in ((found["b"][0], blob, (4, 1)), (found["r"][0], source, (3, 4))):
        assert value[:1] == b"\x02"
        assert value[13:-16].decode() == f"file:{path}"
        assert (int.from_bytes(value[-16:-8], "little"), int.from_bytes(value[-8:], "little")) == place
    assert (found["b"][1], found["r"][1]) == (None, None)
    for length in (2, 3):
        oracle2.write(tmp_path, "d.t", [{"k": length, "b": None, "r": {**reference, "length": length}}])
    before = oracle2.read(tmp_path, "d.t")
    assert ours(table, where="r = x'333435'", columns=["k"]) == ['{"k": 3}']
    report = compact.run(
        compact.Job(table="d.t", strategy=compact.Strategy.FULL), load_catalog(str(tmp_path))
    )
    assert (report.error, report.files_in, report.files_out) == (None, 3, 1)
    assert ours(table) == oracle2.read(tmp_path, "d.t") == before
    given = table.with_options({"blob-as-descriptor": "true"}).scan(columns=["r"]).to_arrow()
    bytes_ = table.scan(columns=["r"]).to_arrow()
    ids = pa.array(range(4), pa.int64())
    with monkeypatch.context() as patch:
        patch.setattr(column_update, "check_references", lambda *_: None)
        table.update_columns(bytes_.append_column("_ROW_ID", ids))
    found = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True, read_data=True).findings
    assert [(f.kind, f.problem.partition(" (")[0]) for f in found] == [
        (FindingKind.REFERENCES, "3 rows have bytes in column r, which must hold references")
    ]
    assert ours(table) == before
    with pytest.raises(OracleError):
        oracle2.read(tmp_path, "d.t")
    table.update_columns(given.append_column("_ROW_ID", ids))
    assert oracle2.read(tmp_path, "d.t") == before


def test_references_beside_a_key(oracle2: Oracle, tmp_path: Path) -> None:
    """They stay in the rows: other merge engines and changelogs are allowed."""
    source = tmp_path / "bytes"
    source.write_bytes(b"0123456789")
    options = {"bucket": "1", "blob-descriptor-field": "b"}
    options |= {"merge-engine": "partial-update", "changelog-producer": "lookup"}
    spec = {"columns": ["k INT NOT NULL", "s STRING", "b BLOB"], "primaryKeys": ["k"], "options": options}
    oracle2.create(tmp_path, "d.t", spec)
    reference = {"uri": f"file:{source}", "offset": 3, "length": 4}
    oracle2.write(tmp_path, "d.t", [{"k": 1, "s": None, "b": reference}, {"k": 2, "s": "x", "b": None}])
    catalog = load_catalog(str(tmp_path))
    table = catalog.load_table("d.t")
    references = [None, encode_reference(str(source), 0, 2), encode_reference(str(source), 5, 3)]
    table.upsert(pa.table({"k": pa.array([1, 2, 3], pa.int32()), "s": ["ours", None, "n"], "b": references}))
    for _ in range(2):
        assert len(whole(oracle2, table)) == 3
        assert compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog).error is None
    told = oracle2.call("stream", tmp_path, "d.t", "--from-snapshot", "1")
    batches = [batch for change in table.stream(snapshot=1) for batch in change.to_batches()]
    ours_told = [value for batch in batches for value in batch.column("b").to_pylist()]
    java_told = [row["b"] for change in told for row in change["rows"]]
    assert [value and f"0x{value.hex()}" for value in ours_told] == java_told
    with pytest.raises(InvalidInputError, match="3 bytes are no reference"):
        table.upsert(pa.table({"k": pa.array([7], pa.int32()), "b": [b"raw"]}))


def test_views_of_blobs(oracle2: Oracle, tmp_path: Path) -> None:
    """They are followed into the latest snapshot of the other table, and kept as they are by a compaction."""
    java = oracle2
    more = {**EVOLVING, "deletion-vectors.enabled": "true", "blob-descriptor-field": "r"}
    source = tmp_path / "bytes"
    source.write_bytes(b"0123456789")
    spec = {"columns": ["p STRING", "b BLOB", "r BLOB"], "partitionKeys": ["p"], "options": more}
    java.create(tmp_path, "e.up", spec)
    reference = {"uri": f"file:{source}", "offset": 3, "length": 4}
    for start in (0, 10):
        rows = [{"p": f"{n % 2}", "b": f"0x{n:02x}", "r": reference} for n in range(start, start + 10)]
        java.write(tmp_path, "e.up", [*rows, {"p": "0", "b": None, "r": None}])
    options = {**EVOLVING, "blob-view-field": "v"}
    java.create(tmp_path, "d.t", {"columns": ["k INT", "b BLOB", "v BLOB"], "options": options})
    for start in (0, 11):
        views = [{"view": "e.up", "field": 1 + n % 2, "row": n} for n in range(start, start + 11)]
        java.write(tmp_path, "d.t", [{"k": n, "b": "0x07", "v": v} for n, v in enumerate(views)])
    java.write(tmp_path, "d.t", [{"k": 99, "b": None, "v": None}])
    catalog = load_catalog(str(tmp_path))
    table = catalog.load_table("d.t")
    before = java.read(tmp_path, "d.t")
    stored = table.with_options({"blob-view.resolve.enabled": "false"}).scan(columns=["v"]).to_arrow()
    assert stored.column("v")[0].as_py() == encode_view("e.up", 1, 0)
    assert ours(table) == before
    assert '"v": "0x33343536"' in "".join(before)
    assert ours(table, where="v = x'33343536' and k > 4") == [
        row for row in before if '"v": "0x33343536"' in row and json.loads(row)["k"] > 4
    ]
    referring = table.with_options({"blob-as-descriptor": "true"}).scan(where="k = 99 or k = 1").to_arrow()
    assert all(value is None or is_reference(value) for value in referring.column("v").to_pylist())
    report = compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
    assert (report.error, report.files_out) == (None, 1)
    again = table.with_options({"blob-view.resolve.enabled": "false"}).scan(columns=["v"]).to_arrow()
    assert sorted(map(str, again.column("v"))) == sorted(map(str, stored.column("v")))
    assert ours(table) == java.read(tmp_path, "d.t") == before
    views_of_views(java, tmp_path)
    java.call("delete-row-ids", tmp_path, "e.up", "3")
    with pytest.raises(NotFoundError, match=r"column v: table e\.up has no row 3"):
        ours(table)
    java.call("drop", tmp_path, "e.up")
    with pytest.raises(NotFoundError, match=r"there is no table e\.up"):
        ours(table)


def views_of_views(java: Oracle, warehouse: Path) -> None:
    """We write them, over others too, and follow them, whatever the tables between say; rings end."""
    catalog = load_catalog(str(warehouse))
    made = {"columns": ["k INT", "w BLOB"], "options": {**EVOLVING, "blob-view-field": "w"}}
    catalog.create_table("f.w", made)
    table = catalog.load_table("f.w")
    views = [None, *(encode_view("d.t", field, row) for row in range(22) for field in (1, 2))]
    views += [encode_view("f.w", 1, 7), encode_view("e.up", 1, 10), encode_view("f.w", 1, 0)]
    table.append(pa.table({"k": pa.array(range(len(views)), pa.int32()), "w": views}))
    assert len(whole(java, table, "f.w")) == 48
    assert {row["w"] for row in map(json.loads, ours(table))} >= {None, "0x07", "0x33343536", "0x05"}
    first = [encode_view("d.t", 2, 5), None]
    table.update_columns(pa.table({"_ROW_ID": [0, 3], "w": first}))
    assert [json.loads(row)["w"] for row in whole(java, table, "f.w") if '"k": 0,' in row] == ["0x33343536"]
    for wrong in (b"raw", encode_reference("/x", 0, 1), encode_view("up", 1, 0)):
        with pytest.raises(InvalidInputError, match=r"column w \(option blob-view-field\)"):
            table.append(pa.table({"k": pa.array([1], pa.int32()), "w": [wrong]}))
    rings = [encode_view("f.w", 1, row) for row in (49, 48)]
    table.append(pa.table({"k": pa.array([1, 2], pa.int32()), "w": rings}))
    with pytest.raises(CorruptDataError, match=r"row 4[89] of table f\.w refers to itself"):
        ours(table)


BESIDE_KEY = {
    "columns": [
        "p STRING NOT NULL",
        "k INT NOT NULL",
        "s STRING",
        "b BLOB",
        "l ARRAY<BLOB>",
        "m MAP<STRING, BLOB>",
    ],
    "partitionKeys": ["p"],
    "primaryKeys": ["p", "k"],
}
BLOOM = {"file-index.bloom-filter.columns": "s", "file-index.in-manifest-threshold": "1 b"}


def beside_key(start: int) -> list[dict[str, Any]]:
    """Rows that share half of their keys with those of the next five, as Java's tool writes them."""
    return [
        {
            "p": str(k % 2),
            "k": k,
            "s": str(start),
            "b": None if k % 5 == 0 else "0x" + f"{k:02x}" * (k + start),
            "l": ["0x01", None, "0x"] if k % 2 else None,
            "m": [["a", "0x02"], ["b", None]] if k % 3 else [],
        }
        for k in range(start, start + 10)
    ]


def arrow_rows(table: Table, rows: Rows) -> pa.Table:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [tuple(map(plain, one)) if isinstance(one, list) else plain(one) for one in value]
        return bytes.fromhex(value[2:]) if str(value).startswith("0x") else value

    found = [{name: plain(value) for name, value in row.items()} for row in rows]
    return pa.Table.from_pylist(found, schema=table.scan().schema)


def whole(java: Oracle, table: Table, name: str = "d.t") -> list[str]:
    """The rows by both, after both have checked the table. Java's tool takes packs, and only these, for orphans."""
    warehouse = Path(table.path).parents[1]
    expected = java.read(warehouse, name)
    assert ours(table) == expected
    found = findings(java.fsck(warehouse, name))
    assert {one for one in found if not one.endswith(".managed.blob")} == set()
    assert not fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True, read_data=True).findings
    return expected


@pytest.mark.parametrize(
    ("writer", "options"),
    [
        ("java", {"bucket": "1", **BLOOM}),
        ("ours", {"bucket": "-1", "file.format": "avro", "data-file.thin-mode": "true"}),
        ("ours", {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}),
        ("ours", {"bucket": "1", "file.format": "orc", "deletion-vectors.enabled": "true"}),
    ],
)
def test_blobs_beside_a_key(writer: str, options: Mapping[str, str], oracle2: Oracle, tmp_path: Path) -> None:
    """Written, deleted, merged and compacted by one, read and compacted by the other; packs are no orphans."""
    catalog, java = load_catalog(str(tmp_path)), oracle2
    made = {**BESIDE_KEY, "options": {"blob.target-file-size": "60 b", "write-only": "true", **options}}
    (java.create(tmp_path, "d.t", made) if writer == "java" else catalog.create_table("d.t", made))
    table = catalog.load_table("d.t")
    compacted_first = "deletion-vectors.enabled" in options or "-2" in options.values()
    for start in (0, 5, 10):
        rows = beside_key(start)
        if writer == "java":
            java.write(tmp_path, "d.t", [*rows, {**rows[2], "_kind": "-D"}])
            continue
        table.upsert(arrow_rows(table, rows))
        if not compacted_first:
            assert table.delete(f"k = {rows[2]['k']} or b = x'{rows[4]['b'][2:]}'").rows == 2
    if not compacted_first:
        before = whole(java, table)
        blob = next(row["b"] for row in map(json.loads, before) if row["b"] is not None)
        assert ours(table, where=f"b = x'{blob[2:]}' and k >= 0", columns=["b"]) == [f'{{"b": "{blob}"}}']
        told = ours(table, incremental="0..3")
        assert told == java.read(tmp_path, "d.t", options={"incremental-between": "0,3"})
    assert compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog).error is None
    after = whole(java, catalog.load_table("d.t"))
    assert compacted_first or after == before
    for pack in (tmp_path / "d.db/t").rglob("*.managed.blob"):
        os.utime(pack, (0, 0))
    assert remove_orphan_files.run(remove_orphan_files.Job(table="d.t"), catalog).error is None
    java.write(tmp_path, "d.t", beside_key(12))
    if "-2" not in options.values():
        java.call("compact", tmp_path, "d.t", "--full")
    assert len(whole(java, catalog.load_table("d.t"))) >= len(after)
    for pack in (tmp_path / "d.db/t").rglob("*.managed.blob"):
        pack.unlink()
    lost = fsck(table._stores.file_io, table._stores.paths, now_ms=0, read_data=True).findings
    assert {finding.problem.partition(" (")[0] for finding in lost} == {
        "it is missing, although rows have blobs in it"
    }
