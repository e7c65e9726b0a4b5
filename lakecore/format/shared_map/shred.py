"""This module converts MAP columns to the layout shared-shredding, and chooses the layout of the files of one
writer.

`shredded_maps` reads them; there is what the layout looks like.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.arrow_nested import view_as
from lakecore.format.shared_map.footer_metadata import (
    COLUMN,
    MAPPING,
    OVERFLOW,
    PACKED,
    SHARED,
    field_metadata,
)
from lakecore.format.shared_map.placement import Placement, placer
from lakecore.format.shredding import StoredLayout
from lakecore.options import Option, parse_enum
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    RowType,
    TypeRoot,
    with_nullable,
)

__all__ = ["SHAPABLE", "MapLayout", "MapShredder"]

SHAPABLE = ("parquet", "orc")
_INT = AtomicType(TypeRoot.INT)
_DEFAULT_COLUMNS = 256
_CELLS = 1 << 22
"""Rows times value columns that are placed at once: bounds memory."""
_WINDOW, _SHARE, _SLACK, _RATIO = 20, 0.9, 4, 1.25

Ints = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class MapLayout:
    """This is the layout of a column by its options. `columns` is the largest number of value columns."""

    columns: int
    placement: Placement

    @classmethod
    def of(cls, name: str, raw: Mapping[str, str]) -> MapLayout | None:
        """Read the layout of a column; None for plain maps. Raises InvalidOptionError."""
        prefix = f"fields.{name}.map."
        layout = Option(prefix + "storage-layout", _parse_layout, "default", "How the maps are stored.")
        if layout.read(raw) != SHARED:
            return None
        columns = Option(
            prefix + "shared-shredding.max-columns", _positive, _DEFAULT_COLUMNS, "Value columns at most."
        )
        placement = Option(
            prefix + "shared-shredding.column-placement-policy",
            parse_enum(Placement),
            Placement.LRU,
            "Which value column a key takes.",
        )
        return cls(columns.read(raw), placement.read(raw))


def _parse_layout(text: str) -> str:
    clean = text.strip().lower().replace("_", "-")
    if clean not in ("default", SHARED):
        raise ValueError(f"must be default or {SHARED}")
    return clean


def _positive(text: str) -> int:
    if int(text) <= 0:
        raise ValueError("must be above 0")
    return int(text)


class MapShredder:
    """It shreds maps by the options. A file has as many value columns as recent files needed."""

    sample_rows = 0

    def __init__(self, row_type: RowType, layouts: Mapping[str, MapLayout], codec: str) -> None:
        self._row_type = row_type
        self._layouts = layouts
        self._codec = codec
        self._widths: dict[str, deque[int]] = {name: deque(maxlen=_WINDOW) for name in layouts}

    @classmethod
    def of(
        cls, row_type: RowType, raw: Mapping[str, str], file_format: str, codec: str
    ) -> MapShredder | None:
        """Return a shredder; None if no column is shredded, as for formats and codecs that do not support
        the layout.

        Raises InvalidOptionError.
        """
        if file_format not in SHAPABLE or codec not in PACKED:
            return None
        layouts = {
            field.name: layout
            for field in row_type
            if isinstance(field.type, MapType)
            and isinstance(field.type.key, AtomicType)
            and field.type.key.root is TypeRoot.VARCHAR
            and (layout := MapLayout.of(field.name, raw)) is not None
        }
        return cls(row_type, layouts, codec) if layouts else None

    def shape(self, sample: Sequence[pa.RecordBatch]) -> StoredLayout:
        """Return the layout of the next file, which may have no rows."""
        layouts = {
            name: replace(layout, columns=_next_columns(self._widths[name], layout.columns))
            for name, layout in self._layouts.items()
        }
        return _SharedMaps(self._row_type, layouts, self._codec)

    def finished(self, shape: StoredLayout) -> None:
        """Record the widest rows of a file for the files that follow."""
        assert isinstance(shape, _SharedMaps)
        for name, column in shape.columns.items():
            self._widths[name].append(column.widest)


def _next_columns(widths: Sequence[int], most: int) -> int:
    """Return the number of columns of the next file. Rule of the format: the widest row of recent files, or
    of nine in ten if few are far wider.
    """
    if not widths:
        return most
    ordered = sorted(widths)
    common = ordered[max(math.ceil(_SHARE * len(ordered)), 1) - 1]
    widest = ordered[-1]
    close = widest - common <= _SLACK or widest <= math.ceil(common * _RATIO)
    return max(1, min(widest if close else common, most))


class _SharedMaps:
    """The maps of one file, which share columns."""

    def __init__(self, row_type: RowType, layouts: Mapping[str, MapLayout], codec: str) -> None:
        fields = [
            replace(field, type=_group_type(field.type, layouts[field.name].columns))
            if field.name in layouts and isinstance(field.type, MapType)
            else field
            for field in row_type
        ]
        self.schema = arrow_schema(RowType(tuple(fields)))
        self.columns = {name: _Column(layout) for name, layout in layouts.items()}
        self._codec = codec
        self._step = max(_CELLS // max(layout.columns for layout in layouts.values()), 1)

    def stored(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for start in range(0, batch.num_rows, self._step):
            part = batch.slice(start, self._step)
            arrays = [
                self.columns[field.name].group(column, field.type) if field.name in self.columns else column
                for field, column in zip(self.schema, part.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def notes(self) -> Mapping[str, Mapping[str, str]]:
        return {name: column.notes(self._codec) for name, column in self.columns.items()}


def _group_type(data_type: MapType, columns: int) -> RowType:
    value = with_nullable(data_type.value, True)
    parts = [(MAPPING, ArrayType(_INT)), *((f"{COLUMN}{i}", value) for i in range(columns))]
    parts.append((OVERFLOW, MapType(_INT, value)))
    fields = tuple(DataField(i, name, part) for i, (name, part) in enumerate(parts))
    return RowType(fields, data_type.nullable)


class _Column:
    """The keys of one column in one file, and where they were."""

    def __init__(self, layout: MapLayout) -> None:
        self._count = layout.columns
        self._place = placer(layout.placement, layout.columns)
        self._ids: dict[str, int] = {}
        self._columns_of: dict[int, set[int]] = {}
        self._overflow: set[int] = set()
        self.widest = 0

    def group(self, maps: pa.MapArray, data_type: pa.StructType) -> pa.StructArray:
        """Return the maps as `data_type`. It needs memory for an index for each row and value column."""
        valid = maps.is_valid().to_numpy(zero_copy_only=False)
        offsets = maps.offsets.to_numpy()
        counts = np.where(valid, np.diff(offsets), 0)
        rows = np.repeat(np.arange(len(maps)), counts)
        at = np.arange(len(rows)) + np.repeat(offsets[:-1] - (np.cumsum(counts) - counts), counts)
        ids = self._number(maps.keys.take(pa.array(at)))
        columns = self._place(rows, ids)
        self._note(ids, columns, counts)
        inside = np.flatnonzero(columns >= 0)
        cells = np.full((len(maps), self._count), -1, np.int64)
        cells[rows[inside], columns[inside]] = at[inside]
        mapping = np.full((len(maps), self._count), -1, np.int32)
        mapping[rows[inside], columns[inside]] = ids[inside]
        parts = [_lists(mapping, data_type.field(0).type)]
        for column in range(self._count):
            column_cells = cells[:, column]
            values = maps.items.take(pa.array(column_cells, mask=column_cells < 0))
            parts.append(view_as(values, data_type.field(1 + column).type))
        beyond = np.flatnonzero(columns < 0)
        parts.append(
            _overflow(
                maps.items, at[beyond], rows[beyond], ids[beyond], data_type.field(OVERFLOW).type, len(maps)
            )
        )
        mask = None if valid.all() else pa.array(~valid)
        return pa.StructArray.from_arrays(parts, fields=list(data_type), mask=mask)

    def notes(self, codec: str) -> dict[str, str]:
        return field_metadata(
            self._ids, self._columns_of, self._overflow, columns=self._count, widest=self.widest, codec=codec
        )

    def _number(self, keys: pa.Array) -> Ints:
        """Return ids in the order of first use. It costs Python time for each distinct key of a batch."""
        coded = keys.dictionary_encode()
        numbers = [self._ids.setdefault(name, len(self._ids)) for name in coded.dictionary.to_pylist()]
        places: Ints = np.array(numbers, np.int64)[coded.indices.to_numpy()]
        return places

    def _note(self, ids: Ints, columns: Ints, counts: Ints) -> None:
        self.widest = max(self.widest, int(counts.max(initial=0)))
        inside = columns >= 0
        pairs = np.unique(ids[inside] * self._count + columns[inside])
        for number, column in zip(*(part.tolist() for part in np.divmod(pairs, self._count)), strict=True):
            self._columns_of.setdefault(number, set()).add(column)
        self._overflow.update(np.unique(ids[~inside]).tolist())


def _lists(mapping: Ints, kind: pa.ListType) -> pa.ListArray:
    """Return lists; rows that are null have a list too, which is hidden."""
    rows, columns = mapping.shape
    offsets = pa.array(np.arange(rows + 1) * columns, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(mapping.ravel()), type=kind)


def _overflow(items: pa.Array, at: Ints, rows: Ints, ids: Ints, kind: pa.MapType, length: int) -> pa.MapArray:
    """Return maps for rows that overflow, and null for others."""
    counts = np.bincount(rows, minlength=length)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    values = view_as(items.take(pa.array(at)), kind.item_type)
    entries = pa.StructArray.from_arrays(
        [pa.array(ids, pa.int32()), values], fields=[kind.key_field, kind.item_field]
    )
    validity = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    return pa.Array.from_buffers(kind, length, [validity, pa.py_buffer(ends)], -1, 0, children=[entries])
