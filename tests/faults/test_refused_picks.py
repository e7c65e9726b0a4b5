"""A pick whose proof is refused fails alone: the others are committed, its files are gone, the message says what helps."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine import claims, driver
from lakecore.compact.engine import run as engine_run
from lakecore.compact.kinds.postpone import apply as postpone_apply
from lakecore.compact.kinds.primary_key import run as keyed_run
from lakecore.errors import LakeError, ProofError
from lakecore.jobs import compact
from lakecore.jobs.compact import Strategy
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.false_entries import told_wrongly
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import key_table, live_files, memory_catalog, paths_of, put, rows_of

BUCKETS = 6
BAD = 2
VECTORS = {
    "deletion_vectors__enabled": "true",
    "compaction__max_size_amplification_percent": "100000",
    "compaction__size_ratio": "0",
}
"""Level 0 goes to the level below the last, and marks rows of that one."""


def spread(catalog: FilesystemCatalog, **options: str) -> Table:
    """Six buckets, each with a file on the last level and two on level 0."""
    table = key_table(catalog, bucket=str(BUCKETS), **options)
    dice = random.Random(1)
    put(table, [{"k": k, "v": dice.randbytes(200).hex()} for k in range(60)])
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    put(table, [{"k": k, "v": "b"} for k in range(30)], [{"k": k, "v": "c"} for k in range(20, 60)])
    return table


def levels_of(table: Table) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    latest = table._stores.snapshots.latest()
    assert latest is not None
    for entry in table._scanner.live_entries(latest):
        found.setdefault(entry.bucket, set()).add(entry.file.level)
    return found


def refuse_bad(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The proof of one bucket is refused: in its unit, when its units are added up, or when vectors are made."""
    module: Any = {"unit": keyed_run, "pick": driver, "vectors": claims}[where]
    name = {"unit": "check_outputs", "pick": "prove_pick", "vectors": "check_vectors"}[where]
    right = getattr(module, name)

    def wrong(*args: Any) -> Any:
        text = str([arg for arg in args if isinstance(arg, str)])
        if f"bucket-{BAD}" in text:
            raise ProofError(f"bucket-{BAD}", "its outputs hold other rows")
        return right(*args)

    monkeypatch.setattr(module, name, wrong)


@pytest.mark.parametrize("where", ["unit", "pick", "vectors"])
@pytest.mark.parametrize("commit_picks", [1, 64])
def test_a_refused_bucket_does_not_hold_back_the_others(
    where: str, commit_picks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = memory_catalog("refused")
    options = VECTORS if where == "vectors" else {}
    table = spread(catalog, **options)
    rows = rows_of(table)
    settings = partial(driver.RunSettings, commit_picks=commit_picks)
    monkeypatch.setattr(engine_run, "RunSettings", settings)
    job = compact.Job(table="d.k", strategy=Strategy.UNIVERSAL if options else Strategy.FULL)
    with monkeypatch.context() as patched:
        refuse_bad(patched, where)
        (report,) = compact.run_many([job], catalog)
        with pytest.raises(ProofError) as caught:
            compact.run(job, catalog)
    found = levels_of(table)
    assert 0 in found.pop(BAD)
    assert not any(0 in levels for levels in found.values())
    assert report.error_class == "ProofError"
    assert (report.picks_done, report.picks_left) == (BUCKETS - 1, 1)
    message = str(caught.value)
    for part in (f"bucket-{BAD}", "fsck --deep d.k", "--where", "its outputs hold other rows", "(level 0)"):
        assert part in message
    assert "run again" not in message
    assert orphans(table) == []
    if not options:
        assert rows_of(table) == rows
    assert compact.run(job, catalog).picks_done == 1
    assert not any(file.level == 0 for file in live_files(table))


def orphans(table: Table) -> list[str]:
    found = fsck(table._stores.file_io, table._stores.paths, now_ms=0).findings
    return [finding.path for finding in found if finding.kind is FindingKind.ORPHAN]


def test_a_bucket_that_was_described_wrongly_is_refused_alone() -> None:
    """The same happens on Spark: tests/spark/test_compact.py."""
    catalog = memory_catalog("refused")
    table = spread(catalog)
    rows = rows_of(table)
    told_wrongly(table, BAD)
    before = paths_of(table, f"bucket-{BAD}")
    with pytest.raises(ProofError, match=r"rows, but .* --where"):
        compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    assert paths_of(table, f"bucket-{BAD}") == before
    assert sorted(bucket for bucket, levels in levels_of(table).items() if levels == {5}) == [0, 1, 3, 4, 5]
    assert rows_of(table) == rows


@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.DEAD])
def test_storage_fails_while_a_pick_is_refused(mode: FaultMode) -> None:
    """At each of many operations: rows stay, the refused bucket is as it was, the next run does the others."""
    catalog = memory_catalog("refused")
    table = spread(catalog)
    told_wrongly(table, BAD)
    job = compact.Job(table="d.k", strategy=Strategy.FULL)
    rows, saved = rows_of(table), {path: table._stores.file_io.read(path) for path in paths_of(table, "")}
    for number in range(1, 10_000, 5):
        for path in paths_of(table, ""):
            table._stores.file_io.delete(path)
        for path, data in saved.items():
            table._stores.file_io.write_new(path, data)
        storage = FaultyFileIO(catalog.file_io, fail_at=number, mode=mode)
        with pytest.raises(LakeError):
            compact.run(job, replace(catalog, file_io=storage))
        assert rows_of(table) == rows
        assert 0 in levels_of(table)[BAD]
        failed = "".join(storage.log[number - 1 : number])
        if mode is FaultMode.ERROR and not failed.startswith("delete"):
            assert orphans(table) == [], failed
        with pytest.raises(ProofError):
            compact.run(job, catalog)
        assert [bucket for bucket, levels in sorted(levels_of(table).items()) if 0 in levels] == [BAD]
        if not storage.fired:
            return


def test_a_refused_partition_of_postponed_rows_does_not_hold_back_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog = memory_catalog("refused")
    table = key_table(catalog, ("k INT", "p STRING"), ("k", "p"), ("p",), bucket="-2")
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    put(waiting, *([{"k": k, "p": p} for k in range(9) for p in "xyz"] for _ in range(2)))
    right = postpone_apply.prove_assignment

    def wrong(shape: Any, name: str, *args: Any, **kinds: Any) -> Any:
        if "p=y" in name:
            raise ProofError(name, "it holds other rows")
        return right(shape, name, *args, **kinds)

    job = compact.Job(table="d.k")
    with monkeypatch.context() as patched:
        patched.setattr(postpone_apply, "prove_assignment", wrong)
        (report,) = compact.run_many([job], catalog)
    assert (report.error_class, report.picks_left) == ("ProofError", 1)
    assert "p=y" in (report.error or "")
    assert {row[1] for row in rows_of(table)} == {"x", "z"}
    assert orphans(table) == []
    compact.run(job, catalog)
    assert {row[1] for row in rows_of(table)} == {"x", "y", "z"}
