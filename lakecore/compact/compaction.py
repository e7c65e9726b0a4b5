"""This module makes the compaction of a table a kind of rewriting: it plans by the table's rules until
nothing is due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lakecore.compact.engine.attempt_files import AttemptFiles, EarlierCommits
from lakecore.compact.engine.planner import PlanContext
from lakecore.compact.engine.request import CompactRequest
from lakecore.compact.engine.run import RewriteRun
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import PlannedRound, Round, RoundPlan, Strategy, WorkPick, outlines_of
from lakecore.compact.kinds.postpone.apply import assignment_picks
from lakecore.compact.kinds.postpone.assign import assign_buckets
from lakecore.compact.planning import planner_of
from lakecore.executor import Executor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.support import check_compactable, check_index_files
from lakecore.store.external_places import check_external_paths

__all__ = ["Compaction"]

_MAX_ROUNDS = 16
_CLUSTERED_ROUNDS = 2


class Compaction:
    """The class says what a compaction of one table does (`lakecore.compact.engine.run.Kind`)."""

    name = "compact"
    retries_lost = False
    in_order = 0

    def __init__(self, target: RewriteTarget, request: CompactRequest) -> None:
        self._target = target
        self._request = request
        self._assigned = False
        self.seed = request.proof_seed or target.clock.fresh_id()
        self.scope = request.where
        self.before: ManifestEntries = ManifestEntries.empty()

    @property
    def max_rounds(self) -> int:
        """Return the largest number of rounds. After a full compaction a second round would only see what
        others wrote meanwhile.

        Append tables need several. Files in another order than the key's are merged after level 0.
        """
        if self._target.reading.options.pk_clustering_override:
            return _CLUSTERED_ROUNDS
        full = self._request.strategy is Strategy.FULL and self._target.reading.keyed
        return 1 if full else _MAX_ROUNDS

    @property
    def one_vector_file(self) -> bool:
        return self._target.reading.options.bucket_mode is not BucketMode.BUCKET_UNAWARE

    @property
    def whole_reason(self) -> str:
        """Return why the table must be planned as a whole; the text is empty if groups of its buckets may be
        planned alone.
        """
        options = self._target.reading.options
        if options.bucket_mode is BucketMode.POSTPONE:
            return (
                "rows without a bucket are given one in a commit of their own, before all buckets are planned"
            )
        if options.bucket_mode is BucketMode.KEY_DYNAMIC:
            return "a key may have rows in several partitions"
        if options.data_evolution or options.row_tracking:
            return "rows have ids that are unique in the table"
        return ""

    @property
    def has_levels(self) -> bool:
        return self._target.reading.keyed

    def check(self) -> None:
        """Raise UnsupportedError for tables that this release does not compact."""
        name, reading = self._target.name, self._target.reading
        check_compactable(name, reading.schema, reading.options)
        check_external_paths(name, reading.schema.options, reading.file_io)

    def start(self, snapshot: Snapshot, landed: EarlierCommits) -> None:
        """Check the index files. Raises UnsupportedError for those that a compaction would have to keep up to
        date.
        """
        reading = self._target.reading
        if reading.keyed and not reading.options.deletion_vectors:
            check_index_files(self._target.name, snapshot.id, self._target.scanner.index_files(snapshot))

    def prepare(
        self, run: RewriteRun, snapshot: Snapshot | None, prefixes: tuple[str, ...], executor: Executor
    ) -> Snapshot | None:
        """Assign buckets to postponed rows before compacting."""
        if not self._postpones:
            return snapshot
        result = assign_buckets(run, snapshot, prefixes, executor)
        self._assigned = bool(run.commits.commit_count)
        return result

    def plan(self, view: Round) -> PlannedRound:
        """Return picks by the rules of the table. Raises InvalidOptionError, UnsupportedError."""
        snapshot, scanner = view.snapshot, replace(self._target.scanner, lists=view.lists)
        where = self._request.where if view.where is None else view.where
        if view.again is not None:
            where = replace(where, serialized=frozenset(place.partition for place in view.again))
        entries = ManifestEntries.empty()
        if snapshot is not None:
            entries = scanner.live_entries(snapshot, where, keys=self._target.reading.keyed)
        if view.again is None and not self._assigned:
            self.before = entries
        deletions = {} if snapshot is None else scanner.deletions(snapshot, where)
        context = self._context(view.executor)
        planner = planner_of(context)
        assigned = entries.select(entries.bucket >= 0)  # rows that wait for a bucket are no pick
        plan = partial(planner.plan, assigned, view.file_prefix, view.lost, deletions)
        if view.dry:
            waiting = self._waiting_picks(context, assigned)
            outlines = (*outlines_of(waiting), *planner.outline(assigned, view.lost, deletions))
            return PlannedRound(bool(outlines), partial(_with_picks, waiting, plan), outlines)
        round_plan = plan()
        return PlannedRound(bool(round_plan.picks), lambda: round_plan)

    def finish(self, run: RewriteRun, names: AttemptFiles) -> None:
        """Do nothing, because nothing is left to do."""

    def _waiting_picks(self, context: PlanContext, assigned: ManifestEntries) -> tuple[WorkPick, ...]:
        """Return the picks of rows that wait for a bucket."""
        if not self._postpones:
            return ()
        return assignment_picks(context.unit_table(assigned), self.before)

    @property
    def _postpones(self) -> bool:
        return self._target.reading.options.bucket_mode is BucketMode.POSTPONE

    def _context(self, executor: Executor) -> PlanContext:
        request = self._request
        return PlanContext(
            target=self._target,
            strategy=request.strategy,
            proof=request.proof,
            executor=executor,
            seed=self.seed,
            copy=request.copy,
        )


def _with_picks(first: tuple[WorkPick, ...], build: Callable[[], RoundPlan]) -> RoundPlan:
    """Return the plan of a round with picks before its own."""
    plan = build()
    return replace(plan, picks=(*first, *plan.picks))
