"""Processes that write and compact one table at once, and drivers that die, judged by Java Paimon."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import load_catalog
from lakecore.executor import SerialExecutor
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Commit, Table
from tests.support.killing_fs import KillPoint, run_and_die
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

ROUNDS = {"keyed": 75, "append": 24}
KEYS = 20
PATIENT = {
    "commit.max-retries": "500",
    "commit.max-retry-wait": "50 ms",
    "lakecore.commit.settle-time": "1 ms",  # Java, which renames over snapshots, writes nothing meanwhile
}


def table_at(warehouse: str) -> Table:
    return load_catalog(warehouse, **{"local.fsync": "false"}).load_table("d.t").with_options(PATIENT)


def rows_of_round(user: str, number: int) -> dict[str, list[Any]]:
    """Five rows; upserts hit each key every fourth round."""
    keys = [(5 * number + i) % KEYS for i in range(5)]
    return {"who": [user] * 5, "k": keys, "v": [f"{user}{number}.{i}" for i in range(5)]}


def write_rounds(warehouse: str, user: str, rounds: int, landed: Any) -> None:
    """Write all rounds; after every third of them wait for a compaction, so that a fast writer leaves none out."""
    table = table_at(warehouse)
    third = rounds // 3
    for number in range(rounds):
        if number % third == third - 1:
            wait_for(lambda wanted=number // third: landed.value > wanted)
        rows = rows_of_round(user, number)
        table.write(
            pa.table({**rows, "k": pa.array(rows["k"], pa.int32())}), Commit(user=user, identifier=number)
        )


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline, "no compaction lands beside two writers"
        time.sleep(0.01)


def compact_rounds(warehouse: str, done: Any, landed: Any) -> None:
    """Universal and full compactions in turn until the writers are done; a conflict may drop all of one."""
    catalog = load_catalog(warehouse, **{"local.fsync": "false"})
    number = 0
    while not done.is_set():
        number += 1
        strategy = Strategy.FULL if number % 3 == 0 else Strategy.UNIVERSAL
        job = Job(table="d.t", strategy=strategy, options=PATIENT, commit_user=f"compactor{number}")
        landed.value += len(run(job, catalog).snapshots)


TABLES = {
    "keyed": {
        "partitionKeys": ["who"],
        "primaryKeys": ["who", "k"],
        "options": {"bucket": "2", "write-only": "true"},
    },
    "append": {
        "partitionKeys": ["who"],
        "primaryKeys": [],
        "options": {"bucket": "-1", "write-only": "true"},
    },
}


@pytest.mark.parametrize("kind", TABLES)
def test_two_writers_and_a_compactor(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    columns = ["who STRING NOT NULL", "k INT NOT NULL", "v STRING"]
    oracle.create(tmp_path, "d.t", {"columns": columns, **TABLES[kind]})
    context = multiprocessing.get_context("spawn")
    done, landed = context.Event(), context.Value("i", 0)
    writers = [
        context.Process(target=write_rounds, args=(str(tmp_path), user, ROUNDS[kind], landed))
        for user in "ab"
    ]
    compactor = context.Process(target=compact_rounds, args=(str(tmp_path), done, landed))
    for process in (*writers, compactor):
        process.start()
    for process in writers:
        process.join(300)
    done.set()
    compactor.join(120)
    assert [process.exitcode for process in (*writers, compactor)] == [0, 0, 0]

    assert _read(oracle, tmp_path) == _expected(kind)
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    table = table_at(str(tmp_path))
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == sorted(
        (dict(zip(("who", "k", "v"), row, strict=True)) for row in _expected(kind)), key=str
    )
    ids = table._stores.snapshots.list_ids()
    assert ids == tuple(range(1, len(ids) + 1))
    kinds = [table._stores.snapshots.load(snapshot_id).commit_kind for snapshot_id in ids]
    assert kinds.count(CommitKind.APPEND) == 2 * ROUNDS[kind]
    assert kinds.count(CommitKind.COMPACT) == len(ids) - 2 * ROUNDS[kind] >= 3


def _expected(kind: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for user in "ab":
        for number in range(ROUNDS[kind]):
            made = rows_of_round(user, number)
            rows += zip(made["who"], made["k"], made["v"], strict=True)
    if kind == "keyed":
        rows = [(*key, v) for key, v in {(who, k): v for who, k, v in rows}.items()]
    return sorted(rows)


def _read(oracle: Oracle, warehouse: Path) -> list[tuple[Any, ...]]:
    return sorted((row["who"], row["k"], row["v"]) for row in map(json.loads, oracle.read(warehouse, "d.t")))


def _damage(oracle: Oracle, warehouse: Path) -> set[str]:
    """What Java's check finds, but for orphans and a hint that lags behind: both do no harm."""
    found = findings(oracle.fsck(warehouse, "d.t"))
    return {line for line in found if line.startswith("error") and "hint LATEST" not in line}


KILLS = {
    "while it writes": KillPoint(name="write", part="bucket-", after=True),
    "while it publishes": None,
    "after it published": KillPoint(name="publish", part="snapshot-4", after=True),
}


def compact_once(warehouse: str) -> None:
    catalog = load_catalog(warehouse, **{"local.fsync": "false"})
    run(Job(table="d.t", strategy=Strategy.FULL, commit_user="job", commit_identifier=5), catalog)


@pytest.mark.parametrize("point", KILLS)
def test_java_goes_on_after_a_killed_compaction(point: str, oracle: Oracle, tmp_path: Path) -> None:
    oracle.create(
        tmp_path,
        "d.t",
        {"columns": ["k BIGINT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    )
    for number in range(3):
        oracle.write(tmp_path, "d.t", [{"k": k, "v": f"{number}.{k}"} for k in range(number, number + 4)])
    before = oracle.read(tmp_path, "d.t")
    run_and_die(KILLS[point], compact_once, str(tmp_path))
    assert oracle.read(tmp_path, "d.t") == before
    assert _damage(oracle, tmp_path) == set()
    compact_once(str(tmp_path))
    oracle.write(tmp_path, "d.t", [{"k": 1, "v": "java"}])
    oracle.compact(tmp_path, "d.t", full=True)
    after = {row["k"]: row["v"] for row in map(json.loads, oracle.read(tmp_path, "d.t"))}
    assert after == {row["k"]: row["v"] for row in map(json.loads, before)} | {1: "java"}
    assert _damage(oracle, tmp_path) == set()


ALTERS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "add": (
        [{"op": "add", "name": "extra", "type": "STRING"}],
        {"extra": "kept"},
        lambda row: row | {"extra": None},
    ),
    "rename": (
        [{"op": "rename", "name": "n", "to": "m"}],
        {"m": 7},
        lambda row: {"k": row["k"], "m": row["n"]},
    ),
    "drop": ([{"op": "drop", "name": "n"}], {}, lambda row: {"k": row["k"]}),
    "widen": ([{"op": "type", "name": "n", "type": "BIGINT"}], {"n": 2**40}, lambda row: row),
}


class AlteredMeanwhile(SerialExecutor):
    """Java alters the table and writes to it once units have run."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self._actions = [action]

    def run(self, function: Any, tasks: Any) -> Any:
        results = list(super().run(function, tasks))
        while self._actions:
            self._actions.pop()()
        yield from results


@pytest.mark.parametrize("change", ALTERS)
def test_java_alters_a_table_that_is_being_compacted(change: str, oracle: Oracle, tmp_path: Path) -> None:
    operations, new, as_read = ALTERS[change]
    schema = {
        "columns": ["k INT NOT NULL", "n INT"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "write-only": "true"},
    }
    oracle.create(tmp_path, "d.t", schema)
    rows = {}
    for number in range(6):
        written = [{"k": k, "n": number} for k in range(number, number + 4)]
        oracle.write(tmp_path, "d.t", written)
        rows |= {row["k"]: row for row in written}

    def alter() -> None:
        oracle.call("alter", tmp_path, "d.t", json.dumps(operations))
        for k in range(3, 9):  # enough files for a second round of the same job
            oracle.write(tmp_path, "d.t", [{"k": k, **new}])

    catalog = load_catalog(str(tmp_path))
    job = Job(table="d.t", commit_user="job", options={"num-sorted-run.compaction-trigger": "2"})
    assert run(job, catalog, AlteredMeanwhile(alter)).snapshots
    expected = [as_read(row) for row in rows.values()]
    blank = dict.fromkeys(expected[0])
    expected = [row for row in expected if not 3 <= row["k"] < 9] + [
        blank | {"k": k, **new} for k in range(3, 9)
    ]
    for step in (
        lambda: None,
        lambda: run(Job(table="d.t", strategy=Strategy.FULL, commit_user="later"), catalog),
    ):
        step()
        found = [json.loads(line) for line in oracle.read(tmp_path, "d.t")]
        found = [{name: value for name, value in row.items() if name != "_kind"} for row in found]
        assert sorted(found, key=lambda row: row["k"]) == sorted(expected, key=lambda row: row["k"])
        assert findings(oracle.fsck(tmp_path, "d.t")) == set()
