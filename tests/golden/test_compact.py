"""Every claimed golden table, compacted by lakecore: Java reads the same rows from it, finds nothing new to complain of,
and can write and compact on top, with the same result as on a table that lakecore never touched.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from tests.support.golden import GoldenTable, View, canonical, golden_tables
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

LATEST = View("rows.jsonl")
STRATEGIES = (compact.Strategy.UNIVERSAL, compact.Strategy.FULL)


def run(
    table: GoldenTable, strategy: compact.Strategy, identifier: int = 1, copy: CopyMode = CopyMode.NONE
) -> compact.Report:
    job = compact.Job(
        table=table.name, strategy=strategy, commit_user="test", commit_identifier=identifier, copy=copy
    )
    return compact.run(job, lakecore.load_catalog(str(table.warehouse), **{"local.fsync": "false"}))


def copied(table: GoldenTable, strategy: compact.Strategy) -> CopyMode:
    """Appended files are joined both ways: decoded by one strategy, copied by the other."""
    joins = strategy is compact.Strategy.FULL and not table.facts["schema"]["primaryKeys"]
    return CopyMode.ALL if joins else CopyMode.NONE


@pytest.mark.parametrize("table", golden_tables(), ids=lambda table: table.name)
def test_java_accepts_the_compacted_table(
    table: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    java = oracles[table.version]
    expected, untouched = (
        table.rows(LATEST),
        functools.cache(lambda: untouched_after_java(java, table, tmp_path)),
    )
    if table.options.get("bucket") == "-2":
        expected = folded_rows(table)
    for strategy in STRATEGIES:
        copy = table.copy_to(tmp_path / strategy.value)
        report = run(copy, strategy, copy=copied(table, strategy))
        assert report.error is None
        assert report.nothing_to_do == (report.snapshot is None) == (report.before == report.after)
        if strategy is compact.Strategy.FULL and table.facts["schema"]["primaryKeys"]:
            buckets, unmerged = buckets_to_merge(table)
            assert report.after.sorted_runs <= buckets
            assert report.picks_done >= unmerged
        if report.nothing_to_do:
            assert contents(copy) == contents(table)  # what Java says of it is known
            continue
        if "record-level.expire-time" in table.options:
            expected = rows_left(java, table.copy_to(tmp_path / "java" / strategy.value), strategy)
        assert java.read(copy.warehouse, copy.name) == expected
        for tag in table.facts["tags"]:
            rows = java.read(copy.warehouse, copy.name, tag=tag["name"])
            assert rows == table.rows(View(f"tag-{tag['name']}.jsonl.gz"))
        assert new_findings(java, copy, table) == set()
        again = run(copy, strategy, identifier=2000)
        assert again.nothing_to_do, again
        assert again.snapshot is None
        assert after_java(java, copy, table) == untouched()
        assert new_findings(java, copy, table, deep=False) == set()


def contents(table: GoldenTable) -> dict[str, bytes]:
    files = (path for path in table.path.rglob("*") if path.is_file())
    return {str(path.relative_to(table.path)): path.read_bytes() for path in files}


def untouched_after_java(java: Oracle, table: GoldenTable, folder: Path) -> list[str]:
    """Rows after Java's work on a copy that lakecore never touched."""
    if table.options.get("bucket") == "-2":
        return folded_rows(table)  # Java's core leaves rows without a bucket alone
    return after_java(java, table.copy_to(folder / "untouched"), table)


PRODUCERS = [
    table
    for table in golden_tables()
    if table.options.get("changelog-producer") in ("lookup", "full-compaction")
    or table.options.get("merge-engine") == "first-row"
    or (table.facts["schema"]["primaryKeys"] and table.options.get("deletion-vectors.enabled") == "true")
]


@pytest.mark.parametrize("table", PRODUCERS, ids=lambda table: table.name)
def test_what_compaction_makes_is_what_java_makes(
    table: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    """From the same files: the same change stream, the same levels, as many deleted rows."""
    java = oracles[table.version]
    begun = table.copy_to(tmp_path / "begun")
    rows = further_rows(table)
    for part in (rows[:5], rows[3:]):
        java.write(begun.warehouse, begun.name, part, "--option", "write-only=true")
    first = (
        max(int(path.name.removeprefix("snapshot-")) for path in begun.path.glob("snapshot/snapshot-*")) + 1
    )
    made = []
    for who in ("java", "lakecore"):
        copy = replace(begun, warehouse=tmp_path / who)
        shutil.copytree(begun.path, copy.path)
        if who == "java":
            java.compact(copy.warehouse, copy.name)
            java.compact(copy.warehouse, copy.name, full=True)
        else:
            for number, strategy in enumerate(STRATEGIES):
                assert run(copy, strategy, identifier=1 + 1000 * number).error is None
        made.append(made_of(java, copy, first))
    assert made[0] == made[1]


def made_of(java: Oracle, copy: GoldenTable, first: int) -> tuple[Any, ...]:
    """Lines of the change stream from snapshot `first` on, and where live rows are."""
    stream = java.call("stream", copy.warehouse, copy.name, "--from-snapshot", first)
    lines = Counter(json.dumps(row, sort_keys=True) for plan in stream for row in plan["rows"])
    files = java.call("scan", copy.warehouse, copy.name)["files"]
    places = sorted((str(f["partition"]), f["bucket"], f["level"], f["rowCount"]) for f in files)
    return lines, places, java.read(copy.warehouse, copy.name)


def folded_rows(table: GoldenTable) -> list[str]:
    """The last row of every key, of all that were written."""
    keys = table.facts["schema"]["primaryKeys"]
    rows = {tuple(row[key] for key in keys): row for operation in table.inputs() for row in operation["rows"]}
    return canonical(row for row in rows.values() if row.get("_kind") != "-D")


def rows_left(java: Oracle, copy: GoldenTable, strategy: compact.Strategy) -> list[str]:
    """Those that do not expire when Java compacts."""
    java.compact(copy.warehouse, copy.name, full=strategy is compact.Strategy.FULL)
    return java.read(copy.warehouse, copy.name)


def after_java(java: Oracle, copy: GoldenTable, table: GoldenTable) -> list[str]:
    """Rows of `copy` after a Java write and a full Java compaction."""
    java.write(copy.warehouse, copy.name, further_rows(table))
    refused = table.options.get("bucket") == "-2" or stale_partitions(table)  # by Java, whoever wrote
    unknown = table.options.get("data-evolution.enabled") == "true"  # to the oracle
    if not refused and not unknown:
        java.compact(copy.warehouse, copy.name, full=True)
    return java.read(copy.warehouse, copy.name)


def further_rows(table: GoldenTable) -> list[dict[str, Any]]:
    """Changes to rows that are there: with a key two deletes and six updates, else six more rows."""
    stale = stale_partitions(table)
    rows = [
        row
        for row in map(json.loads, table.rows(LATEST))
        if not any(partition.items() <= row.items() for partition in stale)
    ][:8]
    schema = table.facts["schema"]
    fixed = {*schema["primaryKeys"], *schema["partitionKeys"]}
    if (
        table.options.get("merge-engine") == "aggregation"
    ):  # a row before the last one counts as it is compacted
        fixed |= set(table.options.get("sequence.field", "").split(","))
    if not schema["primaryKeys"]:
        return rows[:6]
    deletes = [{"_kind": "-D", **row} for row in rows[:2] if takes_deletes(table.options)]
    updates = [
        {name: (row if name in fixed else other)[name] for name in row}
        for row, other in zip(rows[2:], rows[3:] + rows[:1], strict=True)
    ]
    return deletes + updates


def takes_deletes(options: dict[str, str]) -> bool:
    """Java reads what is left when a row of the table meets a -D row."""
    engine = options.get("merge-engine", "deduplicate")
    functions = {
        key.split(".")[1]: value for key, value in options.items() if key.endswith("aggregate-function")
    }
    back = {"sum", "product", "collect", "last_value", "last_non_null_value", "merge_map", "nested_update"}
    stuck = [
        f for f, name in functions.items() if name not in back and f"fields.{f}.ignore-retract" not in options
    ]
    settled = options.get("ignore-delete") or options.get(f"{engine}.remove-record-on-delete")
    grouped = any(key.endswith("sequence-group") for key in options)
    return engine == "deduplicate" or bool(settled) or (not stuck if engine == "aggregation" else grouped)


def stale_partitions(table: GoldenTable) -> list[dict[str, Any]]:
    """Partitions with another number of buckets than new writers use: Java refuses to write there."""
    buckets = int(table.options["bucket"])
    files = table.layout.get("files", []) if buckets > 0 else []
    return [file["partition"] for file in files if file["totalBuckets"] != buckets]


def buckets_to_merge(table: GoldenTable) -> tuple[int, int]:
    """Buckets of the latest snapshot: all, and those with more than one sorted run."""
    runs: dict[tuple[str, int], int] = defaultdict(int)
    for group in table.layout.get("groups", []):
        runs[group["partition"], group["bucket"]] += 1 if group["level"] else group["files"]
    return len(runs), sum(count > 1 for count in runs.values())


def new_findings(java: Oracle, copy: GoldenTable, table: GoldenTable, *, deep: bool = True) -> set[str]:
    return findings(java.fsck(copy.warehouse, copy.name, deep=deep)) - findings(table.facts["fsck"])
