"""This module finds which blocks of rows of the largest run of a merge no other file touches, and what is
copied of them: whole row groups, and runs of pages that are worth a row group of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import TypeAlias

from lakecore.data_class import dataclass
from lakecore.format.parquet.splice.chunk_pages import GroupPages, group_pages, read_indexes
from lakecore.format.parquet.splice.footer import Footer, RowGroup
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.format.parquet.splice.rules import block_rows, divides_into_runs, is_large_run
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.group_keys import key_batches, keys_at
from lakecore.read.file.key_blocks import KeyBlock, KeyBlocks, in_key_order
from lakecore.read.file.key_range import KeyRange
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.row_groups import GroupPart
from lakecore.write.files.copied_groups import GroupBounds, group_bounds
from lakecore.write.files.rolling import FileSpec

__all__ = ["BlockCopies", "CopyBlocks", "KeyedUnit", "Piece", "Run"]

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
class Block:
    """It has a block, and its rows, which begin at the row `start` of its row group. `bounds` are those of
    the columns of the row group, where it may be copied, and `pages` its pages, where runs of them may be.
    """

    keys: KeyBlock
    bounds: GroupBounds | None
    rows: int
    start: int = 0
    pages: GroupPages | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """This is copied as one row group, whose rows begin with the block `keys`: a part of a file."""

    keys: KeyBlock
    part: GroupPart
    group: RowGroup
    bounds: GroupBounds


@dataclass(frozen=True, slots=True)
class BlockCopies:
    """These are the blocks of the largest run, in key order. `keys` knows which of them are free, and
    `pieces` are what is copied of these, by the number of their first block.
    """

    keys: KeyBlocks
    blocks: Sequence[Block]
    pieces: Mapping[int, Piece]


class CopyBlocks:
    """It divides files of a unit into blocks. `footers` has the footer of each file that may be copied."""

    def __init__(
        self, unit: KeyedUnit, files: Sequence[DataFile], footers: Sequence[Footer | SpliceReason]
    ) -> None:
        self.unit = unit
        self.files = files
        self.footers = footers

    def copies(self, members: range, others: Sequence[DataFile]) -> BlockCopies | None:
        """Return the blocks of the largest run, whose files have the numbers `members`, with the keys of the
        other files marked; None where copies do not pay, or where ranges of keys cannot be read. Raises
        NotFoundError, UnavailableError, CorruptDataError.
        """
        unit = self.unit
        blocks: list[Block] = []
        run_size = sum(self.files[member].file_size for member in members)
        for member in members:
            blocks_of_file = self._blocks(member, run_size)
            if blocks_of_file is None:
                return None
            blocks += blocks_of_file
        bounds = unit.bounds or KeyRange()
        if not in_key_order([block.keys for block in blocks]):
            return None
        free = KeyBlocks([block.keys for block in blocks], bounds, unit.spec.schema.key_type)
        for file in others:
            batches = key_batches(unit.reading, unit.bucket_dir, file, bounds) if free.has_half else None
            if batches is None:
                return None
            for batch in batches:
                free.mark(batch)
                if not free.has_half:
                    return None
        pieces = self._pieces(free, blocks)
        return BlockCopies(free, blocks, pieces) if free.has_half else None

    def _pieces(self, free: KeyBlocks, blocks: Sequence[Block]) -> Mapping[int, Piece]:
        """Return what is copied of free blocks, by the number of the first one. Blocks are not free any more
        that make a run of pages that is not worth it.
        """
        pieces: dict[int, Piece] = {}
        for region in free.ranges():
            for _, members in groupby(region, key=lambda at: (blocks[at].keys.file, blocks[at].keys.group)):
                numbers = list(members)
                piece = self._piece([blocks[number] for number in numbers])
                if piece is None:
                    free.discard(numbers)
                else:
                    pieces[numbers[0]] = piece
        return pieces

    def _piece(self, blocks: Sequence[Block]) -> Piece | None:
        """Return the copy of blocks of one row group that follow one another."""
        unit, first, keys = self.unit, blocks[0], blocks[0].keys
        footer = self.footers[keys.file]
        if keys.group is None or first.bounds is None or not isinstance(footer, Footer):
            raise TypeError(f"file {keys.file} of the unit is not copied")
        rows = sum(block.rows for block in blocks)
        if first.pages is None or rows == first.pages.group.rows:
            return Piece(keys, GroupPart(keys.group), footer.groups[keys.group], first.bounds)
        group = first.pages.run(first.start, first.start + rows)
        small_groups = unit.mode is CopyMode.ALL
        if not is_large_run(rows, group.size, first.pages.dictionaries, small_groups=small_groups):
            return None
        file = self.files[keys.file]
        schema = unit.reading.file_schema(file.schema_id)
        (bounds,) = group_bounds(file, schema, footer.with_groups([group]))
        span = first.start, first.start + rows
        return None if bounds is None else Piece(keys, GroupPart(keys.group, span), group, bounds)

    def _blocks(self, number: int, run_size: int) -> list[Block] | None:
        """Return a block for each row group of a file and for each of its pages that may be copied alone, or
        one for a file that is not copied. `run_size` are the bytes of all files of its run.
        """
        unit, file, footer = self.unit, self.files[number], self.footers[number]
        if not isinstance(footer, Footer):
            keys = keys_at(unit.reading, unit.bucket_dir, file, (0,))
            return None if keys is None else [Block(KeyBlock(number, None, keys[0], file.file_size), None, 0)]
        bounds = group_bounds(file, unit.reading.file_schema(file.schema_id), footer)
        pages = self._pages(number, footer, bounds, run_size)
        spans = [
            (at, span)
            for at, (group, one) in enumerate(zip(footer.groups, pages, strict=True))
            for span in _page_blocks(group, one, small_groups=unit.mode is CopyMode.ALL)
        ]
        group_starts = list(accumulate((group.rows for group in footer.groups), initial=0))
        rows = [group_starts[at] + start for at, (start, _) in spans]
        keys = keys_at(unit.reading, unit.bucket_dir, file, rows)
        if keys is None:
            return None
        return [
            Block(
                KeyBlock(
                    number,
                    None if bounds[at] is None else at,
                    key,
                    footer.groups[at].size * (stop - start) // footer.groups[at].rows,
                ),
                bounds[at],
                stop - start,
                start,
                pages[at],
            )
            for (at, (start, stop)), key in zip(spans, keys, strict=True)
        ]

    def _pages(
        self, number: int, footer: Footer, bounds: Sequence[GroupBounds | None], run_size: int
    ) -> list[GroupPages | None]:
        """Return the pages of each row group that may be copied in runs of them."""
        unit, small_groups = self.unit, self.unit.mode is CopyMode.ALL
        is_large = [
            one is not None and divides_into_runs(group.rows, group.size, run_size, small_groups=small_groups)
            for group, one in zip(footer.groups, bounds, strict=True)
        ]
        indexes = None
        if any(is_large):
            with unit.reading.file_io.open_ranges(unit.stored(self.files[number]).path) as source:
                indexes = read_indexes(source, footer)
        if indexes is None:
            return [None] * len(is_large)
        return [group_pages(indexes, footer, at) if large else None for at, large in enumerate(is_large)]


def _page_blocks(
    group: RowGroup, pages: GroupPages | None, *, small_groups: bool
) -> Iterator[tuple[int, int]]:
    """Yield the rows [start, stop) of the blocks of a row group; they begin where pages of all columns do."""
    least, start = block_rows(group.rows, small_groups=small_groups), 0
    for row in () if pages is None else pages.starts:
        if row - start >= least and group.rows - row >= least:
            yield start, row
            start = row
    yield start, group.rows
