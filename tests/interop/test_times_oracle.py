"""Timestamps that pyarrow cannot hold or tells wrong: ORC files of Java in any zone, and back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact, fsck
from lakecore.jobs.repair import repair_plan
from lakecore.row.json_rows import batch_to_json, json_to_batch
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError, findings

pytestmark = pytest.mark.slow

COLUMNS = [
    "k INT NOT NULL",
    "t3 TIMESTAMP(3)",
    "t6 TIMESTAMP(6)",
    "t9 TIMESTAMP(9)",
    "z TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "a ARRAY<TIMESTAMP(6)>",
    "r ROW<s STRING, m MAP<INT, TIMESTAMP(6)>>",
]
TIMES = [
    "0001-01-01 00:00:00", "1500-01-01 12:00:00.123", "1582-10-16 01:02:03.5", "1600-06-01 00:00:00.000001",
    "1890-01-01 00:00:00.5", "1900-01-01 00:00:00", "1901-01-01 00:00:00.25", "1945-08-01 03:04:05.123456",
    "1969-12-31 15:59:59.5", "1969-12-31 18:59:59.25", "1969-12-31 19:00:00.25", "1969-12-31 23:59:58.5",
    "1969-12-31 23:59:59.0005", "1969-12-31 23:59:59.5", "1970-01-01 00:00:00.5", "1970-01-01 07:59:59.5",
    "1970-01-01 08:00:00.5", "1988-07-01 00:00:00.25", "2024-03-10 02:30:00.5", "2024-11-03 01:30:00.5",
    "2262-04-11 23:47:16.9", "2300-07-01 00:00:00.5", "9999-12-31 22:59:59.999999",
]  # fmt: skip

UNREAD = {"t6": 3, "t9": 2, "z": 3, "a": 3, "r": 1}
"""Times before 1970 with parts of a millisecond, by columns."""


def rows_of(times: list[str]) -> list[dict[str, Any]]:
    """Columns of nine digits hold what nanoseconds hold."""
    near = [time if "1678" < time < "2262" else None for time in times]
    return [
        {"k": i, "t3": time[:23], "t6": time, "t9": near[i], "z": f"{time}Z", "a": [None, time],
         "r": {"s": time, "m": [[i, time]]} if i % 3 else None}
        for i, time in enumerate(times)
    ]  # fmt: skip


def ours(warehouse: Path, table: str) -> list[str]:
    scan = load_catalog(warehouse).load_table(table).scan()
    kind = scan.row_type
    return canonical(line for batch in scan.to_batches() for line in batch_to_json(batch, kind, "+I"))


def test_orc_files_of_a_jvm_in_another_zone(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the oldest layout, with the codec that only pyarrow decodes."""
    options = {"bucket": "-1", "file.format": "orc", "file.compression": "lzo", "orc.write.format": "0.11"}
    schema = {"columns": COLUMNS, "options": options}
    with monkeypatch.context() as patch, Oracle("2.0.0") as local:
        patch.setenv("ORACLE_JVM", "-Xmx1g -XX:TieredStopAtLevel=1 -Doracle.tz=America/New_York")
        local.create(tmp_path, "d.t", schema)
        local.write(tmp_path, "d.t", rows_of(TIMES))
    assert ours(tmp_path, "d.t") == oracle.read(tmp_path, "d.t")


def test_java_reads_and_compacts_what_we_wrote_and_compacted(
    oracle: Oracle, oracle2: Oracle, tmp_path: Path
) -> None:
    """Times of the last second before 1970, too, which Java's own writer moves to the one after it."""
    options = {"bucket": "1", "file.format": "orc", "write-only": "true"}
    oracle.create(tmp_path, "d.t", {"columns": COLUMNS, "primaryKeys": ["k"], "options": options})
    table = load_catalog(tmp_path).load_table("d.t")
    rows = rows_of(TIMES)
    rows += [
        {"k": 90 + i, "t3": None, "t6": time, "t9": f"{time}789", "z": None, "a": [time], "r": None}
        for i, time in enumerate(("1969-12-31 23:59:59.123456", "1970-01-01 00:59:59.987654"))
    ]
    for part in (rows[14:], rows[:16], rows):
        table.write(json_to_batch(map(json.dumps, part), table.schema.row_type))
    wanted = canonical(map(json.dumps, rows))
    found = [ours(tmp_path, "d.t"), oracle.read(tmp_path, "d.t"), oracle2.read(tmp_path, "d.t")]
    job = compact.Job(table="d.t", strategy=compact.Strategy.FULL, commit_user="u", commit_identifier=1)
    compact.run(job, load_catalog(tmp_path))
    found += [ours(tmp_path, "d.t"), oracle.read(tmp_path, "d.t"), oracle2.read(tmp_path, "d.t")]
    assert [[spelled(row) for row in one] for one in found] == [[spelled(row) for row in wanted]] * 6
    assert not findings(oracle.fsck(tmp_path, "d.t"))


def spelled(row: str) -> str:
    """Without the zeros at the end of times."""
    return re.sub(r"\.?0+(Z?\")", r"\1", re.sub(r"(:\d\d)(Z?\")", r"\1.0\2", row))


@pytest.mark.parametrize(("keys", "outside"), [(["k"], False), ([], False), (["k"], True)])
def test_times_of_earlier_versions_are_found_and_written_again(
    oracle2: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str], outside: bool
) -> None:
    """The times are stored as pyarrow alone would do it. A file that is `outside` of the table is written again outside."""
    options = {"bucket": "1" if keys else "-1", "file.format": "orc", "write-only": "true"}
    root = tmp_path / "outside"
    if outside:
        options["data-file.external-paths"] = f"file://{root}"
        options["data-file.external-paths.strategy"] = "round-robin"
    lake = load_catalog(tmp_path, **({"external-roots": str(root)} if outside else {}))
    oracle2.create(tmp_path, "d.t", {"columns": COLUMNS, "primaryKeys": keys, "options": options})
    table = lake.load_table("d.t")
    rows = json_to_batch(map(json.dumps, rows_of(TIMES)), table.schema.row_type)
    table.write(rows.slice(0, 5))
    with monkeypatch.context() as patch:
        patch.setattr("lakecore.format.orc.writer.is_early", lambda _: False)
        table.write(rows)
    with pytest.raises(OracleError):
        oracle2.read(tmp_path, "d.t")
    before = ours(tmp_path, "d.t")
    files = len(list(root.rglob("*.orc")))
    checked = fsck.run(fsck.Job(table="d.t"), lake)
    found = {(one.kind.value, one.problem.partition(" times")[0]) for one in checked.report.findings}
    assert found == {("times", f"column {name} has {count}") for name, count in UNREAD.items()}
    plan = fsck.plan(checked, lake)
    assert [(step["action"], len(step["changes"])) for step in plan["steps"]] == [("rewrite-times", 1)]
    repair_plan.run(repair_plan.Job(table="d.t", plan=plan), lake)
    assert oracle2.read(tmp_path, "d.t") == ours(tmp_path, "d.t") == before
    oracle2.call("expire-snapshots", tmp_path, "d.t", "--retain-max", "1", "--retain-min", "1")
    assert oracle2.read(tmp_path, "d.t") == before
    assert len(list(root.rglob("*.orc"))) == files
    assert not findings(oracle2.fsck(tmp_path, "d.t"))
    assert not fsck.run(fsck.Job(table="d.t", deep=True), lake).report.findings
