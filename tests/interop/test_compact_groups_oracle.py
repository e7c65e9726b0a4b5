"""Tables that Java wrote are compacted in groups of buckets: Java 1.4.2 and 2.0.0 read the same rows, find no damage, and go
on writing and compacting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.jobs.compact.task import CompactTask
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

NAME = "d.t"
COLUMNS = ["p STRING NOT NULL", "k INT NOT NULL", "v STRING"]
KINDS: dict[str, dict[str, Any]] = {
    "deletion vectors": {
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "2", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    },
    "dynamic buckets": {
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "4"},
    },
    "append": {"options": {"bucket": "-1", "deletion-vectors.enabled": "true"}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_groups_leave(
    kind: str, tmp_path: Path, oracle: Oracle, oracle2: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = {"columns": COLUMNS, "partitionKeys": ["p"], **KINDS[kind]}
    definition["options"] |= {"write-only": "true"}
    oracle.create(tmp_path, NAME, definition)
    keyed = kind != "append"
    for number in range(6):
        rows = [{"p": p, "k": k, "v": f"{number}.{k}"} for p in "abc" for k in range(number, number + 9)]
        oracle.write(tmp_path, NAME, rows, "--identifier", number)
    catalog = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    table = catalog.load_table(NAME)
    if not keyed:
        table.delete("k = 5 and p = 'b'")
    merged = table.with_options({"deletion-vectors.merge-on-read": "true"}) if keyed else table
    expected = sorted((row["p"], row["k"], row["v"]) for row in merged.scan().to_arrow().to_pylist())
    monkeypatch.setattr(CompactTask, "group_files", 1)
    report = compact.run(compact.Job(table=NAME, strategy=compact.Strategy.FULL, commit_user="us"), catalog)
    buckets = {"deletion vectors": 6, "append": 3}.get(kind, report.picks_done)
    assert (report.picks_done, len(report.snapshots)) == (buckets, buckets)
    assert buckets >= 3
    for java in (oracle, oracle2):
        assert sorted((row["p"], row["k"], row["v"]) for row in java.call("read", tmp_path, NAME)) == expected
        assert findings(java.fsck(tmp_path, NAME)) == set()
    oracle.write(tmp_path, NAME, [{"p": "b", "k": 100, "v": "later"}], "--identifier", 99)
    oracle.compact(tmp_path, NAME, full=keyed)
    after = sorted((row["p"], row["k"], row["v"]) for row in oracle2.call("read", tmp_path, NAME))
    assert after == sorted([*expected, ("b", 100, "later")])
    assert findings(oracle2.fsck(tmp_path, NAME)) == set()
