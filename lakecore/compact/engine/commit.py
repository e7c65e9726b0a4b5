"""This module commits proven picks: all that still fit; those that lost a race are dropped and named."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakecore.compact.engine.claims import commit_faults
from lakecore.compact.engine.deletion_vectors import VectorDraft, VectorUpkeep
from lakecore.compact.engine.outcome import ProvenPick
from lakecore.errors import CommitConflictError, ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.verify.proof.pick_proof import proof_properties
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["PickCommits"]

logger = logging.getLogger(__name__)


class PickCommits:
    """Commits of picks as COMPACT snapshots (`lakecore.compact.engine.commit_loop.Commits`).

    `upkeep` writes the index files that must come along, and removes them again where they do not.
    """

    overwrites = False
    preconditions = None

    def __init__(self, upkeep: VectorUpkeep, rules: TableRules) -> None:
        self._upkeep = upkeep
        self._rules = rules

    def draft(self, items: Sequence[ProvenPick]) -> PickDraft:
        """Write the index files of `items`; a failure leaves none behind."""
        vectors = self._upkeep.draft(items)
        messages = (*map(_message, items), *vectors.messages)
        return PickDraft(tuple(items), messages, vectors, self._upkeep, self._rules)

    def concerned(self, items: Sequence[ProvenPick], err: CommitConflictError) -> list[ProvenPick]:
        """Return the picks that name a file of the conflict; when no file tells, those of its buckets."""
        gone = _concerned(items, err)
        if gone:
            names = ", ".join(proven.pick.name for proven in gone)
            logger.warning("%s; these picks are not committed: %s", err, names)
        return gone


@dataclass(frozen=True)
class PickDraft:
    """One attempt to commit picks, which has their messages and the new index files."""

    picks: tuple[ProvenPick, ...]
    messages: tuple[CommitMessage, ...]
    """The messages, one for each pick, and those of the index files."""
    vectors: VectorDraft
    upkeep: VectorUpkeep
    rules: TableRules

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the digests of the proofs."""
        return proof_properties(one.proof for one in self.picks if one.proof is not None)

    def faults(self) -> Mapping[int, ProofError]:
        """Compare the messages with the proofs."""
        return commit_faults(self.picks, self.messages, self.vectors.changes, self.rules)

    def discard(self) -> None:
        """Remove the index files."""
        self.upkeep.discard(self.vectors)

    def landed(self) -> None:
        """Start later drafts from the index files of this one."""
        self.upkeep.landed(self.vectors)


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
    """Return the picks that name a file of the conflict; when no file is known, those of its buckets."""
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
