"""Postponed buckets: rows written by either side, folded into real buckets by our job, judged by Java's twin."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import expire_snapshots
from lakecore.jobs.compact import Job, ProofMode, Strategy, run
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

REMOVES = {"partial_update__remove_record_on_delete": "true"}
COLUMNS = ["v STRING", "p STRING", "k INT", "s INT"]


def definition(partitioned: bool, **options: str) -> dict[str, Any]:
    keys = {"primaryKeys": ["p", "k"], "partitionKeys": ["p"]} if partitioned else {"primaryKeys": ["k"]}
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return {"columns": COLUMNS, **keys, "options": {"write-only": "true", **raw}}


def some_rows(dice: random.Random, commit: int) -> list[dict[str, Any]]:
    return [
        {"v": f"{commit}.{i}", "p": dice.choice("ab"), "k": dice.randrange(40), "s": dice.randrange(5),
         "_kind": dice.choice(["+I", "+I", "+U", "-D"])}
        for i in range(60)
    ]  # fmt: skip


def rows_of(table: Table) -> list[str]:
    kind = table.schema.row_type
    return sorted(
        json.dumps(json.loads(line), sort_keys=True)
        for batch in table.scan().to_batches()
        for line in batch_to_json(batch, kind)
    )


@pytest.mark.parametrize(
    ("partitioned", "options"),
    [
        (True, {}),
        (False, {"sequence__field": "s"}),
        (True, {"changelog_producer": "input"}),
        (True, {"sequence__snapshot_ordering": "true", "merge_engine": "partial-update", **REMOVES}),
    ],
    ids=["plain", "sequence", "changelog", "snapshots"],
)
def test_postponed_rows_become_what_java_makes_of_them_at_once(
    oracle: Oracle, oracle2: Oracle, tmp_path: Path, partitioned: bool, options: dict[str, str]
) -> None:
    """Twins of fixed buckets get the same rows from Java; ours is written by both, and compacted in between.

    Where snapshots order rows, one write finds its buckets at once: what is written after a fold comes after it.
    """
    snapshot_ordering = "sequence__snapshot_ordering" in options
    judges = (oracle2,) if snapshot_ordering else (oracle, oracle2)
    java = judges[0]
    dice = random.Random(str((partitioned, options)))
    catalog = load_catalog(tmp_path)
    java.create(tmp_path, "d.twin", definition(partitioned, bucket="3", **options))
    postpone = {"postpone__default_bucket_num": "3", "postpone__batch_write_fixed_bucket": "false"}
    java.create(tmp_path, "d.t", definition(partitioned, bucket="-2", **postpone, **options))
    seen: list[str] = []
    for commit in range(6):
        rows = some_rows(dice, commit)
        java.write(tmp_path, "d.twin", rows)
        if snapshot_ordering and commit == 3:
            table = catalog.load_table("d.t", {"postpone.batch-write-fixed-bucket": "true"})
            table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))
            seen = java.read(tmp_path, "d.twin")
        elif commit % 2:
            java.write(tmp_path, "d.t", rows)
        else:
            table = catalog.load_table("d.t")
            table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))
        assert rows_of(catalog.load_table("d.t")) == seen
        if commit in (2, 5):
            strategy = Strategy.FULL if commit == 5 else Strategy.UNIVERSAL
            report = run(
                Job(table="d.t", strategy=strategy, commit_user="me", commit_identifier=100 * commit), catalog
            )
            assert report.proof
            assert report.rows_in >= 120
            seen = java.read(tmp_path, "d.twin")
            for judge in judges:
                assert judge.read(tmp_path, "d.t") == seen
                assert findings(judge.fsck(tmp_path, "d.t")) == set()
            assert rows_of(catalog.load_table("d.t")) == seen
    table = catalog.load_table("d.t")
    latest = table._stores.snapshots.latest()
    assert latest is not None
    live = table._scanner.live_entries(latest)
    assert set(live.total_buckets.tolist()) == {3}
    now = table._stores.clock.now_ms()
    assert (
        fsck(table._stores.file_io, table._stores.paths, now_ms=now, deep=True, read_data=True).findings == ()
    )
    if options.get("changelog_producer"):
        plans = oracle.call("stream", tmp_path, "d.t", "--from-snapshot", "1")
        twin = oracle.call("stream", tmp_path, "d.twin", "--from-snapshot", "1")
        changes = [
            sorted(json.dumps(row, sort_keys=True) for plan in side for row in plan["rows"])
            for side in (plans, twin)
        ]
        assert changes[0] == changes[1]


def test_batch_writes_go_to_real_buckets_as_the_option_says(
    oracle: Oracle, oracle2: Oracle, tmp_path: Path
) -> None:
    catalog = load_catalog(tmp_path)
    raw = definition(True, bucket="-2", postpone__default_bucket_num="2")
    table = catalog.create_table("d.t", raw)
    rows = [{"v": "x", "p": "ab"[k % 2], "k": k, "s": 0} for k in range(20)]
    table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))
    assert len(oracle.read(tmp_path, "d.t")) == 20
    more = catalog.load_table("d.t", {"postpone.default-bucket-num": "5"})
    new = [{"v": "y", "p": p, "k": 3, "s": 0} for p in "bc"]
    more.write(json_to_batch(map(json.dumps, new), table.schema.row_type))
    layout = oracle.call("scan", tmp_path, "d.t")["files"]
    assert {(file["partition"]["p"], file["totalBuckets"]) for file in layout} == {
        ("a", 2),
        ("b", 2),
        ("c", 5),
    }
    oracle.write(tmp_path, "d.t", [{"v": "late", "p": "a", "k": 4, "s": 0}])
    run(Job(table="d.t", strategy=Strategy.FULL), catalog)
    for java in (oracle, oracle2):
        got = java.read(tmp_path, "d.t")
        assert len(got) == 21
        assert any('"late"' in row for row in got)
        assert findings(java.fsck(tmp_path, "d.t")) == set()


@pytest.mark.parametrize(
    ("kind", "value", "file_format", "read"),
    [("CHAR(3)", "a  ", "orc", "a"), ("VARIANT", {"a": 1}, "parquet", '{"a":1}'), ("BLOB", "0x07", "orc", "0x07")],
)  # fmt: skip
def test_types_that_files_keep_in_their_own_way(
    oracle2: Oracle, tmp_path: Path, kind: str, value: Any, file_format: str, read: str
) -> None:
    """ORC has no blanks at the end, avro no VARIANT; blobs stay in the packs of the postponed rows."""
    raw = definition(False, bucket="-2", file__format=file_format, postpone__batch_write_fixed_bucket="false")
    oracle2.create(tmp_path, "d.t", {**raw, "columns": ["k INT", f"v {kind}"]})
    catalog = load_catalog(tmp_path)
    table = catalog.load_table("d.t")
    for k in range(2):
        row = {"k": k, "v": value}
        if k:
            table.write(json_to_batch([json.dumps(row)], table.schema.row_type))
        else:
            oracle2.write(tmp_path, "d.t", [row])
    run(Job(table="d.t", strategy=Strategy.FULL, proof=ProofMode.FULL), catalog)
    expire_snapshots.run(expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1), catalog)
    wanted = [json.dumps({"k": k, "v": read}, sort_keys=True) for k in range(2)]
    assert oracle2.read(tmp_path, "d.t") == rows_of(table) == wanted
    assert (
        fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True, read_data=True).findings == ()
    )
