"""A replay is judged by the chore itself: on a copy that is rolled forward, each run removes what the replay says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import InvalidInputError
from lakecore.jobs import compact, expire_changelogs, expire_snapshots, what_if
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.versions import branches, tags
from lakecore.jobs.what_if import Job
from lakecore.jobs.what_if.expiry import expiry_rules, history_of
from lakecore.maintain.replay.plan import ExpiryStep, replay_expiry
from lakecore.metadata.manifest.byte_words import hash_bytes
from tests.support.fake_clock import FakeClock
from tests.support.lake import append_table, key_table, memory_catalog, paths_of, put
from tests.support.rolled import RolledTable

HOUR = 3_600_000


@dataclass
class Case:
    """A lake with one table whose commits are an hour apart."""

    name: str
    catalog: Any
    table: Any
    tags: dict[str, int]

    @property
    def clock(self) -> FakeClock:
        clock: FakeClock = self.catalog.clock
        return clock


def keyed(**options: str) -> Case:
    """Ten writes, two full compactions, changelogs, an index; tags of snapshots 2, 5 and 6 (for two hours and a half)."""
    catalog = memory_catalog("what-if")
    table = key_table(catalog, changelog_producer="input", file_index__bloom_filter__columns="v", **options)
    case = Case(table.name, catalog, table, {})
    for number in range(10):
        case.clock.time_ms += HOUR
        put(table, [{"k": number % 4, "v": f"v{number}"}, {"k": 9, "v": f"new{number}"}])
        if number in (3, 7):
            case.clock.time_ms += 1000
            job = compact.Job(table=table.name, strategy=compact.Strategy.FULL, commit_identifier=number)
            compact.run(job, catalog, clock=catalog.clock)
        for tag, snapshot, at, retained in (("a", 2, 1, None), ("b", 5, 4, None), ("c", 6, 5, 5 * HOUR // 2)):
            if number == at:
                made = tags.CreateTag(table=table.name, tag=tag, snapshot=snapshot, time_retained_ms=retained)
                tags.run(made, catalog, clock=catalog.clock)
                case.tags[tag] = int(case.clock.time_ms)
    return case


def appended(**options: str) -> Case:
    """Writes, overwrites and joins of an append table."""
    catalog = memory_catalog("what-if")
    table = append_table(catalog, write_only="true", **options)
    for number in range(9):
        catalog.clock.time_ms += HOUR
        rows = [{"v": number, "p": "x"}]
        if number == 4:
            table.overwrite(pa.Table.from_pylist(rows))
        else:
            put(table, rows)
        if number in (3, 8):
            compact.run(
                compact.Job(table=table.name, strategy=compact.Strategy.FULL, commit_identifier=number),
                catalog,
                clock=catalog.clock,
            )
    return Case(table.name, catalog, table, {})


CASES = {
    "keyed": (keyed, {}),
    "changelogs that live longer": (
        keyed,
        {"changelog__num_retained__max": "1000", "changelog__num_retained__min": "900"},
    ),
    "changelogs that expire": (
        keyed,
        {"changelog__num_retained__max": "6", "changelog__num_retained__min": "3"},
    ),
    "changelogs that expire by time": (
        keyed,
        {"changelog__time_retained": "5 h", "changelog__num_retained__min": "1"},
    ),
    "append": (appended, {}),
}
LIMITS = {
    "newest three": {"snapshot.num-retained.max": "3", "snapshot.num-retained.min": "1"},
    "four hours": {"snapshot.time-retained": "4 h", "snapshot.num-retained.min": "2"},
    "one at a time": {
        "snapshot.num-retained.max": "2",
        "snapshot.num-retained.min": "1",
        "snapshot.expire.limit": "1",
    },
}


@dataclass(frozen=True)
class Run:
    """What a run removed: ids of snapshots, tags, the number of files, their bytes, and the paths that are gone."""

    snapshots: tuple[int, ...]
    tags: tuple[str, ...]
    changelogs: tuple[int, ...]
    files: int
    bytes: int
    gone: frozenset[str]


def real_runs(case: Case, options: Mapping[str, str]) -> list[Run]:
    """Roll the table forward, and let the chores run after each commit."""
    rolled = RolledTable.of(case.catalog, case.table, case.tags)
    runs = []
    for _ in rolled.forward():
        before = rolled.files()
        ended = tags.run(tags.ExpireTags(table=case.name), case.catalog, clock=case.clock)
        job = expire_snapshots.Job(table=case.name, options=dict(options))
        expired = expire_snapshots.run(job, case.catalog, clock=case.clock)
        later = expire_changelogs.Job(table=case.name, options=dict(options))
        old = expire_changelogs.run(later, case.catalog, clock=case.clock)
        if ended.names or expired.snapshots or old.snapshots:
            gone = frozenset(before - rolled.files())
            parts = (ended, expired, old)
            files, size = sum(one.files for one in parts), sum(one.bytes for one in parts)
            runs.append(Run(expired.snapshots, ended.names, old.snapshots, files, size, gone))
    return runs


def replayed_steps(case: Case, options: Mapping[str, str]) -> tuple[ExpiryStep, ...]:
    target = target_of(case.catalog.load_table(case.name, options), case.catalog, case.clock)
    history = history_of(target)
    return replay_expiry(history, expiry_rules(target, {}), None, case.clock.now_ms()).steps


def hashes(paths: frozenset[str], step: ExpiryStep) -> set[int]:
    """The paths as a replay names them: data files by name, metadata by path. Files of snapshots and tags have none."""
    names = set(step.names.tolist())
    found = set()
    for path in paths:
        if "/snapshot/" in path or "/tag/" in path or "/changelog/" in path:
            continue
        ways = hash_bytes([path.rpartition("/")[2].encode(), path.encode()]).tolist()
        found.add(next((way for way in ways if way in names), ways[0]))
    return found


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize(("make", "options"), CASES.values(), ids=CASES)
def test_each_run_removes_what_the_replay_says(
    make: Callable[..., Case], options: dict[str, str], limits: dict[str, str]
) -> None:
    case = make(**options)
    steps = replayed_steps(case, limits)
    runs = real_runs(case, limits)
    assert [(one.snapshots, one.tags, one.changelogs) for one in steps] == [
        (one.snapshots, one.tags, one.changelogs) for one in runs
    ]
    for step, run in zip(steps, runs, strict=True):
        assert hashes(run.gone, step) == set(step.names.tolist())
        if not (run.tags or run.changelogs):  # these chores also count files that went before
            assert (step.files, step.bytes) == (run.files, run.bytes)
    assert runs


def test_a_branch_a_consumer_and_the_quarantine_hold_what_they_need() -> None:
    case = keyed()
    branch = branches.CreateBranch(table=case.name, branch="b1", tag="b")
    branches.run(branch, case.catalog, clock=case.clock)
    consumer = case.table._stores.paths.consumer_dir + "/consumer-reader"
    case.catalog.file_io.write_new(consumer, b'{"nextSnapshot": 7}')
    deleted = tags.DeleteTag(table=case.name, tags=("a", "c"))
    tags.run(deleted, case.catalog, clock=case.clock)  # their snapshots are in the quarantine
    limits = LIMITS["newest three"]
    report = what_if.run(Job(table=case.name, options=limits), case.catalog, clock=case.clock)
    asked = report.expiry[-1]
    job = expire_snapshots.Job(table=case.name, options=limits)
    expired = expire_snapshots.run(job, case.catalog, clock=case.clock)
    assert (asked.removed_files, asked.removed_bytes) == (expired.files, expired.bytes)
    assert asked.expired_snapshots == len(expired.snapshots) == 6
    assert "consumer reader" in asked.blocker
    assert asked.holdings[0].name == "the quarantine"


def test_what_was_points_and_what_it_would_have_been() -> None:
    case = keyed()
    job = Job(table=case.name, options=LIMITS["newest three"], every_ms=HOUR)
    report = what_if.run(job, case.catalog, clock=case.clock)
    kept, own, asked = report.expiry
    assert [one.variant for one in report.expiry] == [
        "no expiry",
        "the table's options",
        "the options of the question",
    ]
    assert (kept.snapshots, own.snapshots, asked.snapshots) == (12, 11, 2), "the last run is before a commit"
    assert kept.bytes > own.bytes > asked.bytes
    assert kept.bytes == asked.bytes + asked.removed_bytes == own.bytes + own.removed_bytes
    assert asked.peak_bytes <= kept.bytes
    assert all(run.time_ms % HOUR == 0 for run in asked.runs)
    assert [run.last_snapshot for run in asked.runs][:2] == [1, 2]


def test_a_tag_of_an_expired_snapshot_could_not_have_been_created() -> None:
    case = keyed()
    case.clock.time_ms += HOUR
    tags.run(tags.CreateTag(table=case.name, tag="late", snapshot=3), case.catalog, clock=case.clock)
    job = Job(table=case.name, options=LIMITS["newest three"])
    late = what_if.run(job, case.catalog, clock=case.clock).expiry[-1]
    assert late.impossible_tags == ()  # its time is not recorded
    made = tags.CreateTag(table=case.name, tag="timed", snapshot=3, time_retained_ms=HOUR)
    tags.run(made, case.catalog, clock=case.clock)
    asked = what_if.run(job, case.catalog, clock=case.clock).expiry[-1]
    assert asked.impossible_tags == ("tag timed",)


def test_all_tags_may_get_another_time() -> None:
    case = keyed()
    job = Job(table=case.name, options={"tag.default-time-retained": "1 h"})
    asked = what_if.run(job, case.catalog, clock=case.clock).expiry[-1]
    assert [tag for run in asked.runs for tag in run.tags] == ["c"], "only one tag has a recorded time"


def tagged_daily(**options: str) -> Case:
    """Ten days with a commit and its automatic tag each; the last limits expire snapshots after each commit."""
    catalog = memory_catalog("what-if")
    raw = {"tag__automatic_creation": "process-time", "compaction__min__file_num": "100"}
    table = append_table(catalog, **raw, **options)
    case = Case(table.name, catalog, table, {})
    for number in range(10):
        case.clock.time_ms += 24 * HOUR
        put(table, [{"v": number, "p": "x"}])
        if options:
            expire_snapshots.run(expire_snapshots.Job(table=case.name), catalog, clock=catalog.clock)
    return case


def test_fewer_automatic_tags_keep_what_a_table_with_this_option_keeps() -> None:
    limits = {**LIMITS["newest three"], "tag.num-retained-max": "2"}
    case = tagged_daily()
    every = case.table._stores.tags.list()
    report = what_if.run(Job(table=case.name, options=limits), case.catalog, clock=case.clock)
    asked = report.expiry[-1]
    assert any("automatic tags that were deleted" in one for one in report.assumptions)
    own_options = {key.replace(".", "__").replace("-", "_"): value for key, value in limits.items()}
    real = tagged_daily(**own_options)
    left = real.table._stores.tags.list()
    assert (len(every), len(left)) == (10, 2)
    assert [tag for run in asked.runs for tag in run.tags] == sorted(set(every) - set(left))
    assert asked.files == len([path for path in real_files(real) if "/tag/" not in path])


def real_files(case: Case) -> set[str]:
    """The files that the replay counts: without schemas and hints."""
    return {
        path
        for path in paths_of(case.table, "")
        if "/schema/" not in path and not path.endswith(("LATEST", "EARLIEST"))
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"bucket": "3"}}, "option 'bucket' changes nothing in a replay"),
        ({"chores": ("fsck",)}, "chore 'fsck' cannot be replayed"),
        ({"every_ms": 1}, "use at least one minute"),
        ({"options": {"snapshot.num-retained.max": "1"}}, "retain-max 1 is less than retain-min 10"),
        ({"options": {"tag.num-retained-max": "2"}}, "the table makes no automatic tags"),
        ({"policy": "["}, "write a list of rules as JSON"),
        ({"policy": [{"tables": ["d.k"], "chores": {"fsck": {}}}]}, "no chore for d.k that can be replayed"),
        (
            {"policy": [{"tables": ["d.k"], "chores": {"expire-snapshots": {"by-successor": True}}}]},
            "parameter 'by-successor' cannot be replayed",
        ),
    ],
    ids=["option", "chore", "time", "limits", "no tags", "JSON", "policy without a chore", "parameter"],
)
def test_what_cannot_be_replayed_is_refused(fields: dict[str, Any], message: str) -> None:
    catalog = memory_catalog("what-if")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    with pytest.raises(InvalidInputError, match=message):
        what_if.run(Job(table="d.k", **fields), catalog, clock=catalog.clock)


def test_a_policy_gives_the_options() -> None:
    case = keyed()
    rules = [
        {
            "tables": ["d.*"],
            "chores": {"expire-snapshots": {"retain-max": 3, "retain_min": 1}, "remove-orphan-files": {}},
        }
    ]
    by_policy = what_if.run(Job(table=case.name, policy=rules), case.catalog, clock=case.clock)
    by_options = what_if.run(
        Job(table=case.name, options=LIMITS["newest three"]), case.catalog, clock=case.clock
    )
    assert by_policy.expiry[-1].runs == by_options.expiry[-1].runs
    assert by_policy.notes == ("not replayed: remove-orphan-files",)


def test_a_table_without_snapshots() -> None:
    catalog = memory_catalog("what-if")
    key_table(catalog)
    report = what_if.run(Job(table="d.k"), catalog, clock=catalog.clock)
    assert [(one.files, one.snapshots) for one in report.expiry] == [(0, 0), (0, 0)]


def test_a_policy_may_name_the_limits_of_changelogs() -> None:
    case = keyed(changelog__num_retained__max="1000", changelog__num_retained__min="900")
    chores = {"expire-snapshots": {"retain-max": 3, "retain-min": 1}, "expire-changelogs": {}}
    policy = [
        {"tables": ["d.k"], "chores": chores | {"expire-changelogs": {"retain-max": 6, "retain-min": 2}}}
    ]
    report = what_if.run(Job(table=case.name, policy=policy), case.catalog, clock=case.clock)
    assert report.options["changelog.num-retained.max"] == "6"
    assert not report.notes
    own, asked = report.expiry[1:]
    assert (own.expired_changelogs, asked.expired_changelogs) == (0, 9), (
        "all but the last are older than an hour"
    )
    refused = [{"tables": ["d.k"], "chores": chores | {"expire-changelogs": {"max-deletes": 5}}}]
    with pytest.raises(
        InvalidInputError, match="expire-changelogs: parameter 'max-deletes' cannot be replayed"
    ):
        what_if.run(Job(table=case.name, policy=refused), case.catalog, clock=case.clock)
