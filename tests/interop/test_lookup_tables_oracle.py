"""Lookup tables are refreshed while Java Paimon writes, compacts and overwrites: the rows of each snapshot that they
were at are those that Java reads at it.
"""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.lookup.tables.lookup_table import LookupTable
from tests.support.golden import canonical
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

KINDS: dict[str, dict[str, Any]] = {
    "key": {"primaryKeys": ["k"], "options": {"bucket": "2"}},
    "sequence": {"primaryKeys": ["k"], "options": {"bucket": "1", "sequence.field": "s"}},
    "input": {"primaryKeys": ["k"], "options": {"bucket": "1", "changelog-producer": "input"}},
    "partitions": {"primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": {"bucket": "1"}},
    "append": {"options": {}},
    "updates": {
        "primaryKeys": ["k"],
        "options": {
            "bucket": "1",
            "merge-engine": "partial-update",
            "deletion-vectors.enabled": "true",
            "ignore-delete": "true",
        },
    },
    "sums": {
        "primaryKeys": ["k"],
        "options": {
            "bucket": "1",
            "merge-engine": "aggregation",
            "deletion-vectors.enabled": "true",
            "fields.s.aggregate-function": "sum",
            "aggregation.remove-record-on-delete": "true",
        },
    },
}
COMMITS = 12


def _write(
    oracle: Oracle, warehouse: Path, kind: str, refreshed: threading.Semaphore, ended: threading.Event
) -> None:
    """Commits of inserts and deletes, with a compaction now and then.

    The lookup is refreshed at least once between two groups of three commits, however slow the machine is.
    """
    random_ = random.Random(kind)
    kinds = ["+I"] if kind == "append" else ["+I", "+I", "-D"]
    try:
        for number in range(COMMITS):
            rows = [
                {
                    "_kind": random_.choice(kinds),
                    "k": random_.randrange(40),
                    "p": random_.randrange(2),
                    "s": random_.randrange(9),
                    "v": f"{number} {place}",
                }
                for place in range(25)
            ]
            oracle.write(warehouse, "d.t", rows, "--identifier", number)
            if number % 3 == 2:
                while refreshed.acquire(blocking=False):
                    pass
                for _ in range(2):  # the first may have begun before the commit
                    assert refreshed.acquire(timeout=120)
            if number % 4 == 3:
                oracle.compact(warehouse, "d.t", full=number % 8 == 7)
    finally:
        ended.set()


def _state(lookup: LookupTable) -> tuple[int | None, list[str]]:
    """The snapshot after a refresh, and the rows of all keys at it."""
    at = lookup.refresh()
    found = lookup.lookup(pa.table({"k": list(range(40))}))
    return at, canonical(
        json.dumps({name: row[name] for name in ("k", "p", "s", "v")}) for row in found.to_pylist()
    )


@pytest.mark.parametrize("mode", ["full", "auto"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_state_is_what_java_reads_at_its_snapshot(
    tmp_path: Path, oracle: Oracle, kind: str, mode: str
) -> None:
    oracle.create(tmp_path, "d.t", {"columns": ["k INT", "p INT", "s INT", "v STRING"], **KINDS[kind]})
    table = lakecore.load_catalog(str(tmp_path)).load_table("d.t")
    options = {"lookup.cache": mode, "lookup.continuous.discovery-interval": "365 d"}
    ended = threading.Event()
    refreshed = threading.Semaphore(0)
    writer = threading.Thread(target=_write, args=(oracle, tmp_path, kind, refreshed, ended))
    states: dict[int, list[str]] = {}
    with table.new_lookup(["k"], options=options) as lookup:
        writer.start()
        while not ended.is_set():
            at, rows = _state(lookup)
            if at is not None:
                states[at] = rows
            refreshed.release()
            time.sleep(0.05)
        writer.join()
        at, rows = _state(lookup)
        assert at is not None
        states[at] = rows
    latest = table.latest_snapshot()
    assert latest is not None
    assert at == latest.id
    assert len(states) >= COMMITS // 3
    for snapshot_id, rows in states.items():
        assert rows == oracle.read(tmp_path, "d.t", snapshot=snapshot_id), f"snapshot {snapshot_id}"
