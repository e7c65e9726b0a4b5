"""References to blobs, views of blobs and blobs beside a key: Java Paimon reads what we wrote, and the reverse."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import load_catalog
from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError
from lakecore.format.blob.descriptors import encode_reference, encode_view, is_reference
from lakecore.jobs import compact, remove_orphan_files
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from lakecore.write.update import column_update
from tests.interop.evolution import EVOLVING, Rows, ours
from tests.support.oracle import Oracle, OracleError, findings


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
