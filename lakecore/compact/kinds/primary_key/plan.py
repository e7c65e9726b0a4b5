"""This module decides which files of which buckets are merged, and where to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.compact.engine.work import Place, Strategy
from lakecore.compact.kinds.primary_key.mode import Derivation, MergeMode
from lakecore.data_class import dataclass
from lakecore.lsm import full, universal
from lakecore.lsm.bucket_columns import BucketColumns
from lakecore.lsm.options import TreePolicy
from lakecore.lsm.rewrites import OutputRules, PickWork, divide, worth_doing
from lakecore.lsm.runs import LevelRun, Pick, drops_deletes, level_runs, number_of_levels
from lakecore.lsm.sections import KeyOf, Section
from lakecore.metadata.key_numbers import key_numbers
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.scan.change_scanner import Deletions
from lakecore.types.datatypes import RowType

__all__ = ["BucketPick", "PickRequest", "pick_runs", "plan_bucket", "plan_picks"]

Ints: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRequest:
    """The rules for picks. `hour` is that of the local day, for off-peak hours; `now_ms` counts since the
    epoch.

    `mode` is what compactions of the table make besides new files. `deletions` are the vectors of all its
    files. `expired` tells whether a file has rows that are too old; None: rows never are.
    """

    strategy: Strategy
    policy: TreePolicy
    key_of: KeyOf
    now_ms: int
    hour: int = 0
    mode: MergeMode = field(default_factory=MergeMode)
    deletions: Deletions = field(default_factory=dict)
    expired: Callable[[DataFile], bool] | None = None
    key_type: RowType | None = None
    """The type of the keys that `key_of` orders; with it, keys of many files are compared as numbers."""

    @property
    def needs_files(self) -> bool:
        """Return whether picks depend on more than the sizes, levels and keys of files."""
        timed = self.strategy is not Strategy.FULL and self.policy.early_full.interval_ms is not None
        return timed or self.expired is not None

    def has_deletions(self, place: Place, file: DataFile) -> bool:
        """Return whether some rows of the file are deleted."""
        return (place.partition, place.bucket, file.file_name) in self.deletions

    def thins_out(self, place: Place, file: DataFile) -> bool:
        """Return whether a full compaction removes rows from the file, although it overlaps nothing."""
        deleted = self.mode.marks and self.has_deletions(place, file)
        return deleted or (self.expired is not None and self.expired(file))


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPick:
    """The pick of one bucket: `work` tells which files merge and which move to `output_level`.

    `derivation` is the source of changes in this pick. `above` are, by level from the one after the output
    on, the files that may have old rows of its keys.
    """

    place: Place
    output_level: int
    reason: str
    drop_deletes: bool
    work: PickWork
    max_level: int = 0
    derivation: Derivation = Derivation.NONE
    above: tuple[tuple[DataFile, ...], ...] = ()

    @property
    def newest_schema(self) -> int:
        """Return the highest schema id among the files whose rows the pick may read."""
        sections = (section for stretch in self.work.rewrites for section in stretch)
        rewritten = (file for section in sections for file in section.files)
        searched_files = (file for level in self.above for file in level)
        return max(
            (file.schema_id for file in (*rewritten, *self.work.announced, *searched_files)), default=0
        )


def plan_picks(entries: ManifestEntries, request: PickRequest) -> tuple[BucketPick, ...]:
    """Return the picks of all buckets among live `entries`, in their order; buckets in shape have none."""
    picks = []
    for place, files, key_of in _buckets(entries, request):
        picked = plan_bucket(place, files, request, key_of)
        if picked is not None:
            picks.append(picked)
    return tuple(picks)


def plan_bucket(
    place: Place, files: list[DataFile], request: PickRequest, key_of: KeyOf | None = None
) -> BucketPick | None:
    """Return the pick of one bucket, given all its live files, or None when there is nothing to do.

    `key_of` orders the keys of these files; None: that of the request does.
    """
    runs = level_runs(files)
    max_level = number_of_levels(runs, request.policy.num_levels) - 1
    chosen = pick_runs(runs, max_level, request)
    if chosen is None:
        return _plan_alone(place, runs, max_level, request)
    members = [file for run in runs[: chosen.count] for file in run.files]
    force = request.policy.force_rewrite and request.strategy is Strategy.FULL
    if not force and not worth_doing(members, chosen.output_level):
        return None
    rules = OutputRules(
        output_level=chosen.output_level,
        max_level=max_level,
        small_file_size=request.policy.small_file_size,
        force_rewrite=force,
        upgrade=lambda file: request.mode.upgrade(file, chosen.output_level, max_level),
        expired=request.expired or (lambda _: False),
    )
    work = divide(members, key_of or request.key_of, rules)
    if not work.rewrites and not work.upgrades:
        return None
    return BucketPick(
        place=place,
        output_level=chosen.output_level,
        reason=chosen.reason,
        drop_deletes=request.mode.marks or drops_deletes(runs, chosen.output_level),
        work=work,
        max_level=max_level,
        derivation=_derivation(request.mode, chosen.output_level, max_level),
        above=_above(runs, chosen) if request.mode.looks_up else (),
    )


def _plan_alone(
    place: Place, runs: tuple[LevelRun, ...], max_level: int, request: PickRequest
) -> BucketPick | None:
    """Return the pick of single files. Rule of the format: a full compaction of one run rewrites its files
    with deleted or expired rows, each alone.
    """
    if request.strategy is not Strategy.FULL:
        return None
    files = [file for run in runs for file in run.files if request.thins_out(place, file)]
    if not files:
        return None
    return BucketPick(
        place=place,
        output_level=max_level,
        reason="full",
        drop_deletes=True,
        work=PickWork(tuple((Section(((file,),)),) for file in files), ()),
        max_level=max_level,
        derivation=request.mode.derivation,
    )


def _derivation(mode: MergeMode, output_level: int, max_level: int) -> Derivation:
    """Return the source of old rows. Rule of the format: a full-compaction producer emits changes of
    compactions to the last level only.
    """
    if mode.derivation is Derivation.FULL and output_level != max_level:
        return Derivation.NONE
    return mode.derivation


def _above(runs: tuple[LevelRun, ...], chosen: Pick) -> tuple[tuple[DataFile, ...], ...]:
    """Return the runs that stay: all of them are above the output, and are older."""
    return tuple(run.files for run in runs[chosen.count :])


def _last_full_ms(runs: tuple[LevelRun, ...], max_level: int) -> int | None:
    """Return when the last level got its newest file, in milliseconds; None if it has none.

    Only compactions of all runs write there. Paimon's writers remember the time themselves, from their start
    on. Files have the wall clock of the machine that wrote them: one that is ahead delays a full compaction
    by as much.
    """
    times = [file.creation_time for run in runs if run.level == max_level for file in run.files]
    return max((time for time in times if time is not None), default=None)


def pick_runs(runs: tuple[LevelRun, ...], max_level: int, request: PickRequest) -> Pick | None:
    """Return the rule's pick among the runs of a bucket, newest first."""
    policy = request.policy
    if request.strategy is Strategy.FULL:
        return full.pick(runs, max_level, force_rewrite=policy.force_rewrite)
    early = universal.early_full(
        runs, policy.early_full, max_level, request.now_ms, _last_full_ms(runs, max_level)
    )
    if early is not None:
        return early
    fresh = sum(run.level == 0 for run in runs)
    forced = policy.force_level_0 and fresh >= policy.level_0_files
    rule = universal.force_level_0 if forced else universal.pick
    return rule(runs, policy.universal.at_hour(request.hour), max_level)


def _buckets(
    entries: ManifestEntries, request: PickRequest
) -> Iterator[tuple[Place, list[DataFile], KeyOf | None]]:
    """Yield buckets that may have something to do, with the order of their keys. Files become objects only
    for these.
    """
    columns = BucketColumns.of(entries)
    needed = _may_need_work(columns, request)
    marked = {(partition, bucket) for partition, bucket, _ in request.deletions}
    buckets = [
        columns.lanes(number)
        for number, needs in enumerate(needed.tolist())
        if needs or columns.is_one_of(number, marked)
    ]
    numbers = _key_numbers(entries, buckets, request.key_type)
    for lanes, files, keys in zip(buckets, entries.files_of(buckets), numbers, strict=True):
        first = int(lanes[0])
        total = int(entries.total_buckets[first])
        place = Place(entries.partition_of(first), int(entries.bucket[first]), total)
        yield place, files, None if keys is None else _number_order(files, *keys)


def _key_numbers(
    entries: ManifestEntries, buckets: Sequence[Ints], key_type: RowType | None
) -> Iterable[tuple[Ints, Ints] | None]:
    """Return the lowest and highest keys of the files of each bucket as numbers; None where they are not
    known.
    """
    if key_type is None or not buckets:
        return repeat(None, len(buckets))
    keys = entries.select(np.concatenate(buckets)).keys()
    numbers = None if keys is None else key_numbers(*keys, key_type)
    if numbers is None:
        return repeat(None, len(buckets))
    ends = np.cumsum([len(lanes) for lanes in buckets])[:-1]
    return zip(np.split(numbers[0], ends), np.split(numbers[1], ends), strict=True)


def _number_order(files: Sequence[DataFile], low: Ints, high: Ints) -> KeyOf:
    """Return what orders the keys of these files, whose numbers are known."""
    numbers = {file.min_key: number for file, number in zip(files, low.tolist(), strict=True)}
    numbers |= {file.max_key: number for file, number in zip(files, high.tolist(), strict=True)}
    return numbers.__getitem__


def _may_need_work(columns: BucketColumns, request: PickRequest) -> Mask:
    """Return which buckets may have a pick; in doubt one may. Buckets with deletions may have one besides."""
    always = request.strategy is Strategy.FULL and request.expired is not None
    needed = columns.runs.undecided | always
    others = np.flatnonzero(~needed)
    for number, runs in zip(others.tolist(), columns.runs.runs_of(others), strict=True):
        max_level = number_of_levels(runs, request.policy.num_levels) - 1
        needed[number] = pick_runs(runs, max_level, request) is not None
    return needed
