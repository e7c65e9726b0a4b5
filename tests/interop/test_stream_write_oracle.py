"""Java reads streams of commits, checks the files, and goes on with the table; Java's own commits of the same user
are known to a restored stream.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.jobs import rescale
from lakecore.write.assigned import AssignedBy, StreamBuckets
from lakecore.write.buckets.local_state import LocalState
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

TABLES: dict[str, dict[str, Any]] = {
    "unaware": {"options": {}},
    "bucketed": {"options": {"bucket": "2", "bucket-key": "k"}},
    "fixed": {"primaryKeys": ["k"], "options": {"bucket": "2", "changelog-producer": "input"}},
    "dynamic": {"primaryKeys": ["k"], "options": {"bucket": "-1"}},
    "sum": {
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    },
}


def batch(number: int) -> list[dict[str, int]]:
    return [{"k": k, "v": 100 * number + k} for k in range(number, number + 4)]


def expected(name: str, numbers: list[int]) -> list[str]:
    rows = [row for number in numbers for row in batch(number)]
    if name in ("unaware", "bucketed"):
        return canonical(rows)
    found: dict[int, int] = {}
    for row in rows:
        found[row["k"]] = row["v"] + (found.get(row["k"], 0) if name == "sum" else 0)
    return canonical([{"k": k, "v": v} for k, v in found.items()])


@pytest.mark.parametrize("name", TABLES)
def test_what_java_reads(oracle: Oracle, tmp_path: Path, name: str) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    table = catalog.create_table("d.t", {"columns": ["k INT", "v INT"], **TABLES[name]})
    write = table.new_stream_write("job")
    waiting = {}
    for number in range(3):
        write.write(pa.RecordBatch.from_pylist(batch(number)))
        waiting[number] = [write.prepare_commit(number)]
        if name == "dynamic":
            write.commit(number, waiting[number])
    for _ in range(2):
        table.new_stream_write("job").filter_and_commit(waiting)
    assert oracle.read(tmp_path, "d.t") == expected(name, [0, 1, 2])
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    oracle.write(tmp_path, "d.t", batch(3), "--commit-user", "job", "--identifier", 3)
    restored = table.new_stream_write("job")
    restored.write(pa.RecordBatch.from_pylist(batch(4)))
    assert restored.commit(3, [restored.prepare_commit(3)]).duplicate
    assert oracle.read(tmp_path, "d.t") == expected(name, [0, 1, 2, 3])
    restored.write(pa.RecordBatch.from_pylist(batch(4)))
    restored.commit(4, [restored.prepare_commit(4)])
    assert oracle.read(tmp_path, "d.t") == expected(name, [0, 1, 2, 3, 4])
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()


@pytest.mark.parametrize("name", ["fixed", "dynamic"])
def test_the_state_of_buckets_follows_java(oracle: Oracle, tmp_path: Path, name: str) -> None:
    """Java appends, compacts, overwrites and rolls back between the commits of a stream, whose processes follow the
    table by a local file: what each knows is what all manifests say.
    """
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    table = catalog.create_table("d.t", {"columns": ["k INT", "v INT"], **TABLES[name]})
    newest = {}

    def commit(number: int) -> None:
        check_state(table, tmp_path)
        write = table.new_stream_write("job").with_buckets_of(state_of(table, tmp_path))
        write.write(pa.RecordBatch.from_pylist(batch(number)))
        write.commit(number, [write.prepare_commit(number)])
        newest.update({row["k"]: row["v"] for row in batch(number)})
        assert oracle.read(catalog.warehouse, "d.t") == canonical(
            [{"k": k, "v": v} for k, v in newest.items()]
        )

    commit(0)
    oracle.write(catalog.warehouse, "d.t", [{"k": 1, "v": -1}, {"k": 90, "v": -1}])
    newest.update({1: -1, 90: -1})
    commit(1)
    oracle.compact(catalog.warehouse, "d.t", full=True)
    commit(2)
    oracle.write(catalog.warehouse, "d.t", [{"k": 7, "v": 7}], "--overwrite", "all")
    newest.clear()
    newest[7] = 7
    commit(3)
    kept, snapshot = dict(newest), table.latest_snapshot()
    assert snapshot is not None
    commit(4)
    oracle.call("rollback", catalog.warehouse, "d.t", "--snapshot", snapshot.id)
    newest.clear()
    newest.update(kept)
    oracle.write(catalog.warehouse, "d.t", [{"k": 7, "v": 8}])
    newest[7] = 8
    commit(5)
    if name == "fixed":
        rescale.run(rescale.Job(table="d.t", bucket_num=3), catalog)
        catalog.alter_table("d.t", [{"op": "set", "key": "bucket", "value": "3"}])
        table = catalog.load_table("d.t")
        commit(6)
    complaints = findings(oracle.fsck(catalog.warehouse, "d.t"))
    assert {
        one for one in complaints if not one.startswith("orphan: ")
    } == set()  # Java's rollback leaves some


def state_of(table: lakecore.Table, directory: Path) -> AssignedBy:
    session = table._session(table._with_user(None))
    return StreamBuckets(LocalState(session.stores.paths, str(directory))).latest(session)


def check_state(table: lakecore.Table, directory: Path) -> None:
    known, expected = state_of(table, directory), table._session(table._with_user(None)).bucket_state()
    assert known.snapshot == expected.snapshot
    for (partition, bucket), number in expected.next_sequences.items():
        assert known.buckets is not None
        assert known.buckets.next_sequence(partition, bucket) >= number
        assert known.buckets.total(partition) == expected.total(partition)
        assert known.buckets.hash_files_of(partition) == expected.hash_files_of(partition)
