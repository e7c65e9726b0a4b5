"""This module replays compactions over the commits of a table that are still there.

What writers added enters the buckets; what compactions did is left out, and the pickers of
`lakecore.compact.kinds` choose instead, on metadata alone. A pick whose bucket is as it really was is exact.
After a pick, a merged file stands in the bucket, whose size is an estimate
(`lakecore.jobs.what_if.merge_sizes`). Partitions that would have expired lose their files before the
compaction of the same moment; what is then real are the files that writers added later.

Cost: the manifests of the first snapshot and the delta manifests of the later ones are read once; some 30 us
a file, and for each run some 5 us for each file of a bucket that got files since the last one. All files of
the table are objects in memory, some 1 kB each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from lakecore.clock import SystemClock
from lakecore.compact.engine.planner import PlanContext
from lakecore.compact.engine.strategy import Strategy
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Place
from lakecore.compact.kinds.append.planner import join_request
from lakecore.compact.kinds.primary_key.planner import PrimaryKeyPlanner
from lakecore.compact.kinds.sort.plan import clusters
from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.executor import SerialExecutor
from lakecore.jobs.what_if.buckets import (
    Bucket,
    JoinRules,
    ReplayPick,
    join_picks,
    tree_picks,
)
from lakecore.jobs.what_if.lost_files import LostFiles
from lakecore.jobs.what_if.merge_sizes import MergeSizes, merges_of
from lakecore.jobs.what_if.meter import RunMeter
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.verify.digest.shape import ProofMode

__all__ = [
    "CommitFiles",
    "CompactionHistory",
    "CompactionReplay",
    "PartitionDrop",
    "ReplayRules",
    "ReplayRun",
    "read_commits",
    "replay_compactions",
]

_MOST_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """These are the entries of one commit; for the first one the live files."""

    snapshot: Snapshot
    entries: Sequence[ManifestEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionHistory:
    """This is what the compactions of the history did."""

    commits: tuple[CommitFiles, ...]
    compactions: int
    read_bytes: int
    written_bytes: int
    sizes: MergeSizes
    ingested_bytes: int
    """This is what writers added after the first snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDrop:
    """At this time these partitions, as serialised rows, would have expired. Their expiry would have been
    planned from this snapshot.
    """

    time_ms: int
    snapshot: int
    partitions: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRules:
    """These rules say when compactions run: after each commit of a writer (`times` is None), or then."""

    strategy: Strategy
    times: Sequence[int] | None
    drops: Sequence[PartitionDrop] = ()
    """They are in the order of time, and happen at the same moments: after each commit, or at `times`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """This is one compaction of a replay. `rounds` has its picks by round."""

    time_ms: int
    snapshot: int
    rounds: tuple[tuple[ReplayPick, ...], ...]
    runs_before: int
    """The buckets had so many sorted runs together."""
    runs_after: int

    @property
    def picks(self) -> tuple[ReplayPick, ...]:
        return tuple(pick for picks in self.rounds for pick in picks)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReplay:
    """This is the result of a replay. The runs of readers are per bucket."""

    runs: tuple[ReplayRun, ...]
    average_runs: float
    most_runs: int
    files: int
    """The table has so many files at the end."""
    resets: int
    """So many times a bucket was put back to what it really was, because a commit had replaced single files
    that the replay had merged.
    """


def read_commits(target: RewriteTarget, first: int | None = None) -> CompactionHistory:
    """Read the commits from a snapshot on, by default from the oldest. Raises UnsupportedError for kinds of
    tables whose compactions cannot be replayed, or when a snapshot is missing in between.
    """
    _check(target)
    snapshots = target.stores.snapshots
    ids = [one for one in snapshots.list_ids() if first is None or one >= first]
    gap = next((after for before, after in pairwise(ids) if after != before + 1), None)
    if gap is not None:
        raise UnsupportedError(
            f"{target.name}: snapshot {gap - 1} is missing, so its compactions cannot be replayed"
        )
    commits = [_commit(target, snapshots.load(one), number) for number, one in enumerate(ids)]
    later = commits[1:]
    compactions = [one for one in later if one.snapshot.commit_kind is CommitKind.COMPACT]
    merges = [
        merge
        for one in compactions
        for merge in merges_of(_by_place(one.entries).items(), one.snapshot.time_millis)
    ]
    written = [one for one in later if one.snapshot.commit_kind is not CommitKind.COMPACT]
    return CompactionHistory(
        commits=tuple(commits),
        compactions=len(compactions),
        read_bytes=sum(one.bytes_in for one in merges),
        written_bytes=sum(one.bytes_out for one in merges),
        sizes=MergeSizes(merges, keyed=target.reading.keyed),
        ingested_bytes=sum(
            entry.file.file_size for one in written for entry in one.entries if entry.kind is EntryKind.ADD
        ),
    )


def replay_compactions(
    target: RewriteTarget, history: CompactionHistory, rules: ReplayRules | None, until_ms: int
) -> CompactionReplay:
    """Replay compactions by the options of `target`, up to `until_ms`. Without `rules` the buckets get what
    the compactions of the history did.
    """
    return _Replay(target, history, rules).run(until_ms)


class _Replay:
    def __init__(self, target: RewriteTarget, history: CompactionHistory, rules: ReplayRules | None) -> None:
        self._target, self._history, self._rules = target, history, rules
        self._keyed = target.reading.keyed
        self._buckets: dict[Place, Bucket] = {}
        self._actual: dict[Place, Bucket] = {}
        self._changed: dict[Place, None] = {}
        self._drops = deque(rules.drops if rules is not None else ())
        self._lost = LostFiles()
        self._meter = RunMeter()
        self._runs: list[ReplayRun] = []
        self._number = self._resets = 0

    def run(self, until_ms: int) -> CompactionReplay:
        now_ms, waiting = 0, deque(time for time in self._times() if time <= until_ms)
        last: Snapshot | None = None
        for number, commit in enumerate(self._history.commits):
            now_ms = max(now_ms, commit.snapshot.time_millis)
            while last is not None and waiting and waiting[0] < now_ms:
                self._maintain(waiting.popleft(), last)
            self._meter.at(now_ms)
            self._commit(commit, first=not number)
            last = commit.snapshot
            if self._rules is not None and self._rules.times is None:
                self._expire(now_ms, last)
                if commit.snapshot.commit_kind is not CommitKind.COMPACT or not number:
                    self._compact(now_ms, last)
        for time in waiting:
            if last is not None:
                self._maintain(time, last)
        self._meter.at(until_ms)
        return CompactionReplay(
            runs=tuple(self._runs),
            average_runs=round(self._meter.runs_by_time, 3),
            most_runs=self._meter.most,
            files=sum(len(bucket.files) for bucket in self._buckets.values()),
            resets=self._resets,
        )

    def _times(self) -> Iterable[int]:
        if self._rules is None or self._rules.times is None:
            return ()
        return self._rules.times

    def _commit(self, commit: CommitFiles, *, first: bool) -> None:
        """Let a commit change the buckets. Those of the replay get what writers added."""
        compacts = commit.snapshot.commit_kind is CommitKind.COMPACT
        for place, raw in _by_place(commit.entries).items():
            entries = self._lost.left_of(place, raw, compacts=compacts)
            actual = self._actual.setdefault(place, Bucket(place))
            bucket = self._buckets.setdefault(place, Bucket(place))
            same = bucket.is_like(actual)
            actual.apply(entries)
            if self._rules is None or (first and same):
                bucket.files = list(actual.files)
            elif compacts:
                continue
            elif same or all(entry.kind is EntryKind.ADD for entry in entries):
                bucket.apply(entries)
            else:
                self._resets += bool(actual.files)
                bucket.files = list(actual.files)
            self._changed[place] = None
            self._meter.set(place, bucket.runs(keyed=self._keyed))

    def _maintain(self, now_ms: int, snapshot: Snapshot) -> None:
        self._expire(now_ms, snapshot)
        self._compact(now_ms, snapshot)

    def _expire(self, now_ms: int, snapshot: Snapshot) -> None:
        """Take the files of the partitions that expire at this moment out of the buckets."""
        drops = self._drops
        while drops and (drops[0].snapshot, drops[0].time_ms) <= (snapshot.id, now_ms):
            expired = drops.popleft().partitions
            for place, actual in self._actual.items():
                if place.partition in expired:
                    self._lost.add(place, actual.files)
                    actual.files, self._buckets[place].files = [], []
                    self._meter.set(place, 0)

    def _compact(self, now_ms: int, snapshot: Snapshot) -> None:
        """Run one compaction on the buckets that changed since the last one."""
        self._meter.at(now_ms)
        choose = self._chooser(now_ms, snapshot)
        before, rounds = self._meter.total, []
        places = list(self._buckets if self._depends_on_time else self._changed)
        self._changed.clear()
        for _ in range(self._most_rounds):
            picks = [pick for place in places for pick in choose(self._buckets[place])]
            if not picks:
                break
            rounds.append(tuple(picks))
            for pick in picks:
                self._buckets[pick.place].put_in_place(pick)
            places = list(dict.fromkeys(pick.place for pick in picks))
            for place in places:
                self._meter.set(place, self._buckets[place].runs(keyed=self._keyed))
        if rounds:
            run = ReplayRun(
                time_ms=now_ms,
                snapshot=snapshot.id,
                rounds=tuple(rounds),
                runs_before=before,
                runs_after=self._meter.total,
            )
            self._runs.append(run)

    def _chooser(self, now_ms: int, snapshot: Snapshot) -> _Chooser:
        strategy = self._rules.strategy if self._rules is not None else Strategy.UNIVERSAL
        stores = replace(self._target.stores, clock=_Moment(now_ms))
        target = RewriteTarget(self._target.name, stores, self._target.overrides)
        return _Chooser(self, target, strategy, snapshot)

    @property
    def _depends_on_time(self) -> bool:
        """Return whether a bucket may be due although it did not change."""
        raw = self._target.reading.schema.options
        full = self._rules is not None and self._rules.strategy is Strategy.FULL
        timed = (
            "compaction.optimization-interval",
            "compaction.offpeak.start.hour",
            "record-level.expire-time",
        )
        return full or any(key in raw for key in timed)

    @property
    def _most_rounds(self) -> int:
        full = self._rules is not None and self._rules.strategy is Strategy.FULL
        return 1 if full and self._keyed else _MOST_ROUNDS


class _Chooser:
    """It chooses the picks of buckets at one moment, with the picker of the table."""

    def __init__(
        self, replay: _Replay, target: RewriteTarget, strategy: Strategy, snapshot: Snapshot
    ) -> None:
        self._replay = replay
        deletions = target.scanner.deletions(snapshot)
        now_ms = target.clock.now_ms()
        if replay._keyed:
            context = PlanContext(
                target=target, strategy=strategy, proof=ProofMode.KEYS, executor=SerialExecutor()
            )
            self._request = PrimaryKeyPlanner(context).request(deletions)
        else:
            self._rules = JoinRules(join_request(target, strategy), deletions, now_ms)

    def __call__(self, bucket: Bucket) -> Iterator[ReplayPick]:
        replay = self._replay
        replay._number += 1
        sizes, number = replay._history.sizes, replay._number
        if replay._keyed:
            picks = tree_picks(bucket, self._request, sizes, number)
        else:
            picks = join_picks(bucket, self._rules, sizes, number)
        actual = replay._actual.get(bucket.place)
        exact = actual is not None and bucket.is_like(actual) and not replay._lost.mixed(bucket.place)
        yield from (replace(pick, exact=exact) for pick in picks)


class _Moment(SystemClock):
    """This clock stands still."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


def _commit(target: RewriteTarget, snapshot: Snapshot, number: int) -> CommitFiles:
    if not number:
        keys = target.reading.keyed
        return CommitFiles(snapshot, target.scanner.live_entries(snapshot, keys=keys).rows())
    manifests = target.stores.manifests
    return CommitFiles(snapshot, manifests.read(manifests.read_list(snapshot.delta_manifest_list)).rows())


def _by_place(entries: Iterable[ManifestEntry]) -> dict[Place, list[ManifestEntry]]:
    places: dict[Place, list[ManifestEntry]] = {}
    for one in entries:
        places.setdefault(Place(one.partition, one.bucket, one.total_buckets), []).append(one)
    return places


def _check(target: RewriteTarget) -> None:
    """Raise UnsupportedError for tables that other rules compact."""
    options = target.reading.options
    kind = ""
    if options.pk_clustering_override:
        kind = "whose rows are clustered in another order than the key's"
    elif options.data_evolution:
        kind = "with data evolution"
    elif options.bucket_mode is BucketMode.POSTPONE:
        kind = "with postponed buckets"
    elif clusters(target.reading.schema):
        kind = "with clustering"
    if kind:
        raise UnsupportedError(f"{target.name}: compactions of tables {kind} cannot be replayed")
