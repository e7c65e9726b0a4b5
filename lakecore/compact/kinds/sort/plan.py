"""This module decides what a clustering rewrites: whole partitions, each cut into as many ranges as pay.
Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lakecore.compact.engine.work import Place
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.options import CLUSTERING_COLUMNS, BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.change_scanner import Deletions
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = [
    "INCREMENTAL",
    "Bounds",
    "CutPolicy",
    "SortPick",
    "check_columns",
    "clusters",
    "cuts_of",
    "deletions_of",
    "file_groups",
    "plan_sorts",
    "quantiles",
    "sample_rows",
    "sort_rule",
    "var_bytes",
]

VAR_BYTES = Option(
    "zorder.var-length-contribution", int, 8, "Number of bytes of a string that count for the z-order."
)
SAMPLE = Option(
    "sort-compaction.local-sample.magnification", int, 1000, "Number of rows sampled for each range."
)
INCREMENTAL = Option(
    "clustering.incremental", parse_bool, False, "Whether new files are clustered incrementally."
)
_MOST_CUTS = 8
_CUTS_PER_CORE = 2
_LEAST_SAMPLE = 20
_NO_ORDER = (TypeRoot.VARIANT, TypeRoot.BLOB)
_HILBERT_COLUMNS = 2

Bounds = tuple[tuple[Any, ...], ...]
"""Keys of rows, ascending: range i begins with bound i - 1 and ends before bound i."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortPick:
    """These are the files of a partition (all of them, unless runs are clustered), which become files in
    order on `level`.

    `cuts` is the number of ranges or, with `local`, of groups of files, each in order by itself. `deletions`
    are in the order of `files`, None for a file without deleted rows. `reason` is the rule that picked them.
    """

    place: Place
    files: tuple[DataFile, ...]
    deletions: tuple[DeletionFile | None, ...]
    cuts: int
    level: int = 0
    local: bool = False
    reason: str = ""

    @property
    def newest_schema(self) -> int:
        """Return the highest schema id among the files whose rows the pick may read."""
        return max(file.schema_id for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPolicy:
    """It says how many units there may be at once, and below which size a range is not worth a unit."""

    parallelism: int
    target_file_size: int


def clusters(schema: TableSchema) -> bool:
    """Return whether a compaction of the table is an incremental clustering. Raises InvalidOptionError."""
    return not schema.primary_keys and INCREMENTAL.read(schema.options)


def sort_rule(
    table: str,
    schema: TableSchema,
    options: TableOptions,
    strategy: OrderStrategy,
    order_by: Sequence[str],
) -> SortRule:
    """Return the order that is requested. Without columns it is that of option `clustering.columns`.

    Raises UnsupportedError for tables whose rows cannot be put in order, InvalidInputError for columns that
    cannot order them, InvalidOptionError.
    """
    if options.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        raise UnsupportedError(
            f"table {table}: order strategy {strategy.value} sorts only append tables without buckets "
            "(bucket=-1, no primary key); compact the table without an order strategy"
        )
    if options.data_evolution:
        raise UnsupportedError(
            f"table {table}: option data-evolution.enabled=true: rows whose columns lie in several files "
            "cannot be sorted; compact the table without an order strategy"
        )
    if clusters(schema):
        raise UnsupportedError(
            f"table {table}: option clustering.incremental=true: the levels of the table say which files "
            "are sorted by clustering.columns; compact the table without an order strategy"
        )
    names = tuple(order_by) or CLUSTERING_COLUMNS.read(schema.options)
    check_columns(table, schema, strategy, names)
    return SortRule(strategy, names, var_bytes(table, schema.options))


def var_bytes(table: str, raw: Mapping[str, str]) -> int:
    """Return how many bytes of a text count on a curve. Raises InvalidInputError, InvalidOptionError."""
    size = VAR_BYTES.read(raw)
    if size < 1:
        raise InvalidInputError(f"table {table}: option {VAR_BYTES.key}={size}: must be at least 1")
    return size


def check_columns(table: str, schema: TableSchema, strategy: OrderStrategy, names: tuple[str, ...]) -> None:
    """Raise InvalidInputError for columns that cannot order the rows of a partition."""
    if not names:
        raise InvalidInputError(
            f"table {table}: order strategy {strategy.value} needs columns: name them with --order-by a,b"
        )
    if strategy is OrderStrategy.HILBERT and len(names) < _HILBERT_COLUMNS:
        raise InvalidInputError(
            f"table {table}: order strategy hilbert needs at least two columns, but {names[0]} is the "
            "only one; name more with --order-by a,b"
        )
    for number, name in enumerate(names):
        field = next((field for field in schema.fields if field.name == name), None)
        if field is None:
            every_name = ", ".join(field.name for field in schema.fields)
            raise InvalidInputError(f"table {table} has no column {name!r} to sort by; columns: {every_name}")
        if name in schema.partition_keys:
            raise InvalidInputError(
                f"table {table}: {name} is a partition column, which is equal in all rows of a partition; "
                "leave it out"
            )
        if name in names[:number]:
            raise InvalidInputError(
                f"table {table}: column {name} is named twice in the sort order; name it once"
            )
        if not isinstance(field.type, AtomicType) or field.type.root in _NO_ORDER:
            raise InvalidInputError(
                f"table {table}: column {name} has type {field.type}, which cannot be sorted; leave it out"
            )


def plan_sorts(
    entries: ManifestEntries, deletions: Deletions, policy: CutPolicy, excluded_names: Collection[str] = ()
) -> tuple[SortPick, ...]:
    """Return a pick for every partition of live `entries`, but those with a file whose name is in
    `excluded_names`.

    Cost: every file becomes an object.
    """
    whole = int(entries.file_size.sum())
    picks = []
    for place, files in _partitions(entries):
        if not any(file.file_name in excluded_names for file in files):
            vectors = deletions_of(place, files, deletions)
            cuts = cuts_of(sum(file.file_size for file in files), whole, policy)
            picks.append(SortPick(place=place, files=files, deletions=vectors, cuts=cuts))
    return tuple(picks)


def _partitions(entries: ManifestEntries) -> Iterator[tuple[Place, tuple[DataFile, ...]]]:
    order = np.argsort(entries.partition, kind="stable")
    starts = np.flatnonzero(np.diff(entries.partition[order])) + 1
    for members in np.split(order, starts) if len(order) else ():
        part = entries.select(members)
        place = Place(part.partition_of(0), int(part.bucket[0]), int(part.total_buckets[0]))
        yield place, tuple(sorted(part.files(), key=lambda file: (file.min_sequence_number, file.file_name)))


def deletions_of(
    place: Place, files: Sequence[DataFile], deletions: Deletions
) -> tuple[DeletionFile | None, ...]:
    """Return the deletion files in the order of `files`."""
    return tuple(deletions.get((place.partition, place.bucket, file.file_name)) for file in files)


def cuts_of(size: int, whole: int, policy: CutPolicy) -> int:
    """Return the number of ranges: as many as keep all cores busy, of a file at least; each of them reads the
    partition.
    """
    if policy.parallelism < _CUTS_PER_CORE:
        return 1
    share = -(-size * policy.parallelism * _CUTS_PER_CORE // max(whole, 1))
    return max(1, min(share, policy.parallelism, size // max(policy.target_file_size, 1), _MOST_CUTS))


def file_groups(files: Sequence[DataFile], count: int) -> tuple[tuple[int, ...], ...]:
    """Return the places of neighbours among `files`, in at most `count` groups of about as many bytes
    each.
    """
    share = max(-(-sum(file.file_size for file in files) // max(count, 1)), 1)
    groups: list[list[int]] = []
    size = share
    for at, file in enumerate(files):
        if (size >= share and len(groups) < count) or not groups:
            groups.append([])
            size = 0
        groups[-1].append(at)
        size += file.file_size
    return tuple(map(tuple, groups))


def sample_rows(raw: Mapping[str, str], cuts: int) -> int:
    """Return how many rows of a partition to read for its bounds. Raises InvalidOptionError."""
    return cuts * max(SAMPLE.read(raw), _LEAST_SAMPLE)


def quantiles(rows: Sequence[tuple[Any, ...]], cuts: int) -> Bounds:
    """Return bounds between `cuts` ranges of about as many of the sorted `rows`; fewer where rows are
    equal.
    """
    bounds: list[tuple[Any, ...]] = []
    for number in range(1, cuts if rows else 1):
        at, low = len(rows) * number // cuts, bounds[-1] if bounds else rows[0]
        if rows[at] == low:
            at = bisect_right(rows, low)  # a frequent row: what is behind it begins the next range
        if at < len(rows) and rows[at] > low:
            bounds.append(rows[at])
    return tuple(bounds)
