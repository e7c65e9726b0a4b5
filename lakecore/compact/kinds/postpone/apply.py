"""This module moves postponed rows into real buckets: units run on an executor, each partition is proven, and
one commit has them all.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial

from lakecore.compact.engine.cleanup import Published, belongs, remove, sweep
from lakecore.compact.engine.outcome import ProvenPick
from lakecore.compact.engine.refusal import PickFailure
from lakecore.compact.engine.work import Place, UnitTable, WorkPick, place_name
from lakecore.compact.kinds.postpone.plan import PostponedFiles, cut, plan_partitions, real_totals
from lakecore.compact.kinds.postpone.run import AssignmentResult, AssignmentUnit, postponed_rules, run_unit
from lakecore.data_class import dataclass
from lakecore.errors import ProofError, most_severe
from lakecore.executor import Executor
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import POSTPONE_BUCKET
from lakecore.types.counted import counted
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.proof.commit_check import Bucket, CommitClaim, check_commit, check_rows
from lakecore.verify.proof.pick_proof import PickProof
from lakecore.verify.proof.postponed import PostponedTally, check_numbers, prove_assignment
from lakecore.verify.proof.second_decoder import SecondDecoders
from lakecore.verify.rules.replay_order import check_waiting
from lakecore.write.buckets.bucket_state import BucketState
from lakecore.write.buckets.postpone import new_buckets

__all__ = ["BucketAssignment", "assignment_picks"]

logger = logging.getLogger(__name__)


def assignment_picks(table: UnitTable, live: ManifestEntries) -> tuple[WorkPick, ...]:
    """Return what a `BucketAssignment` of the postponed rows in `live` would do."""
    return tuple(_pick(table, postponed) for postponed in _partitions(table, live))


@dataclass(frozen=True, slots=True)
class AssignedRows:
    """They were written and proven: messages of one commit, and a pick for each partition for the report."""

    messages: tuple[CommitMessage, ...]
    picks: tuple[ProvenPick, ...]
    directories: frozenset[str]
    """These are the directories of the new files."""


class BucketAssignment:
    """This is the assignment of the postponed rows of `live` to real buckets, while it runs.

    `file_prefixes` begin the names of all new files, of data files first. Units are cut by partitions, and by
    buckets where a partition is large. `decoders` are those of the run. `excluded` are partitions that are
    skipped, and `refused` those whose proof was refused, also after an exception.
    """

    def __init__(
        self,
        table: UnitTable,
        live: ManifestEntries,
        file_prefixes: Sequence[str],
        executor: Executor,
        decoders: SecondDecoders,
        excluded: Collection[bytes] = (),
    ) -> None:
        self._table = table
        self._prefixes = tuple(file_prefixes)
        self._executor = executor
        self._decoders = decoders
        self._live = live
        self._state = BucketState.of(live.select(live.bucket >= 0))
        self._totals = real_totals(live)
        self.partitions = tuple(
            postponed for postponed in _partitions(table, live) if postponed.partition not in excluded
        )
        self._waiting: dict[bytes, list[DataFile]] = {}
        for entry in live.select(live.bucket == POSTPONE_BUCKET).rows():
            self._waiting.setdefault(entry.partition, []).append(entry.file)
        self.refused: dict[bytes, PickFailure] = {}
        self._messages: list[CommitMessage] = []

    def run(self) -> AssignedRows | None:
        """Write and prove; None when the executor was cancelled.

        Raises what units raise, after removing every new file: ProofError, NotFoundError, CorruptDataError.
        """
        units = list(self._units())
        complete = False
        try:
            results = self._results(units)
            complete = len(results) == len(units)
            return self._assigned_rows(units, results) if complete else None
        except BaseException:
            complete = False
            raise
        finally:
            if not complete:
                self.abort()

    def abort(self, published: Published | None = None) -> None:
        """Remove every new file: it was not committed. `published` has the meaning that `cleanup.remove`
        gives it.
        """
        remove(self._table.reading.file_io, self._paths(), published)
        self._sweep(self._every_directory(), frozenset(), published)

    def clean(self, assigned: AssignedRows, published: Published) -> None:
        """Remove, after the commit, what attempts left that died with their executor."""
        if self._executor.name != "local":
            committed = frozenset(path.rpartition("/")[2] for path in self._paths())
            self._sweep(assigned.directories, committed, published)

    def _units(self) -> Iterable[AssignmentUnit]:
        idle = self._executor.parallelism // len(self.partitions)
        for postponed in self.partitions:
            steps = cut(postponed, idle)
            state = replace(
                self._state,
                next_sequences={
                    place: number
                    for place, number in self._state.next_sequences.items()
                    if place[0] == postponed.partition
                },
                totals={postponed.partition: postponed.total_buckets},
            )
            name = _pick(self._table, postponed).name
            for remainder in range(steps):
                yield AssignmentUnit(
                    name=name if steps == 1 else f"{name} ({remainder + 1} of {steps})",
                    table=self._table,
                    postponed=postponed,
                    state=state,
                    steps=steps,
                    remainder=remainder,
                    file_prefix=self._prefixes[0],
                )

    def _results(self, units: Sequence[AssignmentUnit]) -> list[AssignmentResult]:
        """Return the results in the order of units; fewer when the executor was cancelled. Raises the first
        failure, after all units have ended.
        """
        assigned_units: list[AssignmentResult] = []
        failures: list[BaseException] = []
        results = iter(self._executor.run(run_unit, units))
        try:
            for result in results:
                if isinstance(result, AssignmentResult):
                    assigned_units.append(result)
                    self._messages += result.messages
                elif not isinstance(result, Exception):
                    raise result
                else:
                    failures.append(result)
                    self._note(units[len(assigned_units) + len(failures) - 1].postponed, result)
        finally:
            if isinstance(results, Generator):
                results.close()
        if failures:
            raise most_severe(failures)
        return assigned_units

    def _assigned_rows(
        self, units: Sequence[AssignmentUnit], results: Sequence[AssignmentResult]
    ) -> AssignedRows:
        picks, messages, claims = [], [], []
        for postponed in self.partitions:
            own = [result for unit, result in zip(units, results, strict=True) if unit.postponed is postponed]
            written = [message for result in own for message in result.messages]
            pick = _pick(self._table, postponed)
            tallies = [result.tally for result in own]
            try:
                check_waiting(pick.name, postponed.files, self._waiting.get(postponed.partition, ()))
                proof = prove_assignment(
                    self._table.shape,
                    pick.name,
                    postponed.rows,
                    tallies,
                    replaces=postponed_rules(self._table).replaces,
                )
                new_files = [new for tally in tallies for new in tally.new_files]
                check_numbers(pick.name, self._live, postponed.partition, new_files)
                claims.append(_claim(postponed, proof, tallies))
                self._decode_again(pick, written)
            except ProofError as err:
                self._note(postponed, err)
                raise
            files = tuple(file for message in written for file in message.new_files)
            picks.append(ProvenPick(pick, files, proof))
            messages += [*map(_as_compaction, written), _emptied_message(postponed)]
        faults = check_commit(claims, messages)
        for postponed, claim in zip(self.partitions, claims, strict=True):
            if claim.name in faults:
                self._note(postponed, faults[claim.name])
        if faults:
            raise next(iter(faults.values()))
        directory = self._table.reading.bucket_dir
        directories = frozenset(directory(message.partition, message.bucket) for message in self._messages)
        return AssignedRows(tuple(messages), tuple(picks), directories)

    def _decode_again(self, pick: WorkPick, written: Sequence[CommitMessage]) -> None:
        """Read one postponed file and one new file of each format through a second decoder. Raises
        ProofError.
        """
        if self._table.shape.mode is ProofMode.KEYS:
            return
        reading = self._table.reading
        files = [("input", pick.bucket_dir, file) for file in pick.replaced]
        for message in written:
            directory = reading.bucket_dir(message.partition, message.bucket)
            files += [("output", directory, file) for file in message.new_files]
        for side, directory, file in files:
            stored = StoredFile(reading.paths.data_file(directory, file), file)
            self._decoders.look(pick.name, side, stored, reading.file_schema(file.schema_id))

    def _note(self, postponed: PostponedFiles, error: Exception) -> None:
        """Record that the partition is refused, if its proof is what failed."""
        if isinstance(error, ProofError):
            self.refused[postponed.partition] = PickFailure.of(_pick(self._table, postponed), error)

    def _paths(self) -> list[str]:
        reading = self._table.reading
        return [
            path
            for message in self._messages
            for file in (*message.new_files, *message.changelog_files)
            for path in reading.paths.all_files(reading.bucket_dir(message.partition, message.bucket), file)
        ]

    def _every_directory(self) -> Iterable[str]:
        reading = self._table.reading
        return (
            reading.bucket_dir(postponed.partition, bucket)
            for postponed in self.partitions
            for bucket in range(postponed.total_buckets)
        )

    def _sweep(
        self, directories: Iterable[str], names_to_keep: frozenset[str], published: Published | None = None
    ) -> None:
        sweep(
            self._table.reading.file_io,
            self._table.reading.directories_of_new_files(directories),
            lambda name, _: name.startswith(self._prefixes) and not belongs(name, names_to_keep),
            published,
        )


def _partitions(table: UnitTable, live: ManifestEntries) -> tuple[PostponedFiles, ...]:
    buckets_for = partial(new_buckets, table.schema.options)
    return plan_partitions(live, buckets_for, snapshot_ordering=table.reading.options.snapshot_ordering)


def _pick(table: UnitTable, postponed: PostponedFiles) -> WorkPick:
    place = Place(postponed.partition, POSTPONE_BUCKET, POSTPONE_BUCKET)
    return WorkPick(
        name=place_name(place, table.schema),
        place=place,
        bucket_dir=table.reading.bucket_dir(postponed.partition, POSTPONE_BUCKET),
        reason=f"postponed rows are assigned to {counted(postponed.total_buckets, 'bucket')}",
        replaced=postponed.files,
    )


def _claim(postponed: PostponedFiles, proof: PickProof, tallies: Sequence[PostponedTally]) -> CommitClaim:
    """Return what a partition may change: its postponed files are removed, and what was read back is added to
    its buckets.
    """
    check_rows(proof)
    waiting = Bucket(postponed.partition, POSTPONE_BUCKET, POSTPONE_BUCKET)

    def place(bucket: int) -> Bucket:
        return Bucket(postponed.partition, bucket, postponed.total_buckets)

    return CommitClaim(
        name=proof.pick,
        removed=tuple((waiting, file) for file in proof.read),
        added=tuple((place(bucket), file) for tally in tallies for bucket, file in tally.new_files),
        changelog=tuple((place(bucket), file) for tally in tallies for bucket, file in tally.changelog_files),
    )


def _as_compaction(message: CommitMessage) -> CommitMessage:
    """Return the new files of a real bucket as part of a compaction."""
    return CommitMessage(
        partition=message.partition,
        bucket=message.bucket,
        total_buckets=message.total_buckets,
        compact_after=message.new_files,
        compact_changelog=message.changelog_files,
    )


def _emptied_message(postponed: PostponedFiles) -> CommitMessage:
    return CommitMessage(
        partition=postponed.partition,
        bucket=POSTPONE_BUCKET,
        total_buckets=POSTPONE_BUCKET,
        compact_before=postponed.files,
    )
