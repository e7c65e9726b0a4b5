"""Dedicated columns are stored in files of their own: blobs, and vectors if they have their own format.
Pure.

Rules of the format: a blob file (`….blob`) holds one column, a vector file (`….vector.<format>`) all
vector columns; each holds rows of the ordinary file that precedes it in its commit. Columns named in
`blob-descriptor-field` and `blob-view-field` stay in the ordinary file, as references.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.options import Option, parse_bool, parse_size
from lakecore.types.datatypes import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot, VectorType

__all__ = [
    "BLOB_AS_DESCRIPTOR",
    "BLOB_COMPACTION",
    "BLOB_DESCRIPTOR_FIELD",
    "BLOB_FORMAT",
    "BLOB_VIEW_FIELD",
    "BLOB_VIEW_RESOLVE",
    "REWRITE_ROW_IDS",
    "DedicatedColumns",
    "counts_blob_size",
    "descriptor_columns",
    "has_dedicated_column_types",
    "holds_blobs",
    "is_blob",
    "is_blob_file",
    "is_blob_pack",
    "is_ordinary_file",
    "is_vector_file",
    "managed_columns",
    "view_columns",
]

BLOB_FORMAT = "blob"


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


BLOB_AS_DESCRIPTOR = Option(
    "blob-as-descriptor",
    parse_bool,
    False,
    "Whether blobs are read and written as references: path, offset, length.",
)
BLOB_DESCRIPTOR_FIELD: Option[tuple[str, ...]] = Option(
    "blob-descriptor-field",
    _parse_names,
    (),
    "BLOB columns that hold references.",
    ("blob.stored-descriptor-fields",),
)
BLOB_VIEW_FIELD: Option[tuple[str, ...]] = Option(
    "blob-view-field", _parse_names, (), "BLOB columns that refer to blobs of other tables."
)
BLOB_VIEW_RESOLVE = Option(
    "blob-view.resolve.enabled",
    parse_bool,
    True,
    "Whether references to blobs of other tables are resolved when they are read.",
)
BLOB_SPLIT_BY_SIZE: Option[bool | None] = Option(
    "blob.split-by-file-size", parse_bool, None, "Whether blobs count when splits are packed."
)
BLOB_COMPACTION = Option(
    "blob-compaction.enabled", parse_bool, False, "Whether compaction joins blob files, too."
)
BLOB_TARGET_SIZE: Option[int | None] = Option(
    "blob.target-file-size",
    parse_size,
    None,
    "Target size of a blob file, in bytes; the default is that of data files.",
)
VECTOR_FORMAT: Option[str | None] = Option(
    "vector.file.format", str.lower, None, "Format of vector files; without it vectors are ordinary columns."
)
VECTOR_TARGET_SIZE: Option[int | None] = Option(
    "vector.target-file-size",
    parse_size,
    None,
    "Target size of a vector file, in bytes; the default is that of data files.",
)


REWRITE_ROW_IDS = Option(
    "data-evolution.compaction.rewrite-row-ids",
    parse_bool,
    False,
    "Whether compaction leaves out deleted rows and gives the others new row ids.",
)


def is_blob_file(name: str) -> bool:
    return name.endswith(f".{BLOB_FORMAT}")


def is_vector_file(name: str) -> bool:
    return ".vector." in name


def is_blob_pack(name: str) -> bool:
    """Return whether a file is a pack of blobs that rows of several files refer to: no metadata says
    whether any does.
    """
    return name.endswith(f".managed.{BLOB_FORMAT}")


def is_ordinary_file(name: str) -> bool:
    return not (is_blob_file(name) or is_vector_file(name))


def is_blob(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.BLOB


def holds_blobs(data_type: DataType) -> bool:
    """Return whether a blob file can hold the type: BLOB, ARRAY<BLOB> or MAP<X, BLOB>."""
    match data_type:
        case ArrayType(element=inner) | MapType(value=inner):
            return is_blob(inner)
    return is_blob(data_type)


def managed_columns(row_type: RowType, raw: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of a primary-key table that hold references to the table's own packs of blobs."""
    stay = {*descriptor_columns(raw), *view_columns(raw)}
    return tuple(f.name for f in row_type.fields if holds_blobs(f.type) and f.name not in stay)


def has_dedicated_column_types(row_type: RowType) -> bool:
    """Return whether a row type has columns that options can place in files of their own."""
    return any(holds_blobs(field.type) or isinstance(field.type, VectorType) for field in row_type.fields)


def descriptor_columns(raw: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that are stored as references to bytes elsewhere."""
    return BLOB_DESCRIPTOR_FIELD.read(raw)


def view_columns(raw: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that are stored as references to blobs of other tables."""
    return BLOB_VIEW_FIELD.read(raw)


def counts_blob_size(raw: Mapping[str, str]) -> bool:
    """Return whether splits count blobs with their size. Rule of the format: they do unless blobs are
    given as references.
    """
    chosen = BLOB_SPLIT_BY_SIZE.read(raw)
    return not BLOB_AS_DESCRIPTOR.read(raw) if chosen is None else chosen


@dataclass(frozen=True, slots=True)
class DedicatedColumns:
    """It says how the columns of new files are divided. Sizes are in bytes."""

    ordinary: tuple[str, ...]
    """These are the columns of the ordinary file."""
    blobs: tuple[str, ...]
    """These are the columns that get a blob file each."""
    vectors: tuple[str, ...]
    """These are the columns that share a vector file."""
    references: tuple[str, ...]
    """These are the ordinary columns that hold only references to bytes elsewhere."""
    views: tuple[str, ...]
    """These are the ordinary columns that hold only references to blobs of other tables."""
    vector_format: str
    """This is the format of vector files."""
    blob_size: int
    """This is the target size of a blob file."""
    vector_size: int
    """This is the target size of a vector file."""

    @classmethod
    def of(cls, row_type: RowType, raw: Mapping[str, str], size: int) -> DedicatedColumns:
        """Divide the columns by table options. `size` is the target size of data files in bytes. Raises
        InvalidOptionError naming the option and its value.
        """
        chosen = VECTOR_FORMAT.read(raw)
        fields = row_type.fields
        blobs = managed_columns(row_type, raw)
        vectors = tuple(f.name for f in fields if chosen is not None and isinstance(f.type, VectorType))
        return cls(
            tuple(f.name for f in fields if f.name not in {*blobs, *vectors}),
            blobs,
            vectors,
            tuple(f.name for f in fields if f.name in descriptor_columns(raw)),
            tuple(f.name for f in fields if f.name in view_columns(raw)),
            chosen or "",
            BLOB_TARGET_SIZE.read(raw) or size,
            VECTOR_TARGET_SIZE.read(raw) or size,
        )

    def __bool__(self) -> bool:
        """Return whether any column is written in another way than others."""
        return bool(self.blobs or self.vectors or self.references or self.views)
