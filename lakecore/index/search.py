"""This module decides which rows of a data file can match a predicate, by its file indexes. In doubt all of
them can.

The format's readers combine what indexes say as sets of rows: unknown is all, a bloom filter that has none of
the values is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.index import bitmap, bloom_filter, bsi, range_bitmap
from lakecore.index.container import Blob, decode_head
from lakecore.index.definition import IndexType, can_index
from lakecore.index.query import Among, Nulls, Present, Query, Range, Without, query_of
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.tree import And, AtKey, Leaf, Not, Or, Predicate, negated
from lakecore.types.datatypes import AtomicType, DataField, DataType, MapType, with_nullable

__all__ = ["FileIndex", "embedded_index", "matching_rows", "stored_columns"]


_ANSWERED: dict[IndexType, tuple[type, ...]] = {
    IndexType.BLOOM_FILTER: (Among,),
    IndexType.BITMAP: (Nulls, Present, Among, Without),
    IndexType.BSI: (Nulls, Present, Among, Without, Range),
    IndexType.RANGE_BITMAP: (Nulls, Present, Among, Without, Range),
}


_TYPES = {kind.value: kind for kind in IndexType}


@dataclass(frozen=True, slots=True)
class FileIndex:
    """These are the indexes of a data file of `rows` rows. `read` gives the bytes of a blob; `path` is for
    messages.
    """

    head: Mapping[str, Mapping[str, Blob]]
    read: Callable[[Blob], bytes]
    rows: int
    path: str


def embedded_index(file: DataFile) -> FileIndex | None:
    """Return the indexes that the manifest holds, or None if it has none. Raises CorruptDataError."""
    data = file.embedded_index
    if data is None:
        return None
    path = f"the embedded index of {file.file_name}"
    head = decode_head(data, len(data), path)
    return FileIndex(head, lambda blob: data[blob.start : blob.start + blob.length], file.row_count, path)


def stored_columns(
    names: Iterable[str], schema: TableSchema, file_schema: TableSchema
) -> dict[str, DataField]:
    """Return, for columns of `schema` by name, the fields in which files of another schema store the same
    values.

    A column that was added later, or whose type has changed, is left out.
    """
    by_id = {field.id: field for field in file_schema.fields}
    fields = {field.name: field for field in schema.fields}
    columns = {name: by_id.get(fields[name].id) for name in names if name in fields}
    return {
        name: field
        for name, field in columns.items()
        if field is not None and with_nullable(field.type, True) == with_nullable(fields[name].type, True)
    }


def matching_rows(predicate: Predicate, columns: Mapping[str, DataField], index: FileIndex) -> BitMap | None:
    """Return a superset of the positions of rows for which the predicate is true, or None if nothing is
    known.

    `columns`: predicate column -> the field of the file's schema that stores just its values; columns that
    are not in it decide nothing. Raises CorruptDataError.
    """
    match predicate:
        case And(children=children):
            return _all_of(children, columns, index)
        case Or(children=children):
            return _any_of(children, columns, index)
        case Not(child=child):
            return matching_rows(negated(child), columns, index)
        case AtKey(key=key, leaf=leaf):
            field = columns.get(leaf.column)
            if field is None or not isinstance(field.type, MapType):
                return None
            return _leaf(leaf, f"{field.name}[{key}]", field.type.value, index)
        case _:
            field = columns.get(predicate.column)
            return None if field is None else _leaf(predicate, field.name, field.type, index)


def _all_of(
    children: tuple[Predicate, ...], columns: Mapping[str, DataField], index: FileIndex
) -> BitMap | None:
    rows: BitMap | None = None
    for child in children:
        rows = _both(rows, matching_rows(child, columns, index))
        if rows is not None and not rows:
            break
    return rows


def _any_of(
    children: tuple[Predicate, ...], columns: Mapping[str, DataField], index: FileIndex
) -> BitMap | None:
    result = BitMap()
    for child in children:
        rows = matching_rows(child, columns, index)
        if rows is None:
            return None
        result |= rows
    return result


def _both(left: BitMap | None, right: BitMap | None) -> BitMap | None:
    if left is None or right is None:
        return left if right is None else right
    return left & right


def _leaf(leaf: Leaf, name: str, stored: DataType, index: FileIndex) -> BitMap | None:
    """Return the rows that may match a leaf. `name` is that of the indexes in the container; `stored` is the
    type of the values.
    """
    if not isinstance(stored, AtomicType) or name not in index.head:
        return None
    query = query_of(leaf, stored)
    if query is None:
        return None
    rows: BitMap | None = None
    for type_name, blob in index.head[name].items():
        kind = _TYPES.get(type_name)
        if kind is None or not can_index(stored, kind):
            continue
        rows = _both(rows, _ask(kind, blob, stored, query, index))
        if rows is not None and not rows:
            break
    return rows


def _ask(kind: IndexType, blob: Blob, stored: AtomicType, query: Query, index: FileIndex) -> BitMap | None:
    if blob.empty:
        return None if isinstance(query, Nulls) else BitMap()
    if not isinstance(query, _ANSWERED[kind]):
        return None  # without reading the bytes
    if kind is IndexType.BLOOM_FILTER:
        return bloom_filter.search(index.read(blob), stored, query, index.path)
    if kind is IndexType.BITMAP:
        return bitmap.search(index.read(blob), stored, index.rows, query, index.path)
    if kind is IndexType.BSI:
        return bsi.search(index.read(blob), index.rows, query, index.path)
    return range_bitmap.search(index.read(blob), stored, index.rows, query, index.path)
