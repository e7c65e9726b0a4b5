"""This module decides which rows of a unit are copied by whole row groups, and what is merged between them.
Both are steps in key order.

Copied are files whose keys no other file of the unit has among its own; and of the largest run of files that
do overlap, the row groups in whose range no other file has a key. What cannot be shown from decoded keys is
merged.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TypeAlias

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.lsm.sections import largest_run
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.group_keys import first_keys, key_at_row, key_batches
from lakecore.read.file.key_blocks import KeyBlock, KeyBlocks, in_key_order
from lakecore.read.file.key_range import KeyRange
from lakecore.row.binary_row import encode_row
from lakecore.verify.digest.columns import StoredFile
from lakecore.write.files.copied_groups import GroupBounds, describe_groups, group_bounds
from lakecore.write.files.copy_plan import CopyInput, CopyPlan, read_footers, settled_plan
from lakecore.write.files.rolling import FileSpec

logger = logging.getLogger(__name__)

__all__ = ["CopyStep", "KeyedUnit", "MergeStep", "Step", "UnitCopies", "plan_unit"]

Run: TypeAlias = tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedUnit:
    """It says what a unit of a merge by key reads and writes. `parts` are its runs, in key order; `bounds` is
    its share of the keys, and `mode` says what may be copied. `deleted` are the names of files of which rows
    are deleted; with `drop_deletes` the deletes that files have must go.
    """

    reading: ReadContext
    bucket_dir: str
    spec: FileSpec
    parts: tuple[tuple[Run, ...], ...]
    bounds: KeyRange | None
    mode: CopyMode
    deleted: Collection[str]
    drop_deletes: bool

    def stored(self, file: DataFile) -> StoredFile:
        """Return a file of the unit with its path."""
        return StoredFile(self.reading.paths.data_file(self.bucket_dir, file), file)


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Row groups of the file with this number are copied: those of `footer`, whose numbers are `groups`.
    `file` describes their rows. `span` are the positions of these in the file; None: all are copied.
    """

    number: int
    file: DataFile
    footer: Footer
    groups: tuple[int, ...]
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
    numbers = [number for step in copies for number in step.groups]
    return part.with_groups(numbers) if numbers else SpliceReason.OVERLAPS


@dataclass(frozen=True, slots=True)
class _Block:
    """It has a block, the bounds of its columns where it may be copied, and its rows."""

    keys: KeyBlock
    bounds: GroupBounds | None
    rows: int


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
            blocks = self._free_blocks(part, base, members)
        except CorruptDataError as err:  # perhaps of an index, which a merge does not read
            logger.warning("%s: no row groups are copied: %s", self.unit.bucket_dir, err)
            return whole
        return whole if blocks is None else list(self._steps(part, *blocks))

    def _whole_file(self, number: int, footer: Footer) -> CopyStep:
        return CopyStep(number, self.files[number], footer, tuple(range(len(footer.groups))))

    def _free_blocks(
        self, part: tuple[Run, ...], base: int, members: range
    ) -> tuple[KeyBlocks, list[_Block]] | None:
        """Return the blocks of the largest run with the keys of the others marked; None where copies do not
        pay, or where ranges of keys cannot be read.
        """
        unit = self.unit
        blocks: list[_Block] = []
        for member in members:
            blocks_of_file = self._blocks(member)
            if blocks_of_file is None:
                return None
            blocks += blocks_of_file
        bounds = unit.bounds or KeyRange()
        if not in_key_order([block.keys for block in blocks]):
            return None
        free = KeyBlocks([block.keys for block in blocks], bounds, unit.spec.schema.key_type)
        others = [file for at, run in enumerate(part) if at != base for file in run]
        for file in others:
            batches = key_batches(unit.reading, unit.bucket_dir, file, bounds) if free.has_half else None
            if batches is None:
                return None
            for batch in batches:
                free.mark(batch)
                if not free.has_half:
                    return None
        return (free, blocks) if free.has_half else None

    def _blocks(self, number: int) -> list[_Block] | None:
        """Return a block for each row group of a file, or one for a file that is not copied."""
        unit, file, footer = self.unit, self.files[number], self.footers.parts[number]
        keys = first_keys(unit.reading, unit.bucket_dir, file)
        if not keys:
            return None
        if not isinstance(footer, Footer):
            return [_Block(KeyBlock(number, None, keys[0], file.file_size), None, 0)]
        bounds = group_bounds(file, unit.reading.file_schema(file.schema_id), footer)
        return [
            _Block(KeyBlock(number, None if stated is None else at, key, group.size), stated, group.rows)
            for at, (key, stated, group) in enumerate(zip(keys, bounds, footer.groups, strict=True))
        ]

    def _steps(self, part: tuple[Run, ...], free: KeyBlocks, blocks: Sequence[_Block]) -> Iterator[Step]:
        """Yield copies of free blocks, and merges of the ranges of keys between them."""
        bounds = self.unit.bounds or KeyRange()
        low, begins = bounds.low, free.keys_before or bounds.low is not None
        for region in free.ranges():
            first = blocks[region.start].keys.first_key
            if begins or region.start:
                yield MergeStep(part, KeyRange(low, first))
            yield from self._copies(blocks[region.start : region.stop])
            begins = region.stop < len(blocks)
            low = blocks[region.stop].keys.first_key if begins else None
        if begins:
            yield MergeStep(part, KeyRange(low, bounds.high))

    def _copies(self, blocks: Iterable[_Block]) -> Iterator[CopyStep]:
        """Yield a copy for each file that has some of these blocks."""
        for number, members in groupby(blocks, key=lambda block: block.keys.file):
            footer = self.footers.parts[number]
            if not isinstance(footer, Footer):
                raise TypeError(f"file {number} of the unit is not copied")
            copied_blocks = tuple(members)
            groups = tuple(block.keys.group for block in copied_blocks if block.keys.group is not None)
            if len(groups) == len(footer.groups):
                yield self._whole_file(number, footer)
            else:
                yield self._part_of_file(number, footer, groups, copied_blocks)

    def _part_of_file(
        self, number: int, footer: Footer, groups: tuple[int, ...], blocks: Sequence[_Block]
    ) -> CopyStep:
        unit, file = self.unit, self.files[number]
        reading = unit.reading
        start = sum(group.rows for group in footer.groups[: groups[0]])
        span = start, start + sum(block.rows for block in blocks)
        last = key_at_row(reading, unit.bucket_dir, file, span[1] - 1)
        key_type = unit.spec.schema.key_type
        ends = encode_row(blocks[0].keys.first_key, key_type), encode_row(last, key_type)
        described = [(block.rows, block.bounds) for block in blocks if block.bounds is not None]
        entry = describe_groups(file, reading.file_schema(file.schema_id), described, ends)
        return CopyStep(number, entry, footer.with_groups(groups), groups, span)


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
