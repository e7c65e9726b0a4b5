"""This module reads the same bytes through a second decoder: it compares rows of one file of each format
with what ours gives for them.

Proofs read with the decoders that compactions read with: a value that these take for another would be wrong
on both sides. So once a job some rows of an input and of an output of each format are decoded by readers that
share no code with ours: parquet by arro3-io (arrow-rs), where it is installed, avro by fastavro. For ORC and
the row format there is none. Which rows, the seed of the run decides: of parquet files with page indexes any
pages that begin at the same row in all columns, beside the first rows of the file; of others the first rows;
of avro files some near the beginning, for what comes before them is decoded, too.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import IO, Any, cast

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError, ProofError
from lakecore.format.canonical import canonical
from lakecore.format.data_reader import file_format, open_reader
from lakecore.format.parquet.pages import FilePages
from lakecore.fs.file_io import FileIO
from lakecore.metadata.row_kind import KEY_PREFIX
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import DataType
from lakecore.verify.digest.array_hash import hash_array
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import column_constant

__all__ = ["SecondDecoders"]

_ROWS = 4096
_MOST_SKIPPED = 65536
"""Rows of an avro file that are decoded in vain, at most."""
_PACKAGES = {"parquet": "arro3-io", "avro": "fastavro"}
_PANIC = "PanicException"
"""What a panic of Rust becomes; it is no Exception, and its module cannot be imported."""


@dataclass(slots=True)
class SecondDecoders:
    """One job has read this again, by format and side (input or output). `seed` is that of the run."""

    file_io: FileIO
    seed: str = ""
    _decoded: set[tuple[str, str]] = field(default_factory=set)
    _rows: dict[str, int] = field(default_factory=dict)
    _without: dict[str, str] = field(default_factory=dict)

    def look(self, unit: str, side: str, stored: StoredFile, schema: TableSchema) -> None:
        """Compare some rows of a file, unless one of its format was compared on this side before.

        Raises ProofError naming `unit`, the file and a column that the two readers do not agree on, and what
        opening the file raises. Where the second reader fails, or panics, the report says so. It reads the
        columns of some thousand rows twice.
        """
        kind = file_format(stored.path)
        if (kind, side) in self._decoded or kind in self._without or not stored.file.row_count:
            return
        self._decoded.add((kind, side))
        if not _is_installed(kind):
            self._without[kind] = _reason(kind)
            return
        number = _number(f"{self.seed}\0{unit}\0{stored.file.file_name}")
        try:
            looks = _LOOKS[kind](self.file_io, stored, schema, number)
        except NotFoundError:  # an input whose snapshot has just expired
            self._decoded.discard((kind, side))
            return
        except LakeError:
            raise
        except BaseException as err:
            if not isinstance(err, Exception) and type(err).__name__ != _PANIC:
                raise
            self._without[kind] = f"{_PACKAGES[kind]} cannot read {stored.file.file_name}: {err}"
            return
        for ours, theirs in looks:
            self._compare(unit, stored, schema, ours, theirs)
            self._rows[kind] = self._rows.get(kind, 0) + ours.num_rows

    def report(self) -> str:
        """Return what was compared with which reader; it is empty before anything was."""
        lines = [f"{rows} rows of {kind} by {_PACKAGES[kind]}" for kind, rows in sorted(self._rows.items())]
        without = [
            f"{kind} was not decoded a second time ({why})" for kind, why in sorted(self._without.items())
        ]
        return "; ".join(
            [*(["rows that another library decoded as well: " + ", ".join(lines)] if lines else []), *without]
        )

    def _compare(
        self,
        unit: str,
        stored: StoredFile,
        schema: TableSchema,
        ours: pa.RecordBatch,
        theirs: Mapping[str, pa.Array],
    ) -> None:
        types: dict[str, DataType] = {one.name: one.type for one in schema.fields}
        for name, column in zip(ours.schema.names, ours.columns, strict=True):
            other = theirs.get(name)
            if other is None or not _same_layout(column.type, other.type):
                continue
            kind = types.get(name, types.get(name.removeprefix(KEY_PREFIX)))
            left, right = _alike(column, kind, stored.path), _alike(other, kind, stored.path)
            constant = column_constant(0)
            if len(left) != len(right) or (hash_array(left, constant) != hash_array(right, constant)).any():
                reader = _PACKAGES[file_format(stored.path)]
                raise ProofError(
                    unit, f"{stored.path}: lakecore and {reader} decode column {name} differently"
                )


_Look = tuple[pa.RecordBatch, Mapping[str, pa.Array]]
"""Rows as our reader gives them, and columns as the second one does."""


def _is_installed(file_format: str) -> bool:
    package = _PACKAGES.get(file_format)
    return package is not None and _has_package(package, version)


@cache
def _has_package(package: str, version_of: Callable[[str], str]) -> bool:
    """Return whether a package is installed. A look takes some 3 ms, as long as a small file."""
    try:
        version_of(package)
    except PackageNotFoundError:
        return False
    return True


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _reason(file_format: str) -> str:
    package = _PACKAGES.get(file_format)
    return (
        "lakecore uses no second decoder for this format"
        if package is None
        else f"{package} is not installed"
    )


def _our_rows(file_io: FileIO, path: str, schema: TableSchema, start: int) -> pa.RecordBatch:
    """Return some rows from `start` on, by the reader that opens whole files."""
    reader = open_reader(file_io, path, schema=schema)
    skipped = 0
    try:
        for batch in reader.batches(None, _ROWS):
            if skipped + batch.num_rows > start:
                return batch.slice(start - skipped)
            skipped += batch.num_rows
    finally:
        reader.close()
    raise ValueError(f"it has {skipped} rows")


def _alike(column: pa.Array, data_type: DataType | None, path: str) -> pa.Array:
    """Return a column in the table's type if it is a column of the table."""
    return column if data_type is None else canonical(column, data_type, path)


def _same_layout(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Return whether both readers give columns of the same parts.

    MAPs and VARIANTs may be stored in shreds, which ours puts together and another library gives as they are:
    these are not compared.
    """
    if pa.types.is_map(ours) or pa.types.is_map(theirs):
        pairs = pa.types.is_map(ours) and pa.types.is_map(theirs)
        return pairs and _same_layout(ours.item_type, theirs.item_type)
    if pa.types.is_struct(ours) or pa.types.is_struct(theirs):
        parts = [
            {one.name: one.type for one in kind} if pa.types.is_struct(kind) else {}
            for kind in (ours, theirs)
        ]
        return parts[0].keys() == parts[1].keys() and all(
            _same_layout(kind, parts[1][name]) for name, kind in parts[0].items()
        )
    if pa.types.is_nested(ours) or pa.types.is_nested(theirs):
        lists = pa.types.is_nested(ours) and pa.types.is_nested(theirs)
        return lists and _same_layout(ours.value_type, theirs.value_type)
    return True


def _parquet_looks(file_io: FileIO, stored: StoredFile, schema: TableSchema, number: int) -> list[_Look]:
    ours = _our_rows(file_io, stored.path, schema, 0)
    source = file_io.open_input(stored.path)
    try:
        looks: list[_Look] = [(ours, _parquet(_Seekable(source), ours.num_rows))]
    finally:
        source.close()
    pages = FilePages.open(file_io, stored.path)
    if pages is None:
        return looks
    try:
        chosen, last = pages.page_starts(number % pages.group_count), pages.page_starts(-1)
        starts = [start for start in chosen if start >= ours.num_rows] or [
            start for start in last if start >= ours.num_rows
        ]
        if starts:
            start = starts[number % len(starts)]
            names = pages.schema.names
            ours = next(pages.batches(names, start, min(start + _ROWS, pages.num_rows), _ROWS))
            looks.append((ours, _parquet(pages.file_from(start), ours.num_rows)))
    finally:
        pages.close()
    return looks


def _parquet(source: Any, rows: int) -> dict[str, pa.Array]:
    """Return the first rows of a file, read batch by batch: a panic inside an Arrow stream would end the
    process.
    """
    from arro3.io import read_parquet

    batches = _until(map(pa.record_batch, read_parquet(cast("IO[bytes]", source), batch_size=_ROWS)), rows)
    table = pa.Table.from_batches(batches).slice(0, rows).combine_chunks()
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: column.chunk(0) for name, column in columns if column.num_chunks}


def _until(batches: Iterable[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    result: list[pa.RecordBatch] = []
    for batch in batches:
        result.append(batch)
        if sum(one.num_rows for one in result) >= rows:
            return result
    raise ValueError(f"it ends before row {rows}")


def _avro_looks(file_io: FileIO, stored: StoredFile, schema: TableSchema, number: int) -> list[_Look]:
    start = number % max(min(stored.file.row_count - _ROWS, _MOST_SKIPPED), 1)
    ours = _our_rows(file_io, stored.path, schema, start)
    return [(ours, _avro(file_io, stored.path, ours, start))]


def _avro(file_io: FileIO, path: str, ours: pa.RecordBatch, start: int) -> dict[str, pa.Array]:
    import fastavro

    source = file_io.open_input(path)
    try:
        theirs = islice(fastavro.reader(_Seekable(source)), start, start + ours.num_rows)
        records: list[Any] = list(theirs)
    finally:
        source.close()
    return {
        kind.name: pa.array([_plain(record[kind.name], kind.type) for record in records], kind.type)
        for kind in ours.schema
        if records and kind.name in records[0]
    }


def _plain(value: Any, data_type: pa.DataType) -> Any:
    """Return a value of fastavro in the form that pyarrow accepts: maps are pairs, in avro also lists of
    records.
    """
    if value is None:
        return None
    if pa.types.is_map(data_type):
        pairs = value.items() if isinstance(value, dict) else ((one["key"], one["value"]) for one in value)
        return [(_plain(key, data_type.key_type), _plain(item, data_type.item_type)) for key, item in pairs]
    if pa.types.is_struct(data_type):
        return {one.name: _plain(value[one.name], one.type) for one in data_type}
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return [_plain(item, data_type.value_type) for item in value]
    return value


class _Seekable(io.RawIOBase):
    """A wrapper of an input of ours, which makes it a Python file."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size()}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        size_left = max(self._source.size() - self._at, 0)
        data = bytes(
            self._source.read_at(size_left if size is None or size < 0 else min(size, size_left), self._at)
        )
        self._at += len(data)
        return data


_LOOKS: Mapping[str, Callable[[FileIO, StoredFile, TableSchema, int], list[_Look]]] = {
    "parquet": _parquet_looks,
    "avro": _avro_looks,
}
