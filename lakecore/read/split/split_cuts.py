"""This module cuts a split into shares that other processes read: files, sections, or ranges of keys.

A share can be pickled. The shares of a split together hold its rows, each row once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.lsm.sections import Section, sections
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.predicate.tree import Predicate, restricted
from lakecore.read.context import ReadContext
from lakecore.read.file.key_range import KeyRange
from lakecore.read.split.key_cuts import ranges, sample_cuts
from lakecore.read.split.split_reader import EVERYTHING, ReadRequest, read_section, read_split
from lakecore.scan.split import Split

__all__ = ["SplitShare", "cut_split", "read_share"]


@dataclass(frozen=True, slots=True)
class SplitShare:
    """A share has files of a split; with `bounds` they are one section, and only its keys in that range are
    read.
    """

    split: Split
    bounds: KeyRange | None = None

    @property
    def size(self) -> int:
        """Return the size of the files in bytes, whether or not all of their rows are read."""
        return self.split.size


def cut_split(
    ctx: ReadContext, split: Split, target_size: int, predicate: Predicate | None = None
) -> tuple[SplitShare, ...]:
    """Cut a split of more than `target_size` bytes into shares of about that size.

    Files that need no merge are read alone. Else sections are, and a section of several runs that is larger
    is cut by keys, which costs two small reads of each of its files; not so where `predicate` has conditions
    on the key, which select pages of the files. Files of a table with data evolution stay together.
    """
    if split.size <= target_size or ctx.options.data_evolution:
        return (SplitShare(split),)
    context = ctx.in_partition(split.partition)
    if not ctx.keyed or split.raw_convertible or ctx.options.pk_clustering_override:
        return _pack(split, [(file,) for file in split.files], target_size)
    by_keys = restricted(predicate, ctx.schema.primary_keys) is None
    shares: list[SplitShare] = []
    waiting: list[tuple[DataFile, ...]] = []
    for section in sections(split.files, key_order(ctx.schema.key_type)):
        cuts = _cuts(context, split, section, target_size) if by_keys else ()
        if cuts:
            shares += [SplitShare(_part(split, section.files), bounds) for bounds in ranges(cuts)]
        else:
            waiting.append(section.files)
    return (*_pack(split, waiting, target_size), *shares)


def read_share(
    ctx: ReadContext, share: SplitShare, request: ReadRequest = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a share; for all else see `read_split`."""
    if share.bounds is None:
        return read_split(ctx, share.split, request)
    return read_section(ctx, share.split, share.bounds, request)


def _cuts(ctx: ReadContext, split: Split, section: Section, target_size: int) -> tuple[tuple[Any, ...], ...]:
    size = sum(file.file_size for file in section.files)
    if len(section.runs) < 2 or size <= target_size:
        return ()
    directory = ctx.bucket_dir(split.partition, split.bucket)
    return sample_cuts(ctx, directory, section.files, -(-size // target_size))


def _pack(split: Split, groups: Sequence[tuple[DataFile, ...]], target_size: int) -> tuple[SplitShare, ...]:
    """Put neighbouring groups of files together until they have `target_size` bytes."""
    shares: list[SplitShare] = []
    files: list[DataFile] = []
    size = 0
    for group in groups:
        added = sum(file.file_size for file in group)
        if files and size + added > target_size:
            shares.append(SplitShare(_part(split, files)))
            files, size = [], 0
        files += group
        size += added
    return (*shares, SplitShare(_part(split, files))) if files else tuple(shares)


def _part(split: Split, files: Sequence[DataFile]) -> Split:
    """Return the split with some of its files, and their deletion vectors."""
    deletions = split.deletions_of
    chosen = tuple(deletions.get(file.file_name) for file in files)
    return replace(split, files=tuple(files), deletions=chosen if any(chosen) else ())
