"""New files at `data-file.external-paths`, by Java and lakecore in turns: every write and compaction places them as the
table's options say, and Java reads the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.errors import UnsupportedError
from lakecore.jobs import compact, expire_snapshots, fsck, rescale
from lakecore.jobs.compact import Strategy
from lakecore.row.json_rows import json_to_batch
from lakecore.table import Table
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

COLUMNS = ["p STRING NOT NULL", "k INT NOT NULL", "v STRING"]
KEYED = {"primaryKeys": ["p", "k"]}
STRATEGIES = {
    "round-robin": {"data-file.external-paths.strategy": "round-robin"},
    "entropy-inject": {"data-file.external-paths.strategy": "entropy-inject"},
    "specific-fs": {
        "data-file.external-paths.strategy": "specific-fs",
        "data-file.external-paths.specific-fs": "file",
    },
    "none": {},
}
KINDS: Mapping[str, dict[str, Any]] = {
    "keys": {
        **KEYED,
        "options": {
            "bucket": "2",
            "deletion-vectors.enabled": "true",
            "changelog-producer": "lookup",
            "lookup.remote-file.enabled": "true",
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "1 b",
        },
    },
    "dynamic buckets": {**KEYED, "options": {"bucket": "-1", "changelog-producer": "input"}},
    "postponed": {**KEYED, "options": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}},
    "append": {"options": {"bucket": "-1", "compaction.min.file-num": "2"}},
}


def files_below(*roots: Path) -> set[str]:
    return {
        str(path)
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".crc" and ".lakecore" not in path.parts
    }


def batch(table: Table, rows: list[dict[str, Any]]) -> Any:
    return json_to_batch(map(json.dumps, rows), table.schema.row_type)


CASES = [
    ("keys", "round-robin"),
    ("keys", "none"),
    ("dynamic buckets", "specific-fs"),
    ("postponed", "round-robin"),
    ("append", "entropy-inject"),
]


@pytest.mark.parametrize(("kind", "strategy"), CASES)
def test_writes_and_compactions_place_files_as_the_options_say(
    oracle: Oracle, oracle2: Oracle, tmp_path: Path, kind: str, strategy: str
) -> None:
    warehouse, roots = tmp_path / "wh", [tmp_path / "ext1", tmp_path / "ext2"]
    definition = KINDS[kind]
    options = {
        **definition["options"],
        "data-file.external-paths": ",".join(f"file://{root}" for root in roots),
        **STRATEGIES[strategy],
    }
    schema = {"columns": COLUMNS, "partitionKeys": ["p"], **definition, "options": options}
    oracle.create(warehouse, "d.t", schema)
    lake = lakecore.load_catalog(warehouse, **{"external-roots": ",".join(map(str, roots))})
    expected: dict[tuple[str, int], str] = {}

    def rows_of(number: int) -> list[dict[str, Any]]:
        keys = range(number * 3, number * 3 + 3) if kind == "append" else range(number, number + 4)
        rows = [{"p": p, "k": k, "v": f"{p}{k} {number}"} for p in "ab" for k in keys]
        expected.update({(row["p"], row["k"]): row["v"] for row in rows})
        return rows

    def check(java: Oracle) -> None:
        rows = [{"p": p, "k": k, "v": v} for (p, k), v in expected.items()]
        assert sorted(java.read(warehouse, "d.t")) == sorted(
            canonical({"_kind": "+I", **row} for row in rows)
        )
        assert findings(java.fsck(warehouse, "d.t")) == set()
        assert fsck.run(fsck.Job(table="d.t", deep=True), lake).report.findings == ()
        lines = lake.load_table("d.t$files").scan().to_arrow().to_pylist()
        places = [line["file_path"] for line in lines]
        outside = [any(str(root) in place for root in roots) for place in places]
        assert outside == [strategy != "none"] * len(places), places

    for number in range(3):
        oracle.write(warehouse, "d.t", rows_of(2 * number), "--identifier", number)
        table = lake.load_table("d.t")
        table.write(batch(table, rows_of(2 * number + 1)))
    compact.run(compact.Job(table="d.t", strategy=Strategy.FULL), lake)
    check(oracle)
    oracle2.write(warehouse, "d.t", rows_of(6), "--identifier", 9)
    if kind != "postponed":  # the oracle compacts real buckets only
        oracle2.compact(warehouse, "d.t")
    lake.load_table("d.t").write(batch(lake.load_table("d.t"), rows_of(7)))
    compact.run(compact.Job(table="d.t", strategy=Strategy.UNIVERSAL), lake)
    compact.run(compact.Job(table="d.t", strategy=Strategy.FULL), lake)
    check(oracle2)
    expire_snapshots.run(
        expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1, older_than_ms=2**62), lake
    )
    check(oracle)
    if kind == "keys":
        rescale.run(rescale.Job(table="d.t", bucket_num=3), lake)
        check(oracle2)
    inside = files_below(warehouse / "d.db" / "t")
    named = {str(path) for path in lake.load_table("d.t$files").scan().to_arrow()["file_path"].to_pylist()}
    assert named.isdisjoint(inside) == (strategy != "none")


def test_without_the_permission_of_the_catalog_nothing_is_written(oracle: Oracle, tmp_path: Path) -> None:
    """A schema may be forged: only a person says where lakecore writes outside of the warehouse."""
    warehouse, root = tmp_path / "wh", tmp_path / "ext"
    options = {
        "bucket": "1",
        "data-file.external-paths": f"file://{root}",
        "data-file.external-paths.strategy": "round-robin",
    }
    oracle.create(warehouse, "d.t", {"columns": COLUMNS, **KEYED, "options": options})
    oracle.write(warehouse, "d.t", [{"p": "a", "k": 1, "v": "x"}])
    before = files_below(tmp_path)
    lake = lakecore.load_catalog(warehouse)
    table = lake.load_table("d.t")
    works = [
        lambda: table.write(batch(table, [{"p": "a", "k": 2, "v": "y"}])),
        lambda: compact.run(compact.Job(table="d.t", strategy=Strategy.FULL), lake),
        lambda: rescale.run(rescale.Job(table="d.t", bucket_num=2), lake),
    ]
    for work in works:
        with pytest.raises(UnsupportedError, match=f"below {root}.*external-roots"):
            work()
    assert files_below(tmp_path) == before
