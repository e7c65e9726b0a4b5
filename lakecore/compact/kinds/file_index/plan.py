"""This module decides which indexes a data file lacks of those that the options ask for, and which it has
beyond them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lakecore.compact.engine.work import Place
from lakecore.data_class import dataclass
from lakecore.index.container import Blob
from lakecore.index.definition import IndexSpec, can_index
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import AtomicType, DataType, MapType

__all__ = ["Coverage", "IndexNeed", "coverage", "file_specs", "need_of", "pack"]

Head = Mapping[str, Mapping[str, Blob]]
"""A container holds this: index name -> type -> place."""
Name = tuple[str, str]
"""This is the name of an index (in the file's schema) and its type."""

_UNIT_FILES = 64
_UNIT_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNeed:
    """This is the work for one data file. `missing` are indexes to build, named as its schema names
    columns; `present` are reused; `stale` are those that no option requests. `index_file` is the file of the
    present ones, None for the manifest.
    """

    place: Place
    file: DataFile
    index_file: str | None
    present: tuple[Name, ...]
    missing: tuple[IndexSpec, ...]
    stale: tuple[Name, ...]

    @property
    def is_incomplete(self) -> bool:
        return bool(self.missing or self.stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """This is the coverage of one index over the live files. `in_options` tells that the options request it.

    `lacking`: files, and their rows, without it; files whose schema cannot have it count nowhere.
    """

    index: str
    type: str
    in_options: bool
    files: int = 0
    rows: int = 0
    bytes: int = 0
    files_lacking: int = 0
    rows_lacking: int = 0


def file_specs(
    specs: Iterable[IndexSpec], schema: TableSchema, file_schema: TableSchema
) -> tuple[tuple[IndexSpec, IndexSpec], ...]:
    """Return the indexes of the table that files of an older schema can have, each with its name and type
    there.

    Columns are matched by field id.
    """
    ids = {field.name: field.id for field in schema.fields}
    stored = {field.id: field for field in file_schema.fields}
    out = []
    for spec in specs:
        field = stored.get(ids[spec.column])
        kind = None if field is None else _indexed_type(field.type, spec.key)
        if field is not None and isinstance(kind, AtomicType) and can_index(kind, spec.type):
            out.append((spec, replace(spec, column=field.name, data_type=kind)))
    return tuple(out)


def _indexed_type(data_type: DataType, key: str | None) -> DataType | None:
    if key is None:
        return data_type
    return data_type.value if isinstance(data_type, MapType) else None


def need_of(
    place: Place, file: DataFile, index_file: str | None, head: Head, specs: Iterable[IndexSpec]
) -> IndexNeed:
    """Return the work for one file. `specs` are as its schema names them."""
    present = [(name, kind) for name, kinds in head.items() for kind in kinds]
    required = {(spec.name, spec.type.value): spec for spec in specs}
    return IndexNeed(
        place=place,
        file=file,
        index_file=index_file,
        present=tuple(name for name in present if name in required),
        missing=tuple(spec for name, spec in required.items() if name not in present),
        stale=tuple(name for name in present if name not in required),
    )


def coverage(
    files: Iterable[tuple[DataFile, Head, Sequence[tuple[IndexSpec, IndexSpec]]]], specs: Iterable[IndexSpec]
) -> tuple[Coverage, ...]:
    """Return, per index in order of name and type, what files have and lack, and what no option requests.

    `files`: each with what it holds and `file_specs` of it.
    """
    entries = {
        (s.name, s.type.value): Coverage(index=s.name, type=s.type.value, in_options=True) for s in specs
    }
    for file, head, indexes in files:
        blobs = {(name, kind): blob for name, kinds in head.items() for kind, blob in kinds.items()}
        for spec, stored in indexes:
            key = (spec.name, spec.type.value)
            entries[key] = _count(entries[key], file, blobs.pop((stored.name, stored.type.value), None))
        for (name, kind), blob in blobs.items():
            stale = Coverage(index=name, type=kind, in_options=False)
            entries[(name, kind)] = _count(entries.get((name, kind), stale), file, blob)
    return tuple(entries[key] for key in sorted(entries))


def _count(before: Coverage, file: DataFile, blob: Blob | None) -> Coverage:
    if blob is None:
        return replace(
            before,
            files_lacking=before.files_lacking + 1,
            rows_lacking=before.rows_lacking + file.row_count,
        )
    return replace(
        before,
        files=before.files + 1,
        rows=before.rows + file.row_count,
        bytes=before.bytes + blob.length,
    )


def pack(needs: Iterable[IndexNeed]) -> Iterator[tuple[IndexNeed, ...]]:
    """Yield neighbouring files of one bucket that make one unit: up to 128 MB of data to read, 64 files."""
    unit: list[IndexNeed] = []
    size = 0
    for need in needs:
        cost = need.file.file_size if need.missing else 0
        full = len(unit) == _UNIT_FILES or size + cost > _UNIT_BYTES
        if unit and (full or unit[-1].place != need.place):
            yield tuple(unit)
            unit, size = [], 0
        unit.append(need)
        size += cost
    if unit:
        yield tuple(unit)
