"""The peer in Rust of the benches of reads and plans: pypaimon-rust, whose calls from Python run native code.

    .venv-pypaimon/bin/python tests/bench/rust_peer.py WAREHOUSE

It runs in an environment of its own, without lakecore. A line of standard input is `read TABLE`, `copy TABLE TARGET`,
`plan TABLE` or `plan TABLE DAY`, for tables of the database `db`; each answer is a line of JSON. Splits are read by two
threads, a split a task, and their rows counted: a call for all splits at once reads them with one thread and took
longer. Rows are copied by two threads with a writer each, which take split after split.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pypaimon_rust.datafusion import PaimonCatalog

CORES = 2


def read(table: Any) -> dict[str, Any]:
    """Every row and column, as batches of Arrow that are counted."""
    builder = table.new_read_builder()

    def rows_of(split: Any) -> int:
        return sum(batch.num_rows for batch in builder.new_read().read_arrow([split]))

    with ThreadPoolExecutor(CORES) as pool:
        return {"rows_out": sum(pool.map(rows_of, builder.new_scan().plan().splits()))}


def copy(table: Any, target: Any) -> dict[str, Any]:
    """Every row into another table, in one commit."""
    builder, writes = table.new_read_builder(), target.new_batch_write_builder()
    waiting = deque(builder.new_scan().plan().splits())

    def write_some(_: int) -> tuple[int, Any]:
        writer, rows = writes.new_write(), 0
        while waiting:
            try:
                split = waiting.popleft()
            except IndexError:  # the other thread was faster
                break
            for batch in builder.new_read().read_arrow([split]):
                writer.write_arrow(batch)
                rows += batch.num_rows
        return rows, writer.prepare_commit()

    with ThreadPoolExecutor(CORES) as pool:
        parts = list(pool.map(write_some, range(CORES)))
    writes.new_commit().commit([message for _, messages in parts for message in messages])
    return {"rows_out": sum(rows for rows, _ in parts)}


def plan(table: Any, days: list[str]) -> dict[str, Any]:
    """The splits of a scan, of one day if it is given."""
    builder = table.new_read_builder()
    if days:
        builder = builder.with_filter({"method": "equal", "index": 0, "field": "day", "literals": days})
    return {"splits": len(builder.new_scan().plan().splits())}


def main() -> None:
    catalog = PaimonCatalog({"warehouse": sys.argv[1]})
    for line in sys.stdin:
        action, name, *rest = line.split()
        started = time.perf_counter()
        table = catalog.get_table(f"db.{name}")
        if action == "copy":
            report = copy(table, catalog.get_table(f"db.{rest[0]}"))
        else:
            report = read(table) if action == "read" else plan(table, rest)
        print(json.dumps({"seconds": time.perf_counter() - started, **report}), flush=True)


if __name__ == "__main__":
    main()
