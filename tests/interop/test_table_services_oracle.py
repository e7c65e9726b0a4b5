"""Java reads tables whose writers compact and expire after their commits, and its streams have the changes that Java's own
writers would have made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore import FilesystemCatalog, Table
from lakecore.jobs.concurrent_services import ConcurrentServices
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

TABLES: dict[str, dict[str, Any]] = {
    "append": {"options": {"compaction.min.file-num": "3"}},
    "bucketed": {"options": {"bucket": "2", "bucket-key": "k", "compaction.min.file-num": "3"}},
    "fixed": {"primaryKeys": ["k"], "options": {"bucket": "2"}},
    "dynamic": {"primaryKeys": ["k"], "options": {"bucket": "-1"}},
    "lookup": {"primaryKeys": ["k"], "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "full": {"primaryKeys": ["k"], "options": {"bucket": "1", "changelog-producer": "full-compaction"}},
    "vectors": {"primaryKeys": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "first-row": {"primaryKeys": ["k"], "options": {"bucket": "1", "merge-engine": "first-row"}},
    "interval": {"primaryKeys": ["k"], "options": {"bucket": "1", "compaction.optimization-interval": "1 h"}},
}
EXPIRY = {"snapshot.num-retained.max": "4", "snapshot.num-retained.min": "2", "snapshot.time-retained": "1 h"}
NUMBERS = range(1, 11)


def batch(number: int) -> list[dict[str, int]]:
    return [{"k": k, "v": 100 * number + k} for k in range(number % 4, number % 4 + 5)]


def expected(name: str) -> list[str]:
    rows = [row for number in NUMBERS for row in batch(number)]
    if name in ("append", "bucketed"):
        return canonical(rows)
    found: dict[int, int] = {}
    for row in rows:
        if name != "first-row" or row["k"] not in found:
            found[row["k"]] = row["v"]
    return canonical([{"k": k, "v": v} for k, v in found.items()])


def opened(path: Path) -> FilesystemCatalog:
    return lakecore.load_catalog(path, create_warehouse=True, **{"local.fsync": "false"})


def streamed(table: Table) -> None:
    write = table.new_stream_write("job")
    for number in NUMBERS:
        write.write(pa.RecordBatch.from_pylist(batch(number)))
        assert write.commit(number, [write.prepare_commit(number)]).notes == ()


@pytest.mark.parametrize("name", TABLES)
def test_what_java_reads(oracle: Oracle, tmp_path: Path, name: str) -> None:
    made = TABLES[name]
    table = opened(tmp_path).create_table(
        "d.t", {"columns": ["k INT", "v INT"], **made, "options": {**made["options"], **EXPIRY}}
    )
    streamed(table)
    assert oracle.read(tmp_path, "d.t") == expected(name)
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    snapshots = list(table.snapshots())
    assert len(snapshots) <= 4
    assert any(one.commit_kind.value == "COMPACT" for one in snapshots)
    oracle.write(tmp_path, "d.t", [{"k": 99, "v": 1}])
    assert len(oracle.read(tmp_path, "d.t")) == len(expected(name)) + 1
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()


@pytest.mark.parametrize(
    "name", ["append", "bucketed", "fixed", "interval", "dynamic", "vectors", "first-row", "lookup"]
)
def test_what_java_reads_after_compactions_in_a_thread(oracle: Oracle, tmp_path: Path, name: str) -> None:
    made = TABLES[name]
    options = {**made["options"], **EXPIRY, "lookup-wait": "false"}
    table = opened(tmp_path).create_table("d.t", {"columns": ["k INT", "v INT"], **made, "options": options})
    with ConcurrentServices(table) as services:
        write = services.new_stream_write("job")
        for number in NUMBERS:
            write.write(pa.RecordBatch.from_pylist(batch(number)))
            assert write.commit(number, [write.prepare_commit(number)]).notes == ()
        services.wait()
    snapshots = list(table.snapshots())
    assert len(snapshots) < len(NUMBERS), "expiry ran"
    assert any(one.commit_kind.value == "COMPACT" for one in snapshots)
    assert oracle.read(tmp_path, "d.t") == expected(name)
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()


def test_the_changes_of_compactions_in_a_thread_make_the_table(oracle: Oracle, tmp_path: Path) -> None:
    """Which rows a compaction tells depends on the commits before it; together they are the table, none told twice."""
    made = TABLES["lookup"]
    options = {**made["options"], "lookup-wait": "false"}
    table = opened(tmp_path).create_table("d.t", {"columns": ["k INT", "v INT"], **made, "options": options})
    with ConcurrentServices(table) as services:
        write = services.new_stream_write("job")
        for number in NUMBERS:
            write.write(pa.RecordBatch.from_pylist(batch(number)))
            write.commit(number, [write.prepare_commit(number)])
    rows: dict[int, int] = {}
    for plan in oracle.call("stream", tmp_path, "d.t", "--from-snapshot", 1):
        for change in plan["rows"]:
            kind, key, value = change["_kind"], change["k"], change["v"]
            if kind in ("-U", "-D"):
                assert rows.pop(key) == value
            else:
                assert key not in rows
                rows[key] = value
    assert canonical([{"k": k, "v": v} for k, v in rows.items()]) == expected("lookup")


@pytest.mark.parametrize("commits", [1, 3])
def test_the_changes_are_those_of_a_java_writer(oracle: Oracle, tmp_path: Path, commits: int) -> None:
    """Java's writer compacts fully at every so-many-th commit (its sinks count them; here the test does)."""
    options = {
        "bucket": "1",
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": str(commits),
    }
    definition = {"columns": ["k INT NOT NULL", "v INT"], "primaryKeys": ["k"], "options": options}
    streamed(opened(tmp_path).create_table("d.ours", definition))
    oracle.create(tmp_path, "d.theirs", definition)
    for number in NUMBERS:
        full = ["--full"] if number % commits == 0 else []
        oracle.write(
            tmp_path, "d.theirs", batch(number), "--commit-user", "job", "--identifier", number, *full
        )
    assert changes(oracle, tmp_path, "d.ours") == changes(oracle, tmp_path, "d.theirs")
    assert oracle.read(tmp_path, "d.ours") == oracle.read(tmp_path, "d.theirs")


def changes(oracle: Oracle, path: Path, table: str) -> list[list[str]]:
    """The changes of each snapshot that has some, as Java's stream emits them."""
    plans = oracle.call("stream", path, table, "--from-snapshot", 1)
    return [sorted(json.dumps(row, sort_keys=True) for row in plan["rows"]) for plan in plans if plan["rows"]]
