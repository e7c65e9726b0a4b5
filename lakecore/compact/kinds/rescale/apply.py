"""This module rescales a table: it plans from the latest snapshot, moves rows, proves, commits, and plans
again what others changed.

Promises: a partition gets its new number of buckets whole or not at all, only when its proof holds and only
while it holds just the files that were read. Partitions that have the number already are left alone, so a run
that is started again goes on where it stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from lakecore.compact.engine.attempt_files import AttemptFiles
from lakecore.compact.engine.commit_loop import CommitLoopResult
from lakecore.compact.engine.refusal import PickFailure, failure_of
from lakecore.compact.engine.request import RunName
from lakecore.compact.engine.run_commits import CommitPlan, RunCommits, unit_results
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Place, UnitTable, place_name
from lakecore.compact.kinds.rescale.commit import RescaleCommits, RescaledPartition
from lakecore.compact.kinds.rescale.plan import (
    BucketGroup,
    RescalePick,
    bucket_groups,
    layers_of,
    plan_rescale,
    target_count,
)
from lakecore.compact.kinds.rescale.run import RescaleResult, RescaleUnit, run_unit
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, LakeError
from lakecore.executor import Executor
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.scan.support import check_rescalable
from lakecore.store.external_places import check_external_paths
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.proof.pick_proof import PickProof, prove_pick
from lakecore.verify.proof.rescaled import BucketRule
from lakecore.verify.proof.second_decoder import SecondDecoders

__all__ = ["RescaleOutcome", "RescaleRequest", "RescaleRun"]

logger = logging.getLogger(__name__)

COMMIT_PICKS = 64
"""One commit has at most so many partitions."""
_MAX_ROUNDS = 4
_MOST_TARGETS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleRequest:
    """This is a request to rescale a table."""

    run: RunName
    buckets: int | None
    """This is the new number of buckets; None means option `bucket`."""
    where: ScanFilter = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleOutcome:
    """These are figures of what is committed."""

    partitions: tuple[str, ...] = ()
    """These partitions, by name, were rescaled."""
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows: int = 0
    snapshots: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()
    """Other writers still wrote to these partitions."""
    remaining: tuple[str, ...] = ()
    """These partitions were not rescaled before the run's time was over."""
    proofs: tuple[PickProof, ...] = ()
    decoded: str = ""
    """It says which formats a second decoder read, and how many rows."""


@dataclass(frozen=True, slots=True)
class _Round:
    """A round that moves picks, as planned from `snapshot`."""

    picks: tuple[RescalePick, ...]
    table: UnitTable
    snapshot: Snapshot
    file_prefix: str


class RescaleRun:
    """One run over one table, with what it saw and did, also after an exception.

    `planned`: at the start. `count`: buckets that partitions get. `alive` is called as units come back.
    """

    def __init__(
        self, target: RewriteTarget, request: RescaleRequest, alive: Callable[[], None] = lambda: None
    ) -> None:
        self._alive = alive
        self._target = target
        self._request = request
        self._commits = RunCommits(target, request.run, CommitKind.OVERWRITE)
        seed = f"{request.run.commit_user} {request.run.identifier}"
        self._decoders = SecondDecoders(target.reading.file_io, seed)
        self._new_paths: set[str] = set()
        self._directories: set[str] = set()
        self._failures: list[PickFailure] = []
        self.count = 0
        self.planned: tuple[RescalePick, ...] = ()
        self.outcome = RescaleOutcome()

    def plan(self) -> tuple[RescalePick, ...]:
        """Return the work; nothing is written. Raises UnsupportedError, InvalidInputError."""
        self.planned = self._picks(self._start(), self._request.where)[0]
        return self.planned

    def names(self) -> tuple[str, ...]:
        """Return what is planned, as in `dt=a: 2 -> 4 buckets`."""
        return tuple(
            f"{self._name(pick)}: {pick.old_total} -> {pick.new_total} buckets" for pick in self.planned
        )

    def run(self, executor: Executor) -> None:
        """Do it. A failed unit and a refused proof fail their partition only: the rest is committed, then the
        most severe failure is raised. Raises UnsupportedError, InvalidInputError before anything is touched;
        else what units and commits raise.
        """
        target, commits = self._target, self._commits
        snapshot = self._start()
        names = commits.names((target.reading.options.data_file_prefix,))
        whole = False
        try:
            self._rounds(snapshot, names, executor)
            whole = not self._failures and not commits.stopped and executor.name == "local"
        finally:
            searched = () if whole else sorted(self._directories)  # attempts may have died
            commits.clean(sorted(self._new_paths), searched, lambda name: name.startswith(names.own))
        if self.outcome.snapshots and self._request.run.has_name:
            directories = target.reading.directories_of_new_files(sorted(self._directories))
            names.remove_older(target.stores.manifests, directories, commits.earlier, commits.published)
        if self._failures:
            raise failure_of(target.name, self._failures)

    def _start(self) -> Snapshot | None:
        """Return the snapshot to plan from, after all checks."""
        reading = self._target.reading
        self.count = target_count(self._target.name, reading.options, self._request.buckets)
        check_rescalable(self._target.name, reading.schema, reading.options)
        check_external_paths(self._target.name, reading.schema.options, reading.file_io)
        snapshot = self._target.stores.snapshots.latest()
        if snapshot is not None:
            self._commits.look_back(snapshot)
        return snapshot

    def _picks(
        self, snapshot: Snapshot | None, where: ScanFilter
    ) -> tuple[tuple[RescalePick, ...], ManifestEntries]:
        """Return the partitions to rescale, and their live entries."""
        if snapshot is None:
            return (), ManifestEntries.empty()
        scanner = self._target.scanner
        entries = scanner.live_entries(snapshot, where)
        picks = plan_rescale(entries, self.count, scanner.deletions(snapshot))
        newest = max((file.schema_id for pick in picks for file in pick.all_files), default=0)
        if newest > self._target.reading.schema.id:
            raise CommitConflictError(
                f"{self._target.name}: its schema was changed during the rescaling; run again"
            )
        return picks, entries

    def _rounds(self, snapshot: Snapshot | None, names: AttemptFiles, executor: Executor) -> None:
        where = self._request.where
        for number in range(_MAX_ROUNDS):
            picks, entries = self._picks(snapshot, where)
            self.planned = picks if number == 0 else self.planned
            if not picks or snapshot is None:
                return
            lost = self._round(_Round(picks, self._unit_table(entries), snapshot, names.own[0]), executor)
            if self._commits.stopped:
                self.outcome = replace(self.outcome, remaining=self._undone(picks))
            if not lost or self._commits.stopped:
                return
            where = replace(self._request.where, serialized=frozenset(pick.partition for pick in lost))
            snapshot = self._target.stores.snapshots.latest()
        given_up = tuple(self._name(pick) for pick in lost)
        self.outcome = replace(self.outcome, dropped=self.outcome.dropped + given_up)

    def _undone(self, picks: Sequence[RescalePick]) -> tuple[str, ...]:
        """Return the partitions that are neither committed nor failed."""
        finished = {*self.outcome.partitions, *(failure.name for failure in self._failures)}
        return tuple(name for name in map(self._name, picks) if name not in finished)

    def _round(self, work: _Round, executor: Executor) -> list[RescalePick]:
        """Run and commit; return the partitions that others wrote to."""
        units = [
            self._units(pick, work.table, f"{work.file_prefix}-{number}", executor)
            for number, pick in enumerate(work.picks)
        ]
        lost: list[RescalePick] = []
        plan = CommitPlan(
            commits=RescaleCommits(self._target.scanner.index_files(work.snapshot), self.count),
            new_names=_new_names,
            on_commit=partial(self._record_commit, lost),
            most=COMMIT_PICKS,
        )
        self._commits.commit_all(self._proven(work, units, executor), plan)
        return lost

    def _proven(
        self, work: _Round, units: Sequence[Sequence[RescaleUnit]], executor: Executor
    ) -> Generator[tuple[RescaledPartition]]:
        """Yield partitions as their units finish, each with its proof."""
        tasks = (unit for group in units for unit in group)
        with closing(unit_results(executor, run_unit, tasks, self._commits.may_continue)) as results:
            for pick, own in zip(work.picks, units, strict=True):
                if not self._commits.may_continue():
                    break
                moved = self._collect(pick, own, results)
                if moved is not None:
                    yield (moved,)

    def _collect(
        self,
        pick: RescalePick,
        units: Sequence[RescaleUnit],
        results: Iterator[RescaleResult | BaseException],
    ) -> RescaledPartition | None:
        """Return the partition with its proof, or None if a unit failed or the executor was cancelled."""
        collected: list[RescaleResult] = []
        for unit in units:
            result = next(results, None)
            if isinstance(result, RescaleResult):
                collected.append(result)
                self._new_paths.update(
                    path
                    for bucket, files in result.files
                    for file in files
                    for path in unit.table.reading.paths.all_files(unit.bucket_dirs[bucket], file)
                )
            elif isinstance(result, LakeError):
                self._fail(pick, result)
            elif result is not None:
                raise result
            self._alive()  # not before the new files are known: it may fail, too
        if len(collected) < len(units):
            return None
        try:
            proof = prove_pick(
                units[0].table.shape,
                self._name(pick),
                [tally for result in collected for tally in result.inputs],
                [result.proof for result in collected],
            )
            self._decode_again(pick, units, collected)
        except LakeError as err:
            self._fail(pick, err)
            return None
        new_files = tuple(files for result in collected for files in result.files)
        return RescaledPartition(self._name(pick), pick, new_files, proof)

    def _decode_again(
        self, pick: RescalePick, units: Sequence[RescaleUnit], results: Sequence[RescaleResult]
    ) -> None:
        """Read one old and one new file of each format through a second decoder, once per run. Raises
        ProofError.
        """
        reading = self._target.reading
        new = [files for result in results for files in result.files]
        for side, buckets in (("input", pick.files.items()), ("output", new)):
            for bucket, files in buckets:
                directory = reading.bucket_dir(pick.partition, bucket)
                for file in files:
                    stored = StoredFile(reading.paths.data_file(directory, file), file)
                    name = self._name(pick)
                    self._decoders.look(name, side, stored, reading.file_schema(file.schema_id))
        self.outcome = replace(self.outcome, decoded=self._decoders.report())

    def _fail(self, pick: RescalePick, error: LakeError) -> None:
        logger.error("%s", error)
        self._failures.append(PickFailure(self._name(pick), pick.all_files, error))

    def _record_commit(self, lost: list[RescalePick], landed: CommitLoopResult[RescaledPartition]) -> None:
        """Record what is committed and what failed; `lost` gets the partitions that others wrote to."""
        if landed.items and not landed.duplicate:
            self._count(landed.items, landed.snapshots)
        for moved, error in landed.refused:
            self._fail(moved.pick, error)
        lost += (moved.pick for moved in landed.lost)

    def _count(self, landed: Sequence[RescaledPartition], snapshots: tuple[int, ...]) -> None:
        new_files = [file for moved in landed for _, files in moved.files for file in files]
        old_files = [file for moved in landed for file in moved.pick.all_files]
        before = self.outcome
        self.outcome = replace(
            before,
            partitions=before.partitions + tuple(self._name(moved.pick) for moved in landed),
            files_in=before.files_in + len(old_files),
            files_out=before.files_out + len(new_files),
            bytes_in=before.bytes_in + sum(file.file_size for file in old_files),
            bytes_out=before.bytes_out + sum(file.file_size for file in new_files),
            rows=before.rows + sum(file.row_count for file in new_files),
            snapshots=before.snapshots + snapshots,
            proofs=before.proofs + tuple(moved.proof for moved in landed),
        )

    def _unit_table(self, entries: ManifestEntries) -> UnitTable:
        table = self._target.unit_table(entries, ProofMode.FULL)
        return replace(table, shape=replace(table.shape, positional=False))

    def _units(
        self, pick: RescalePick, table: UnitTable, prefix: str, executor: Executor
    ) -> tuple[RescaleUnit, ...]:
        """Return one unit per group of buckets; groups are cut if there would be fewer units than cores."""
        schema, options = table.schema, table.reading.options
        groups = bucket_groups(pick.old_total, pick.new_total)
        cuts = max(executor.parallelism // len(groups), -(-len(groups[0].new) // _MOST_TARGETS))
        step = len(groups)
        parts = bucket_groups(pick.old_total, pick.new_total, cuts)
        rule = BucketRule(
            schema.row_type.select(schema.bucket_keys), options.bucket_function.value, pick.new_total
        )
        numbers: set[int] = set()
        units = []
        for number, group in enumerate(parts):
            residue = group.old[0]
            unit = self._unit(pick, group, table, rule, (step, residue), f"{prefix}-{number}")
            units.append(replace(unit, checked=residue not in numbers))
            numbers.add(residue)
        return tuple(unit for unit in units if unit.layers)

    def _unit(
        self,
        pick: RescalePick,
        group: BucketGroup,
        table: UnitTable,
        rule: BucketRule,
        residues: tuple[int, int],
        prefix: str,
    ) -> RescaleUnit:
        directories = {
            bucket: table.reading.bucket_dir(pick.partition, bucket) for bucket in {*group.old, *group.new}
        }
        self._directories.update(directories[bucket] for bucket in group.new)
        keyed = table.reading.keyed
        key_of = key_order(table.schema.key_type) if keyed else None
        return RescaleUnit(
            name=f"{self._name(pick)}, buckets {', '.join(map(str, group.old))}",
            table=table,
            group=group,
            layers=layers_of(pick.files, group.old, key_of, keyed=keyed),
            deletions={key: vectors for key, vectors in pick.deletions.items() if key[0] in group.old},
            rule=rule,
            residues=residues,
            bucket_dirs=directories,
            checked=True,
            file_prefix=prefix,
        )

    def _name(self, pick: RescalePick) -> str:
        name = place_name(Place(pick.partition, 0, pick.old_total), self._target.reading.schema)
        return name.rpartition("bucket-")[0].rstrip("/") or "the table"


def _new_names(moved: RescaledPartition) -> Iterator[str]:
    return (name for _, files in moved.files for file in files for name in file.all_names)
