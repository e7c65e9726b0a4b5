"""This module compares what is about to be committed with what was proven. Pure.

Right before messages are given to the committer: every file that a proof covers is added once, every file
that was read is removed once, files that only move are equal but for their level, and nothing else comes or
goes; each in the bucket, and with the number of buckets, of its pick. Changelog files are those that were
read back. The numbers of rows add up. `vector_check` compares deletion vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.verify.proof.pick_proof import PickProof, check_upgrade

__all__ = ["Bucket", "CommitClaim", "Placed", "check_commit", "check_live_rows", "check_rows", "claim_of"]

Move = tuple[DataFile, DataFile]
_PARTS = {"removed": "removed", "added": "added", "changelog": "added to the changelog"}


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """This is the bucket of a file. `partition` is a serialised row, `total` the number of buckets."""

    partition: bytes
    bucket: int
    total: int


Placed = tuple[Bucket, DataFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitClaim:
    """A pick may remove, add, and use as changelog these files, each in its bucket."""

    name: str
    removed: tuple[Placed, ...]
    added: tuple[Placed, ...]
    changelog: tuple[Placed, ...] = ()
    looked_up: Mapping[str, BitMap] = field(default_factory=dict)
    """The names of files that stay and whose rows were looked up; the commit must depend on them."""

    @property
    def places(self) -> frozenset[Bucket]:
        return frozenset(place for place, _ in (*self.removed, *self.added, *self.changelog))


def claim_of(
    name: str, place: Bucket, proof: PickProof | None, moved: Sequence[Move], announced: Sequence[DataFile]
) -> CommitClaim:
    """Build the claim of a pick of one bucket. `moved` are files before and after; `announced` are moved
    files whose rows were read too. Raises ProofError where a moved file changes more than its level, or rows
    do not add up.
    """
    for before, after in moved:
        check_upgrade(name, before, after)
    stay = {file.file_name for file in announced}
    if stay - {before.file_name for before, _ in moved}:
        raise ProofError(
            name, "the rows of a file go to the changelog, but the file does not change its level"
        )
    read = () if proof is None else proof.read
    new_files = () if proof is None else proof.new_files
    if missing := stay - {file.file_name for file in read}:
        raise ProofError(name, f"the rows of {min(missing)} go to the changelog, but the file was not read")
    removed_files = tuple(file for file in read if file.file_name not in stay)
    return CommitClaim(
        name=name,
        removed=tuple((place, file) for file in (*removed_files, *(before for before, _ in moved))),
        added=tuple((place, file) for file in (*new_files, *(after for _, after in moved))),
        changelog=tuple((place, file) for file in (() if proof is None else proof.changelog_files)),
        looked_up={} if proof is None else proof.looked_up,
    )


def check_rows(proof: PickProof, announced_rows: int = 0) -> None:
    """Check that the rows read are those dropped and those in the outputs, as the outputs are described.

    `announced_rows` are those of files that were read and stay. Raises ProofError.
    """
    described = sum(file.row_count for file in proof.new_files) + announced_rows
    if described != proof.outputs.rows:
        raise ProofError(proof.pick, f"{proof.outputs.rows} rows were proven, but its files have {described}")
    change_count = sum(file.row_count for file in proof.changelog_files)
    changes = 0 if proof.fold is None else proof.fold.changes.rows
    if change_count != changes:
        raise ProofError(proof.pick, f"{changes} changes were proven, but its changelog has {change_count}")
    if proof.fold is not None:
        total, result = proof.fold.inputs.rows, proof.fold.results.rows
    else:
        total, result = proof.inputs.rows, proof.inputs.rows - proof.lost.rows - proof.dropped.rows
    if (total, result) != (proof.inputs.rows, proof.outputs.rows):
        raise ProofError(
            proof.pick,
            f"{proof.inputs.rows} rows were read and {proof.outputs.rows} were written, but its "
            "merge counted "
            f"{total} read and {result} written",
        )


def check_live_rows(proof: PickProof, deleted: Mapping[str, int]) -> None:
    """Check that the rows that were read are those of the files without the deleted ones.

    `deleted` is the number of rows of a file that its deletion vector marks, by file name, from the index
    files of the snapshot that was planned from. A unit that was not given a vector would bring deleted rows
    back, and its own account would add up all the same. Raises ProofError.
    """
    live = sum(file.row_count - deleted.get(file.file_name, 0) for file in proof.read)
    if live != proof.inputs.rows:
        raise ProofError(
            proof.pick,
            f"{proof.inputs.rows} rows were read, but its files have {live} rows that are not deleted",
        )


def check_commit(
    claims: Sequence[CommitClaim], messages: Sequence[CommitMessage], *, overwrites: bool = False
) -> dict[str, ProofError]:
    """Return the faults by the name of the claim. Raises ProofError for changes that belong to no claim.

    With `overwrites` files are added and removed as those of an overwrite, else as those of a compaction.
    Cost: one look at each file.
    """
    files = _MessageFiles(messages, overwrites=overwrites)
    faults: dict[str, ProofError] = {}
    for claim in claims:
        problem = files.compare(claim)
        if problem is not None:
            faults[claim.name] = ProofError(claim.name, f"the commit differs from what was proven: {problem}")
    files.check_rest(claims, faults)
    return faults


class _MessageFiles:
    """The files of messages, by what happens to them. Those that a claim explains are taken out."""

    def __init__(self, messages: Sequence[CommitMessage], *, overwrites: bool) -> None:
        self._lookups: dict[Bucket, set[str]] = {}
        self._parts: dict[str, list[Placed]] = {"removed": [], "added": [], "changelog": []}
        self._index_places: list[Bucket] = []
        for message in messages:
            self._add(message, overwrites=overwrites)
        self._counts = {
            part: Counter((place, file.file_name) for place, file in files)
            for part, files in self._parts.items()
        }
        self._files = {
            part: {(place, file.file_name): file for place, file in files}
            for part, files in self._parts.items()
        }
        self._claimed: dict[str, Counter[tuple[Bucket, str]]] = {part: Counter() for part in self._parts}

    def _add(self, message: CommitMessage, *, overwrites: bool) -> None:
        place = Bucket(message.partition, message.bucket, message.total_buckets)
        if overwrites:
            files = (message.deleted_files, message.new_files, message.changelog_files)
            other: tuple[object, ...] = (
                message.compact_before, message.compact_after, message.compact_changelog,
                message.compact_new_index_files, message.compact_deleted_index_files,
            )  # fmt: skip
            index_files: Iterable[IndexFile] = (*message.new_index_files, *message.deleted_index_files)
        else:
            files = (message.compact_before, message.compact_after, message.compact_changelog)
            other = (
                message.deleted_files, message.new_files, message.changelog_files,
                message.new_index_files, message.deleted_index_files,
            )  # fmt: skip
            index_files = (*message.compact_new_index_files, *message.compact_deleted_index_files)
        if any(other):
            raise ProofError(
                _text(place), "the commit mixes files of a compaction with files of another kind of commit"
            )
        for part, names in zip(self._parts.values(), files, strict=True):
            part += [(place, file) for file in names]
        self._lookups.setdefault(place, set()).update(
            file.file_name for file in message.compact_required_files
        )
        for index_file in index_files:
            if (index_file.partition, index_file.bucket) != (place.partition, place.bucket):
                raise ProofError(_text(place), f"{index_file.file_name} is an index file of another bucket")
            self._index_places.append(place)

    def compare(self, claim: CommitClaim) -> str | None:
        """Return what the messages lack of a claim, or have otherwise; None if they agree."""
        claims = {"removed": claim.removed, "added": claim.added, "changelog": claim.changelog}
        problems = [problem for part, files in claims.items() for problem in self._missing(part, files)]
        for place in claim.places:
            unguarded = claim.looked_up.keys() - self._lookups.get(place, set())
            problems += [
                f"the commit does not require that {name} still exists, although rows were looked up in it"
                for name in sorted(unguarded)
            ]
        return problems[0] if problems else None

    def _missing(self, part: str, files: Iterable[Placed]) -> Iterable[str]:
        for place, file in files:
            key = (place, file.file_name)
            self._claimed[part][key] += 1
            count = self._counts[part][key]
            if count != 1:
                yield f"{file.file_name} is {_PARTS[part]} {count} times in {_text(place)} instead of once"
            elif self._claimed[part][key] > 1:
                yield f"{file.file_name} is {_PARTS[part]} by two picks"
            elif self._files[part][key] != file:
                yield f"{file.file_name} is {_PARTS[part]} with another description"

    def check_rest(self, claims: Sequence[CommitClaim], faults: dict[str, ProofError]) -> None:
        """Add a fault for files that no claim explains to those of their bucket. Raises ProofError if their
        bucket has no claim.
        """
        owners: dict[tuple[bytes, int], list[str]] = {}
        for claim in claims:
            for place in claim.places:
                owners.setdefault((place.partition, place.bucket), []).append(claim.name)
        strange = [
            (place, f"{name} is {_PARTS[part]}, but no proof covers it")
            for part, counts in self._counts.items()
            for place, name in counts
            if not self._claimed[part][place, name]
        ]
        places = {place for claim in claims for place in claim.places}
        strange += [
            (p, "index files of another bucket change") for p in self._index_places if p not in places
        ]
        for place, problem in strange:
            owner = owners.get((place.partition, place.bucket), [])
            if not owner:
                raise ProofError(_text(place), f"the commit differs from what was proven: {problem}")
            for name in owner:
                faults.setdefault(
                    name, ProofError(name, f"the commit differs from what was proven: {problem}")
                )


def _text(place: Bucket) -> str:
    return f"bucket {place.bucket} of {place.total}"
