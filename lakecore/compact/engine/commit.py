"""This module commits proven picks: all that still fit; those that lost a race are dropped and named."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from lakecore.compact.engine.claims import commit_faults
from lakecore.compact.engine.commit_loop import CommitDraft
from lakecore.compact.engine.deletion_vectors import VectorUpdates
from lakecore.compact.engine.outcome import ProvenPick
from lakecore.errors import CommitConflictError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.verify.proof.pick_proof import proof_properties
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["PickCommits"]

logger = logging.getLogger(__name__)


class PickCommits:
    """This class commits picks as COMPACT snapshots (`lakecore.compact.engine.commit_loop.Commits`).

    `upkeep` writes the index files that must come along, and removes them again where they do not.
    """

    overwrites = False
    preconditions = None

    def __init__(self, upkeep: VectorUpdates, rules: TableRules) -> None:
        self._upkeep = upkeep
        self._rules = rules

    def draft(self, items: Sequence[ProvenPick]) -> CommitDraft:
        """Write the index files of `items`; a failure leaves none behind."""
        vectors = self._upkeep.draft(items)
        messages = (*map(_message, items), *vectors.messages)
        return CommitDraft(
            messages=messages,
            properties=proof_properties(one.proof for one in items if one.proof is not None),
            faults=partial(commit_faults, items, messages, vectors.changes, self._rules),
            discard=partial(self._upkeep.discard, vectors),
            landed=partial(self._upkeep.landed, vectors),
        )

    def affected(self, items: Sequence[ProvenPick], err: CommitConflictError) -> list[ProvenPick]:
        """Return the picks that name a file of the conflict; when no file tells, those of its buckets."""
        lost_items = _affected_picks(items, err)
        if lost_items:
            names = ", ".join(proven.pick.name for proven in lost_items)
            logger.warning("%s; these picks are not committed: %s", err, names)
        return lost_items


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


def _affected_picks(picks: Iterable[ProvenPick], err: CommitConflictError) -> list[ProvenPick]:
    """Return the picks that name a file of the conflict; when no file is known, those of its buckets."""
    names = set(err.files)
    affected = [proven for proven in picks if names & _names(proven)]
    if affected:
        return affected
    places = {(partition, bucket) for partition, bucket, _ in err.files}
    return [p for p in picks if (p.pick.place.partition, p.pick.place.bucket) in places]


def _names(proven: ProvenPick) -> set[tuple[bytes, int, str]]:
    message = _message(proven)
    files = (*message.compact_before, *message.compact_after, *message.compact_required_files)
    return {(message.partition, message.bucket, file.file_name) for file in files}
