"""This module has the rules by which row groups of a file may be copied beside those of other files. It is
pure.

Whatever a reader takes from the footer, and not from a row group, must be the same for all of them. One named
reason for each refusal: whoever is refused is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import structs, value
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.format.parquet.thrift_compact import Struct, encode_struct

__all__ = ["SpliceTarget", "mixing_refusal", "own_refusal"]

_LEAST_ROWS = 10_000
_LEAST_BYTES = 4 << 20
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
_INT96, _FIXED = 3, 7
_OLD_WRITERS = tuple(f"parquet-mr version 1.{minor}.".encode() for minor in range(10))
"""Up to 1.10 the sizes and the statistics of text are wrong in some files."""
_NAME_BYTES = 10


@dataclass(frozen=True, slots=True)
class SpliceTarget:
    """This is the new file: its columns in order, and its codec, which is an option of the table."""

    columns: tuple[str, ...]
    codec: str


def own_refusal(footer: Footer, target: SpliceTarget) -> SpliceReason | None:
    """Return why row groups of a file cannot be part of the new file, whatever else is."""
    return next((reason for reason, holds in _OWN_RULES if not holds(footer, target)), None)


def mixing_refusal(footer: Footer, first: Footer) -> SpliceReason | None:
    """Return why row groups of a file cannot follow those of the file `first`."""
    return next((reason for reason, holds in _MIXING_RULES if not holds(footer, first)), None)


def _trusted_writer(footer: Footer, _: SpliceTarget) -> bool:
    writer = footer.writer
    is_trusted = writer.startswith(b"parquet-mr") and not writer.startswith(b"parquet-mr version ")
    return bool(writer) and not is_trusted and not writer.startswith(_OLD_WRITERS)


def _no_bloom_filters(footer: Footer, _: SpliceTarget) -> bool:
    kinds = (f.META_BLOOM_FILTER, f.META_BLOOM_FILTER_LENGTH)
    return not any(kind in chunk.meta for group in footer.groups for chunk in group.chunks for kind in kinds)


def _large_groups(footer: Footer, _: SpliceTarget) -> bool:
    """Readers pay for each row group. The mean counts: the last one of a file may be small."""
    count = len(footer.groups)
    size = sum(group.size for group in footer.groups)
    return footer.rows >= _LEAST_ROWS * count or size >= _LEAST_BYTES * count


def _table_columns(footer: Footer, target: SpliceTarget) -> bool:
    return _top_level(structs(footer.meta, f.FILE_SCHEMA)) == [name.encode() for name in target.columns]


def _table_codec(footer: Footer, target: SpliceTarget) -> bool:
    codec = _CODECS.get(target.codec)
    return all(chunk.meta[f.META_CODEC].value == codec for group in footer.groups for chunk in group.chunks)


def _same_schema(footer: Footer, first: Footer) -> bool:
    """Names by case, field ids, order, nullability and types."""
    return _schema_bytes(footer) == _schema_bytes(first)


def _same_notes(footer: Footer, first: Footer) -> bool:
    """Notes may say how columns are stored (maps whose keys are columns), and then count for one file."""
    return footer.notes == first.notes


def _same_orders(footer: Footer, first: Footer) -> bool:
    return _orders(footer) == _orders(first)


def _same_int96(footer: Footer, first: Footer) -> bool:
    """Readers take the time zone of INT96 from the writer's name."""
    int96 = any(chunk.meta[f.META_TYPE].value == _INT96 for chunk in footer.groups[0].chunks)
    return not int96 or footer.writer[:_NAME_BYTES] == first.writer[:_NAME_BYTES]


_OWN_RULES: tuple[tuple[SpliceReason, Callable[[Footer, SpliceTarget], bool]], ...] = (
    (SpliceReason.EMPTY_GROUPS, lambda footer, _: bool(footer.groups)),
    (SpliceReason.OLD_WRITER, _trusted_writer),
    (SpliceReason.BLOOM_FILTERS, _no_bloom_filters),
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


def _orders(footer: Footer) -> bytes | None:
    orders = footer.meta.get(f.FILE_ORDERS)
    return None if orders is None else encode_struct({1: orders})


def _top_level(elements: list[Struct]) -> list[bytes]:
    """Return the names of the columns of a schema, whose elements are in the order of a walk."""
    names: list[bytes] = []
    below = 0
    for element in elements[1:]:
        if not below:
            names.append(bytes(element[f.ELEMENT_NAME].value))
        else:
            below -= 1
        below += value(element, f.ELEMENT_CHILDREN, 0)
    return names


def _schema_bytes(footer: Footer) -> bytes:
    """Return all that the elements say, but the root's name, and what follows from a logical type."""
    key = bytearray()
    for number, element in enumerate(structs(footer.meta, f.FILE_SCHEMA)):
        left_out = set()
        if number == 0:
            left_out |= {f.ELEMENT_NAME, f.ELEMENT_REPETITION, f.ELEMENT_ID}
        if f.ELEMENT_LOGICAL in element:
            left_out |= {f.ELEMENT_CONVERTED, f.ELEMENT_SCALE, f.ELEMENT_PRECISION}
        if value(element, f.ELEMENT_TYPE) != _FIXED:
            left_out.add(f.ELEMENT_LENGTH)
        fields = {field: content for field, content in element.items() if field not in left_out}
        if not value(element, f.ELEMENT_CHILDREN, 0):
            fields.pop(f.ELEMENT_CHILDREN, None)
        key += encode_struct(fields) + b"|"
    return bytes(key)
