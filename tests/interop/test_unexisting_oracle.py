"""Tables that lost files: Java and lakecore drop them from copies of one table, and read the same afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.jobs.repair import repair_plan, unexisting
from lakecore.verify.fsck.check import fsck
from tests.support.golden import GoldenTable, golden_tables
from tests.support.oracle import Oracle
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

GOLDEN = (
    "g1.a_dv_append_bucket_part",
    "g1.a_dv_pk_part64",
    "g1.a_idx_files",
    "g1.a_pk_dedup_l0",
)


def _partly_gone(twins: Twins) -> list[str]:
    """Every third data file of the latest snapshot, in both copies; their names."""
    table = twins.opened
    latest = table._stores.snapshots.latest()
    assert latest is not None
    names = sorted(file.file_name for file in table._scanner.live_entries(latest).files())
    gone = names[::3]
    for warehouse in (twins.java, twins.ours):
        for name in gone:
            [path] = twins.path(warehouse).rglob(name)
            path.unlink(missing_ok=True)
    return gone


def _run(twins: Twins, kind: Any, **other: Any) -> Any:
    return unexisting.run(kind(table=twins.table, **other), twins.lake)


def _sampled() -> list[GoldenTable]:
    """Those with deletion vectors that lose their file, one with files beside its data files, and others of each kind."""
    found = [t for t in golden_tables() if t.facts["snapshots"] and "data-evolution" not in str(t.options)]
    chosen = [t for t in found if t.name in GOLDEN] + [t for n, t in enumerate(found) if n % 70 == 11]
    return list(dict.fromkeys(chosen))


@pytest.mark.parametrize("golden", _sampled(), ids=lambda table: table.name)
def test_a_table_that_lost_data_files_is_read_as_java_repairs_it(
    golden: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    twins = Twins.of_golden(golden, tmp_path)
    gone = _partly_gone(twins)
    oracle = oracles["2.0.0" if golden.version == "2.0.0" else "1.4.2"]
    planned = _run(twins, unexisting.RemoveUnexistingFiles, dry_run=True, max_share=1.0)
    assert sorted(path.rpartition("/")[2] for path in planned.names) == gone
    rows = int(planned.notes[-1].rpartition(" ")[2])
    with pytest.raises(InvalidInputError, match=f"and {rows} rows with them"):
        _run(twins, unexisting.RemoveUnexistingFiles, max_share=1.0)
    assert oracle.call("remove-unexisting-files", twins.java, twins.table)["removed"] == gone
    report = _run(twins, unexisting.RemoveUnexistingFiles, max_share=1.0, accept_rows=rows)
    for judge in oracles.values():
        assert judge.read(twins.ours, twins.table) == judge.read(twins.java, twins.table)
    assert report.snapshot == twins.opened._stores.snapshots.latest_id()
    made = [_snapshot(twins, warehouse, report.snapshot) for warehouse in (twins.java, twins.ours)]
    for key in ("commitKind", "totalRecordCount", "deltaRecordCount"):
        assert made[0].get(key) == made[1].get(key), key
    assert _damage(twins, report.snapshot) == []
    assert _run(twins, unexisting.RemoveUnexistingFiles).nothing_to_do
    if "_dv_" in golden.name:
        _drop_stale_vectors(Twins(twins.ours, twins.java, twins.table), list(oracles.values()))


def _drop_stale_vectors(twins: Twins, judges: list[Oracle]) -> None:
    """Java leaves the deletion vectors of the files that it dropped: a step of a repair plan removes them."""
    table = twins.opened
    found = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True)
    plan = repair_plan.plan_repair(twins.table, twins.lake, found, older_than_ms=1)
    number = next(step.number for step in plan.steps if step.action == "remove-stale-vectors")
    before = judges[0].read(twins.ours, twins.table)
    job = repair_plan.Job(table=twins.table, plan=plan.to_json(), steps=(number,))
    report = repair_plan.run(job, twins.lake)
    assert _snapshot(twins, twins.ours, report.snapshot or 0)["commitKind"] == "COMPACT"
    assert _damage(twins, report.snapshot or 0) == []
    for judge in judges:
        assert judge.read(twins.ours, twins.table) == before
    assert repair_plan.run(job, twins.lake).nothing_to_do


def _snapshot(twins: Twins, warehouse: Path, number: int) -> dict[str, Any]:
    text = (twins.path(warehouse) / "snapshot" / f"snapshot-{number}").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def _damage(twins: Twins, snapshot: int) -> list[str]:
    """What is wrong with the newest snapshot; the older ones still name what is gone."""
    report = fsck(twins.opened._stores.file_io, twins.opened._stores.paths, now_ms=0, deep=True)
    needed, own = re.compile(rf"by snapshot {snapshot}\b"), f"/snapshot-{snapshot}"
    return [str(f) for f in report.damage if needed.search(f.problem) or f.path.endswith(own)]


@pytest.fixture(scope="module")
def manifested(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> Path:
    """Six appends, each with its own manifest, two partitions; the table's folder."""
    warehouse = tmp_path_factory.mktemp("manifested")
    oracle.create(warehouse, "d.t", {"columns": ["v INT", "p STRING"], "partitionKeys": ["p"]})
    for number in range(6):
        oracle.write(warehouse, "d.t", [{"v": number, "p": p} for p in "ab"], "--identifier", number)
    return warehouse / "d.db" / "t"


def _drop_manifests(twins: Twins, chosen: Callable[[list[Any]], list[Any]]) -> int:
    table = twins.opened
    latest = table._stores.snapshots.latest()
    assert latest is not None
    gone = chosen(list(table._stores.manifests.data_manifests(latest)))
    for warehouse in (twins.java, twins.ours):
        for file in gone:
            (twins.path(warehouse) / "manifest" / file.file_name).unlink(missing_ok=True)
    return len(gone)


def test_a_table_that_lost_manifests_is_read_as_java_repairs_it(
    manifested: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(manifested, "d.t", tmp_path)
    count = _drop_manifests(twins, lambda manifests: manifests[1::3])
    planned = _run(twins, unexisting.RemoveUnexistingManifests, dry_run=True)
    assert (len(planned.names), planned.notes[0]) == (
        count,
        f"{2 * count} rows would be lost; to do it, give --accept-rows {2 * count}",
    )
    with pytest.raises(InvalidInputError, match="accept-rows"):
        _run(twins, unexisting.RemoveUnexistingManifests, accept_rows=2 * count - 1)
    assert len(oracle.call("remove-unexisting-manifests", twins.java, "d.t")["removed"]) == count
    report = _run(twins, unexisting.RemoveUnexistingManifests, accept_rows=2 * count)
    for judge in (oracle, oracle2):
        assert judge.read(twins.ours, "d.t") == judge.read(twins.java, "d.t")
    made = [_snapshot(twins, warehouse, report.snapshot) for warehouse in (twins.java, twins.ours)]
    for key in ("commitKind", "totalRecordCount", "deltaRecordCount", "indexManifest"):
        assert made[0].get(key) == made[1].get(key), key
    oracle.write(twins.ours, "d.t", [{"v": 99, "p": "a"}], "--identifier", 99)
    assert len(oracle.read(twins.ours, "d.t")) == 12 - 2 * count + 1
    assert _damage(twins, report.snapshot) == []
    assert _run(twins, unexisting.RemoveUnexistingManifests).nothing_to_do


def test_removals_of_a_lost_manifest_are_not_forgotten_silently(
    manifested: Path, tmp_path: Path, oracle: Oracle
) -> None:
    """Java lets the removed files come back without a word."""
    twins = Twins.of(manifested, "d.t", tmp_path)
    for warehouse in (twins.java, twins.ours):
        oracle.call("drop-partitions", warehouse, "d.t", "p=a")
    count = _drop_manifests(Twins(twins.ours, twins.ours, "d.t"), lambda manifests: manifests[-1:])
    assert count == 1
    with pytest.raises(
        UnsupportedError, match="6 files were removed; these files and their rows become live again"
    ):
        _run(twins, unexisting.RemoveUnexistingManifests, accept_rows=0)
    report = _run(twins, unexisting.RemoveUnexistingManifests, accept_rows=0, accept_revived=True)
    assert len(oracle.read(twins.ours, "d.t")) == 12
    assert _damage(twins, report.snapshot) == []
