"""Rows that we delete, judged by Java Paimon: on tables it wrote, beside its own deletes, and while we compact."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import load_catalog
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.table import Commit, Table
from tests.support.golden import View, golden_tables
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

LATEST = View("rows.jsonl")
PATIENT = {
    "commit.max-retries": "500",
    "commit.max-retry-wait": "50 ms",
    "lakecore.commit.settle-time": "1 ms",  # Java, which renames over snapshots, writes nothing meanwhile
}


@pytest.mark.parametrize("name", ["g1.a_dv_append_bucket_part", "g1.a_dv_append_idxdir", "g3.h3_dv_append"])
def test_java_and_we_delete_in_turn(name: str, oracles: dict[str, Oracle], tmp_path: Path) -> None:
    golden = next(table for table in golden_tables() if table.name == name).copy_to(tmp_path)
    java = oracles[golden.version]
    catalog = load_catalog(str(tmp_path))
    table = catalog.load_table(name)
    key = next(field.name for field in table.schema.fields if str(field.type).startswith(("INT", "BIGINT")))
    rows = [json.loads(row) for row in golden.rows(LATEST)]
    ours, theirs = (sorted({row[key] for row in rows if row[key] is not None})[n::3] for n in (0, 1))

    def left(*gone: int) -> list[Any]:
        return sorted((row for row in rows if row[key] not in gone), key=str)

    def seen(oracle: Oracle) -> list[Any]:
        return sorted((json.loads(row) for row in oracle.read(tmp_path, name)), key=str)

    deleted = table.delete(f"{key} in ({', '.join(map(str, ours))})")
    assert deleted.rows == len(rows) - len(left(*ours))
    for oracle in oracles.values():
        assert seen(oracle) == left(*ours)
    file = tmp_path / "keys.jsonl"
    file.write_text("".join(json.dumps({key: value}) + "\n" for value in theirs))
    java.call("delete-rows", tmp_path, name, file)
    assert seen(java) == left(*ours, *theirs)
    table.delete(f"{key} = {theirs[0]} or {key} > 0")
    assert seen(java) == [row for row in left(*ours, *theirs) if row[key] is None or row[key] <= 0]
    report = run(Job(table=name, strategy=Strategy.FULL), catalog)
    assert report.error is None
    assert seen(java) == [row for row in left(*ours, *theirs) if row[key] is None or row[key] <= 0]
    assert findings(java.fsck(tmp_path, name)) <= findings(golden.facts["fsck"])


ROUNDS = 25


def table_at(warehouse: str) -> Table:
    return load_catalog(warehouse, **{"local.fsync": "false"}).load_table("d.t").with_options(PATIENT)


def delete_rounds(warehouse: str, user: str, start: int) -> None:
    table = table_at(warehouse)
    for number in range(ROUNDS):
        value = start + 3 * number
        table.append(
            pa.table({"k": pa.array([1000 + value], pa.int32())}), Commit(user=user, identifier=2 * number)
        )
        assert table.delete(f"k = {value}", Commit(user=user, identifier=2 * number + 1)).rows == 1


def compact_rounds(warehouse: str, done: Any, landed: Any) -> None:
    catalog = load_catalog(warehouse, **{"local.fsync": "false"})
    number = 0
    while not done.is_set():
        number += 1
        strategy = Strategy.FULL if number % 3 == 0 else Strategy.UNIVERSAL
        landed.value += len(run(Job(table="d.t", strategy=strategy, options=PATIENT), catalog).snapshots)


def test_deleted_rows_never_come_back(oracle: Oracle, tmp_path: Path) -> None:
    """Two processes delete and append, a third compacts."""
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "compaction.min.file-num": "3"}
    oracle.create(tmp_path, "d.t", {"columns": ["k INT"], "options": {**options, "write-only": "true"}})
    oracle.write(tmp_path, "d.t", [{"k": k} for k in range(3 * ROUNDS)])
    context = multiprocessing.get_context("spawn")
    done, landed = context.Event(), context.Value("i", 0)
    deleters = [
        context.Process(target=delete_rounds, args=(str(tmp_path), user, start))
        for start, user in enumerate("ab")
    ]
    compactor = context.Process(target=compact_rounds, args=(str(tmp_path), done, landed))
    for process in (*deleters, compactor):
        process.start()
    for process in deleters:
        process.join(300)
    done.set()
    compactor.join(120)
    assert [process.exitcode for process in (*deleters, compactor)] == [0, 0, 0]
    gone = {start + 3 * number for start in range(2) for number in range(ROUNDS)}
    expected = sorted({*range(3 * ROUNDS)} - gone | {1000 + value for value in gone})
    assert sorted(json.loads(row)["k"] for row in oracle.read(tmp_path, "d.t")) == expected
    assert sorted(table_at(str(tmp_path)).scan().to_arrow().column("k").to_pylist()) == expected
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    assert landed.value >= 2
