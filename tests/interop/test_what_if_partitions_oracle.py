"""Java Paimon's writer expires partitions after its commits; a replay on the same writes without expiry names the same ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import what_if
from lakecore.jobs.what_if import Job
from tests.support.lake import live_files
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

DAY = 86_400
RULES: dict[str, dict[str, str]] = {
    "a pattern": {"partition.timestamp-pattern": "$dt", "partition.timestamp-formatter": "yyyyMMdd"},
    "two at a time": {"partition.timestamp-formatter": "yyyyMMdd", "partition.expiration-max-num": "2"},
    "by the first column": {},
}


def commits(now: float) -> list[list[dict[str, Any]]]:
    """Old and new days in turns, both ways to write a day; the rows of some come again after they have expired."""
    old = [time.strftime("%Y%m%d", time.gmtime(now - n * DAY)) for n in (50, 41, 40, 12, 1)]
    dashed = [time.strftime("%Y-%m-%d", time.gmtime(now - n * DAY)) for n in (45, 44, 3)]
    groups = (old[:2], dashed, old[1:4], [*old[:1], old[4]], [*dashed[:1], *old[2:]], old[3:])
    return [
        [{"k": 10 * n + i, "dt": dt, "v": 7 * n} for i in range(3) for dt in group]
        for n, group in enumerate(groups)
    ]


@pytest.mark.parametrize(("rule", "keyed"), zip(RULES.values(), (True, False, True), strict=True), ids=RULES)
def test_the_writer_of_java_drops_what_the_replay_says(
    rule: dict[str, str], tmp_path: Path, oracle: Oracle, keyed: bool
) -> None:
    expiry = {"partition.expiration-time": "30 d", **rule}
    service = {"partition.expiration-check-interval": "0 ms", "end-input.check-partition-expire": "true"}
    base = {"bucket": "1" if keyed else "-1", "write-only": "true"}
    keys = {"primaryKeys": ["k", "dt"]} if keyed else {}
    for name, options in (("past", {}), ("real", expiry | service)):
        oracle.create(
            tmp_path / name,
            "d.t",
            {
                "columns": ["k INT", "dt STRING", "v INT"],
                "partitionKeys": ["dt"],
                "options": base,
                **keys,
            },
        )
        for number, rows in enumerate(commits(time.time())):
            oracle.write(tmp_path / name, "d.t", rows, "--identifier", number)
            if options:
                flags = [part for key, text in options.items() for part in ("--option", f"{key}={text}")]
                oracle.call("expire-partitions", tmp_path / name, "d.t", *flags)
    past, real = (load_catalog(str(tmp_path / name)) for name in ("past", "real"))
    [was, asked] = what_if.run(Job(table="d.t", options=expiry), past).partitions
    assert asked.expired > 2
    table = real.load_table("d.t")
    drops = [
        snapshot.id
        for snapshot in map(table._stores.snapshots.load, table._stores.snapshots.list_ids())
        if snapshot.commit_kind.value == "OVERWRITE"
    ]
    assert len(drops) == len(asked.runs)
    files = live_files(table)
    assert (asked.files, asked.rows) == (len(files), sum(file.row_count for file in files))
    assert asked.bytes == sum(file.file_size for file in files)
    assert (was.files, was.rows) == (asked.files + asked.removed_files, asked.rows + asked.removed_rows)


def test_the_writer_of_java_compacts_what_expired_partitions_left(tmp_path: Path, oracle: Oracle) -> None:
    """Its writer compacts with each commit, and its expiry follows: a day that is too old never gets a second run."""
    expiry = {"partition.expiration-time": "30 d", "partition.timestamp-formatter": "yyyyMMdd"}
    trigger = {"num-sorted-run.compaction-trigger": "2"}
    service = {"partition.expiration-check-interval": "0 ms", "end-input.check-partition-expire": "true"}
    old, young = (time.strftime("%Y%m%d", time.gmtime(time.time() - n * DAY)) for n in (50, 1))
    definition = {
        "columns": ["k INT", "dt STRING", "v INT"],
        "partitionKeys": ["dt"],
        "primaryKeys": ["k", "dt"],
    }
    for name, options in (("past", {"write-only": "true"}), ("real", trigger)):
        oracle.create(
            tmp_path / name, "d.t", definition | {"options": {"bucket": "1", "num-levels": "3", **options}}
        )
        for number in range(5):
            rows = [{"k": 10 * number + i, "dt": dt, "v": i} for i in range(9) for dt in (old, young)]
            oracle.write(tmp_path / name, "d.t", rows, "--identifier", number)
            if name == "real":
                options = expiry | service
                flags = [part for key, text in options.items() for part in ("--option", f"{key}={text}")]
                oracle.call("expire-partitions", tmp_path / name, "d.t", *flags)
    past, real = (load_catalog(str(tmp_path / name)) for name in ("past", "real"))
    asked = what_if.run(Job(table="d.t", options=expiry | trigger), past).compaction[-1]
    alone = what_if.run(Job(table="d.t", options=trigger), past).compaction[-1]
    table = real.load_table("d.t")
    kinds = [
        table._stores.snapshots.load(number).commit_kind.value
        for number in table._stores.snapshots.list_ids()
    ]
    assert kinds.count("OVERWRITE") == 5
    assert asked.picks == asked.compactions == kinds.count("COMPACT") > 1
    assert alone.picks == 2 * asked.picks, "the old day would have been compacted as often"
    assert asked.files == len(live_files(table))
