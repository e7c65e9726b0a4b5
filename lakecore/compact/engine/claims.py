"""This module derives what the picks of a commit may change, by their proofs, and checks whether the commit
is exactly that. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyroaring import BitMap

from lakecore.compact.engine.outcome import ProvenPick
from lakecore.compact.engine.work import Place
from lakecore.errors import ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.verify.proof.commit_check import (
    Bucket,
    CommitClaim,
    check_commit,
    check_live_rows,
    check_rows,
    claim_of,
)
from lakecore.verify.proof.vector_check import (
    VectorChange,
    check_named,
    check_vectors,
    joined_marks,
    moved_marks,
)
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["commit_faults"]


def commit_faults(
    picks: Sequence[ProvenPick],
    messages: Sequence[CommitMessage],
    vectors: Mapping[Place, VectorChange],
    rules: TableRules,
) -> dict[int, ProofError]:
    """Return what is wrong, by the place of the pick. `vectors` are those of every bucket of the picks, as
    read back.

    Raises ProofError if the messages have what belongs to no pick.
    """
    claims: list[CommitClaim] = []
    faults: dict[int, ProofError] = {}
    for number, proven in enumerate(picks):
        try:
            claims.append(_claim(proven, number))
        except ProofError as err:
            faults[number] = err
    if faults:
        return faults  # the others are looked at when these are out
    result = check_commit(claims, messages)
    for number, (proven, claim) in enumerate(zip(picks, claims, strict=True)):
        if claim.name in result:
            faults[number] = ProofError(proven.pick.name, result[claim.name].problem)
    for place, members in _by_place(picks).items():
        error = _vector_error(
            [picks[n] for n in members], [claims[n] for n in members], vectors[place], rules
        ) or _named_error(picks[members[0]].pick.name, place, messages, vectors[place])
        if error is not None:
            faults = dict.fromkeys(members, error) | faults
    return faults


def _by_place(picks: Sequence[ProvenPick]) -> dict[Place, list[int]]:
    numbers: dict[Place, list[int]] = {}
    for number, proven in enumerate(picks):
        numbers.setdefault(proven.pick.place, []).append(number)
    return numbers


def _claim(proven: ProvenPick, number: int) -> CommitClaim:
    """Return the claim of a pick; `number` makes its name unique."""
    pick = proven.pick
    if proven.proof is not None:
        check_rows(proven.proof, sum(file.row_count for file in pick.announced))
    bucket = Bucket(pick.place.partition, pick.place.bucket, pick.place.total_buckets)
    return claim_of(f"{number} {pick.name}", bucket, proven.proof, pick.moved, pick.announced)


def _vector_error(
    picks: Sequence[ProvenPick], claims: Sequence[CommitClaim], change: VectorChange, rules: TableRules
) -> ProofError | None:
    """Return what is wrong with the deletion vectors of the bucket of these picks, or None."""
    name = picks[0].pick.name
    moved = {file.file_name for proven in picks for file, _ in proven.pick.moved}
    removed = {file.file_name for claim in claims for _, file in claim.removed} - moved
    deleted = {file: len(rows) for file, rows in change.before.items()}
    try:
        check_vectors(name, change, removed, _due_marks(name, claims, change, rules))
        for proven in picks:
            if proven.proof is not None and not rules.data_evolution:  # there, several files have one row
                check_live_rows(proven.proof, deleted)
    except ProofError as err:
        return err
    return None


def _named_error(
    name: str, place: Place, messages: Iterable[CommitMessage], change: VectorChange
) -> ProofError | None:
    """Return what is wrong with the index files that the messages name for a bucket, or None."""
    here = [one for one in messages if (one.partition, one.bucket) == (place.partition, place.bucket)]
    new = [file for one in here for file in one.compact_new_index_files]
    old = [file for one in here for file in one.compact_deleted_index_files]
    try:
        check_named(name, change, new, old)
    except ProofError as err:
        return err
    return None


def _due_marks(
    name: str, claims: Iterable[CommitClaim], change: VectorChange, rules: TableRules
) -> dict[str, BitMap]:
    """Return the rows that the picks of a bucket delete: those that they replaced, or those that were deleted
    before.
    """
    if rules.data_evolution:
        return joined_marks(
            moved_marks(
                name,
                change.before,
                (file for _, file in claim.removed),
                (file for _, file in claim.added),
            )
            for claim in claims
        )
    if not rules.marks:
        return {}
    return joined_marks(claim.looked_up for claim in claims)
