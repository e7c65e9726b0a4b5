"""This module writes what was proven of a pick as a sentence for reports. It decides nothing."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from lakecore.types.counted import counted
from lakecore.verify.digest.digest import DIGEST_VERSION
from lakecore.verify.mode import ProofMode

if TYPE_CHECKING:
    from lakecore.verify.proof.pick_proof import PickProof
    from lakecore.verify.recompute.evidence import MergeEvidence

__all__ = ["PostponedCheck", "pick_text"]


class PostponedCheck(Enum):
    """It tells how postponed rows were compared with the files of the buckets that they went to."""

    ROWS = "rows"
    """The last row of every key was compared, with all columns of the digest."""
    KEYS = "keys"
    """Each key was compared: the merge engine makes new rows of those that it reads."""


def pick_text(proof: PickProof) -> str:
    """Return what was proven of a pick."""
    return _rows_text(proof) + _sample_text(proof)


def _rows_text(proof: PickProof) -> str:
    if proof.fold is not None:
        return _folded_text(proof, proof.fold)
    if proof.postponed is not None:
        return _postponed_text(proof, proof.postponed)
    what = (
        f"{proof.mode.value} proof v{DIGEST_VERSION}: {proof.inputs.rows} input rows = "
        f"{proof.outputs.rows} output rows"
    )
    if proof.keyed:
        what += f" + {proof.lost.rows} replaced rows + {proof.dropped.rows} dropped deletes"
    text = f"{what}, by count and digest of {_columns(proof)}"
    if proof.sorted_by:
        return f"{text}; the rows of the outputs are in the order of {proof.sorted_by}"
    if proof.keyed:
        text += (
            "; the keys of the outputs strictly increase; each replaced row comes before a "
            "newer row of its key"
        )
    return text


def _columns(proof: PickProof) -> str:
    if proof.mode is ProofMode.FULL:
        parts: tuple[str, ...] = ("every column",)
    else:
        parts = (("key",) if proof.keyed else ()) + proof.covered
    order = () if proof.sorted_by else ("row order",)
    text = ", ".join(parts + (("sequence number", "row kind") if proof.keyed else order))
    if proof.uncompared:
        text += f" (without {', '.join(proof.uncompared)}, whose type changed)"
    return text


def _sample_text(proof: PickProof) -> str:
    if proof.sample is None:
        return ""
    sample = proof.sample
    where = f"{counted(sample.rows, 'row')} in {counted(sample.windows, 'window')}"
    text = f"; every column was compared in a sample of {where} (seed {proof.seed})"
    if sample.tied:
        text += f", without {sample.tied} keys whose latest row is ambiguous"
    if sample.left_out:
        text += f", except {', '.join(sorted(sample.left_out))}"
    return text


def _order(proof: PickProof) -> str:
    by = proof.sorted_by
    return (
        f"the rows of the outputs are in the order of {by}"
        if by
        else "the keys of the outputs strictly increase"
    )


def _postponed_text(proof: PickProof, check: PostponedCheck) -> str:
    rest = f"{proof.lost.rows} older rows of these keys + {proof.dropped.rows} deletes that the table ignores"
    what = f"{proof.inputs.rows} postponed rows = {proof.outputs.rows} keys + {rest}"
    text = f"{proof.mode.value} proof v{DIGEST_VERSION}: {what}; "
    if check is PostponedCheck.KEYS:
        return text + "every key was written once, by count and digest of keys"
    return (
        text + f"the last row of every key was written and no other, by count and digest of {_columns(proof)}"
    )


def _folded_text(proof: PickProof, fold: MergeEvidence) -> str:
    rest = [
        f"{tally.rows} {word}"
        for word, tally in (
            ("ignored retracts", fold.ignored),
            ("expired rows", fold.expired),
            ("rows that a lower level replaces", fold.superseded),
        )
        if tally.rows
    ]
    looked_up = f" (and {fold.outside.rows} rows that were looked up)" if fold.outside.rows else ""
    text = (
        f"{proof.mode.value} proof v{DIGEST_VERSION}: {proof.inputs.rows} input rows{looked_up} = the rows "
        "merged"
        f"{''.join(f' + {part}' for part in rest)}, by count and digest of {_columns(proof)}; "
        f"{fold.keys} keys = {proof.outputs.rows} output rows + {fold.vanished} keys that may have no row; "
        f"{_order(proof)}; the sequence number and row kind of each output row follow from the "
        "rows of its key"
    )
    if fold.changes.rows:
        text += (
            f"; {fold.changes.rows} changes are in the changelog, and each follows from the rows "
            "before and after it"
        )
    if proof.mode is ProofMode.FULL:
        text += "; the values were recomputed"
        text += (
            f", except {', '.join(sorted(fold.not_recomputed))}, which equal the result of the merge"
            if fold.not_recomputed
            else ""
        )
    return text
