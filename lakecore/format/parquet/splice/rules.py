"""This module has the rules by which row groups of a file may be copied beside those of other files. It is
pure.

Whatever a reader takes from the footer, and not from a row group, must be the same for all of them. One named
reason for each refusal: whoever is refused is decoded.
"""

from __future__ import annotations

from collections.abc import Callable

from lakecore.data_class import dataclass
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import required
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.reasons import SpliceReason

__all__ = [
    "SpliceTarget",
    "block_rows",
    "divides_into_runs",
    "has_large_groups",
    "is_large_file",
    "is_large_run",
    "mixing_refusal",
    "own_refusal",
]

_LEAST_ROWS = 10_000
_LEAST_BYTES = 4 << 20
_LEAST_RUN = 4
"""A run of pages has so many times as many rows or bytes: the merges around it cost, too."""
_DICTIONARY_SHARE = 4
"""The dictionaries of a run, which others of the row group may have again, are at most this part of it."""
_FEW_GROUPS = 8
"""Where a run of files has more row groups, most of them are copied whole or not at all: to look at the pages
of each costs more than it saves.
"""
_FEW_BLOCKS, _MANY_BLOCKS = 64, 256
"""A large row group is looked at in blocks of pages: in at least so many, if it has as many pages, and in at
most so many, because the first key of each is found.
"""
_CODECS = {
    "none": 0,
    "uncompressed": 0,
    "snappy": 1,
    "gzip": 2,
    "brotli": 4,
    "zstd": 6,
    "lz4": 7,
    "lz4_raw": 7,
}
_OLD_WRITERS = tuple(f"parquet-mr version 1.{minor}.".encode() for minor in range(10))
"""Up to 1.10 the sizes and the statistics of text are wrong in some files."""
_NAME_BYTES = 10
_FIXED_BYTES = 7
"""This is the physical type of values of a fixed number of bytes: decimals of more than 18 digits."""


@dataclass(frozen=True, slots=True)
class SpliceTarget:
    """This is the new file: its columns in order, and its codec, which is an option of the table."""

    columns: tuple[str, ...]
    codec: str
    small_groups: bool = False
    """It tells whether row groups of any size are copied."""


def own_refusal(footer: Footer, target: SpliceTarget) -> SpliceReason | None:
    """Return why row groups of a file cannot be part of the new file, whatever else is."""
    return next((reason for reason, holds in _OWN_RULES if not holds(footer, target)), None)


def mixing_refusal(footer: Footer, first: Footer) -> SpliceReason | None:
    """Return why row groups of a file cannot follow those of the file `first`."""
    return next((reason for reason, holds in _MIXING_RULES if not holds(footer, first)), None)


def has_large_groups(count: int, rows: int, size: int) -> bool:
    """Return whether so many row groups have many rows or bytes each, for readers pay for each of them. The
    mean counts: the last one of a file may be small.
    """
    return rows >= _LEAST_ROWS * count or size >= _LEAST_BYTES * count


def block_rows(rows: int, *, small_groups: bool) -> int:
    """Return how many rows a block of pages has at least, in a row group of `rows` rows: it may be copied
    without the others.
    """
    return 1 if small_groups else max(rows // _MANY_BLOCKS, min(_LEAST_ROWS, rows // _FEW_BLOCKS), 1)


def divides_into_runs(rows: int, size: int, file_size: int, *, small_groups: bool) -> bool:
    """Return whether runs of pages of a row group of so many rows and bytes may be copied. `file_size` are
    the bytes of all files of the sorted run that it belongs to.
    """
    return small_groups or (has_large_groups(2 * _LEAST_RUN, rows, size) and size * _FEW_GROUPS >= file_size)


def is_large_run(rows: int, size: int, dictionaries: int, *, small_groups: bool) -> bool:
    """Return whether a run of pages of so many rows and bytes is worth a row group of its own."""
    return small_groups or (
        has_large_groups(_LEAST_RUN, rows, size) and dictionaries * _DICTIONARY_SHARE <= size
    )


def is_large_file(rows: int, size: int, *, small_groups: bool) -> bool:
    """Return whether row groups of a file of so many rows and bytes may be copied, as far as these tell."""
    return small_groups or has_large_groups(1, rows, size)


def _trusted_writer(footer: Footer, _: SpliceTarget) -> bool:
    writer = footer.writer
    nameless = writer.startswith(b"parquet-mr") and not writer.startswith(b"parquet-mr version ")
    return bool(writer) and not nameless and not writer.startswith(_OLD_WRITERS)


def _no_bloom_filters(footer: Footer, _: SpliceTarget) -> bool:
    kinds = (f.META_BLOOM_FILTER, f.META_BLOOM_FILTER_LENGTH)
    return not any(kind in chunk.meta for group in footer.groups for chunk in group.chunks for kind in kinds)


def _no_fixed_dictionaries(footer: Footer, _: SpliceTarget) -> bool:
    """Java before 2.0 looks for decimals in a dictionary as bytes of another length. Earlier releases of
    lakecore wrote such dictionaries.
    """
    return not any(
        f.META_DICTIONARY_PAGE in chunk.meta and required(chunk.meta, f.META_TYPE) == _FIXED_BYTES
        for group in footer.groups
        for chunk in group.chunks
    )


def _large_groups(footer: Footer, target: SpliceTarget) -> bool:
    return target.small_groups or has_large_groups(len(footer.groups), footer.rows, footer.size)


def _table_columns(footer: Footer, target: SpliceTarget) -> bool:
    return footer.schema.columns == tuple(name.encode() for name in target.columns)


def _table_codec(footer: Footer, target: SpliceTarget) -> bool:
    codec = _CODECS.get(target.codec)
    return all(
        required(chunk.meta, f.META_CODEC) == codec for group in footer.groups for chunk in group.chunks
    )


def _same_schema(footer: Footer, first: Footer) -> bool:
    """Names by case, field ids, order, nullability and types."""
    return footer.schema.key == first.schema.key


def _same_notes(footer: Footer, first: Footer) -> bool:
    """Notes may say how columns are stored (maps whose keys are columns), and then count for one file."""
    return footer.notes == first.notes


def _same_orders(footer: Footer, first: Footer) -> bool:
    return footer.orders == first.orders


def _same_int96(footer: Footer, first: Footer) -> bool:
    """Readers take the time zone of INT96 from the writer's name."""
    return not footer.schema.int96 or footer.writer[:_NAME_BYTES] == first.writer[:_NAME_BYTES]


_OWN_RULES: tuple[tuple[SpliceReason, Callable[[Footer, SpliceTarget], bool]], ...] = (
    (SpliceReason.EMPTY_GROUPS, lambda footer, _: bool(footer.groups)),
    (SpliceReason.OLD_WRITER, _trusted_writer),
    (SpliceReason.BLOOM_FILTERS, _no_bloom_filters),
    (SpliceReason.FIXED_DICTIONARIES, _no_fixed_dictionaries),
    (SpliceReason.OTHER_COLUMNS, _table_columns),
    (SpliceReason.OTHER_CODEC, _table_codec),
    (SpliceReason.SMALL_GROUPS, _large_groups),
)
_MIXING_RULES: tuple[tuple[SpliceReason, Callable[[Footer, Footer], bool]], ...] = (
    (SpliceReason.OTHER_SCHEMA, _same_schema),
    (SpliceReason.OTHER_METADATA, _same_notes),
    (SpliceReason.OTHER_ORDERS, _same_orders),
    (SpliceReason.OTHER_INT96, _same_int96),
)
