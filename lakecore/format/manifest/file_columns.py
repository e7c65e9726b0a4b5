"""This module makes the data files of many manifest entries from columns: each field is decoded for all of
them at once. The files equal those of `file_from_record`, which decodes one record after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.format.avro.schema import AvroArray, AvroNode, AvroRecord, AvroUnion
from lakecore.format.avro.values import decoder
from lakecore.format.avro.vectorized import LaneOutput, Lanes
from lakecore.metadata.file_names import checked_location, checked_name, checked_words
from lakecore.metadata.manifest.byte_words import ByteWords
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile, FileSource, SimpleStats

__all__ = ["data_files", "file_output"]

Ints: TypeAlias = npt.NDArray[Any]

_NONE = int(np.iinfo(np.int64).min)
"""Stands for null in a column of numbers: no writer gives a file such a number."""
_LONGS = ("_FILE_SIZE", "_ROW_COUNT", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID", "_LEVEL")
_OPTIONAL_LONGS = ("_CREATION_TIME", "_DELETE_ROW_COUNT", "_FILE_SOURCE", "_FIRST_ROW_ID")
_NAME = "_FILE_NAME"
_ROWS = (
    "_MIN_KEY", "_MAX_KEY", "_KEY_STATS._MIN_VALUES", "_KEY_STATS._MAX_VALUES",
    "_VALUE_STATS._MIN_VALUES", "_VALUE_STATS._MAX_VALUES",
)  # fmt: skip
_COUNTS = ("_KEY_STATS._NULL_COUNTS", "_VALUE_STATS._NULL_COUNTS")
_NAMES = "_EXTRA_FILES"
_COLUMNS = ("_VALUE_STATS_COLS", "_WRITE_COLS")
_INDEX, _PATH = "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH"
_MAX_LEVEL = (1 << 31) - 1
_LONGEST_NAME = 512


def file_output(count: int) -> LaneOutput:
    """Return the columns to which the fields of `count` files are decoded."""
    rows = [_field(name) for name in (_NAME, *_ROWS)]
    return LaneOutput(
        required=frozenset((*map(_field, _LONGS), *rows)),
        longs={
            **{_field(name): np.empty(count, np.int64) for name in _LONGS},
            **{_field(name): np.full(count, _NONE, np.int64) for name in _OPTIONAL_LONGS},
        },
        starts={name: np.empty(count, np.int64) for name in rows},
        lengths={name: np.empty(count, np.int64) for name in rows},
        sparse={_field(name): [] for name in (_INDEX, _PATH)},
        arrays={_field(name): [] for name in (*_COUNTS, _NAMES, *_COLUMNS)},
    )


def _field(name: str) -> str:
    return f"_FILE.{name}"


def data_files(lanes: Lanes, schema: AvroNode) -> list[DataFile]:
    """Return the files whose fields were decoded to `file_output`. It costs some 7 us a file.

    `schema` is that of the records. Raises ValueError or IndexError for damage, and for values that no file
    can have.
    """
    reading = _Reading(lanes, schema)
    level = lanes.out.longs[_field("_LEVEL")]
    if len(level) and not -_MAX_LEVEL - 1 <= int(level.min()) <= int(level.max()) <= _MAX_LEVEL:
        raise ValueError("a level is not a 32-bit integer")
    rows = [reading.rows(name) for name in _ROWS]
    counts = [reading.arrays(name, tuple, ()) for name in _COUNTS]
    longs = [reading.longs(name) for name in (*_LONGS, *_OPTIONAL_LONGS)]
    others = (
        reading.arrays(_NAMES, _checked_names, ()),
        *(reading.arrays(name, tuple, None) for name in _COLUMNS),
        reading.binaries(_INDEX, bytes),
        reading.binaries(_PATH, _checked_path),
    )
    sources: Mapping[int | None, FileSource | None] = {
        number: None if number is None else FileSource(number) for number in set(longs[8])
    }
    return [
        DataFile(
            file_name=name,
            file_size=size,
            row_count=row_count,
            min_key=min_key,
            max_key=max_key,
            key_stats=SimpleStats(key_low, key_high, key_nulls),
            value_stats=SimpleStats(low, high, nulls),
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=schema_id,
            level=level,
            extra_files=extra_files,
            creation_time=time,
            delete_row_count=deletes,
            embedded_index=index,
            file_source=sources[source],
            value_stats_cols=stats_cols,
            external_path=path,
            first_row_id=row_id,
            write_cols=write_cols,
        )
        for (
            name, min_key, max_key, key_low, key_high, low, high, key_nulls, nulls,
            size, row_count, first, last, schema_id, level, time, deletes, source, row_id,
            extra_files, stats_cols, write_cols, index, path,
        ) in zip(reading.names(), *rows, *counts, *longs, *others, strict=True)
    ]  # fmt: skip


class _Reading:
    """Turns columns of positions into values."""

    def __init__(self, lanes: Lanes, schema: AvroNode) -> None:
        self._lanes, self._out = lanes, lanes.out
        self._data = lanes.data.tobytes()
        self._schema = schema
        self._count = len(lanes.out.longs[_field("_LEVEL")])

    def names(self) -> list[str]:
        start, length = self._out.starts[_field(_NAME)], self._out.lengths[_field(_NAME)]
        if int(length.max(initial=0)) > _LONGEST_NAME:
            raise ValueError("a name is too long")
        checked_words(ByteWords.from_slices(self._lanes.data, start, length), _NAME)
        return [part.decode() for part in self._parts(_NAME)]

    def rows(self, name: str) -> list[bytes]:
        return [part or EMPTY_ROW for part in self._parts(name)]

    def _parts(self, name: str) -> list[bytes]:
        start = self._out.starts[_field(name)]
        ends = (start + self._out.lengths[_field(name)]).tolist()
        data = self._data
        return [data[low:high] for low, high in zip(start.tolist(), ends, strict=True)]

    def longs(self, name: str) -> list[Any]:
        column = self._out.longs[_field(name)]
        values: list[Any] = column.tolist()
        if name in _OPTIONAL_LONGS and (column == _NONE).any():
            return [None if value == _NONE else value for value in values]
        return values

    def arrays(self, name: str, build: Callable[[Any], Any], missing: Any) -> list[Any]:
        """Return an array for each file, or `missing`. Equal ones are decoded once."""
        out = [missing] * self._count
        node = _array_node(self._schema, _field(name))
        if node is None:
            if self._out.arrays[_field(name)]:
                raise ValueError(f"column {name} has a type that is not known")
            return out
        read = decoder(node)
        arrays_of: dict[bytes, Any] = {}
        for record, part in self._pieces(self._out.arrays[_field(name)]):
            value = arrays_of.get(part)
            if value is None:
                value = arrays_of[part] = build(read(part, 0)[0])
            out[record] = value
        return out

    def binaries(self, name: str, build: Callable[[bytes], Any]) -> list[Any]:
        out: list[Any] = [None] * self._count
        for record, part in self._pieces(self._out.sparse[_field(name)]):
            out[record] = build(part)
        return out

    def _pieces(self, groups: list[tuple[Ints, Ints, Ints]]) -> list[tuple[int, bytes]]:
        data = self._data
        return [
            (record, data[start : start + length])
            for parts in groups
            for record, start, length in zip(*(part.tolist() for part in parts), strict=True)
        ]


def _checked_names(names: list[str]) -> tuple[str, ...]:
    return tuple(checked_name(name, _NAMES) for name in names)


def _checked_path(path: bytes) -> str:
    return checked_location(path.decode(), _PATH)


def _array_node(schema: AvroNode, path: str) -> AvroArray | None:
    """Return the array that a field of the schema holds; None where it has no such field."""
    node: AvroNode | None = _present(schema)
    for name in path.split("."):
        fields = node.fields if isinstance(node, AvroRecord) else ()
        node = next((_present(field.type) for field in fields if field.name == name), None)
    return node if isinstance(node, AvroArray) else None


def _present(node: AvroNode) -> AvroNode:
    """Return the type of the values that are not null."""
    if isinstance(node, AvroUnion):
        return next((branch for branch in node.branches if isinstance(branch, (AvroArray, AvroRecord))), node)
    return node
