"""Another number of buckets: the same rows on the same levels, whatever others do meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.kinds.rescale import run as rescale_run
from lakecore.compact.kinds.rescale.plan import bucket_groups, target_count
from lakecore.errors import CorruptDataError, InvalidInputError, LakeError, ProofError, UnsupportedError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact, rescale
from lakecore.jobs.rescale import Job
from lakecore.jobs.watching.arrivals import ArrivalCondition, Arrivals
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.lakecore.compact.test_cluster import Meddling
from tests.support.fake_clock import FakeClock
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put, rows_of

KEYED = ("k INT", "p STRING", "v STRING")


def keyed(catalog: FilesystemCatalog, buckets: int, **options: str) -> Table:
    """Two partitions with rows on level 0 above a compacted level, deletes and updates among them."""
    table = key_table(catalog, KEYED, ("k", "p"), ("p",), **{"bucket": str(buckets), **options})
    put(table, [{"k": k, "p": p, "v": f"a{k}"} for k in range(40) for p in "xy"])
    compact.run(compact.Job(table=table.name, strategy=compact.Strategy.FULL), catalog, clock=catalog.clock)
    put(table, [{"k": k, "p": "x", "v": f"b{k}"} for k in range(10, 50)])
    put(table, [{"k": k, "p": p, "v": "", "_kind": "-D"} for k in range(15) for p in "xy"])
    return table


def totals(table: Table) -> dict[bytes, set[int]]:
    latest = table._stores.snapshots.latest()
    assert latest is not None
    found: dict[bytes, set[int]] = {}
    for entry in table._scanner.live_entries(latest):
        assert 0 <= entry.bucket < entry.total_buckets
        found.setdefault(entry.partition, set()).add(entry.total_buckets)
    return found


def check(table: Table, catalog: FilesystemCatalog) -> None:
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True)
    assert report.findings == ()


@pytest.mark.parametrize(("old", "new"), [(1, 4), (4, 1), (2, 3), (4, 6), (3, 3)])
def test_rows_and_levels_stay(old: int, new: int) -> None:
    catalog = memory_catalog("rescale")
    table = keyed(catalog, old)
    rows, levels = rows_of(table), {f.level for f in live_files(table)}
    count = sum(file.row_count for file in live_files(table))
    last = table._stores.snapshots.list_ids()[-1]
    report = rescale.run(Job(table=table.name, bucket_num=new), catalog, clock=catalog.clock)
    assert Arrivals(table, ArrivalCondition()).after(last) is None, "no row is new to a sensor"
    assert rows_of(table) == rows
    for row in rows[::7]:
        assert rows_of(table, where=f"k = {row[0]} and p = '{row[1]}'") == [row]
    assert {file.level for file in live_files(table)} == levels
    assert sum(file.row_count for file in live_files(table)) == count
    assert report.nothing_to_do == (old == new)
    assert set(map(frozenset, totals(table).values())) == {frozenset({new})}
    check(table, catalog)
    if old != new:
        latest = table._stores.snapshots.latest()
        assert latest is not None
        assert latest.commit_kind is CommitKind.OVERWRITE
        assert latest.delta_record_count == 0
        assert (
            any(f"{count} input rows = {count} output rows" in note for note in report.notes)
            or len(report.names) > 1
        )
    assert rescale.run(Job(table=table.name, bucket_num=new), catalog, clock=catalog.clock).nothing_to_do
    compact.run(compact.Job(table=table.name, strategy=compact.Strategy.FULL), catalog, clock=catalog.clock)
    assert rows_of(table) == rows


@pytest.mark.parametrize(
    "options",
    [
        {"merge_engine": "aggregation", "fields__v__aggregate_function": "listagg", "ignore_delete": "true"},
        {"merge_engine": "partial-update", "ignore_delete": "true"},
        {"merge_engine": "first-row", "ignore_delete": "true"},
        {"changelog_producer": "lookup"},
        {"deletion_vectors__enabled": "true"},
        {"data_file__thin_mode": "true", "file__format": "avro"},
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_engines_and_changelogs_go_on_as_if_nothing_had_happened(options: dict[str, str]) -> None:
    """Nothing is merged: a compaction afterwards makes the rows and changes that it would have made."""
    found = []
    for number in (None, 3):
        catalog = memory_catalog("rescale-engines")
        table = keyed(catalog, 2, **options)
        if number is not None:
            rescale.run(Job(table=table.name, bucket_num=number), catalog, clock=catalog.clock)
            check(table, catalog)
        before = rows_of(table)
        full = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
        compact.run(full, catalog, clock=catalog.clock)
        latest = table._stores.snapshots.latest()
        assert latest is not None
        found.append((before, rows_of(table), latest.changelog_record_count))
    assert found[0] == found[1]


def test_append_tables_with_buckets_and_deleted_rows() -> None:
    catalog = memory_catalog("rescale-append")
    options = {"bucket": "2", "bucket_key": "v", "deletion_vectors__enabled": "true"}
    table = append_table(catalog, partitions=("p",), **options)
    put(table, *([{"v": v, "p": p} for v in range(30) for p in "xy"] for _ in range(2)))
    table.delete("v < 7")
    rows = rows_of(table)
    rescale.run(Job(table=table.name, bucket_num=6, where="p=x"), catalog, clock=catalog.clock)
    assert rows_of(table) == rows
    assert sorted(map(max, totals(table).values())) == [2, 6]
    check(table, catalog)


def test_rows_that_wait_for_a_bucket_go_on_waiting() -> None:
    catalog = memory_catalog("rescale-postpone")
    table = key_table(
        catalog, bucket="-2", postpone__default_bucket_num="2", postpone__batch_write_fixed_bucket="false"
    )
    put(table, [{"k": k, "v": "a"} for k in range(20)])
    compact.run(compact.Job(table=table.name), catalog, clock=catalog.clock)
    put(table, [{"k": k, "v": "b"} for k in range(10, 30)])
    rescale.run(Job(table=table.name, bucket_num=3), catalog, clock=catalog.clock)
    assert rows_of(table) == sorted(((k, "a") for k in range(20)), key=repr)
    compact.run(compact.Job(table=table.name), catalog, clock=catalog.clock)
    assert rows_of(table) == sorted(((k, "a" if k < 10 else "b") for k in range(30)), key=repr)
    assert set(map(frozenset, totals(table).values())) == {frozenset({3})}


def test_the_option_decides_and_writers_go_on() -> None:
    catalog = memory_catalog("rescale-option")
    keyed(catalog, 2)
    table = catalog.load_table("d.k", {"bucket": "4"})
    report = rescale.run(Job(table="d.k", options={"bucket": "4"}), catalog, clock=catalog.clock)
    assert report.snapshot is not None
    put(table, [{"k": 1, "p": "x", "v": "again"}])
    assert (1, "x", "again") in rows_of(table)
    with pytest.raises(InvalidInputError, match="overwrite"):
        put(catalog.load_table("d.k"), [{"k": 1, "p": "x", "v": "again"}])


def test_advice_while_the_option_says_otherwise() -> None:
    catalog = memory_catalog("rescale-advice")
    table = keyed(catalog, 2)
    report = rescale.run(Job(table=table.name, bucket_num=5, dry_run=True), catalog, clock=catalog.clock)
    assert "--set bucket=5" in report.notes[-1]
    assert report.names == ("p=x: 2 -> 5 buckets", "p=y: 2 -> 5 buckets")
    assert table._stores.snapshots.latest_id() == 4


def test_rows_written_meanwhile_are_planned_again() -> None:
    catalog = memory_catalog("rescale-race")
    table = keyed(catalog, 2)
    new = [{"k": k, "p": "x", "v": "new"} for k in range(100, 120)]
    wanted = sorted(rows_of(table) + [tuple(row.values()) for row in new], key=repr)
    meddling = Meddling(lambda: put(table, new))
    report = rescale.run(Job(table=table.name, bucket_num=3), catalog, meddling, catalog.clock)
    assert rows_of(table) == wanted
    assert set(map(frozenset, totals(table).values())) == {frozenset({3})}
    assert report.blocker == ""
    check(table, catalog)


def test_a_compaction_meanwhile_is_planned_again() -> None:
    catalog = memory_catalog("rescale-compaction")
    table = keyed(catalog, 2)
    rows = rows_of(table)
    full = compact.Job(table=table.name, strategy=compact.Strategy.FULL, where="p=x")
    meddling = Meddling(lambda: compact.run(full, catalog, clock=catalog.clock))
    rescale.run(Job(table=table.name, bucket_num=4), catalog, meddling, catalog.clock)
    assert rows_of(table) == rows
    assert set(map(frozenset, totals(table).values())) == {frozenset({4})}


class Insisting(SerialExecutor):
    """Somebody writes to the partition again before every commit."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def run(self, function: Any, tasks: Any) -> Any:
        results = list(super().run(function, tasks))
        put(self._table, [{"k": 1000, "p": "x", "v": "again"}])
        yield from results


def test_a_partition_that_is_written_to_all_the_time_stays_as_it_is() -> None:
    catalog = memory_catalog("rescale-insist")
    table = keyed(catalog, 2)
    wanted = sorted([*rows_of(table), (1000, "x", "again")], key=repr)
    report = rescale.run(Job(table=table.name, bucket_num=4), catalog, Insisting(table), catalog.clock)
    assert (report.blocker, rows_of(table)) == ("p=x", wanted)
    assert sorted(map(max, totals(table).values())) == [2, 4]
    check(table, catalog)


def test_a_write_that_began_before_does_not_land_in_old_buckets() -> None:
    """Rows placed by the old count would be found in no bucket: the write is refused."""
    catalog = memory_catalog("rescale-late")
    table = keyed(catalog, 2)
    late = with_stores(table, clock=Intruding(table, catalog))
    with pytest.raises(LakeError, match="buckets"):
        put(late, [{"k": 1, "p": "x", "v": "late"}])
    assert set(map(frozenset, totals(table).values())) == {frozenset({4})}


class Intruding:
    """A clock that rescales the table when the writer's new snapshot is dated."""

    def __init__(self, table: Table, catalog: FilesystemCatalog) -> None:
        self._table, self._catalog, self._calls = table, catalog, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog.clock, name)

    def now_ms(self) -> int:
        self._calls += 1
        if self._calls == 1:
            rescale.run(Job(table=self._table.name, bucket_num=4), self._catalog, clock=self._catalog.clock)
        return self._catalog.clock.now_ms()


REFUSED: list[tuple[dict[str, str], int | None, type[Exception], str]] = [
    ({"bucket": "-1"}, 4, UnsupportedError, "fixed or postponed"),
    ({"bucket": "-2"}, None, InvalidInputError, "--bucket-num"),
    ({"bucket": "2"}, 0, InvalidInputError, "1 to 32767"),
    ({"bucket": "2"}, 40_000, InvalidInputError, "1 to 32767"),
]


@pytest.mark.parametrize(("options", "number", "error", "text"), REFUSED)
def test_refused_before_anything_is_written(
    options: dict[str, str], number: int | None, error: type[Exception], text: str
) -> None:
    catalog = memory_catalog("rescale-refused")
    table = key_table(catalog, **options)
    with pytest.raises(error, match=text):
        rescale.run(Job(table=table.name, bucket_num=number), catalog, clock=catalog.clock)
    assert table._stores.snapshots.latest_id() is None


def test_a_table_that_tracks_rows_is_refused() -> None:
    options = append_table(memory_catalog("rescale-tracking"), bucket="2", bucket_key="v").options
    with pytest.raises(UnsupportedError, match="row-tracking"):
        target_count("d.a", replace(options, row_tracking=True), 3)


@pytest.mark.parametrize("fault", ["bucket", "row"])
def test_a_row_in_the_wrong_place_is_not_committed(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    true = rescale_run.assign_buckets
    monkeypatch.setattr(
        rescale_run,
        "assign_buckets",
        lambda *args: np.zeros_like(true(*args)) if fault == "bucket" else np.minimum(true(*args), 1),
    )
    catalog = memory_catalog("rescale-fault")
    table = keyed(catalog, 1)
    with pytest.raises(ProofError, match="other buckets"):
        rescale.run(Job(table=table.name, bucket_num=3), catalog, clock=catalog.clock)
    assert table._stores.snapshots.latest_id() == 4
    check(table, catalog)


def test_a_row_in_a_bucket_that_is_not_its_own_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    true = rescale_run.assign_buckets
    monkeypatch.setattr(rescale_run, "assign_buckets", lambda *args: true(*args) + 1)
    catalog = memory_catalog("rescale-damage")
    with pytest.raises(CorruptDataError, match="bucket key"):
        rescale.run(Job(table=keyed(catalog, 2).name, bucket_num=4), catalog, clock=catalog.clock)


@pytest.mark.parametrize(("old", "new", "cuts"), [(1, 5, 2), (4, 6, 1), (6, 4, 3), (7, 3, 1), (8, 8, 1)])
def test_groups_cover_every_number_once(old: int, new: int, cuts: int) -> None:
    groups = bucket_groups(old, new, cuts)
    assert sorted(bucket for group in groups for bucket in group.new) == list(range(new))
    for number in range(old * new):
        homes = [group for group in groups if number % new in group.new]
        assert [number % old in group.old for group in homes] == [True]


class Ticking(SerialExecutor):
    """Ten seconds pass in every unit."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def run(self, function: Any, tasks: Any) -> Any:
        for result in super().run(function, tasks):
            self._clock.sleep(10)
            yield result


@pytest.mark.parametrize(("seconds", "done"), [(5, 1), (15, 2), (0, 0)])
def test_no_partition_is_begun_after_the_end_of_the_window(seconds: int, done: int) -> None:
    """What is proven is committed, the rest is named, and a later run does it."""
    catalog = memory_catalog("rescale-until")
    table = keyed(catalog, 1)
    rows, clock = rows_of(table), catalog.clock
    job = Job(table=table.name, bucket_num=2, until_ms=clock.now_ms() + seconds * 1000, commit_user="u")
    assert Job.from_json(job.to_json()) == job
    executor = Ticking(clock)
    report = rescale.run(job, catalog, executor, clock)
    counts = sorted(min(found) for found in totals(table).values())
    assert counts == [1] * (2 - done) + [2] * done
    said = [note for note in report.notes if "time was over" in note]
    assert len(said) == 2 - done
    assert all("run again" in note for note in said)
    assert rows_of(table) == rows
    check(table, catalog)
    again = rescale.run(replace(job, until_ms=None), catalog, clock=clock)
    assert again.nothing_to_do == (done == 2)
    assert {min(found) for found in totals(table).values()} == {2}
    assert rows_of(table) == rows
