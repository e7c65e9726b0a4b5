"""Runs in .venv-pypaimon: reads tables named on stdin (JSON: warehouse, table, file) into Arrow files, with the library
that the argument names: `python` is pypaimon, `rust` is pypaimon-rust.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa


def read_by_python(warehouse: str, table: str) -> pa.Table:
    from pypaimon import CatalogFactory

    builder = CatalogFactory.create({"warehouse": warehouse}).get_table(table).new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def read_by_rust(warehouse: str, table: str) -> pa.Table:
    from pypaimon_rust.datafusion import PaimonCatalog

    builder = PaimonCatalog({"warehouse": warehouse}).get_table(table).new_read_builder()
    return pa.Table.from_batches(builder.new_read().read(builder.new_scan().plan().splits()))


READERS = {"python": read_by_python, "rust": read_by_rust}

for line in sys.stdin:
    request = json.loads(line)
    rows = READERS[sys.argv[1]](request["warehouse"], request["table"])
    with pa.OSFile(request["file"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    print(rows.num_rows, flush=True)
