"""A writer killed with SIGKILL while a compaction of its `ConcurrentServices` runs: Java reads every committed row once,
nothing is damaged, and the next writer goes on and compacts.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.fs.local import LocalFileIO
from lakecore.jobs.concurrent_services import ConcurrentServices
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.fault_fs import FaultyFileIO
from tests.support.killing_fs import CHANGES
from tests.support.lake import append_table, key_table
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

LAST = 5
LATER = {"lookup_wait": "false"}
KINDS: dict[str, dict[str, str]] = {
    "keys": {},
    "append": {},
    "dynamic": {"bucket": "-1"},
    "vectors": {"deletion_vectors__enabled": "true", **LATER},
    "first-row": {"merge_engine": "first-row", **LATER},
}
OPTIONS = {
    "write_only": "false",
    "num_sorted_run__compaction_trigger": "2",
    "compaction__min__file_num": "2",
}


class Beside(FaultyFileIO):
    """A local disk that counts the changes by other threads than the one that writes, and kills at number `last`."""

    def __init__(self, last: int) -> None:
        super().__init__(LocalFileIO(sync=False))
        self.last = last
        self.changes: list[str] = []

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        result = effect()
        if name in CHANGES and threading.current_thread() is not threading.main_thread():
            self.changes.append(f"{name} {path}")
            if len(self.changes) == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return result


def stream(warehouse: str, name: str, last: int) -> list[str]:
    """Commit rows 0 … LAST; the file `committed` has a line for each commit that returned."""
    storage = Beside(last)
    table = load_catalog(warehouse).load_table(name)
    table = replace(table, _stores=replace(table._stores, file_io=storage))
    with ConcurrentServices(table) as services, Path(warehouse, "committed").open("a") as committed:
        for number in range(LAST + 1):
            commit(table, services, number)
            committed.write(f"{number}\n")
            committed.flush()
            if number % 2:
                services.wait()
    return storage.changes


def commit(table: Table, services: ConcurrentServices, number: int) -> None:
    write = services.new_stream_write("job")
    write.write(pa.table({"k": pa.array([number % 5], pa.int32()), "v": [f"row {number}"]}))
    write.filter_and_commit({number: [write.prepare_commit(number)]})


def rows_until(number: int, kind: str) -> list[dict[str, Any]]:
    """The rows after the commits 0 … number."""
    rows = [{"k": n % 5, "v": f"row {n}"} for n in range(number + 1)]
    if kind == "first-row":
        rows.reverse()
    return sorted((rows if kind == "append" else {row["k"]: row for row in rows}.values()), key=str)


def java_rows(java: Oracle, warehouse: Path, name: str) -> list[dict[str, Any]]:
    rows = (json.loads(line) for line in java.read(warehouse, name))
    return sorted(({"k": row["k"], "v": row["v"]} for row in rows), key=str)


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_killed_in_a_compaction(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    columns, options = ("k INT", "v STRING"), {**OPTIONS, **KINDS[kind]}
    make, name = (append_table, "d.a") if kind == "append" else (key_table, "d.k")
    make(load_catalog(str(tmp_path / "whole"), create_warehouse=True), columns, **options)
    changes = stream(str(tmp_path / "whole"), name, 0)
    published = [number for number, change in enumerate(changes, 1) if "/snapshot/snapshot-" in change]
    assert len(published) > 1, changes
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lakecore.jobs.concurrent_services", "tests.support.lake"])
    for last in sorted(
        {1, published[0] - 1, published[0], published[-1]}
        if kind == "keys"
        else {published[0] - 1, *([published[0]] if kind in ("append", "vectors") else [])}
    ):
        warehouse = tmp_path / str(last)
        make(load_catalog(str(warehouse), create_warehouse=True), columns, **options)
        process = context.Process(target=stream, args=(str(warehouse), name, last))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL, (last, changes)
        committed = len((warehouse / "committed").read_text().split())
        found = java_rows(oracle, warehouse, name)
        table = load_catalog(str(warehouse)).load_table(name)
        stores = table._stores
        told = [one.commit_identifier for one in table.snapshots() if one.commit_user == "job"]
        if "lookup_wait" not in options:  # other rows are visible once they are compacted
            assert found == rows_until(max(told, default=-1), kind), changes[last - 1]
        assert all(row in rows_until(max(told, default=-1), "append") for row in found)
        assert max(told, default=-1) + 1 in (committed, committed + 1)
        report = fsck(stores.file_io, stores.paths, now_ms=SystemClock().now_ms(), deep=True, read_data=True)
        assert {finding.kind for finding in report.findings} <= {FindingKind.ORPHAN, FindingKind.HINT}
        stream(str(warehouse), name, 0)  # the job again: what was committed is skipped
        assert java_rows(oracle, warehouse, name) == rows_until(LAST, kind), changes[last - 1]
        assert "COMPACT" in {one.commit_kind.value for one in table.snapshots()}
