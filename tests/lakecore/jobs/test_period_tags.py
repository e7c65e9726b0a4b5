"""Automatic tags after lakecore's own commits, and tags of days made exactly once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidInputError, InvalidOptionError, LakeError, NotFoundError, UnavailableError
from lakecore.jobs import compact, expire_snapshots, holds, quarantine
from lakecore.jobs.versions import auto_tags, batch_tags, tags
from lakecore.table import Commit, Table
from tests.support.chores import repair_hints
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO
from tests.support.handles import with_stores
from tests.support.lake import key_table, memory_catalog, rows_of
from tests.support.maintained import History

DAY, HOUR = 86_400, 3_600
NOON = 1_699_272_000_000
"""2023-11-06 12:00 UTC."""


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> FilesystemCatalog:
    return replace(memory_catalog(request.node.name), clock=FakeClock(NOON))


def found(table: Table) -> dict[str, int]:
    return {name: table._stores.tags.load(name).id for name in table._stores.tags.list()}


def table_of(lake: FilesystemCatalog, **options: str) -> Table:
    return key_table(lake, **{"write_only": "false", **{f"tag__{k}": v for k, v in options.items()}})


def write(table: Table, text: str = "v", **commit: Any) -> None:
    table.write(_row(text), Commit(**commit))


def _row(text: str) -> pa.Table:
    return pa.Table.from_pylist([{"k": 1, "v": text}])


def days(table: Table, count: int, **commit: Any) -> None:
    """A commit at noon of each day."""
    for _ in range(count):
        write(table, **commit)
        table._stores.clock.sleep(DAY)


def test_writes_make_the_tags_that_are_due(lake: FilesystemCatalog) -> None:
    table = table_of(lake, automatic_creation="process-time", num_retained_max="2")
    days(table, 3)
    assert found(table) == {"2023-11-06": 2, "2023-11-07": 3}
    table.delete("k = 1")
    table.overwrite(_row("o"))
    assert found(table) == {"2023-11-07": 3, "2023-11-08": 4}


def test_tags_that_a_write_deletes_are_in_the_ledger_and_none_is_while_the_table_is_on_hold(
    lake: FilesystemCatalog,
) -> None:
    table = table_of(lake, automatic_creation="process-time", num_retained_max="1")
    days(table, 3)
    assert list(found(table)) == ["2023-11-07"]
    jobs = [record.job for record in quarantine.runs_of(lake, "d.k")]
    assert jobs
    holds.run(holds.HoldTable(table="d.k", reason="why"), lake, clock=lake.clock)
    days(table, 1)
    assert list(found(table)) == ["2023-11-07", "2023-11-08"]


def test_watermarks_make_tags_and_long_max_makes_none(lake: FilesystemCatalog) -> None:
    table = table_of(lake, automatic_creation="watermark", creation_period="hourly")
    write(table)
    write(table, watermark=NOON)
    write(table, watermark=NOON + HOUR * 1000 - 1)
    write(table, watermark=NOON + HOUR * 1000)
    write(table, watermark=2**63 - 1)
    assert found(table) == {"2023-11-06 11": 2, "2023-11-06 12": 4}


def test_write_only_tables_are_tagged_by_their_compaction(lake: FilesystemCatalog) -> None:
    table = table_of(lake, automatic_creation="process-time").with_options({"write-only": "true"})
    days(table, 2)
    assert found(table) == {}
    options = {"write-only": "true"}
    job = compact.Job(table="d.k", strategy=compact.Strategy.FULL, options=options)
    assert compact.run(job, lake, clock=lake.clock).snapshot == 3
    assert found(table) == {"2023-11-05": 1, "2023-11-06": 2, "2023-11-07": 3}


def test_a_batch_write_moves_the_tag_of_its_day(lake: FilesystemCatalog) -> None:
    table = table_of(lake, automatic_creation="batch", num_retained_max="2", create_success_file="true")
    write(table, "a")
    tags.run(tags.CreateTag(table="d.k", tag="mine"), lake, clock=lake.clock)
    write(table, "b")
    assert found(table) == {"batch-write-2023-11-06": 2, "mine": 1}
    for _ in range(3):
        table._stores.clock.sleep(DAY)
        write(table, "c")
    assert found(table) == {"batch-write-2023-11-08": 4, "batch-write-2023-11-09": 5, "mine": 1}
    marks = [s.name for s in table._stores.file_io.list(f"{table._stores.paths.tag_dir}/tag-success-file")]
    assert marks == [f"{name}_SUCCESS" for name in found(table)]


def test_accident_a_limit_of_one_batch_tag_deletes_them_all(lake: FilesystemCatalog) -> None:
    """Names that change with every write, one tag to be kept: the new one must be there after each."""
    table = table_of(lake, automatic_creation="batch", num_retained_max="1")
    for number in range(1, 4):
        named = table.with_options({"tag.batch.customized-name": f"batch-tag-{number}"})
        write(named, f"{number}")
        assert found(table) == {f"batch-tag-{number}": number}
        limits = {"retain_max": 1, "retain_min": 1, "older_than_ms": NOON + 1}
        expire_snapshots.run(expire_snapshots.Job(table="d.k", **limits), lake, clock=lake.clock)
        assert rows_of(table, tag=f"batch-tag-{number}") == [(1, f"{number}")]


@pytest.mark.parametrize("options", [{"num_retained_max": "0"}, {"creation_delay": "1 d"}], ids=str)
def test_options_that_cannot_be_fail_the_job_and_no_commit(
    lake: FilesystemCatalog, options: dict[str, str]
) -> None:
    table = table_of(lake, automatic_creation="process-time", **options)
    days(table, 2)
    assert (table._stores.snapshots.latest_id(), found(table)) == (2, {})
    with pytest.raises(InvalidOptionError, match=r"option tag\."):
        auto_tags.run(auto_tags.Job(table="d.k"), lake, clock=lake.clock)


class NoTags(FaultyFileIO):
    """Storage that refuses everything about tags."""

    def operation(self, name: str, path: str, effect: Callable[[], Any], torn: Any = None) -> Any:
        if "/tag" in path:
            raise UnavailableError(f"{path}: no")
        return effect()


@pytest.mark.parametrize("mode", ["process-time", "batch"])
def test_storage_that_refuses_tags_refuses_no_commit(lake: FilesystemCatalog, mode: str) -> None:
    table = table_of(lake, automatic_creation=mode)
    days(with_stores(table, file_io=NoTags(lake.file_io)), 3)
    assert (table._stores.snapshots.latest_id(), found(table)) == (3, {})
    write(table)
    expected = {"process-time": {"2023-11-05": 1, "2023-11-06": 2, "2023-11-07": 3, "2023-11-08": 4}}
    assert found(table) == expected.get(mode, {"batch-write-2023-11-09": 4})


@pytest.mark.slow
def test_every_operation_of_a_write_that_tags_fails_once(lake: FilesystemCatalog) -> None:
    """Once the snapshot is there the write has gone well; the job brings the tags up to date."""
    table = table_of(lake, automatic_creation="process-time", num_retained_max="2")
    days(table, 3)
    limits = {"retain_max": 1, "retain_min": 1, "older_than_ms": lake.clock.now_ms()}
    expire_snapshots.run(expire_snapshots.Job(table="d.k", **limits), lake, clock=lake.clock)
    made, morning = History.of(lake, table), lake.clock.now_ms()
    for number in itertools.count(1):
        made.reset()
        cast("FakeClock", lake.clock).time_ms = morning
        storage = FaultyFileIO(lake.file_io, fail_at=number)
        committed = None
        with suppress(LakeError):
            write(with_stores(table, file_io=storage))
            committed = table._stores.snapshots.latest_id()
        assert committed in (4, None)
        if table._stores.snapshots.latest_id() == 3:
            write(table)
        lake.clock.sleep(61)  # a lease that could not be given back runs out
        auto_tags.run(auto_tags.Job(table="d.k"), lake, clock=lake.clock)
        assert found(table) == {"2023-11-07": 3, "2023-11-08": 4}
        if committed:
            repair_hints(lake)
            made.check_whole(f"{storage.log[number - 1 : number]}", orphans=True)
        if not storage.fired:
            assert number > 40
            return


def batch(lake: FilesystemCatalog, **parameters: Any) -> batch_tags.Report:
    return batch_tags.run(batch_tags.Job(table="d.k", **parameters), lake, clock=lake.clock)


def test_a_day_is_tagged_once(lake: FilesystemCatalog) -> None:
    table = key_table(lake)
    days(table, 3)
    first = batch(lake, date="2023-11-07", dry_run=True)
    assert (first.names, found(table)) == (("2023-11-07",), {})
    assert batch(lake, date="2023-11-07T23:59:00+00:00").names == ("2023-11-07",)
    again = batch(lake, date="20231107")
    assert (again.names, again.nothing_to_do) == ((), True)
    assert again.notes == ("tags that already exist: 2023-11-07, of snapshot 2",)
    with pytest.raises(UnavailableError, match=r"2023-11-10T00:00:00Z .* not over"):
        batch(lake, date="2023-11-09")
    # without a date: the last day that was over, then or now; missing days are reported, and made
    report = batch(lake, as_of="2023-11-09T00:00:00")
    assert (report.names, report.notes) == (("2023-11-08",), ())
    assert (
        "tags that are missing: 2023-11-06; --backfill creates them" in batch(lake, start="2023-11-06").notes
    )
    filled = batch(lake, start="2023-11-05", backfill=True)
    assert filled.names == ("2023-11-06",)
    assert any("nothing to tag: 2023-11-05" in note for note in filled.notes)
    assert found(table) == {"2023-11-06": 1, "2023-11-07": 2, "2023-11-08": 3}


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"zone": "Pacific/Auckland"}, {"2023-11-07": 1}),
        ({"delay_ms": 13 * HOUR * 1000}, {"2023-11-06": 2, "2023-11-07": 3}),
        ({"formatter": "without_dashes", "name": "eod-{period}"}, {"eod-20231106": 1, "eod-20231107": 2}),
        ({"by": "watermark"}, {"2023-11-06": 2, "2023-11-07": 3}),
        ({"period": "two-hours", "start": "2023-11-06 10", "end": "2023-11-06 14"},
         {"2023-11-06 12": 1, "2023-11-06 14": 1}),
        ({"period": "12 h", "start": "2023-11-06", "end": "2023-11-06"}, {"202311061200": 1}),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_period_is(lake: FilesystemCatalog, parameters: dict[str, Any], names: dict[str, int]) -> None:
    table = key_table(lake)
    for number in range(4):
        write(table, watermark=NOON + (number - 1) * DAY * 1000 + 1)
        table._stores.clock.sleep(DAY)
    batch(lake, backfill=True, **{"start": "2023-11-06", "end": "2023-11-07", **parameters})
    assert found(table) == names


def test_days_that_have_expired_are_named_and_never_guessed(lake: FilesystemCatalog) -> None:
    table = key_table(lake)
    days(table, 5)
    tags.run(tags.CreateTag(table="d.k", tag="held", snapshot=2), lake, clock=lake.clock)
    limits = {"retain_max": 2, "retain_min": 2, "older_than_ms": lake.clock.now_ms()}
    expire_snapshots.run(expire_snapshots.Job(table="d.k", **limits), lake, clock=lake.clock)
    with pytest.raises(
        NotFoundError, match=r"'2023-11-08' can no longer be created.* snapshot 3 has expired"
    ):
        batch(lake, date="2023-11-08")
    report = batch(lake, start="2023-11-06", end="2023-11-10", backfill=True)
    assert found(table) == {"held": 2, "2023-11-09": 4, "2023-11-10": 5}
    assert report.notes == (
        "can no longer be created: 2023-11-06 (snapshot 1 has expired)",
        "can no longer be created: 2023-11-07, 2023-11-08 (snapshot 3 has expired)",
    )


class Watched(FaultyFileIO):
    """Looks at a tag before and after every operation."""

    def __init__(self, inner: Any, path: str) -> None:
        super().__init__(inner)
        self.path, self.seen = path, list[int]()

    def operation(self, name: str, path: str, effect: Callable[[], Any], torn: Any = None) -> Any:
        self._look()
        result = effect()
        self._look()
        return result

    def _look(self) -> None:
        self.seen.append(json.loads(self.inner.read(self.path))["id"])


def test_a_replaced_tag_is_there_all_the_time(lake: FilesystemCatalog) -> None:
    """Two tags that hold each other's snapshots alone move one after the other, or not at all."""
    table = key_table(lake)
    days(table, 4)
    for tag, snapshot in (("2023-11-06", 2), ("2023-11-07", 3), ("x", 1), ("2023-11-08", 1)):
        tags.run(tags.CreateTag(table="d.k", tag=tag, snapshot=snapshot), lake, clock=lake.clock)
    limits = {"retain_max": 1, "retain_min": 1, "older_than_ms": lake.clock.now_ms()}
    expire_snapshots.run(expire_snapshots.Job(table="d.k", **limits), lake, clock=lake.clock)
    left = batch(lake, date="2023-11-07")
    assert left.nothing_to_do
    assert "is a tag of snapshot 3, but the rule gives snapshot 2" in left.notes[0]
    watched = Watched(lake.file_io, table._stores.paths.tag("2023-11-07"))
    whole = {"start": "2023-11-06", "end": "2023-11-09", "backfill": True, "replace": True}
    report = batch(replace(lake, file_io=watched), **whole)
    assert set(watched.seen) == {3, 2}
    assert found(table) == {"2023-11-06": 1, "2023-11-07": 2, "2023-11-08": 3, "2023-11-09": 4, "x": 1}
    assert report.names == ("2023-11-09", "2023-11-08", "2023-11-07", "2023-11-06")
    assert [rows_of(table, tag=f"2023-11-0{day}") for day in (6, 7, 8)] == [[(1, "v")]] * 3
    assert batch(lake, **whole).nothing_to_do


def test_retention_leaves_the_newest_and_other_peoples_tags(lake: FilesystemCatalog) -> None:
    table = key_table(lake)
    days(table, 4)
    tags.run(tags.CreateTag(table="d.k", tag="mine", snapshot=1), lake, clock=lake.clock)
    for day in (6, 7, 8):
        batch(lake, date=f"2023-11-0{day}", num_retained_max=1)
        assert found(table) == {f"2023-11-0{day}": day - 5, "mine": 1}
    late = batch(lake, date="2023-11-07", num_retained_max=1)
    assert late.nothing_to_do
    assert late.notes == ("not created: 2023-11-07 (enough newer tags are kept)",)
    with pytest.raises(InvalidInputError, match="newest tag is always kept"):
        batch(lake, num_retained_max=0)


def test_accident_tags_run_out_while_no_writer_makes_new_ones(lake: FilesystemCatalog) -> None:
    """A time to live ends every tag of a table that nobody writes; the newest automatic one stays."""
    table = table_of(lake, automatic_creation="process-time", default_time_retained="2 d")
    days(table, 3)
    lake.clock.sleep(30 * DAY)
    auto_tags.run(auto_tags.Job(table="d.k"), lake, clock=lake.clock)
    assert found(table) == {"2023-11-07": 3}
    kept = tags.ExpireTags(table="d.k", keep_newest=1)
    assert tags.run(kept, lake, clock=lake.clock).nothing_to_do
    write(table)
    assert found(table) == {"2023-12-08": 4}


@pytest.mark.parametrize("name", [None, "always"])
def test_the_last_batch_tag_stays(lake: FilesystemCatalog, name: str | None) -> None:
    named = {"batch__customized_name": name} if name else {}
    table = table_of(lake, automatic_creation="batch", default_time_retained="1 h", **named)
    days(table, 3)
    auto_tags.run(auto_tags.Job(table="d.k"), lake, clock=lake.clock)
    assert found(table) == {name or "batch-write-2023-11-08": 3}


def test_a_snapshot_gets_no_second_automatic_tag(lake: FilesystemCatalog) -> None:
    """Java's writers stop for good when they see one."""
    table = table_of(lake, automatic_creation="process-time")
    write(table)
    assert found(table) == {"2023-11-05": 1}
    table._stores.clock.sleep(3 * DAY)
    for job in (
        tags.CreateTag(table="d.k", tag="2023-11-06"),
        tags.CreateTag(table="d.k", tag="2023-11-06 again"),
    ):
        with pytest.raises(InvalidInputError, match="already has the automatic tag '2023-11-05'"):
            tags.run(job, lake, clock=lake.clock)
    with pytest.raises(InvalidInputError, match=r"automatically .*; choose other names"):
        batch(lake, date="2023-11-06")
    tags.run(tags.RenameTag(table="d.k", tag="2023-11-05", target_tag="2023-11-04"), lake, clock=lake.clock)
    assert batch(lake, date="2023-11-06", name="day-{period}").names == ("day-2023-11-06",)
    assert found(table) == {"2023-11-04": 1, "day-2023-11-06": 1}


@pytest.mark.parametrize(
    "parameters",
    [
        {"period": "weekly"},
        {"by": "luck"},
        {"name": "x"},
        {"zone": "Moon"},
        {"date": "soon"},
        {"start": "2023-11-09", "end": "2023-11-06"},
        {"start": "1990-01-01", "end": "2023-11-06", "period": "1 min"},
    ],
    ids=str,
)
def test_jobs_that_cannot_be(lake: FilesystemCatalog, parameters: dict[str, Any]) -> None:
    days(key_table(lake), 2)
    with pytest.raises(InvalidInputError):
        batch(lake, **parameters)


def test_a_job_travels_as_json() -> None:
    job = batch_tags.Job(table="d.k", date="2023-11-06", backfill=True)
    assert batch_tags.Job.from_json(json.loads(json.dumps(job.to_json()))) == job


@pytest.mark.parametrize("by", ["commit-time", "watermark"])
def test_a_long_history_is_searched_not_read(lake: FilesystemCatalog, by: str) -> None:
    """Copies of a snapshot, an hour apart; the first has no watermark, and some are gone."""
    table = table_of(lake)
    write(table)
    text = json.loads(table._stores.file_io.read(table._stores.paths.snapshot(1)))
    for number in range(2, 400):
        at = {
            "id": number,
            "timeMillis": NOON + number * HOUR * 1000,
            "watermark": NOON + number * HOUR * 1000,
        }
        if number % 50:
            table._stores.file_io.write_new(
                table._stores.paths.snapshot(number), json.dumps(text | at).encode()
            )
    table._stores.clock.sleep(400 * HOUR)
    table._stores.snapshots.write_hints(399)
    storage = FaultyFileIO(lake.file_io)
    watched = replace(lake, file_io=storage)
    job = batch_tags.Job(table="d.k", date="2023-11-10", by=by)
    assert batch_tags.run(job, watched, clock=lake.clock).snapshot == 107
    read = {line for line in storage.log if line.startswith("read ") and "/snapshot/snapshot-" in line}
    assert len(read) < 25
    whole = batch_tags.Job(table="d.k", start="2023-11-07", end="2023-11-21", by=by, backfill=True)
    batch_tags.run(whole, lake, clock=lake.clock)
    last = {day: 11 + 24 * (day - 6) for day in range(7, 22)}
    certain = {day: number for day, number in last.items() if number % 50 and (number + 1) % 50}
    assert found(table) == {f"2023-11-{day:02}": number for day, number in certain.items()}
    assert len(certain) < len(last)
