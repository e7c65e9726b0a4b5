"""The survey of a lake: figures as Java's tables have them, damage, holds, and what is stored."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import InvalidInputError, LakeError, UnavailableError
from lakecore.jobs import compact
from lakecore.jobs.definitions.repair import HoldTable, ReleaseTable
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.survey import Job, SurveyReader, counts, latest_survey, run, survey_of_day
from lakecore.maintain.attempts.record import Attempt, AttemptState
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.survey.activity import Lateness, commits_by_hour, lateness_after
from lakecore.maintain.survey.plan import DAY_MS
from lakecore.maintain.survey.record import State, TableRecord
from lakecore.maintain.survey.store import Survey, SurveyStore
from lakecore.table import Table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.golden import golden_tables
from tests.support.lake import key_table, memory_catalog, put


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog()


def append_table(catalog: FilesystemCatalog) -> Table:
    return catalog.create_table("d.a", {"columns": ["k INT", "v STRING"]})


def record(survey: Survey, table: str) -> TableRecord:
    return next(one for one in survey.tables if one.table == table)


def survey(catalog: FilesystemCatalog, **job: object) -> Survey:
    catalog.clock.sleep(60)
    return run(Job(**job), catalog, clock=catalog.clock)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> FilesystemCatalog:
    """Every table that Java wrote, in one lake."""
    warehouse = tmp_path_factory.mktemp("lake")
    for one in golden_tables():
        if not (warehouse / "g1.db" / one.name).exists():
            shutil.copytree(one.path, warehouse / "g1.db" / one.name)
    return load_catalog(str(warehouse))


def test_figures_are_those_of_the_files_that_java_wrote(golden: FilesystemCatalog) -> None:
    found = run(Job(history=True), golden)
    assert len(found.tables) > 200
    for one in found.tables:
        if one.state is State.UNSUPPORTED:
            continue
        assert one.error == "", one
        figures = one.figures
        if figures.snapshot is None:
            continue
        if figures.postponed_files:  # which the list of files leaves out, as Java's does
            assert (figures.files, one.state) == (figures.postponed_files, State.DUE)
            continue
        files = golden.load_table(f"{one.table}$files").scan().to_arrow().to_pylist()
        assert (figures.files, figures.bytes) == (len(files), sum(row["file_size_in_bytes"] for row in files))
        assert figures.rows == sum(row["record_count"] for row in files)
        places = Counter((row["partition"], row["bucket"]) for row in files)
        assert figures.buckets == len(places)
        ready = {place for place in places if place[1] >= 0}
        runs = {
            place: sum(
                1 if row["level"] == 0 else 0 for row in files if (row["partition"], row["bucket"]) == place
            )
            + len(
                {row["level"] for row in files if (row["partition"], row["bucket"]) == place and row["level"]}
            )
            for place in ready
        }
        assert figures.sorted_runs == (max(runs.values(), default=0) if figures.has_key else 0), one.table
        snapshots = golden.load_table(f"{one.table}$snapshots").scan().to_arrow().to_pylist()
        assert (figures.snapshot, figures.snapshots) == (snapshots[-1]["snapshot_id"], len(snapshots))


def on_disk(warehouse: Path) -> int:
    return sum(path.stat().st_size for path in warehouse.glob("*/*/**/bucket-*/*") if path.is_file())


def test_bytes_of_history_are_those_that_an_expiry_frees(tmp_path: Path) -> None:
    """Golden tables without changelog, tags and branches have live files and those of their history, no other."""
    checked = 0
    for one in golden_tables():
        if (
            one.options.get("changelog-producer", "none") != "none"
            or "data-file.external-paths" in one.options
        ):
            continue
        warehouse = tmp_path / one.name
        shutil.copytree(one.path, warehouse / "g1.db" / one.name)
        figures = run(Job(history=True), load_catalog(str(warehouse))).tables[0].figures
        shown = (figures.tags, figures.branches) == (0, 0)
        extra = list((warehouse / "g1.db" / one.name).glob("**/bucket-*/*.index"))
        if figures.snapshot != figures.snapshots or not shown or extra or figures.history_bytes is None:
            continue  # some snapshots have expired, or other files lie beside the data
        if figures.history_bytes:
            checked += 1
            assert figures.bytes + figures.history_bytes == on_disk(warehouse), one.name
    assert checked > 10


def test_a_table_that_did_not_change_keeps_the_figures_of_its_files(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    put(table, *[[{"k": n, "v": "x"}] for n in range(6)])
    first = survey(catalog, history=True)
    counting = FaultyFileIO(catalog.file_io)
    second = survey(replace(catalog, file_io=counting), history=True)
    assert not [line for line in counting.log if "/manifest/" in line]
    assert second.tables[0].figures == first.tables[0].figures
    assert second.tables[0].figures_ms == first.tables[0].figures_ms
    put(table, [{"k": 9, "v": "y"}])
    third = survey(catalog, history=True).tables[0]
    assert third.figures.files == first.tables[0].figures.files + 1
    assert third.figures_ms > first.tables[0].figures_ms


def test_what_is_due_is_due_until_it_is_done(catalog: FilesystemCatalog) -> None:
    from lakecore.jobs import compact

    table = append_table(catalog)
    put(table, *[[{"k": n, "v": "x"}] for n in range(6)])
    before = survey(catalog).tables[0]
    assert (before.state, before.figures.small_files, before.figures.due_buckets) == (State.DUE, 6, 1)
    assert [one.rule for one in before.deductions] == ["small-files"]
    compact.run(compact.Job(table=before.table), catalog, clock=catalog.clock)
    after = survey(catalog).tables[0]
    assert (after.state, after.score, after.deductions) == (State.OK, 100, ())
    assert [point.score for point in after.days] == [100]  # a point a day: the last survey


def test_a_table_on_hold_a_broken_one_and_one_that_vanished(catalog: FilesystemCatalog) -> None:
    held, broken = key_table(catalog), append_table(catalog)
    third = catalog.create_table("d.third", {"columns": ["k INT", "v STRING"]})
    for table in (held, broken, third):
        put(table, [{"k": 1, "v": "x"}])
    assert counts(survey(catalog)) == {"ok": 3}
    run_chore(HoldTable(table=held.name, reason="audit"), catalog, clock=catalog.clock)
    put(broken, [{"k": 2, "v": "x"}])
    snapshot = broken._stores.snapshots.latest()
    assert snapshot is not None
    catalog.file_io.overwrite(broken._stores.paths.manifest(snapshot.delta_manifest_list), b"noise")
    catalog.drop_table(third.name)
    found = survey(catalog)
    assert counts(found) == {"held": 1, "broken": 1, "vanished": 1}
    assert "audit" in record(found, held.name).holds[0]
    assert record(found, broken.name).error_class == "CorruptDataError"
    assert record(found, broken.name).score == 0
    run_chore(ReleaseTable(table=held.name), catalog, clock=catalog.clock)
    found = survey(catalog)
    assert record(found, held.name).state is State.OK
    assert record(found, third.name).state is State.VANISHED
    assert record(found, third.name).figures.rows == 1


def test_patterns_leave_other_records_as_they_were(catalog: FilesystemCatalog) -> None:
    for table in (key_table(catalog), append_table(catalog)):
        put(table, [{"k": 1, "v": "x"}])
    first = survey(catalog)
    second = survey(catalog, including_tables="d[.]k")
    assert record(second, "d.a") == record(first, "d.a")
    assert record(second, "d.k").surveyed_ms > record(first, "d.k").surveyed_ms
    with pytest.raises(InvalidInputError, match="excluding-tables"):
        survey(catalog, excluding_tables="(")
    with pytest.raises(InvalidInputError, match="max-concurrent-tables=0"):
        survey(catalog, max_concurrent_tables=0)


def test_a_dry_run_stores_nothing(catalog: FilesystemCatalog) -> None:
    put(key_table(catalog), [{"k": 1, "v": "x"}])
    assert len(survey(catalog, dry_run=True).tables) == 1
    assert latest_survey(catalog) is None


def empty_ledger(catalog: FilesystemCatalog) -> None:
    day = AttemptStore(catalog.file_io, catalog.warehouse)._day(catalog.clock.now_ms())
    for status in catalog.file_io.list(day):
        catalog.file_io.delete(status.path)


def test_storage_that_fails_leaves_the_last_survey_whole(catalog: FilesystemCatalog) -> None:
    for table in (key_table(catalog), append_table(catalog)):
        put(table, [{"k": 1, "v": "x"}])
    first = survey(catalog)
    for at in range(1, 1000):
        empty_ledger(catalog)  # each survey is an attempt, which the next one would read
        faulty = FaultyFileIO(catalog.file_io, at, FaultMode.ERROR)
        try:
            done = survey(replace(catalog, file_io=faulty), max_concurrent_tables=1)
        except LakeError as err:
            assert isinstance(err, UnavailableError)  # noqa: PT017
            done = None
        stored = latest_survey(catalog)
        assert stored is not None
        assert {one.table for one in stored.tables} == {one.table for one in first.tables}
        assert all(one.figures.rows == 1 for one in stored.tables)  # what was known is not forgotten
        assert {one.state for one in stored.tables} <= {State.OK, State.UNREACHABLE}
        if not faulty.fired:
            assert done is not None
            assert counts(done) == {"ok": 2}
            return
    pytest.fail("the survey never passed clean")


def test_damaged_lines_are_left_out_and_counted(catalog: FilesystemCatalog) -> None:
    for table in (key_table(catalog), append_table(catalog)):
        put(table, [{"k": 1, "v": "x"}])
    survey(catalog)
    store = SurveyStore(catalog.file_io, catalog.warehouse)
    path = f"{store.root}/latest.jsonl.gz"
    head, first, second = gzip.decompress(catalog.file_io.read(path)).splitlines()

    def stored(*lines: bytes) -> Survey:
        catalog.file_io.overwrite(path, gzip.compress(b"\n".join(lines)))
        found = store.latest()
        assert found is not None
        return found

    assert (len(stored(head, first, b"{", second).tables), stored(head, first, b"{", second).damaged) == (
        2,
        1,
    )
    assert stored(head, b"[" * 100_000, second).damaged == 1
    assert stored(head, b"x" * 300_000, second).tables[0].table == "d.k"
    assert stored(b'{"version": 7}', first).damaged == 1
    whole = gzip.compress(b"\n".join([head, first, second]))
    catalog.file_io.overwrite(path, whole[: len(whole) // 2])
    assert store.latest() is not None
    catalog.file_io.overwrite(path, b"noise")
    cut = store.latest()
    assert cut is not None
    assert (cut.tables, cut.damaged) == ((), 1)
    assert counts(survey(catalog)) == {"ok": 2}  # and the next survey puts it right


def test_a_reader_decodes_a_survey_again_only_when_there_is_a_newer_one(catalog: FilesystemCatalog) -> None:
    put(key_table(catalog), [{"k": 1, "v": "x"}])
    reader = SurveyReader()
    assert reader.latest(catalog) is None
    survey(catalog)
    first, again = reader.latest(catalog), reader.latest(catalog)
    assert first is not None
    assert again is not None
    assert first.tables[0] is again.tables[0]
    put(append_table(catalog), [{"k": 1, "v": "x"}])
    catalog.clock.sleep(3600)
    assert survey(catalog) == reader.latest(catalog) == latest_survey(catalog)
    store = SurveyStore(catalog.file_io, catalog.warehouse)
    catalog.file_io.delete(f"{store.root}/latest.jsonl.gz")
    assert reader.latest(catalog) is None, "a survey that is gone is not shown"


def test_each_day_keeps_its_last_survey_and_old_days_go(catalog: FilesystemCatalog) -> None:
    put(key_table(catalog), [{"k": 1, "v": "x"}])
    store = SurveyStore(catalog.file_io, catalog.warehouse)
    for day in (0, 1, 1, 500):
        store.add(Survey(started_ms=day * DAY_MS + 1, tables=survey(catalog, dry_run=True).tables))
    assert store.days() == ("1971-05-16",)
    assert survey_of_day(catalog, "1971-05-16") is not None
    assert survey_of_day(catalog, "1970-01-02") is None


def test_a_table_that_a_rule_calls_due_has_picks(golden: FilesystemCatalog) -> None:
    from lakecore.jobs import compact

    rules = {"sorted-runs", "small-files", "postponed-files"}
    due = [one.table for one in run(Job(), golden).tables if rules & {d.rule for d in one.deductions}]
    assert len(due) > 15
    idle = []
    for name in due:
        report = compact.run(compact.Job(table=name, dry_run=True), golden)
        if report.nothing_to_do:
            idle.append(name)
    assert idle == []


def test_a_survey_adds_what_was_done_since_the_last_one(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    put(table, *[[{"k": n, "v": "x"}] for n in range(6)])
    first = survey(catalog)
    assert record(first, "d.a").attempts == ()
    assert record(first, "d.a").expected_seconds is not None, "it is due"
    compact.run(compact.Job(table="d.a"), catalog, clock=catalog.clock)
    with pytest.raises(LakeError):
        run_chore(CreateTag(table="d.a", tag="t", snapshot=99), catalog, clock=catalog.clock)
    second = survey(catalog)
    one = record(second, "d.a")
    assert {last.job: last.state for last in one.attempts} == {"compact": "done", "create-tag": "refused"}
    assert one.expected_seconds is None
    (day,) = second.activity
    assert (day.attempts, day.failures) == (3, 1), "the first survey is an attempt, too"
    assert day.core_seconds > 0
    catalog.clock.sleep(3600)
    third = survey(catalog)
    assert record(third, "d.a").attempts == one.attempts
    assert third.activity[0].attempts == 4
    assert latest_survey(catalog) == third
    damaged = third.tables[0].to_json() | {"attempts": [{"job": "x"}]}
    with pytest.raises(ValueError, match="record"):
        TableRecord.from_json(damaged)


def attempt(day: float, state: AttemptState, left: int = 0) -> Attempt:
    figures = {"picks_left": left}
    return Attempt(
        id=f"a{day}", table="d.t", job="compact", state=state, started_ms=int(day * DAY_MS), figures=figures
    )


def test_nights_in_a_row_in_which_a_table_was_left() -> None:
    left, done = AttemptState.LEFT, AttemptState.DONE
    late = lateness_after(Lateness(), [attempt(1, left), attempt(1.1, left), attempt(2, done, left=3)])
    assert late.nights == 2
    assert lateness_after(late, [attempt(2.5, AttemptState.BUSY), attempt(3, left)]).nights == 3
    assert lateness_after(late, [attempt(3, done)]).nights == 0


def test_the_rhythm_of_commits_follows_the_hours() -> None:
    hour = 3_600_000
    rhythm: tuple[float, ...] = ()
    for number in range(1, 24 * 6):
        commits = 30 if number % 24 == 7 else 0
        rhythm = commits_by_hour(rhythm, commits, (number - 1) * hour + 1, number * hour)
    assert max(range(24), key=lambda at: rhythm[at]) in (6, 7)
    assert rhythm[15] < 1 < rhythm[7]


def test_the_first_rhythm_has_the_last_day_with_all_of_its_hours() -> None:
    hour = 3_600_000
    assert commits_by_hour((), 72, 10 * hour, 82 * hour) == (1.0,) * 24
    assert commits_by_hour((), 6, 10 * hour, 12 * hour) == tuple(
        3.0 if at in (10, 11, 12) else 0.0 for at in range(24)
    )
