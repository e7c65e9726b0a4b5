"""Committing proven picks: all that still fit; those that lost a race are dropped and named."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakecore.commit.committer import Committer
from lakecore.compact.engine.claims import commit_faults
from lakecore.compact.engine.deletion_vectors import VectorUpkeep
from lakecore.compact.engine.outcome import ProvenPick
from lakecore.errors import CommitConflictError, CommitUncertainError, LakeError, ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.verify.proof.pick_proof import proof_properties
from lakecore.verify.proof.snapshot_check import SnapshotCheck
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["Landed", "commit_picks"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of the picks of a commit. `duplicate`: another run with this identity was faster.

    `lost`: another commit made them impossible. `refused`: what was to be committed was not what was proven.
    `notes`: of the commit.
    """

    picks: tuple[ProvenPick, ...]
    lost: tuple[ProvenPick, ...]
    snapshots: tuple[int, ...]
    duplicate: bool = False
    refused: tuple[tuple[ProvenPick, ProofError], ...] = ()
    notes: tuple[str, ...] = ()


def commit_picks(
    committer: Committer,
    picks: Sequence[ProvenPick],
    identity: tuple[str, int],
    upkeep: VectorUpkeep,
    rules: TableRules,
) -> Landed:
    """One COMPACT snapshot with every pick that fits the table as it is now, and is what was proven.

    `identity`: commit user and identifier. `upkeep` writes the index files that must come along, and removes
    them again where they do not. Raises CommitUncertainError (delete nothing), UnavailableError (nothing
    landed), UnsupportedError, ProofError where the commit holds what belongs to no pick.
    """
    left, lost = list(picks), list[ProvenPick]()
    refused: list[tuple[ProvenPick, ProofError]] = []
    user, identifier = identity
    while left:
        draft = upkeep.draft(left)
        try:
            messages = [*map(_message, left), *draft.messages]
            faults = commit_faults(left, messages, draft.changes, rules)
            if faults:
                upkeep.discard(draft)
                refused += [(left[number], error) for number, error in faults.items()]
                left = [proven for number, proven in enumerate(left) if number not in faults]
                continue
            result = committer.commit(
                messages,
                commit_user=user,
                identifier=identifier,
                properties=proof_properties(p.proof for p in left if p.proof is not None),
                examine=SnapshotCheck(messages),
            )
        except CommitUncertainError:
            raise
        except CommitConflictError as err:
            upkeep.discard(draft)
            gone = _concerned(left, err)
            if not gone:
                raise
            logger.warning(
                "%s; these picks are not committed: %s", err, ", ".join(proven.pick.name for proven in gone)
            )
            lost += gone
            left = [proven for proven in left if proven not in gone]
            continue
        except LakeError:
            upkeep.discard(draft)
            raise
        if result.duplicate:
            upkeep.discard(draft)
        else:
            upkeep.landed(draft)
        return Landed(
            tuple(left), tuple(lost), result.snapshot_ids, result.duplicate, tuple(refused), result.notes
        )
    return Landed((), tuple(lost), (), refused=tuple(refused))


def _message(proven: ProvenPick) -> CommitMessage:
    pick = proven.pick
    return CommitMessage(
        partition=pick.place.partition,
        bucket=pick.place.bucket,
        total_buckets=pick.place.total_buckets,
        compact_before=(*pick.replaced, *(before for before, _ in pick.moved)),
        compact_after=(*proven.files, *(after for _, after in pick.moved)),
        compact_changelog=proven.changelog,
        compact_required_files=pick.required_files,
    )


def _concerned(picks: Iterable[ProvenPick], err: CommitConflictError) -> list[ProvenPick]:
    """Picks that name a file of the conflict; when no file tells, those of its buckets."""
    named = set(err.files)
    found = [proven for proven in picks if named & _names(proven)]
    if found:
        return found
    places = {(partition, bucket) for partition, bucket, _ in err.files}
    return [p for p in picks if (p.pick.place.partition, p.pick.place.bucket) in places]


def _names(proven: ProvenPick) -> set[tuple[bytes, int, str]]:
    message = _message(proven)
    files = (*message.compact_before, *message.compact_after, *message.compact_required_files)
    return {(message.partition, message.bucket, file.file_name) for file in files}
