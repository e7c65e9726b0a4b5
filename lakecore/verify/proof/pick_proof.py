"""The proof before a commit: what a unit wrote is what it read, less what its merge gave account of.

Primary-key tables, merge engine deduplicate: inputs = outputs read back + rows lost + deletes dropped, by
count and digest; keys of outputs strictly increase; the merge's certificate holds. Engines that make new
rows (`fold`): inputs = the rows that the merge accounted for, outputs = the results that these rows must
have. Append tables: outputs are the inputs in order, by count and digest; where they are sorted on purpose,
in any order (`verify.sorted_rows`). An upgrade changes a level and nothing else. What a digest covers:
`shape_of`.

A pick may be cut into units by key ranges. Then inputs are tallied once, whole, and compared with the sum
of the units: rows that no unit read, or that two units read, show up. `prove_unit` is both halves for a
pick of one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import DIGEST_VERSION, ZERO, Tally, total
from lakecore.verify.digest.file_tally import FileTally, files_of, positions_of
from lakecore.verify.digest.rows import tally_rows, without_rows
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.mode import ProofMode
from lakecore.verify.proof.certificate import UnitEvidence, join_evidence
from lakecore.verify.proof.outputs import OutputEvidence, OutputPlace, OutputTally, check_output_file
from lakecore.verify.proof.pick_text import PostponedCheck, pick_text
from lakecore.verify.recompute.evidence import MergeEvidence, join_folds
from lakecore.verify.sample.choice import RowSample, join_samples
from lakecore.verify.sample.key_marks import KeyMarks, Marks

__all__ = [
    "PickProof",
    "PostponedCheck",
    "ProofContext",
    "UnitProof",
    "check_changelog",
    "check_outputs",
    "check_upgrade",
    "proof_properties",
    "prove_pick",
    "prove_unit",
    "tally_input",
]

_PROPERTY = "lakecore.proof"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitProof:
    """One unit makes this part of the proof: its outputs as they were read back, and its merge's evidence
    (None for append tables).

    `changes`: its changelog files as read back (`check_changelog`). `looked_up`: rows at the positions that
    its merge looked up (`lookups.tally_positions`). `searched`: rows found by searching for the keys in
    `MergeEvidence.key_hashes` (`lookups.search_keys`); the full mode needs it where keys were asked for.
    `sample`: the rows of which all columns were compared; the sampled mode needs it.
    """

    unit: str
    outputs: OutputEvidence
    evidence: UnitEvidence | MergeEvidence | None = None
    changes: Tally = ZERO
    looked_up: Tally = ZERO
    searched: Tally | None = None
    sample: RowSample | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PickProof:
    """This pick holds. `covered` names the columns in the digest, besides key and system columns.

    `uncompared`: columns that should be, but changed their type in a way that may change values. `fold`: the
    account of a merge that makes new rows; then `lost` and `dropped` are empty. `postponed`: how rows were
    compared that had no bucket and got one (`verify.postponed`); None for other picks. `sorted_by`: the order
    that the outputs have, where it is not that of the inputs. `sample`: rows of which all columns were
    compared, chosen by `seed`. `read`, `new_files`, `changelog_files`: the inputs, outputs and changelog
    files that were read. `looked_up`: rows that were looked up, by file.
    """

    pick: str
    mode: ProofMode
    inputs: Tally
    outputs: Tally
    lost: Tally = ZERO
    dropped: Tally = ZERO
    ties: int = 0
    keyed: bool
    covered: tuple[str, ...] = ()
    uncompared: tuple[str, ...] = ()
    fold: MergeEvidence | None = None
    postponed: PostponedCheck | None = None
    sorted_by: str = ""
    sample: RowSample | None = None
    seed: str = ""
    read: tuple[DataFile, ...] = ()
    new_files: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    looked_up: Mapping[str, BitMap] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return what was proven, for a report."""
        return pick_text(self)


def tally_input(
    context: ProofContext,
    unit: str,
    stored: StoredFile,
    first_row: int = 0,
    deleted: BitMap | None = None,
    marks: Marks | None = None,
) -> Tally:
    """Count and digest of the live rows of one input, read whole.

    `first_row`: live rows of the inputs before it (append tables). `deleted`: positions that do not count.
    `marks`: gets those of the file, which has its keys in order. Raises ProofError when the file does not
    hold as many rows as its manifest entry says, CorruptDataError.
    """
    rows, row_count = ZERO, 0
    schema = context.schemas[stored.file.schema_id]
    number = stored.number(context.shape)
    key_marks = KeyMarks()
    for columns in read_covered(context.file_io, stored.path, context.shape, schema, number=number):
        if marks is not None:
            key_marks.add(columns[: len(context.shape.key)])
        live = columns if deleted is None else without_rows(columns, deleted, row_count)
        rows += tally_rows(live, context.shape, first_row + rows.rows)
        row_count += len(columns[0])
    if row_count != stored.file.row_count:
        raise ProofError(
            unit,
            f"input {stored.path} has {row_count} rows, but its description says {stored.file.row_count}",
        )
    if marks is not None:
        marks[stored.path] = key_marks
    if deleted is not None and rows.rows != row_count - len(deleted):
        raise ProofError(
            unit, f"the deletion vector of input {stored.path} deletes rows that the file does not have"
        )
    return FileTally(rows.rows, rows.digest, (stored.file,))


def check_outputs(
    context: ProofContext,
    unit: str,
    outputs: Sequence[StoredFile],
    marks: Marks | None = None,
    tally: OutputTally | None = None,
) -> OutputEvidence:
    """Read the outputs of a unit back, in key order (append tables: in row order). Raises ProofError.

    `marks`: gets those of the files. `tally`: tallies the rows of files with a key.
    """
    whole = OutputEvidence()
    for stored in outputs:
        schema = context.schemas[stored.file.schema_id]
        marks_of_file = None if marks is None else marks.setdefault(stored.path, KeyMarks())
        role = OutputPlace(first_row=whole.rows.rows, marks=marks_of_file, tally=tally)
        part = check_output_file(unit, context.file_io, stored, context.shape, schema, role)
        whole = _join_outputs(unit, whole, part)
    return whole


def check_changelog(context: ProofContext, unit: str, files: Sequence[StoredFile]) -> Tally:
    """Read the changelog files of a unit back. Raises ProofError."""
    rows = ZERO
    for stored in files:
        schema = context.schemas[stored.file.schema_id]
        role = OutputPlace(changelog=True)
        rows += check_output_file(unit, context.file_io, stored, context.shape, schema, role).rows
    return FileTally(rows.rows, rows.digest, tuple(stored.file for stored in files))


def prove_unit(
    context: ProofContext,
    unit: str,
    inputs: Sequence[StoredFile],
    outputs: Sequence[StoredFile],
    evidence: UnitEvidence | MergeEvidence | None = None,
    sample: RowSample | None = None,
) -> PickProof:
    """Return the whole proof of a pick of one unit. `inputs` of an append table are in the order in which
    they were read. `sample` is that of the rows, if the mode needs one.

    Raises ProofError naming `unit`. Cost: reads the covered columns of inputs and outputs once.
    """
    tallies: list[Tally] = []
    for stored in inputs:
        tallies.append(tally_input(context, unit, stored, sum(part.rows for part in tallies)))
    proof = UnitProof(
        unit=unit,
        outputs=check_outputs(context, unit, outputs),
        evidence=evidence,
        sample=sample,
    )
    return prove_pick(context.shape, unit, tallies, [proof])


def prove_pick(shape: RowShape, pick: str, inputs: Iterable[Tally], units: Sequence[UnitProof]) -> PickProof:
    """Compare whole inputs with the sum of the units, given in key order. Pure. Raises ProofError."""
    tallies = tuple(inputs)
    before = total(tallies)
    outputs = OutputEvidence()
    for unit in units:
        _check_unit(shape, unit)
        outputs = _join_outputs(pick, outputs, unit.outputs)
    proof = PickProof(
        pick=pick,
        mode=shape.mode,
        inputs=before,
        outputs=outputs.rows,
        keyed=shape.keyed,
        covered=tuple(field.name for field in shape.values),
        uncompared=shape.uncompared,
        sorted_by=shape.sorted_by,
        sample=_sample(shape, pick, before, units),
        seed=shape.seed,
        read=files_of(tallies),
        new_files=outputs.proven,
        changelog_files=files_of(unit.changes for unit in units),
        looked_up=positions_of(unit.looked_up for unit in units),
    )
    folds = [unit.evidence for unit in units if isinstance(unit.evidence, MergeEvidence)]
    if folds and len(folds) == len(units):
        return _prove_fold(proof, join_folds(pick, folds), units)
    evidence = [unit.evidence for unit in units if isinstance(unit.evidence, UnitEvidence)]
    return _prove_kept(proof, join_evidence(pick, evidence))


def _sample(shape: RowShape, pick: str, inputs: Tally, units: Sequence[UnitProof]) -> RowSample | None:
    """Return the sample of the pick. Raises ProofError if the mode needs a sample that a unit did not
    take.
    """
    if not shape.samples:
        return None
    parts = [unit.sample for unit in units if unit.sample is not None]
    if len(parts) != len(units):
        raise ProofError(pick, "a sample of its rows was not compared column by column")
    for unit, part in zip(units, parts, strict=True):
        if unit.outputs.rows.rows and not part.windows and not shape.uncompared:
            raise ProofError(unit.unit, "no window of its rows was compared column by column")
    return join_samples(parts)


def _prove_kept(proof: PickProof, evidence: UnitEvidence) -> PickProof:
    """Prove that every input row is in the outputs, or in the account of its merge."""
    before, after = proof.inputs, proof.outputs + evidence.lost + evidence.dropped
    if before != after:
        raise ProofError(
            proof.pick,
            f"its inputs hold {before}, but its outputs and the rows left out hold {after} "
            f"(outputs: {proof.outputs}; "
            f"replaced rows: {evidence.lost}; dropped deletes: {evidence.dropped})",
        )
    return replace(proof, lost=evidence.lost, dropped=evidence.dropped, ties=evidence.ties)


def _prove_fold(proof: PickProof, evidence: MergeEvidence, units: Sequence[UnitProof]) -> PickProof:
    """Prove that the merge read the rows of the inputs, and that the outputs are the results of these
    rows.
    """
    if proof.inputs != evidence.inputs:
        raise ProofError(proof.pick, f"its inputs hold {proof.inputs}, but its merge read {evidence.inputs}")
    if proof.outputs != evidence.results:
        raise ProofError(
            proof.pick, f"its rows give {evidence.results} as results, but its outputs hold {proof.outputs}"
        )
    changes = total(unit.changes for unit in units)
    if changes != evidence.changes:
        raise ProofError(
            proof.pick, f"its rows give {evidence.changes} as changes, but its changelog holds {changes}"
        )
    _prove_lookups(proof.pick, evidence, units)
    return replace(proof, ties=evidence.ties, fold=evidence)


def _prove_lookups(pick: str, evidence: MergeEvidence, units: Sequence[UnitProof]) -> None:
    """Prove that looked-up rows are where the merge says, and are all that a search finds."""
    there = total(unit.looked_up for unit in units)
    if there != evidence.outside:
        raise ProofError(pick, f"its merge looked up {evidence.outside}, but {there} are at their positions")
    if not evidence.key_hashes:
        return
    if any(unit.searched is None for unit in units):
        raise ProofError(pick, "the rows that its merge looked up were not searched for")
    searched = total(unit.searched for unit in units if unit.searched is not None)
    if searched != evidence.outside:
        raise ProofError(pick, f"its merge looked up {evidence.outside}, but a search finds {searched}")


def _check_unit(shape: RowShape, proof: UnitProof) -> None:
    """Check that the merge's account of a unit agrees with the unit's outputs."""
    if not shape.keyed:
        return
    evidence, outputs = proof.evidence, proof.outputs
    if evidence is None:
        raise ProofError(proof.unit, "its merge did not count the rows that it left out")
    if isinstance(evidence, MergeEvidence):
        expected_rows = evidence.results.rows
    else:
        expected_rows = evidence.rows - evidence.lost.rows - evidence.dropped.rows
    if expected_rows != outputs.rows.rows:
        raise ProofError(
            proof.unit, f"its merge kept {expected_rows} rows, but its outputs hold {outputs.rows.rows}"
        )
    if outputs.first_key is None or outputs.last_key is None:
        return
    first, last = evidence.first_key, evidence.last_key
    if first is None or last is None or first > outputs.first_key or last < outputs.last_key:
        reach = f"from {outputs.first_key} to {outputs.last_key}"
        raise ProofError(proof.unit, f"its outputs have keys {reach}, which the merged rows lack")


def _join_outputs(unit: str, whole: OutputEvidence, part: OutputEvidence) -> OutputEvidence:
    if whole.last_key is not None and part.first_key is not None and part.first_key <= whole.last_key:
        raise ProofError(
            unit,
            f"an output that begins with key {part.first_key} follows an output that ends with "
            f"key {whole.last_key}",
        )
    return OutputEvidence(
        rows=whole.rows + part.rows,
        files=whole.files + part.files,
        proven=whole.proven + part.proven,
        first_key=part.first_key if whole.first_key is None else whole.first_key,
        last_key=whole.last_key if part.last_key is None else part.last_key,
    )


def check_upgrade(unit: str, before: DataFile, after: DataFile) -> None:
    """Check that an upgraded file is the same file on a higher level. A file that leaves level 0 may have one
    lookup file more. Raises ProofError.
    """
    same = replace(before, level=after.level, extra_files=after.extra_files) == after
    if not same or after.level < before.level or not _same_extra_files(before, after):
        raise ProofError(unit, f"the upgrade of {before.file_name} changes more than its level, or lowers it")


def _same_extra_files(before: DataFile, after: DataFile) -> bool:
    """Tell whether the extra files are the same, but for one lookup file of a file that leaves level 0."""
    count = len(before.extra_files)
    new = after.extra_files[count:]
    if after.extra_files[:count] != before.extra_files or len(new) > 1:
        return False
    leaves = before.level == 0 < after.level
    start = f"{before.file_name}."
    return not new or (
        leaves and new[0].startswith(start) and new[0].endswith(".lookup") and "/" not in new[0]
    )


def proof_properties(proofs: Iterable[PickProof]) -> dict[str, str]:
    """Return what a commit's snapshot records: mode, version, rows and the digests of what its picks read and
    wrote.

    Empty when nothing was rewritten.
    """
    pick_proofs = list(proofs)
    if not pick_proofs:
        return {}
    inputs, outputs = (
        total(proof.inputs for proof in pick_proofs),
        total(proof.outputs for proof in pick_proofs),
    )
    return {
        _PROPERTY: pick_proofs[0].mode.value,
        f"{_PROPERTY}.version": str(DIGEST_VERSION),
        f"{_PROPERTY}.rows-in": str(inputs.rows),
        f"{_PROPERTY}.rows-out": str(outputs.rows),
        f"{_PROPERTY}.digest-in": f"{inputs.digest:016x}",
        f"{_PROPERTY}.digest-out": f"{outputs.digest:016x}",
    }
