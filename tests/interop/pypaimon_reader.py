"""Runs in .venv-pypaimon: reads tables named on stdin (JSON: warehouse, table, file) into Arrow files."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pypaimon import CatalogFactory


def read(warehouse: str, table: str) -> pa.Table:
    builder = CatalogFactory.create({"warehouse": warehouse}).get_table(table).new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


for line in sys.stdin:
    request = json.loads(line)
    rows = read(request["warehouse"], request["table"])
    with pa.OSFile(request["file"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    print(rows.num_rows, flush=True)
