"""Maps that are spread over shared columns (map.storage-layout=shared-shredding): read, checked and compacted.

Files that lakecore writes from the same rows have Java's columns, and its metadata word for word.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import lakecore
from lakecore.format.shared_map.footer_metadata import unpacked
from lakecore.jobs import compact
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.golden import canonical
from tests.support.lake import live_files
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

SHREDDED = {"map.storage-layout": "shared-shredding", "map.shared-shredding.max-columns": "3"}
COLUMNS = ["k INT NOT NULL", "m MAP<STRING NOT NULL, INT>", "r MAP<STRING NOT NULL, ROW<a INT, l ARRAY<STRING>>>",
    "t MAP<STRING NOT NULL, TIMESTAMP(9)>", "c MAP<STRING NOT NULL, CHAR(3)> NOT NULL", "v STRING"]  # fmt: skip
LAYOUT = {f"fields.{name}.{key}": value for name in "mrtc" for key, value in SHREDDED.items()}
TABLES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "parquet": ((), {"bucket": "-1", "fields.m.map.shared-shredding.column-placement-policy": "plain"}),
    "orc": ((), {"bucket": "-1", "file.format": "orc", "file.compression": "lz4"}),
    "deletions": ((), {"bucket": "-1", "deletion-vectors.enabled": "true", "file.compression": "none"}),
    "keyed": (("k",), {"bucket": "1", "write-only": "true", "fields.m.map.shared-shredding.max-columns": "1"}),
    "keyed_orc": (("k",), {"bucket": "1", "file.format": "orc", "merge-engine": "partial-update"}),
    "lookup": (("k",), {"bucket": "1", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"}),
}  # fmt: skip


def test_read_checked_and_compacted(oracle2: Oracle, tmp_path: Path) -> None:
    java, lake = oracle2, lakecore.load_catalog(str(tmp_path))
    for name, (keys, options) in TABLES.items():
        full, ours = f"d.{name}", f"d.{name}_ours"
        folder = tmp_path / f"d.db/{name}/bucket-0"
        schema = {"columns": COLUMNS, "primaryKeys": list(keys), "options": LAYOUT | options}
        java.create(tmp_path, full, schema)
        java.create(tmp_path, ours, schema | {"options": schema["options"] | {"write-only": "true"}})
        for first in (0, 6):
            rows = [row(k) for k in range(first, first + 9)]
            java.write(tmp_path, full, rows)
            table = lake.load_table(ours)
            table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))
            if first == 0:
                assert told(tmp_path / f"d.db/{name}_ours/bucket-0") == told(folder), name
        compact.run(compact.Job(table=ours, strategy=compact.Strategy.FULL), lake)
        assert java.read(tmp_path, ours) == java.read(tmp_path, full) == read(lake.load_table(ours)), name
        widened = {"op": "type", "name": ["m", "value"], "type": "BIGINT"}
        added = {"op": "add", "name": ["r", "value", "z"], "type": "INT"}
        renamed = {"op": "rename", "name": "m", "to": "n"}
        java.call("alter", tmp_path, full, json.dumps([widened, added, renamed]))
        java.write(tmp_path, full, [row(k, "n") for k in (3, 20)])
        if name == "deletions":
            java.call(
                "delete-rows", tmp_path, full, write_lines(tmp_path / "gone.jsonl", [{"k": 2}, {"k": 7}])
            )
        wanted = java.read(tmp_path, full)
        table = lake.load_table(full)
        assert read(table) == wanted, name
        assert read(table, where="k > 4", columns=["n", "k"]) == cut(wanted, ("k", "n"), lambda k: k > 4), (
            name
        )
        assert read(table, where="n is null", columns=["k"]) == ['{"k": 5}'], name
        assert fsck(table._stores.file_io, table._stores.paths, now_ms=now(), read_data=True).damage == (), (
            name
        )
        job = compact.Job(table=full, strategy=compact.Strategy.FULL, proof=compact.ProofMode.FULL)
        assert compact.run(job, lake).snapshot is not None, name
        table = lake.load_table(full)
        assert all(shredded(folder / file.file_name) for file in live_files(table)), name
        assert read(table) == wanted == java.read(tmp_path, full), name
        assert java.fsck(tmp_path, full)["errors"] == [], name
        java.write(tmp_path, full, [row(30, "n")])
        assert read(lake.load_table(full)) == java.read(tmp_path, full), name


def told(folder: Path) -> list[Any]:
    """Columns of the oldest file of a bucket, and its metadata for each; names of keys unpacked."""
    path = min(folder.glob("data-*"), key=lambda found: found.stat().st_mtime_ns)
    schema, footer = (
        (orc.ORCFile(path).schema, orc.ORCFile(path).metadata)
        if path.suffix == ".orc"
        else (pq.ParquetFile(path).schema_arrow, pq.ParquetFile(path).metadata.metadata)
    )
    found: list[Any] = [[(field.name, parts(field.type)) for field in schema]]
    for field in pa.ipc.read_schema(pa.py_buffer(base64.b64decode(footer[b"ARROW:schema"]))):
        notes = {
            key.decode().rpartition(".")[2]: value.decode()
            for key, value in field.metadata.items()
            if key.startswith(b"paimon.map.")
        }
        if "field-dict" in notes:
            packed = notes.pop("field-dict").encode("latin-1")
            size = int(notes["field-dict-original-size"])
            found.append((notes, unpacked(notes["field-dict-compression"], packed, size)))
    assert len(found) == 5
    return found


def parts(kind: pa.DataType) -> Any:
    """A type without metadata and names of elements."""
    if pa.types.is_struct(kind):
        return [(field.name, parts(field.type)) for field in kind]
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return [parts(kind.field(i).type) for i in range(kind.num_fields)]
    return str(kind)


def row(k: int, name: str = "m") -> dict[str, Any]:
    texts = [f"key{i}" for i in range(k, k + k % 5)]
    return {
        "k": k,
        name: None if k == 5 else [[text, None if i == 1 else i * k] for i, text in enumerate(texts)],
        "r": [[text, None if i == 2 else {"a": i, "l": [text, None] * i}] for i, text in enumerate(texts)],
        "t": [["é", "2024-05-06 07:08:09.123456789"], ["", None], [texts[0], "2001-02-03 00:00:00.000000001"]]
        if texts
        else [],
        "c": [["x", "abc"], ["y", "a  "]],
        "v": "text" * (k % 3),
    }


def read(table: Table, **scan: Any) -> list[str]:
    found = table.scan(**scan)
    return canonical(line for batch in found.to_batches() for line in batch_to_json(batch, found.row_type))


def cut(lines: list[str], columns: tuple[str, ...], kept: Any) -> list[str]:
    rows = [json.loads(line) for line in lines]
    return canonical({name: found[name] for name in columns} for found in rows if kept(found["k"]))


def shredded(path: Path) -> bool:
    schema = orc.ORCFile(path).schema if path.suffix == ".orc" else pq.read_schema(path)
    return pa.types.is_struct(schema.field("r").type)


def write_lines(path: Path, rows: list[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(found) + "\n" for found in rows))
    return path


def now() -> int:
    return int(time.time() * 1000)
