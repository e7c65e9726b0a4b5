"""This module assigns buckets to postponed rows, in a commit of its own, before the buckets are compacted."""

from __future__ import annotations

import logging
from dataclasses import replace

from lakecore.commit.request import CommitRequest
from lakecore.compact.engine.refusal import duplicate_commit
from lakecore.compact.engine.run import RewriteRun
from lakecore.compact.kinds.postpone.apply import AssignedRows, BucketAssignment
from lakecore.errors import CommitConflictError, LakeError, ProofError
from lakecore.executor import Executor
from lakecore.metadata.snapshot import Snapshot
from lakecore.verify.proof.pick_proof import proof_properties
from lakecore.verify.proof.snapshot_check import SnapshotCheck

__all__ = ["assign_buckets"]

logger = logging.getLogger(__name__)

_MAX_TRIES = 3


def assign_buckets(
    run: RewriteRun, snapshot: Snapshot | None, prefixes: tuple[str, ...], executor: Executor
) -> Snapshot | None:
    """Assign buckets and return the snapshot after the commit; on a conflict, try again with the rows still
    unassigned.
    """
    snapshots = run.target.stores.snapshots
    for attempt in range(_MAX_TRIES):
        try:
            if snapshot is None or not _assign(run, snapshot, prefixes, executor):
                return snapshot
            break
        except CommitConflictError as err:
            if attempt == _MAX_TRIES - 1:
                raise
            logger.info("%s: the postponed rows are assigned to buckets again: %s", run.target.name, err)
            snapshot = snapshots.latest()
    return snapshots.latest()


def _assign(run: RewriteRun, snapshot: Snapshot, prefixes: tuple[str, ...], executor: Executor) -> bool:
    """Assign buckets. Return False when there was nothing to do, or the executor was cancelled."""
    target, request = run.target, run.request
    live = target.scanner.live_entries(snapshot, request.where)
    run.kind.before = live
    if (live.bucket < 0).any() and (fresh := run.begin(snapshot)) is not None:
        return _assign(run, fresh, prefixes, executor)
    table = target.unit_table(live, request.proof, run.kind.seed, whole=True)
    assignment = BucketAssignment(table, live, prefixes, executor, run.decoders, run.refused.keys())
    if not assignment.partitions:
        return False
    try:
        assigned = assignment.run()
    except ProofError:
        run.refused |= assignment.refused
        if not assignment.refused:
            raise
        return _assign(run, snapshot, prefixes, executor)  # the other partitions
    run.picks_planned += len(assignment.partitions)
    if assigned is None:
        run.record.outcome = replace(run.outcome, picks_left=len(assignment.partitions))
        return False
    _commit(run, assignment, assigned)
    return True


def _commit(run: RewriteRun, assignment: BucketAssignment, assigned: AssignedRows) -> None:
    """Commit the files. Raises CommitConflictError, CommitUncertainError (delete nothing),
    UnavailableError.
    """
    commits = run.commits
    user, identifier = commits.name.commit_user, commits.identifier
    try:
        with commits.guard.committing():
            result = run.target.committer.commit(
                assigned.messages,
                CommitRequest(
                    user=user,
                    identifier=identifier,
                    properties=proof_properties(
                        pick.proof for pick in assigned.picks if pick.proof is not None
                    ),
                    examine=SnapshotCheck(assigned.messages),
                ),
            )
    except LakeError:
        if not commits.guard.uncertain:
            assignment.abort(commits.published)
        raise
    if result.duplicate:
        assignment.abort(commits.published)
        raise duplicate_commit(user, identifier, result.snapshot_ids[-1])
    commits.add(name for pick in assigned.picks for file in pick.files for name in file.all_names)
    assignment.clean(assigned, commits.published)
    committed = run.outcome.committed(assigned.picks, result.snapshot_ids, result.notes)
    directories = committed.directories | assigned.directories
    run.record.outcome = replace(committed, directories=directories, decoded=run.decoders.report())
