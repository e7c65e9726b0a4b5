"""This module runs the units of picks on an executor, proves each pick, commits, and cleans up behind
failures.

Promises: a pick is committed whole or not at all, and only when its proof holds; a pick that is refused does
not hold back the others; files of picks that are not committed are removed, unless a commit's outcome is
uncertain: then nothing is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from pyroaring import BitMap

from lakecore.clock import Clock
from lakecore.commit.committer import Committer
from lakecore.compact.engine.cleanup import belongs, remove, sweep
from lakecore.compact.engine.commit import PickCommits
from lakecore.compact.engine.commit_loop import CommitGuard, commit_fitting
from lakecore.compact.engine.deletion_vectors import VectorUpkeep
from lakecore.compact.engine.licence import levels_of, licensed
from lakecore.compact.engine.outcome import Outcome, Progress, ProvenPick
from lakecore.compact.engine.refusal import PickFailure, duplicate_commit, failure_of
from lakecore.compact.engine.schedule import COMMIT_PICKS
from lakecore.compact.engine.work import UnitFunction, UnitResult, WorkPick
from lakecore.errors import ProofError
from lakecore.executor import Executor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.read.context import ReadContext
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.file_tally import files_of
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.proof.descriptions import check_joined_rows, check_made
from lakecore.verify.proof.pick_proof import PickProof, check_upgrade, prove_pick
from lakecore.verify.proof.second_decoder import SecondDecoders
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["MAX_COMMITS", "Driver", "RunSettings"]

logger = logging.getLogger(__name__)

MAX_COMMITS = 1000
"""Commits of one run; each takes the next identifier, and identities of task runs lie 1024 apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings by which a run commits. `table` is its name, for messages.

    `until_ms`: since the epoch; no unit is waited for after it. None: no end. `commit_picks`,
    `commit_seconds`: a commit at the latest after so many picks, or so long after the last. `file_prefixes`:
    begin the names of all files that the run makes. `committed`: names of those of them that are in the table
    already.
    """

    table: str
    commit_user: str
    identifier: int
    file_prefixes: tuple[str, ...]
    until_ms: int | None = None
    commit_picks: int = COMMIT_PICKS
    commit_seconds: float = 300.0
    committed: frozenset[str] = frozenset()


class Driver:
    """The driver of one run. `outcome` has what is committed so far, also after an exception. `decoders` has
    what the run has decoded twice so far.
    """

    def __init__(
        self,
        reading: ReadContext,
        shape: RowShape,
        committer: Committer,
        clock: Clock,
        settings: RunSettings,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._reading = reading
        self._shape = shape
        self._committer = committer
        self._clock = clock
        self._settings = settings
        self._on_progress = on_progress
        self._rules = TableRules.of(reading.schema.options, keyed=reading.keyed)
        self._identifier = settings.identifier
        self._guard = CommitGuard()
        self._committed = set(settings.committed)
        self.decoders = SecondDecoders(reading.file_io, shape.seed)
        self.outcome = Outcome()

    def run(
        self,
        picks: Sequence[WorkPick],
        executor: Executor,
        function: UnitFunction,
        upkeep: VectorUpkeep,
        live: ManifestEntries,
    ) -> None:
        """Run, prove and commit `picks`, and add to `outcome`. `upkeep` and `live` are those of the snapshot
        they were planned from; `live` has all files of their buckets.

        A failed unit and a refused proof fail their pick only: the rest is done and committed, then the first
        ProofError is raised, or else the first failure. A failed commit and an interruption end the run at
        once, and so does a commit that another run of this name has made: of two runs of one name, the first
        to commit continues.
        """
        allowed, refused = licensed(picks, live, self._reading.schema, self._rules, upkeep.files)
        run = _PickRun(self._reading, self._shape, allowed, upkeep, self._rules)
        for pick, error in refused:
            run.fail(pick, error)
        try:
            self._run(run, executor, function)
        finally:
            self.outcome = replace(self.outcome, picks_left=len(picks) - run.finished)
            if not self._guard.uncertain:
                self._clean(run, executor)
        if run.failures:
            raise failure_of(self._settings.table, run.failures)

    def _run(self, run: _PickRun, executor: Executor, function: UnitFunction) -> None:
        since = self._clock.monotonic()
        settings = self._settings
        with closing(run.proven(executor, function, self._may_go_on)) as found:
            for proven in found:
                self._decode_again(proven)
                run.ready.append(proven)
                waited = self._clock.monotonic() - since
                if len(run.ready) >= settings.commit_picks or waited >= settings.commit_seconds:
                    self._commit(run)
                    since = self._clock.monotonic()
        self._commit(run)

    def _decode_again(self, proven: ProvenPick) -> None:
        """Read one input and one output of each format through a second decoder, once per run. Raises
        ProofError.
        """
        if self._shape.mode is ProofMode.KEYS:
            return
        pick, reading = proven.pick, self._reading
        for side, files in (("input", pick.replaced), ("output", proven.files)):
            for file in files:
                stored = StoredFile(reading.paths.data_file(pick.bucket_dir, file), file)
                self.decoders.look(pick.name, side, stored, reading.file_schema(file.schema_id))
        self.outcome = replace(self.outcome, decoded=self.decoders.report())

    def _may_go_on(self) -> bool:
        until = self._settings.until_ms
        if until is not None and self._clock.now_ms() >= until:
            self.outcome = replace(self.outcome, stopped=True)
        if self._identifier - self._settings.identifier >= MAX_COMMITS:
            self.outcome = replace(self.outcome, stopped=True)
        return not self.outcome.stopped

    def _commit(self, run: _PickRun) -> None:
        if not run.ready:
            return
        identity, commits = (
            (self._settings.commit_user, self._identifier),
            PickCommits(run.upkeep, self._rules),
        )
        with self._guard.committing():
            landed = commit_fitting(self._committer, run.ready, identity, commits)
            if not landed.duplicate:
                self._committed.update(
                    name
                    for proven in landed.items
                    for file in (*proven.files, *proven.changelog)
                    for name in file.all_names
                )
        self.outcome = self.outcome.lost(tuple(proven.pick for proven in landed.lost))
        if landed.duplicate:
            raise duplicate_commit(self._settings.commit_user, self._identifier, landed.snapshots[-1])
        for proven, error in landed.refused:
            run.fail(proven.pick, error)
        run.finished += len(run.ready) - len(landed.refused)
        run.ready.clear()
        if self._identifier != BATCH_IDENTIFIER:
            self._identifier += 1
        self.outcome = self.outcome.committed(landed.items, landed.snapshots, landed.notes)
        if self._on_progress is not None:
            self._on_progress(run.progress())

    def _clean(self, run: _PickRun, executor: Executor) -> None:
        """Remove what finished units made and nobody committed; if attempts may have died, search for their
        files too.
        """
        made = [(pick, name) for pick, name in run.made if name not in self._committed]
        published = partial(self._committer.published_names, self._settings.commit_user)
        remove(self._reading.file_io, (f"{pick.bucket_dir}/{name}" for pick, name in made), published)
        if run.failures or run.interrupted or executor.name != "local":
            directories = dict.fromkeys(pick.bucket_dir for pick in run.started)
            prefixes = self._settings.file_prefixes
            committed = self._committed
            sweep(
                self._reading.file_io,
                directories,
                lambda name, _: name.startswith(prefixes) and not belongs(name, committed),
                published,
            )


class _PickRun:
    """The units of picks that run on the executor."""

    def __init__(
        self,
        reading: ReadContext,
        shape: RowShape,
        picks: Sequence[WorkPick],
        upkeep: VectorUpkeep,
        rules: TableRules,
    ) -> None:
        self._rules = rules
        self.upkeep = upkeep
        self._reading = reading
        self._shape = shape
        self._picks = picks
        self.ready: list[ProvenPick] = []
        self.finished = 0
        self.started: list[WorkPick] = []
        self.made: list[tuple[WorkPick, str]] = []
        self.failures: list[PickFailure] = []
        self.interrupted = False

    def progress(self) -> Progress:
        done = self._picks[: self.finished]
        rows = sum(pick.rows for pick in self._picks)
        return Progress(self.finished, len(self._picks), sum(pick.rows for pick in done), rows)

    def proven(
        self, executor: Executor, function: UnitFunction, may_go_on: Callable[[], bool]
    ) -> Generator[ProvenPick]:
        """Yield picks as their units finish, each with its proof. It ends early when `may_go_on` returns
        False.

        Closing it makes the executor give up the units it has not returned.
        """
        units = (unit for pick in self._picks for unit in pick.units if may_go_on())
        results = iter(executor.run(function, units))
        self.interrupted = True
        try:
            yield from self._proven(results, may_go_on)
        finally:
            if isinstance(results, Generator):
                results.close()

    def _proven(
        self, results: Iterator[UnitResult | BaseException], may_go_on: Callable[[], bool]
    ) -> Iterator[ProvenPick]:
        for pick in self._picks:
            if not may_go_on():
                return
            self.started.append(pick)
            found = self._collect(pick, results)
            if found is None:
                return
            proven = self._judge(pick, found)
            if proven is not None:
                yield proven
        self.interrupted = False

    def _judge(self, pick: WorkPick, found: Sequence[UnitResult | BaseException]) -> ProvenPick | None:
        """Return the pick with its proof, or None if a unit failed or the whole proof does not hold."""
        errors = [error for error in found if isinstance(error, BaseException)]
        if errors:
            self.fail(pick, next((error for error in errors if isinstance(error, ProofError)), errors[0]))
            return None
        try:
            return self._prove(pick, [result for result in found if isinstance(result, UnitResult)])
        except ProofError as err:
            self.fail(pick, err)
            return None

    def _collect(
        self, pick: WorkPick, results: Iterator[UnitResult | BaseException]
    ) -> list[UnitResult | BaseException] | None:
        """Return the results of all units of a pick, or None when the executor was cancelled before."""
        found = []
        for _ in pick.units:
            result = next(results, None)
            if result is None:
                return None
            if isinstance(result, UnitResult):
                made = (*result.files, *result.changelog)
                self.made += [(pick, name) for file in made for name in file.all_names]
            found.append(result)
        return found

    def fail(self, pick: WorkPick, error: BaseException) -> None:
        """Note that the pick is not done. Raises what is no failure of the pick: an interruption."""
        logger.error("%s failed: %s", pick.name, error)
        if not isinstance(error, Exception):
            raise error
        self.failures.append(PickFailure.of(pick, error))

    def _prove(self, pick: WorkPick, results: Sequence[UnitResult]) -> ProvenPick:
        for before, after in pick.moved:
            check_upgrade(pick.name, before, after)
        made = tuple(file for result in results for file in result.files)
        told = tuple(file for result in results for file in result.changelog)
        proof = self._proof(pick, results) if pick.units else None
        schema_id = self._reading.schema.id
        check_made(pick.name, pick.replaced, made, told, levels_of(pick), schema_id, self._rules)
        for result in results if self._rules.data_evolution else ():
            check_joined_rows(result.unit, files_of(result.inputs), result.files)
        return ProvenPick(pick, made, proof, told, _marks(results) if self._marks_rows else {})

    @property
    def _marks_rows(self) -> bool:
        """Return whether rows are marked: looked-up keys become deletion vectors; vectors of joined files
        move to the new one.
        """
        options = self._reading.options
        return options.data_evolution or (options.marks_replaced_rows and self._reading.keyed)

    def _proof(self, pick: WorkPick, results: Sequence[UnitResult]) -> PickProof:
        """Prove that the units together read every row of the replaced files, as manifests count them."""
        read = sum(result.rows_in for result in results)
        if read != pick.rows:
            raise ProofError(pick.name, f"its units read {read} rows, but its inputs have {pick.rows}")
        tallies = [tally for result in results for tally in result.inputs]
        expected = len(pick.replaced) + len(pick.announced)
        if len(tallies) != expected:
            raise ProofError(pick.name, f"{len(tallies)} of {expected} inputs were counted by its units")
        return prove_pick(self._shape, pick.name, tallies, [result.proof for result in results])


def _marks(results: Sequence[UnitResult]) -> dict[str, bytes]:
    """Return the rows that the units looked up and replaced, by file."""
    marks: dict[str, BitMap] = {}
    for result in results:
        for name, positions in result.found.items():
            marks[name] = marks.get(name, BitMap()) | BitMap.deserialize(positions)
    return {name: positions.serialize() for name, positions in marks.items()}
