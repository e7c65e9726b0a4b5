"""fsck beside writers, compactions and expiry: a sound table is clean at every moment, and damage is still found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.compact.engine.strategy import Strategy
from lakecore.jobs import compact, expire_snapshots, fsck
from lakecore.jobs.versions import tags
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.table import Table
from lakecore.verify.fsck.findings import Finding, FindingKind, FsckReport
from lakecore.verify.fsck.settled import settled
from tests.support.lake import key_table, memory_catalog, put

HOUR = 3_600_000
EMPTY = FsckReport(findings=(), snapshots=1, manifests=1, data_files=1, files_read=0, rows_read=0)
LOST = Finding(FindingKind.DATA_FILE, "/t/a", "missing (needed by snapshot 1)")
HINT = Finding(FindingKind.HINT, "/t/LATEST", "says '1', the snapshot is 2")
ROWS = Finding(FindingKind.ROWS, "/t/b", "rows: 1 instead of 2")


class Looks:
    """Answers of one check after another; the last one goes on for ever."""

    def __init__(self, *answers: Iterable[Finding], moved: bool = False) -> None:
        self.answers = [replace(EMPTY, findings=tuple(answer), moved=moved) for answer in answers]
        self.slept: list[float] = []
        self.asked: list[bool] = []

    def __call__(self, first: bool) -> FsckReport:
        self.asked.append(first)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]

    def report(self) -> tuple[Finding, ...]:
        return settled(self, self.slept.append).findings


def test_a_clean_table_is_looked_at_once() -> None:
    looks = Looks(())
    assert (looks.report(), looks.asked, looks.slept) == ((), [True], [])


def test_what_is_inside_of_a_file_is_true_at_once() -> None:
    looks = Looks((ROWS,))
    assert (looks.report(), looks.asked) == ((ROWS,), [True])


def test_damage_of_a_table_that_rests_is_found_by_a_second_look() -> None:
    looks = Looks((LOST, ROWS))
    assert looks.report() == (LOST, ROWS)
    assert (looks.asked, looks.slept) == ([True, False], [0.25])


def test_what_is_gone_at_the_second_look_was_of_somebody_else() -> None:
    assert Looks((LOST, ROWS), ()).report() == (ROWS,)


def test_a_lost_file_stays_lost_whoever_needs_it() -> None:
    later = replace(LOST, problem="missing (needed by snapshot 2)")
    assert Looks((LOST,), (later,)).report() == (later,)


def test_a_table_that_does_not_rest_is_looked_at_often_but_not_for_ever() -> None:
    looks = Looks((LOST,), moved=True)
    assert looks.report() == (LOST,)
    assert (len(looks.asked), sum(looks.slept) < 40) == (9, True)
    others = [replace(LOST, path=f"/t/{number}") for number in range(9)]
    assert Looks(*[(one,) for one in others], moved=True).report() == ()
    assert Looks(*[(LOST, one) for one in others], moved=True).report() == (LOST,)


def test_a_hint_that_lags_has_time_to_follow() -> None:
    lagging = Looks((HINT,), (HINT,), (HINT,), ())
    assert lagging.report() == ()
    assert sum(lagging.slept) >= 1.5
    assert Looks((HINT,)).report() == (HINT,)
    assert Looks((HINT,), (replace(HINT, problem="says '2', the snapshot is 3"),)).report() == ()


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("live-fsck")


def checked(catalog: FilesystemCatalog, **asked: object) -> FsckReport:
    job = fsck.Job.from_json({"table": "d.k", **asked})
    return fsck.run(job, catalog, catalog.clock).report


def test_young_files_that_nobody_refers_to_are_counted(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}])
    stray = f"{table.path}/bucket-0/data-in-flight-0.parquet"
    table._stores.file_io.overwrite(stray, b"12345")
    (status,) = [one for one in table._stores.file_io.list(f"{table.path}/bucket-0") if one.path == stray]
    clock = catalog.clock
    clock.time_ms = status.mtime_ms + 23 * HOUR  # type: ignore[attr-defined]
    report = checked(catalog)
    assert (report.findings, report.young_orphans, report.young_bytes) == ((), 1, 5)
    assert fsck.Job.from_json({"table": "d.k"}).older_than_ms is None
    old = checked(catalog, older_than_ms=status.mtime_ms + 1)
    assert ([one.path for one in old.findings], old.young_orphans) == ([stray], 0)
    clock.time_ms += 2 * HOUR  # type: ignore[attr-defined]
    later = checked(catalog)
    assert ([one.kind for one in later.findings], later.young_orphans) == ([FindingKind.ORPHAN], 0)
    with leased(catalog.file_io, catalog.warehouse, "d.k", "expiry 1", clock, LeaseTimes(HOUR)):
        at_work = checked(catalog)
    assert (at_work.findings, at_work.young_orphans) == ((), 1)


@pytest.mark.parametrize("deep", [False, True])
def test_damage_is_found_on_a_table_that_is_written(catalog: FilesystemCatalog, deep: bool) -> None:
    """A file that vanishes under a live table stays a finding, however often snapshots come."""
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}])
    (lost,) = [one.path for one in table._stores.file_io.list(f"{table.path}/bucket-0")]
    table._stores.file_io.delete(lost)
    clock = catalog.clock
    sleeps: list[float] = []

    class Busy(type(clock)):  # type: ignore[misc]
        def sleep(self, seconds: float) -> None:
            sleeps.append(seconds)
            put(table, [{"k": 1, "v": f"{len(sleeps)}"}])

    busy = Busy(clock.now_ms())
    report = fsck.run(fsck.Job(table="d.k", deep=deep), catalog, busy).report
    assert [one.path for one in report.findings] == [lost]
    assert sleeps, "it was looked at again"


def test_a_table_that_is_written_compacted_and_expired_is_always_clean(tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path, **{"local.fsync": "false"})
    schema = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    table = catalog.create_table("d.k", schema)
    table.write(pa.table({"k": pa.array([0], pa.int32()), "v": ["a"]}))
    rounds = 12
    checks = _beside(lambda: _live(catalog, table, rounds), lambda deep: _findings(catalog, deep))
    assert len(checks) >= 6, checks
    assert [one for one in checks if one] == []
    assert (table._stores.snapshots.latest_id() or 0) >= rounds


def _live(catalog: FilesystemCatalog, table: Table, rounds: int) -> None:
    for number in range(rounds):
        keys = pa.array(range(number, number + 5), pa.int32())
        table.write(pa.table({"k": keys, "v": [str(number)] * 5}))
        if number % 3 == 1:
            tags.run(tags.CreateTag(table="d.k", tag=f"t{number}"), catalog)
        strategy = Strategy.FULL if number % 4 == 3 else Strategy.UNIVERSAL
        assert compact.run(compact.Job(table="d.k", strategy=strategy), catalog).error is None
        expire_snapshots.run(
            expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, older_than_ms=1 << 60), catalog
        )
        if number % 3 == 2:
            tags.run(tags.DeleteTag(table="d.k", tags=(f"t{number - 1}",)), catalog)


def _findings(catalog: FilesystemCatalog, deep: bool) -> list[str]:
    return [str(one) for one in fsck.run(fsck.Job(table="d.k", deep=deep), catalog).report.findings]


def _beside(work: Callable[[], None], check: Callable[[bool], list[str]]) -> list[list[str]]:
    """What the checks found that ran while the work was done, and once after it."""
    errors: list[BaseException] = []

    def tried() -> None:
        try:
            work()
        except BaseException as err:  # noqa: BLE001 - raised below
            errors.append(err)

    worker = threading.Thread(target=tried)
    worker.start()
    found: list[list[str]] = []
    while worker.is_alive():
        found.append(check(len(found) % 2 == 1))
        time.sleep(0.01)
    worker.join()
    for error in errors:
        raise error
    return [*found, check(True)]
