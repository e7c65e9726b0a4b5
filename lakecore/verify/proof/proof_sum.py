"""This module adds up the proofs of picks, for a report of a run. It is pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakecore.verify.digest.digest import total
from lakecore.verify.proof.pick_proof import PickProof, PostponedCheck
from lakecore.verify.recompute.evidence import MergeEvidence

__all__ = ["sums_of"]


def sums_of(proofs: Iterable[PickProof]) -> tuple[PickProof, ...]:
    """Return one proof for each kind of proof, in the order in which the kinds appear, without the files that
    were read and written. Sums may be added up again.
    """
    kinds: dict[tuple[PostponedCheck | None, bool], list[PickProof]] = {}
    for proof in proofs:
        kinds.setdefault((proof.postponed, proof.fold is None), []).append(proof)
    return tuple(_sum(members) for members in kinds.values())


def _sum(proofs: Sequence[PickProof]) -> PickProof:
    folds = [proof.fold for proof in proofs if proof.fold is not None]
    return replace(
        proofs[0],
        pick="all",
        inputs=total(proof.inputs for proof in proofs),
        outputs=total(proof.outputs for proof in proofs),
        lost=total(proof.lost for proof in proofs),
        dropped=total(proof.dropped for proof in proofs),
        ties=sum(proof.ties for proof in proofs),
        fold=None if folds == [] else sum(folds, MergeEvidence()),
        read=(),
        new_files=(),
        changelog_files=(),
        looked_up={},
    )
