"""This module decides which rows of a unit are copied by whole row groups or runs of pages, and what is
merged between them. Both are steps in key order.

Copied are files whose keys no other file of the unit has among its own; and of the largest run of files that
do overlap, the row groups in whose range no other file has a key, and runs of pages of the others. What
cannot be shown from decoded keys is merged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TypeAlias

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.lsm.sections import largest_run
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.file.group_keys import key_at_row
from lakecore.read.file.key_range import KeyRange
from lakecore.row.binary_row import encode_row
from lakecore.verify.digest.row_groups import GroupPart
from lakecore.write.files.copied_groups import describe_groups
from lakecore.write.files.copy_blocks import BlockCopies, CopyBlocks, KeyedUnit, Piece, Run
from lakecore.write.files.copy_plan import CopyInput, CopyPlan, read_footers, settled_plan

logger = logging.getLogger(__name__)

__all__ = ["CopyStep", "MergeStep", "Step", "UnitCopies", "plan_unit"]


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Row groups of the file with this number are copied, or runs of pages: those of `footer`, which are
    `parts` of the file. `file` describes their rows. `span` are the positions of these in the file; None: all
    are copied.
    """

    number: int
    file: DataFile
    footer: Footer
    parts: tuple[GroupPart, ...]
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class MergeStep:
    """The rows of these runs in a range of keys are merged; None: all of them."""

    runs: tuple[Run, ...]
    bounds: KeyRange | None


Step: TypeAlias = CopyStep | MergeStep


@dataclass(frozen=True, slots=True)
class UnitCopies:
    """It says what becomes of each file of the unit, and the steps. `files` are in the order of their
    numbers.
    """

    files: tuple[DataFile, ...]
    plan: CopyPlan
    steps: tuple[Step, ...]


def plan_unit(unit: KeyedUnit) -> UnitCopies:
    """Return the steps of a unit. Cost: the footers of files that may be copied; where others overlap them a
    page of keys for each row group, and the keys of the others until it is known that copies do not pay.
    Raises NotFoundError, UnavailableError, CorruptDataError.
    """
    planner = _Planner(unit)
    read = planner.footers
    steps: list[Step] = []
    number = 0
    for part in planner.parts:
        steps += planner.part_steps(part, number)
        number += sum(map(len, part))
    footers = dict[int, list[CopyStep]]()
    for step in steps:
        if isinstance(step, CopyStep):
            footers.setdefault(step.number, []).append(step)
    decisions = tuple(_decision(part, footers.get(at, ())) for at, part in enumerate(read.parts))
    merges = sum(1 for merged, _ in groupby(steps, key=lambda step: isinstance(step, MergeStep)) if merged)
    plan = settled_plan(CopyPlan(decisions), planner.inputs, unit.spec, unit.mode, merges)
    return UnitCopies(planner.files, plan, tuple(steps))


def _decision(part: Footer | SpliceReason, copies: Sequence[CopyStep]) -> Footer | SpliceReason:
    """Return the footer with the row groups of a file that are copied, or why none is."""
    if isinstance(part, SpliceReason):
        return part
    groups = [group for step in copies for group in step.footer.groups]
    return part.with_groups(groups) if groups else SpliceReason.OVERLAPS


class _Planner:
    """The parts of a unit with their footers. Numbers of files count over all parts."""

    def __init__(self, unit: KeyedUnit) -> None:
        self.unit = unit
        self.parts = unit.parts
        self.files = tuple(file for part in self.parts for run in part for file in run)
        self.inputs = [
            CopyInput(unit.stored(file), unit.reading.file_schema(file.schema_id), _refusal(unit, part, file))
            for part in self.parts
            for run in part
            for file in run
        ]

    @cached_property
    def footers(self) -> CopyPlan:
        """Return the footers of the files that may be copied."""
        unit = self.unit
        return read_footers(unit.reading.file_io, unit.spec, self.inputs, unit.mode)

    def part_steps(self, part: tuple[Run, ...], number: int) -> list[Step]:
        """Return the steps of a part, whose first file has this number."""
        whole: list[Step] = [MergeStep(part, self.unit.bounds)]
        if sum(map(len, part)) == 1 and self.unit.bounds is None:
            footer = self.footers.parts[number]
            return [self._whole_file(number, footer)] if isinstance(footer, Footer) else whole
        base = largest_run(part)
        if base is None:
            return whole
        first = number + sum(len(run) for run in part[:base])
        members = range(first, first + len(part[base]))
        if not any(isinstance(self.footers.parts[member], Footer) for member in members):
            return whole
        try:
            others = [file for at, run in enumerate(part) if at != base for file in run]
            free = CopyBlocks(self.unit, self.files, self.footers.parts).copies(members, others)
        except CorruptDataError as err:  # perhaps of an index, which a merge does not read
            logger.warning("%s: no row groups are copied: %s", self.unit.bucket_dir, err)
            return whole
        return whole if free is None else list(self._steps(part, free))

    def _whole_file(self, number: int, footer: Footer) -> CopyStep:
        parts = tuple(GroupPart(group) for group in range(len(footer.groups)))
        return CopyStep(number, self.files[number], footer, parts)

    def _steps(self, part: tuple[Run, ...], free: BlockCopies) -> Iterator[Step]:
        """Yield copies of free blocks, and merges of the ranges of keys between them."""
        bounds, blocks = self.unit.bounds or KeyRange(), free.blocks
        low, begins = bounds.low, free.keys.keys_before or bounds.low is not None
        for region in free.keys.ranges():
            first = blocks[region.start].keys.first_key
            if begins or region.start:
                yield MergeStep(part, KeyRange(low, first))
            yield from self._copies([free.pieces[number] for number in region if number in free.pieces])
            begins = region.stop < len(blocks)
            low = blocks[region.stop].keys.first_key if begins else None
        if begins:
            yield MergeStep(part, KeyRange(low, bounds.high))

    def _copies(self, pieces: Iterable[Piece]) -> Iterator[CopyStep]:
        """Yield a copy for each file that has some of these pieces."""
        for number, members in groupby(pieces, key=lambda piece: piece.keys.file):
            footer = self.footers.parts[number]
            if not isinstance(footer, Footer):
                raise TypeError(f"file {number} of the unit is not copied")
            pieces_of_file = tuple(members)
            if sum(piece.group.rows for piece in pieces_of_file) == footer.rows:
                yield self._whole_file(number, footer)
            else:
                yield self._part_of_file(number, footer, pieces_of_file)

    def _part_of_file(self, number: int, footer: Footer, pieces: Sequence[Piece]) -> CopyStep:
        unit, file = self.unit, self.files[number]
        reading = unit.reading
        first = pieces[0].part
        start = sum(group.rows for group in footer.groups[: first.group])
        start += 0 if first.rows is None else first.rows[0]
        span = start, start + sum(piece.group.rows for piece in pieces)
        last = key_at_row(reading, unit.bucket_dir, file, span[1] - 1)
        key_type = unit.spec.schema.key_type
        ends = encode_row(pieces[0].keys.first_key, key_type), encode_row(last, key_type)
        described = [(piece.group.rows, piece.bounds) for piece in pieces]
        entry = describe_groups(file, reading.file_schema(file.schema_id), described, ends)
        groups = footer.with_groups(piece.group for piece in pieces)
        return CopyStep(number, entry, groups, tuple(piece.part for piece in pieces), span)


def _refusal(unit: KeyedUnit, part: tuple[Run, ...], file: DataFile) -> SpliceReason | None:
    """Return why a merge must decode a file: its rows may leave, or be replaced. Which row groups have the
    deletes of a file is not known.
    """
    shared = len(_files_of(part)) > 1
    base = largest_run(part) if shared else None
    if shared and (base is None or file not in part[base]):
        return SpliceReason.OVERLAPS
    if file.file_name in unit.deleted:
        return SpliceReason.DELETED_ROWS
    if file.delete_row_count is None or ((unit.drop_deletes or shared) and file.delete_row_count):
        return SpliceReason.DELETES
    return None


def _files_of(part: tuple[Run, ...]) -> list[DataFile]:
    return [file for run in part for file in run]
