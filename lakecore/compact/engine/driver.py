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
from dataclasses import replace
from functools import partial

from pyroaring import BitMap

from lakecore.compact.engine.commit import PickCommits
from lakecore.compact.engine.commit_loop import CommitLoopResult
from lakecore.compact.engine.deletion_vectors import VectorUpdates
from lakecore.compact.engine.licence import levels_of, licensed
from lakecore.compact.engine.outcome import ProvenPick, RunRecord
from lakecore.compact.engine.refusal import PickFailure
from lakecore.compact.engine.run_commits import CommitPlan, RunCommits, unit_results
from lakecore.compact.engine.schedule import COMMIT_PICKS
from lakecore.compact.engine.work import RoundPlan, UnitFunction, UnitResult, WorkPick
from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.executor import Executor, run_counted, watch_units
from lakecore.progress import RunProgress
from lakecore.read.context import ReadContext
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.file_tally import files_of
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.proof.descriptions import PickFiles, check_joined_rows, check_new_files
from lakecore.verify.proof.pick_proof import PickProof, check_upgrade, prove_pick
from lakecore.verify.proof.second_decoder import SecondDecoders
from lakecore.verify.rules.table_rules import TableRules
from lakecore.write.files.copy_plan import NOTHING_COPIED

__all__ = ["Driver", "RunSettings"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """These settings say when a run commits: at the latest after so many picks, or so long after the last
    commit.
    """

    is_own: Callable[[str], bool]
    """It tells from the name of a file whether the run made it."""
    commit_picks: int = COMMIT_PICKS
    commit_seconds: float = 300.0


class Driver:
    """The driver of one run, which makes its commits with `commits` and adds what it did to `record`, and to
    `progress`.

    `decoders` have what the run has decoded twice so far.
    """

    def __init__(
        self,
        commits: RunCommits,
        record: RunRecord,
        decoders: SecondDecoders,
        settings: RunSettings,
        progress: RunProgress,
    ) -> None:
        self._commits = commits
        self._record = record
        self._decoders = decoders
        self._settings = settings
        self._progress = progress
        self._reading = reading = commits.target.reading
        self._rules = TableRules.of(reading.schema.options, keyed=reading.keyed)

    def run(self, plan: RoundPlan, executor: Executor, upkeep: VectorUpdates) -> tuple[PickFailure, ...]:
        """Run, prove and commit the picks of `plan`. `upkeep` is that of the snapshot they were planned from.

        A failed unit and a refused proof fail their pick only: the rest is done and committed, and the
        failures are returned. A failed commit and an interruption end the run at once, and so does a commit
        that another run of this name has made: of two runs of one name, the first to commit continues.
        """
        reading, shape = self._reading, plan.table.shape
        allowed, refused = licensed(plan.picks, plan.live, reading.schema, self._rules, upkeep.files)
        run = _PickRun(reading, shape, allowed, self._rules)
        run.on_unit = self._progress.end_unit
        self._progress.begin_round(allowed)
        for pick, error in refused:
            run.fail(pick, error)
        try:
            commit_plan = CommitPlan(
                commits=PickCommits(upkeep, self._rules),
                new_names=_new_names,
                on_commit=partial(self._record_commit, run),
                most=self._settings.commit_picks,
                seconds=self._settings.commit_seconds,
            )
            with watch_units(self._progress.unit_listener):
                self._commits.commit_all(self._proven(run, executor, plan.function), commit_plan)
        finally:
            record = self._record
            rest = len(plan.picks) - run.finished
            record.outcome = replace(record.outcome, picks_left=rest, stopped=self._commits.stopped)
            self._clean(run, executor)
        return tuple(run.failures)

    def _proven(
        self, run: _PickRun, executor: Executor, function: UnitFunction
    ) -> Generator[tuple[ProvenPick]]:
        """Yield picks as their units finish, each with its proof. Raises ProofError where a second decoder
        reads other rows.
        """
        with closing(run.proven(executor, function, self._commits.may_continue)) as proven_items:
            for proven in proven_items:
                self._decode_again(run.shape.mode, proven)
                yield (proven,)

    def _decode_again(self, mode: ProofMode, proven: ProvenPick) -> None:
        """Read one input, one output, and one output with copied row groups, of each format through a second
        decoder, once per run. Raises ProofError.
        """
        if mode is ProofMode.KEYS:
            return
        pick, reading = proven.pick, self._reading
        output = "copied output" if proven.copied.files else "output"
        for side, files in (("input", pick.replaced), (output, proven.files)):
            for file in files:
                stored = StoredFile(reading.paths.data_file(pick.bucket_dir, file), file)
                self._decoders.look(pick.name, side, stored, reading.file_schema(file.schema_id))
        self._record.outcome = replace(self._record.outcome, decoded=self._decoders.report())

    def _record_commit(self, run: _PickRun, landed: CommitLoopResult[ProvenPick]) -> None:
        record = self._record
        record.outcome = record.outcome.lost(tuple(proven.pick for proven in landed.lost))
        if landed.duplicate:
            return
        for proven, error in landed.refused:
            run.fail(proven.pick, error)
        run.finished += len(landed.items) + len(landed.lost)
        record.outcome = record.outcome.committed(landed.items, landed.snapshots, landed.notes)
        self._progress.commit(run.finished)

    def _clean(self, run: _PickRun, executor: Executor) -> None:
        """Remove what finished units made and nobody committed; if attempts may have died, search for their
        files too.
        """
        searched: dict[str, None] = {}
        if run.failures or run.interrupted or executor.name != "local":
            searched = dict.fromkeys(pick.bucket_dir for pick in run.started)
        self._commits.clean(run.new_paths, searched, self._settings.is_own)


class _PickRun:
    """The units of picks that run on the executor."""

    def __init__(
        self,
        reading: ReadContext,
        shape: RowShape,
        picks: Sequence[WorkPick],
        rules: TableRules,
    ) -> None:
        self._rules = rules
        self._reading = reading
        self.shape = shape
        self._picks = picks
        self.finished = 0
        self.started: list[WorkPick] = []
        self.new_paths: list[str] = []
        self.failures: list[PickFailure] = []
        self.interrupted = False
        self.on_unit: Callable[[str], None] = lambda _: None
        """It is called with the name of each unit that has ended."""

    def proven(
        self, executor: Executor, function: UnitFunction, may_continue: Callable[[], bool]
    ) -> Generator[ProvenPick]:
        """Yield picks as their units finish, each with its proof. It ends early when `may_continue` returns
        False.

        Closing it makes the executor give up the units it has not returned.
        """
        units = (unit for pick in self._picks for unit in pick.units)
        self.interrupted = True
        counted = partial(run_counted, function)
        with closing(unit_results(executor, counted, units, may_continue)) as results:
            yield from self._proven(results, may_continue)

    def _proven(
        self, results: Iterator[UnitResult | BaseException], may_continue: Callable[[], bool]
    ) -> Iterator[ProvenPick]:
        for pick in self._picks:
            if not may_continue():
                return
            self.started.append(pick)
            proof = self._collect(pick, results)
            if proof is None:
                return
            proven = self._judge(pick, proof)
            if proven is not None:
                yield proven
        self.interrupted = False

    def _judge(self, pick: WorkPick, results: Sequence[UnitResult | BaseException]) -> ProvenPick | None:
        """Return the pick with its proof, or None if a unit failed or the whole proof does not hold."""
        errors = [error for error in results if isinstance(error, BaseException)]
        if errors:
            self.fail(pick, next((error for error in errors if isinstance(error, ProofError)), errors[0]))
            return None
        try:
            return self._prove(pick, [result for result in results if isinstance(result, UnitResult)])
        except ProofError as err:
            self.fail(pick, err)
            return None

    def _collect(
        self, pick: WorkPick, results: Iterator[UnitResult | BaseException]
    ) -> list[UnitResult | BaseException] | None:
        """Return the results of all units of a pick, or None when the executor was cancelled before."""
        outputs = []
        for _ in pick.units:
            result = next(results, None)
            if result is None:
                return None
            if isinstance(result, UnitResult):
                self.new_paths += self._paths_of(pick, result)
                self.on_unit(result.unit)
            outputs.append(result)
        return outputs

    def _paths_of(self, pick: WorkPick, result: UnitResult) -> Iterator[str]:
        """Yield the paths of all files that a unit made. Lookup files are beside the files that move."""
        paths, directory = self._reading.paths, pick.bucket_dir
        for file in (*result.files, *result.changelog):
            yield from paths.all_files(directory, file)
        for before, _ in pick.moved:
            if name := result.lookup_files.get(before.file_name):
                yield f"{paths.directory_of(directory, before)}/{name}"

    def fail(self, pick: WorkPick, error: BaseException) -> None:
        """Record that the pick is not done. Raises what is no failure of the pick: an interruption."""
        logger.error("%s failed: %s", pick.name, error)
        if not isinstance(error, Exception):
            raise error
        self.failures.append(PickFailure.of(pick, error))

    def _prove(self, pick: WorkPick, results: Sequence[UnitResult]) -> ProvenPick:
        pick = _with_lookup_files(pick, results)
        for before, after in pick.moved:
            check_upgrade(pick.name, before, after)
        new_files = tuple(file for result in results for file in result.files)
        changelog_files = tuple(file for result in results for file in result.changelog)
        reads = pick.replaced or pick.announced
        proof = self._proof(pick, results) if reads else None
        schema_id = self._reading.schema.id
        files = PickFiles(pick.replaced, new_files, changelog_files)
        check_new_files(pick.name, files, levels_of(pick), schema_id, self._rules)
        for result in results if self._rules.data_evolution else ():
            check_joined_rows(result.unit, files_of(result.inputs), result.files)
        return ProvenPick(
            pick,
            new_files,
            proof,
            changelog_files,
            _marks(results) if self._marks_rows else {},
            sum((result.copied for result in results), NOTHING_COPIED),
        )

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
        proofs = [result.proof for result in results if result.proof is not None]
        return prove_pick(self.shape, pick.name, tallies, proofs)


def _new_names(proven: ProvenPick) -> Iterator[str]:
    """Yield the names of all files that the pick has made."""
    for file in (*proven.files, *proven.changelog):
        yield from file.all_names
    for before, after in proven.pick.moved:
        yield from set(after.extra_files) - set(before.extra_files)


def _with_lookup_files(pick: WorkPick, results: Sequence[UnitResult]) -> WorkPick:
    """Return the pick with the lookup files that its units wrote for files that move."""
    names: dict[str, str] = {}
    for result in results:
        names |= result.lookup_files
    if strange := names.keys() - {before.file_name for before, _ in pick.moved}:
        raise ProofError(pick.name, f"a lookup file was written for {min(strange)}, which does not move")
    moved = tuple(
        (before, replace(after, extra_files=(*after.extra_files, names[after.file_name])))
        if after.file_name in names
        else (before, after)
        for before, after in pick.moved
    )
    return replace(pick, moved=moved)


def _marks(results: Sequence[UnitResult]) -> dict[str, bytes]:
    """Return the rows that the units looked up and replaced, by file."""
    marks: dict[str, BitMap] = {}
    for result in results:
        for name, positions in result.lookups.items():
            marks[name] = marks.get(name, BitMap()) | BitMap.deserialize(positions)
    return {name: positions.serialize() for name, positions in marks.items()}
