"""A replay of the expiry of partitions is judged by the job itself: on a second table with the same writes it drops what the replay says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakecore.errors import InvalidInputError
from lakecore.jobs import compact, expire_snapshots, what_if
from lakecore.jobs.partitions import DropPartition, ExpirePartitions, expiry_rule, run
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.versions import tags
from lakecore.jobs.what_if import Job
from lakecore.jobs.what_if.expiry import expiry_rules, history_of
from lakecore.jobs.what_if.report import PartitionFigures
from lakecore.maintain.replay.partition_changes import read_partition_history
from lakecore.maintain.replay.partition_effect import with_expired_partitions
from lakecore.maintain.replay.partition_history import PartitionRules
from lakecore.maintain.replay.partition_plan import replay_partitions
from lakecore.maintain.replay.plan import replay_expiry
from lakecore.metadata.schema_change import SetOption
from tests.support.lake import append_table, key_table, live_files, memory_catalog, paths_of, put

DAY = 86_400_000
START = datetime(2024, 3, 1, tzinfo=UTC)
RULES: dict[str, dict[str, str]] = {
    "five days": {"partition.expiration-time": "5 d"},
    "one at a time": {"partition.expiration-time": "2 d", "partition.expiration-max-num": "1"},
    "since the last change": {
        "partition.expiration-time": "3 d",
        "partition.expiration-strategy": "update-time",
    },
    "a pattern": {
        "partition.expiration-time": "4 d",
        "partition.timestamp-pattern": "$dt 12:00:00",
        "partition.timestamp-formatter": "yyyy-MM-dd HH:mm:ss",
    },
}


def day(number: int) -> str:
    return (START + timedelta(days=number)).strftime("%Y-%m-%d")


class Daily:
    """A table with a partition a day, whose rows come in the day, and some of them late; compactions now and then."""

    def __init__(self, name: str, *, keyed: bool) -> None:
        self.catalog = memory_catalog(name)
        self.catalog.clock.time_ms = int(START.timestamp() * 1000) + 1
        make = key_table if keyed else append_table
        keys = {"keys": ("k", "dt")} if keyed else {"compaction__min__file_num": "2"}
        self.table = make(self.catalog, columns=("k INT", "dt STRING"), partitions=("dt",), **keys)  # type: ignore[arg-type]

    def days(self, *, late: bool = True) -> Iterator[int]:
        """Yield after each commit, with the number of the day."""
        for number in range(12):
            put(self.table, [{"k": 10 * number + i, "dt": day(number)} for i in range(number + 1)])
            yield number
            if number == 3:
                put(self.table, [{"k": 1000, "dt": "no time"}])
                yield number
            if late and number in (4, 9):
                put(self.table, [{"k": 500 + number, "dt": day(number - 4)}])
                yield number
            if number in (2, 6, 10):
                job = compact.Job(
                    table=self.table.name, strategy=compact.Strategy.FULL, commit_user=f"c{number}"
                )
                if compact.run(job, self.catalog, clock=self.catalog.clock).snapshots:
                    yield number
            self.catalog.clock.time_ms += DAY

    def replay(self, options: dict[str, str], **fields: Any) -> what_if.Report:
        job = Job(table=self.table.name, options=options, **fields)
        return what_if.run(job, self.catalog, clock=self.catalog.clock)


def expire(daily: Daily, options: dict[str, str], number: int) -> tuple[str, ...]:
    job = ExpirePartitions(table=daily.table.name, options=options, commit_user=f"e{number}")
    names = run(job, daily.catalog, clock=daily.catalog.clock).names
    assert names is not None
    return names


def end_of(daily: Daily) -> tuple[int, int, int]:
    files = live_files(daily.table)
    return len(files), sum(file.file_size for file in files), sum(file.row_count for file in files)


def totals(one: PartitionFigures) -> tuple[int, int, int]:
    return one.files, one.bytes, one.rows


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("options", RULES.values(), ids=RULES)
def test_the_job_drops_what_the_replay_says(options: dict[str, str], *, keyed: bool) -> None:
    past, real = Daily("past", keyed=keyed), Daily("real", keyed=keyed)
    late = "update-time" not in options.values()  # a merge of late and expired files has a time of its own
    list(past.days(late=late))
    expired = []
    for count, _ in enumerate(real.days(late=late)):
        names = expire(real, options, count)
        if names:
            expired.append(names)
    report = past.replay(options)
    was, asked = report.partitions
    assert [run.partitions for run in asked.runs] == expired
    assert asked.expired == sum(map(len, expired)) > 5
    assert totals(was) == end_of(past)
    assert report.expiry == report.compaction == ()
    assert any("never expire: dt=no time" in note for note in report.notes) == late
    if not asked.uncertain_bytes:
        assert totals(asked) == end_of(real)


def test_rows_that_come_late_make_what_a_compaction_wrote_uncertain() -> None:
    """Java and lakecore would have merged the late rows alone; the history shows only what both made together."""
    past, real = Daily("past", keyed=True), Daily("real", keyed=True)
    options = RULES["since the last change"] | {"partition.expiration-time": "3 d"}
    for daily in (past, real):
        for number in range(2):
            put(daily.table, [{"k": number, "dt": "a"}])
            if number == 0:
                daily.catalog.clock.time_ms += 4 * DAY
                if daily is real:
                    assert expire(real, options, 0) == ("dt=a",)
        compact.run(
            compact.Job(table="d.k", strategy=compact.Strategy.FULL), daily.catalog, clock=daily.catalog.clock
        )
    report = past.replay(options, every_ms=DAY)
    asked = report.partitions[-1]
    assert asked.expired == 1
    assert asked.uncertain_bytes == asked.bytes > 0
    assert asked.rows == 2 > sum(file.row_count for file in live_files(real.table)) == 1
    assert any("1 files replaced files of expired partitions" in note for note in report.notes)


def test_what_was_dropped_before_is_said() -> None:
    past = Daily("past", keyed=False)
    for number in past.days(late=False):
        if number == 5:
            run(DropPartition(table="d.a", partitions=f"dt={day(4)}"), past.catalog, clock=past.catalog.clock)
    report = past.replay({"partition.expiration-time": "9 d"}, every_ms=DAY)
    assert any(
        f"emptied 1 partitions before these options would have, so that what they would have kept is unknown: dt={day(4)}"
        in note
        for note in report.notes
    )
    assert all(f"dt={day(4)}" not in one.partitions for one in report.partitions[-1].runs)


def test_runs_at_times_and_the_zone_of_the_writers() -> None:
    past = Daily("past", keyed=False)
    list(past.days())
    options = RULES["five days"]
    utc = past.replay(options, every_ms=DAY // 4).partitions[-1]
    assert all(one.time_ms % (DAY // 4) == 0 for one in utc.runs)
    east = past.replay(options, every_ms=DAY // 4, zone="Asia/Tokyo").partitions[-1]
    assert [one.partitions for one in east.runs][:3] == [one.partitions for one in utc.runs][:3]
    assert [two.time_ms - one.time_ms for one, two in zip(east.runs, utc.runs, strict=False)][:3] == [
        DAY // 2
    ] * 3


def test_a_policy_and_the_options_of_the_table() -> None:
    past = Daily("past", keyed=False)
    list(past.days())
    chores = {"expire-partitions": {"expiration": "5 d", "zone": "Asia/Tokyo"}, "fsck": {}}
    by_policy = past.replay({}, policy=[{"tables": ["d.a"], "chores": chores}])
    assert by_policy.partitions[-1] == past.replay(RULES["five days"], zone="Asia/Tokyo").partitions[-1]
    assert "not replayed: fsck" in by_policy.notes
    past.catalog.alter_table("d.a", [SetOption("partition.expiration-time", "7 d")])
    every = past.replay({})
    assert [one.variant for one in every.partitions] == ["as it was", "the table's options"]
    assert every.expiry
    assert every.compaction
    both = past.replay(RULES["five days"])
    assert [one.variant for one in both.partitions] == [
        "as it was",
        "the table's options",
        "the options of the question",
    ]
    assert both.partitions[1].expired < both.partitions[2].expired


def test_what_cannot_be_replayed_is_refused() -> None:
    catalog = memory_catalog("plain")
    put(append_table(catalog), [{"v": 1, "p": "x"}])
    with pytest.raises(InvalidInputError, match=r"table d\.a is not partitioned"):
        what_if.run(Job(table="d.a", chores=("expire-partitions",)), catalog, clock=catalog.clock)
    job = Job(table="d.a", options={"partition.expiration-time": "1 d"})
    with pytest.raises(InvalidInputError, match=r"table d\.a is not partitioned"):
        what_if.run(job, catalog, clock=catalog.clock)
    past = Daily("past", keyed=False)
    with pytest.raises(InvalidInputError, match="it is unknown how long partitions are kept"):
        past.replay({}, chores=("expire-partitions",))
    with pytest.raises(InvalidInputError, match="expire-strategy 'old': use one of"):
        past.replay({"partition.expiration-time": "1 d", "partition.expiration-strategy": "old"})


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
@pytest.mark.parametrize("trigger", [2, 3])
def test_compactions_find_only_what_partitions_that_expired_got_later(trigger: int, late: bool) -> None:
    """The same writes twice: in one table partitions expire after each commit and the rest is compacted, the other has
    only a replay of both.
    """
    expiry = {"partition.expiration-time": "3 d", "partition.timestamp-formatter": "yyyy-MM-dd"}
    picks = {"num-sorted-run.compaction-trigger": str(trigger)}
    past, real = Daily("past", keyed=True), Daily("real", keyed=True)
    for _ in writes(past, late=late):
        pass
    compacted = []
    for number in writes(real, late=late):
        expire(real, expiry, number)
        job = compact.Job(table="d.k", options=picks, commit_user=f"c{number}")
        report = compact.run(job, real.catalog, clock=real.catalog.clock)
        if report.snapshots:
            compacted.append((number + 1, report.picks_done))
    asked = past.replay(expiry | picks).compaction[-1]
    alone = past.replay(picks).compaction[-1]
    assert [(run.snapshot, run.picks) for run in asked.runs] == compacted
    files = live_files(real.table)
    assert asked.files == len(files)
    assert alone.files > asked.files, "without the expiry there are more"
    assert (asked.picks < alone.picks) == (late and trigger == 2)
    assert asked.exact_picks > 0
    partitions = past.replay(expiry | picks).partitions[-1]
    assert partitions.expired > 5


def test_what_the_history_made_of_expired_files_alone_is_gone_too() -> None:
    """A compaction of the history merged the files of a day after that day would have expired. What writers add then
    stands alone, as in a table in which the day did expire.
    """
    options = RULES["since the last change"] | {"num-sorted-run.compaction-trigger": "2"}
    past, real = Daily("past", keyed=True), Daily("real", keyed=True)
    for number in range(2):
        for daily in (past, real):
            put(daily.table, [{"k": number, "dt": day(0)}])
    for daily in (past, real):
        daily.catalog.clock.time_ms += 5 * DAY
    full = compact.Job(table="d.k", strategy=compact.Strategy.FULL)
    assert compact.run(full, past.catalog, clock=past.catalog.clock).snapshots
    assert expire(real, options, 0) == (f"dt={day(0)}",)
    for daily in (past, real):
        daily.catalog.clock.time_ms += DAY
        for number in range(2, 4):
            put(daily.table, [{"k": number, "dt": day(6)}, {"k": number, "dt": day(0)}])
        daily.catalog.clock.time_ms += DAY
    found = compact.run(compact.Job(table="d.k", options=options), real.catalog, clock=real.catalog.clock)
    report = past.replay(options, every_ms=DAY)
    *_, run = report.compaction[-1].runs
    assert (run.picks, run.exact_picks) == (found.picks_done, 2)
    assert run.read_bytes == sum(file.file_size for file in live_files(past.table) if file.level == 0)


def writes(daily: Daily, *, late: bool) -> Iterator[int]:
    """Three commits a day for nine days, one of them of an older day if `late`; yield the number of the commit."""
    number = 0
    for today in range(9):
        for part in range(3):
            when = today - 4 if late and part == 1 and today > 4 else today
            put(daily.table, [{"k": 100 * number + i, "dt": day(when)} for i in range(20)])
            yield number
            number += 1
        daily.catalog.clock.time_ms += DAY


SNAPSHOTS = {
    "newest four": {"snapshot.num-retained.max": "4", "snapshot.num-retained.min": "1"},
    "two days": {"snapshot.time-retained": "2 d", "snapshot.num-retained.min": "2"},
    "one at a time": {
        "snapshot.num-retained.max": "3",
        "snapshot.num-retained.min": "1",
        "snapshot.expire.limit": "1",
    },
}


def data_files(daily: Daily) -> tuple[int, int]:
    """The data files that the table still has in storage, and their bytes."""
    sizes = [len(daily.catalog.file_io.read(path)) for path in paths_of(daily.table)]
    return len(sizes), sum(sizes)


def replayed_snapshots(daily: Daily, options: dict[str, str]) -> tuple[Any, list[tuple[int, int]]]:
    """A replay of both expiries after each commit, and the data files, with their bytes, that each run removes; the
    last ones are those that are left.
    """
    target = target_of(
        daily.catalog.load_table(daily.table.name, options), daily.catalog, daily.catalog.clock
    )
    now_ms = daily.catalog.clock.now_ms()
    partitions = read_partition_history(target)
    rule = expiry_rule(ExpirePartitions(table=daily.table.name), target.schema.options)
    rules = PartitionRules(rule=rule, times=None, offset_ms=lambda _: 0)
    history = with_expired_partitions(
        history_of(target), partitions, replay_partitions(partitions, rules, now_ms)
    )
    replayed = replay_expiry(history, expiry_rules(target, {}), None, now_ms)
    data = {file.name: file.bytes for commit in partitions.commits for file in commit.added}
    removed = [[data[name] for name in step.names.tolist() if name in data] for step in replayed.steps]
    gone = {name for step in replayed.steps for name in step.names.tolist()}
    left = [data[name] for name in history.files.names.tolist() if name in data and name not in gone]
    return replayed, [(len(sizes), sum(sizes)) for sizes in (*removed, left)]


def days_with_holders(daily: Daily) -> Iterator[int]:
    """Yield after each commit: a day has rows of its own and of the day before, and every third ends with a full
    compaction. Two days have a tag, whose partitions expire later; at another one a reader waits.
    """
    for number in range(12):
        put(daily.table, [{"k": 10 * number + late, "dt": day(number - late)} for late in (0, 1)])
        latest = daily.table._stores.snapshots.list_ids()[-1]
        if number in (3, 8):
            made = tags.CreateTag(table=daily.table.name, tag=f"t{number}", snapshot=latest)
            tags.run(made, daily.catalog, clock=daily.catalog.clock)
        if number == 10:
            consumer = daily.table._stores.paths.consumer_dir + "/consumer-reader"
            daily.catalog.file_io.write_new(consumer, b'{"nextSnapshot": %d}' % latest)
        yield number
        job = compact.Job(table=daily.table.name, strategy=compact.Strategy.FULL, commit_user=f"c{number}")
        if number % 3 == 2 and compact.run(job, daily.catalog, clock=daily.catalog.clock).snapshots:
            yield number
        daily.catalog.clock.time_ms += DAY


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize(
    ("limits", "writes_of", "days"),
    [*((one, days_with_holders, 3) for one in SNAPSHOTS.values()), (SNAPSHOTS["newest four"], Daily.days, 5)],
    ids=[*SNAPSHOTS, "compactions of expired files alone"],
)
def test_the_expiry_of_snapshots_knows_what_expired_partitions_left(
    limits: dict[str, str], writes_of: Callable[[Daily], Iterator[int]], days: int, *, keyed: bool
) -> None:
    """The same writes twice: in one table both expiries run after each commit, the other has only their replay."""
    partitions = {"partition.expiration-time": f"{days} d"}
    options = partitions | limits
    past, real = Daily("past", keyed=keyed), Daily("real", keyed=keyed)
    expired: list[int] = []
    removed: list[tuple[int, int]] = []

    def run_expiry() -> None:
        job = expire_snapshots.Job(table=real.table.name, options=limits)
        (files, size) = data_files(real)
        ids = expire_snapshots.run(job, real.catalog, clock=real.catalog.clock).snapshots
        expired.extend(ids)
        (files_left, bytes_left) = data_files(real)
        removed.extend([(files - files_left, size - bytes_left)] if ids else [])

    list(writes_of(past))
    for count, _ in enumerate(writes_of(real)):
        run_expiry()
        if expire(real, partitions, count):
            run_expiry()
    replayed, replayed_removals = replayed_snapshots(past, options)
    assert not replayed.impossible_tags
    assert [number for step in replayed.steps for number in step.snapshots] == expired
    assert replayed.snapshots == tuple(real.table._stores.snapshots.list_ids())
    assert replayed_removals == [*removed, data_files(real)]
    asked, alone = past.replay(options).expiry[-1], past.replay(limits).expiry[-1]
    assert (asked.expired_snapshots, asked.snapshots) == (len(expired), len(replayed.snapshots))
    assert asked.expired_snapshots > alone.expired_snapshots
    assert asked.bytes < alone.bytes
