"""Commits judged by Java Paimon: two processes at once, hand-made compactions and overwrites between Java's own."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import load_catalog
from lakecore.commit.request import CommitRequest, Overwrite
from lakecore.metadata.commit_message import CommitMessage
from lakecore.table import Commit, Table
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

ROUNDS = 100


def append_rounds(warehouse: str, user: str, rounds: int, java_has_written: Any) -> None:
    """Append beside Java with the default settle time, and without Java with a short one."""
    table = load_catalog(warehouse).load_table("d.t")
    table = table.with_options({"commit.max-retries": "200", "commit.max-retry-wait": "50 ms"})
    alone = table.with_options({"lakecore.commit.settle-time": "1 ms"})
    for number in range(rounds):
        if java_has_written.is_set():
            table = alone
        rows = {"k": [number, number], "dt": [f"p{number % 3}", "p9"], "who": [user, user]}
        table.append(pa.table(rows), Commit(user=user, identifier=number))


def test_two_processes_lose_and_double_nothing(oracle: Oracle, tmp_path: Path) -> None:
    oracle.create(
        tmp_path,
        "d.t",
        {
            "columns": ["k BIGINT", "dt STRING", "who STRING"],
            "partitionKeys": ["dt"],
            "primaryKeys": [],
            "options": {"bucket": "-1", "manifest.full-compaction-threshold-size": "40 kb"},
        },
    )
    context = multiprocessing.get_context("spawn")
    java_has_written = context.Event()
    workers = [
        context.Process(target=append_rounds, args=(str(tmp_path), user, ROUNDS, java_has_written))
        for user in ("a", "b")
    ]
    for worker in workers:
        worker.start()
    oracle.write(tmp_path, "d.t", [{"k": -1, "dt": "p0", "who": "java"}])
    java_has_written.set()
    for worker in workers:
        worker.join(300)
        assert worker.exitcode == 0
    expected = [{"k": -1, "dt": "p0", "who": "java"}] + [
        {"k": number, "dt": dt, "who": user}
        for user in ("a", "b")
        for number in range(ROUNDS)
        for dt in (f"p{number % 3}", "p9")
    ]
    found = [json.loads(line) for line in oracle.read(tmp_path, "d.t")]
    assert sorted(map(str, (sorted(row.items()) for row in found))) == sorted(
        map(str, (sorted(row.items()) for row in expected))
    )
    table = load_catalog(str(tmp_path)).load_table("d.t")
    complaints = findings(oracle.fsck(tmp_path, "d.t"))
    assert {one for one in complaints if _series(one) not in _series_of_java(table)} == set()
    assert table._stores.snapshots.list_ids() == tuple(range(1, 2 * ROUNDS + 2))


def _series(name: str) -> str:
    """Return what the files of one commit have in common: `manifest-<id>`, `manifest-list-<id>`."""
    return name.removeprefix("orphan: ").rpartition("-")[0]


def _series_of_java(table: Table) -> set[str]:
    """Java leaves the manifests of its attempts that lost a race; they are not ours to remove."""
    stores = table._stores
    snapshots = map(stores.snapshots.load, stores.snapshots.list_ids())
    (java,) = [one for one in snapshots if one.commit_user not in ("a", "b")]
    files = stores.manifests.read_list(java.delta_manifest_list)
    return {_series(name) for name in (java.delta_manifest_list, *(file.file_name for file in files))}


def test_java_goes_on_after_upgrade_and_overwrite(oracle: Oracle, tmp_path: Path) -> None:
    oracle.create(
        tmp_path,
        "d.t",
        {
            "columns": ["k BIGINT NOT NULL", "dt STRING NOT NULL", "v STRING"],
            "partitionKeys": ["dt"],
            "primaryKeys": ["dt", "k"],
            "options": {"bucket": "1", "manifest.merge-min-count": "3"},
        },
    )
    for dt in ("x", "y", "z"):
        oracle.write(tmp_path, "d.t", [{"k": 1, "dt": dt, "v": "old"}], "--full")
    table = load_catalog(str(tmp_path)).load_table("d.t")
    before = oracle.read(tmp_path, "d.t")
    latest = table._stores.snapshots.latest()
    assert latest is not None
    upgrades = [
        CommitMessage(
            partition=entry.partition,
            bucket=entry.bucket,
            total_buckets=entry.total_buckets,
            compact_before=(entry.file,),
            compact_after=(replace(entry.file, level=max(1, entry.file.level - 1)),),
        )
        for entry in table._scanner.live_entries(latest).rows()
    ]
    table._committer().commit(upgrades, CommitRequest(user="lakecore", identifier=1))
    assert oracle.read(tmp_path, "d.t") == before
    table._committer().commit(
        [], CommitRequest(user="lakecore", identifier=2, overwrite=Overwrite.static({"dt": "y"}))
    )
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    oracle.write(tmp_path, "d.t", [{"k": 1, "dt": "x", "v": "new"}])
    oracle.call("compact", tmp_path, "d.t", "--full")
    rows = {(row["dt"], row["k"]): row["v"] for row in map(json.loads, oracle.read(tmp_path, "d.t"))}
    assert rows == {("x", 1): "new", ("z", 1): "old"}
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
