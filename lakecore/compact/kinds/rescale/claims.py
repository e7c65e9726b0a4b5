"""This module derives what a rescaling may commit from its proofs, and checks whether the commit is exactly
that. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakecore.compact.kinds.rescale.plan import RescalePick
from lakecore.errors import ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, IndexFile
from lakecore.verify.proof.commit_check import (
    Bucket,
    CommitClaim,
    check_commit,
    check_live_rows,
    check_rows,
)
from lakecore.verify.proof.pick_proof import PickProof

__all__ = ["commit_faults"]

BucketFiles = tuple[int, tuple[DataFile, ...]]
ProvenRescale = tuple[str, RescalePick, Sequence[BucketFiles], PickProof]
"""It has the name of the partition, what was planned, new files by bucket, and the proof."""


def commit_faults(
    proven: Sequence[ProvenRescale], messages: Sequence[CommitMessage], index_files: Iterable[IndexFile]
) -> dict[int, ProofError]:
    """Return what is wrong, by the place of the partition. `index_files` are those of the snapshot that was
    planned from.

    Raises ProofError if the messages have what belongs to no partition.
    """
    index_files = tuple(index_files)
    faults: dict[int, ProofError] = {}
    claims: dict[int, CommitClaim] = {}
    for number, one in enumerate(proven):
        try:
            claims[number] = _claim(f"{number} {one[0]}", *one[1:])
            _check_live_rows(one[1], one[3], index_files)
        except ProofError as err:
            faults[number] = err
    if faults:
        return faults  # the others are looked at when these are out
    result = check_commit(list(claims.values()), messages, overwrites=True)
    for number, claim in claims.items():
        if claim.name in result:
            faults[number] = ProofError(proven[number][0], result[claim.name].problem)
    vectors = _vectors(file for message in messages for file in message.deleted_index_files)
    due = _vectors(index_files)
    for number, (name, pick, _, _) in enumerate(proven):
        if _of(pick, vectors) != _of(pick, due) or any(m.new_index_files for m in messages):
            faults.setdefault(
                number,
                ProofError(
                    name, "its commit would remove other deletion vectors than those of the removed files"
                ),
            )
    return faults


def _claim(name: str, pick: RescalePick, files: Sequence[BucketFiles], proof: PickProof) -> CommitClaim:
    """Return the claim of a partition: every file that was read is removed from its bucket, every file that
    was read back is added to its own.
    """
    check_rows(proof)
    where = {file.file_name: bucket for bucket, names in pick.files.items() for file in names}
    into = {file.file_name: bucket for bucket, names in files for file in names}
    if {file.file_name for file in proof.read} != where.keys():
        raise ProofError(proof.pick, "the files that were read are not those of the partition")
    if {file.file_name for file in proof.new_files} != into.keys():
        raise ProofError(proof.pick, "the new files are not those that were read back")
    old_files = ((Bucket(pick.partition, where[f.file_name], pick.old_total), f) for f in proof.read)
    new_files = ((Bucket(pick.partition, into[f.file_name], pick.new_total), f) for f in proof.new_files)
    return CommitClaim(name=name, removed=tuple(old_files), added=tuple(new_files))


def _check_live_rows(pick: RescalePick, proof: PickProof, index_files: Iterable[IndexFile]) -> None:
    """Check the live rows. It has no effect where an index file does not record how many rows it marks
    (writers before Paimon 0.9).
    """
    marked = {
        vector.data_file: vector.cardinality
        for file in index_files
        if file.partition == pick.partition and file.bucket in pick.files
        for vector in file.deletions
    }
    if None not in marked.values():
        check_live_rows(proof, {name: count or 0 for name, count in marked.items()})


def _vectors(files: Iterable[IndexFile]) -> set[tuple[bytes, int, str]]:
    return {(f.partition, f.bucket, f.file_name) for f in files if f.index_type == DELETION_VECTORS}


def _of(pick: RescalePick, files: set[tuple[bytes, int, str]]) -> set[tuple[bytes, int, str]]:
    return {entry for entry in files if entry[0] == pick.partition and entry[1] in pick.files}
