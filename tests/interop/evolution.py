"""Tables with data evolution, BLOB and VECTOR columns, as Java and lakecore see them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakecore.metadata.manifest.data_file import DataFile
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from tests.support.golden import canonical
from tests.support.oracle import Oracle

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


def places(file: DataFile) -> tuple[Any, ...]:
    low, high = file.min_sequence_number, file.max_sequence_number
    return file.first_row_id, file.row_count, file.write_cols, low, high


def without_age(line: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(line).items() if name != "_SEQUENCE_NUMBER"}
