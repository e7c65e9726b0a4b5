"""This module reads the rows of a range of keys, all columns of them, from sorted files in the types of the
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME
from lakecore.prefetch import in_threads
from lakecore.types.arrow import arrow_type
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import hash_rows
from lakecore.verify.digest.rows import without_rows
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.recompute.window_results import WindowRows
from lakecore.verify.sample.key_marks import KeySpan, Marks, marks_of, rows_inside
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.output_sample import OutputSample

__all__ = ["FoundRows", "SearchedFile", "WindowReader", "key_hashes", "key_names", "window_schema"]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """These are rows that one file has, and the position of each in it."""

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """This is a file of another level in a window, with its live `rows` there. `hits` are the rows that
    were searched for.
    """

    file: LookupFile
    rows: FoundRows
    hits: npt.NDArray[np.int64]

    @property
    def found_rows(self) -> FoundRows:
        return FoundRows(self.rows.batch.take(pa.array(self.hits)), self.rows.positions[self.hits])


def window_schema(shape: RowShape) -> pa.Schema:
    """Return key columns with their prefix, all compared columns, sequence number and row kind."""
    keys = [(KEY_PREFIX + field.name, arrow_type(field.type)) for field in shape.key]
    values = [(field.name, arrow_type(field.type)) for field in shape.values]
    return pa.schema([*keys, *values, (SEQUENCE_NAME, pa.int64()), (KIND_NAME, pa.int8())])


def key_names(shape: RowShape) -> list[str]:
    """Return the key columns of a window, in key order."""
    return [KEY_PREFIX + field.name for field in shape.key]


def key_hashes(batch: pa.RecordBatch, shape: RowShape) -> npt.NDArray[np.uint64]:
    """Return one hash per row of a window, that of its key."""
    names = key_names(shape)
    return hash_rows([batch.column(name) for name in names], shape.field_ids[: len(names)])


@dataclass(slots=True)
class WindowReader:
    """It reads windows of one unit. `marks` are those of files that were read before; others are added.

    `left_out` are columns whose stored values could not be converted to the type of the table.
    """

    context: ProofContext
    marks: Marks
    left_out: set[str] = field(default_factory=set)

    @property
    def shape(self) -> RowShape:
        return self.context.shape.wide

    def inputs(self, runs: Sequence[Sequence[LookupFile]], keys: KeySpan) -> WindowRows:
        """Return live rows of the inputs, run by run."""
        files = [file for run in runs for file in run]
        parts = in_threads(lambda file: self.rows(file, keys), files, self.context.threads)
        return self._join(list(zip(files, parts, strict=True)), outside=False)

    def search(
        self,
        inside: WindowRows,
        above: Sequence[Sequence[LookupFile]],
        keys: KeySpan,
        looked_up: Mapping[str, BitMap],
    ) -> list[SearchedFile]:
        """Return, for keys of level 0 that no input has above it, their rows on the nearest level that has
        one.

        Files without such keys are in the answer only where the merge says that it looked rows up there.
        """
        if not above:
            return []
        hashes = key_hashes(inside.batch, self.shape)
        open_hashes = np.setdiff1d(hashes[inside.levels == 0], hashes[inside.levels > 0])
        files: list[SearchedFile] = []
        for level in above:
            met_hashes: list[npt.NDArray[np.uint64]] = []
            for file in level:
                if not len(open_hashes) and not self._any_looked_up(file, keys, looked_up):
                    continue
                rows = self.rows(file, keys)
                there = key_hashes(rows.batch, self.shape)
                hits = np.flatnonzero(np.isin(there, open_hashes))
                met_hashes.append(there[hits])
                files.append(SearchedFile(file, rows, hits))
            open_hashes = np.setdiff1d(open_hashes, np.concatenate(met_hashes)) if met_hashes else open_hashes
        return files

    def outside(self, searched: Sequence[SearchedFile]) -> WindowRows:
        """Return the rows that a search found."""
        return self._join([(one.file, one.found_rows) for one in searched], outside=True)

    def _any_looked_up(self, file: LookupFile, keys: KeySpan, looked_up: Mapping[str, BitMap]) -> bool:
        """Return whether the merge looked up rows at or near the span."""
        positions = looked_up.get(file.stored.file.file_name)
        if not positions:
            return False
        start, stop = marks_of(self.context, file.stored, self.marks).span(keys)
        return positions.range_cardinality(start, stop) > 0

    def rows(self, file: LookupFile, keys: KeySpan, *, written: bool = False) -> FoundRows:
        """Return the live rows of one file. `written` tells that this unit wrote it, with the sequence
        numbers that count.
        """
        span = marks_of(self.context, file.stored, self.marks).span(keys)
        parts = [
            self._inside(columns, places, keys) for columns, places in self._read(file, span, written=written)
        ]
        parts = [part for part in parts if part.batch.num_rows]
        if not parts:
            return FoundRows(pa.RecordBatch.from_pylist([], window_schema(self.shape)), np.empty(0, np.int64))
        return FoundRows(
            pa.concat_batches([part.batch for part in parts]),
            np.concatenate([part.positions for part in parts]),
        )

    def all_rows(self, files: Iterable[StoredFile], keys: KeySpan, sample: OutputSample) -> pa.RecordBatch:
        """Return the rows of new files that follow each other; `sample` is called with them."""
        parts = [pa.RecordBatch.from_pylist([], window_schema(self.shape))]
        for stored in files:
            rows = self.rows(LookupFile(stored), keys, written=True)
            sample.add(stored, rows.batch.columns, rows.positions)
            parts.append(rows.batch)
        return pa.concat_batches(parts)

    def _read(
        self, file: LookupFile, span: tuple[int, int], *, written: bool
    ) -> Iterator[tuple[Sequence[pa.Array], npt.NDArray[np.int64]]]:
        """Yield columns of the live rows of a span, and their positions."""
        start, stop = span
        if start >= stop:
            return
        stored, shape = file.stored, self.shape
        schema = self.context.schemas[stored.file.schema_id]
        number = None if written else stored.number(shape)
        for columns in read_covered(
            self.context.file_io, stored.path, shape, schema, number=number, rows=span
        ):
            places = np.arange(start, start + len(columns[0]), dtype=np.int64)
            start += len(places)
            if file.deleted is None:
                yield columns, places
            else:
                *live, places_left = without_rows([*columns, pa.array(places)], file.deleted, int(places[0]))
                yield live, places_left.to_numpy()

    def _inside(self, columns: Sequence[pa.Array], places: npt.NDArray[np.int64], keys: KeySpan) -> FoundRows:
        schema = window_schema(self.shape)
        count = len(self.shape.key)
        typed = [
            self._cast(column, kind.type, kind.name)
            for column, kind in zip(columns[:count], list(schema)[:count], strict=True)
        ]
        low, high = rows_inside(typed, keys)
        rest = zip(columns[count:], list(schema)[count:], strict=True)
        cut = [column.slice(low, high - low) for column in typed]
        cut += [self._cast(column.slice(low, high - low), kind.type, kind.name) for column, kind in rest]
        return FoundRows(pa.RecordBatch.from_arrays(cut, schema=schema), places[low:high])

    def _cast(self, column: pa.Array, data_type: pa.DataType, name: str) -> pa.Array:
        if column.type == data_type:
            return column
        try:
            return column.cast(data_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            self.left_out.add(name)
            return pa.nulls(len(column), data_type)

    def _join(self, lookups: Sequence[tuple[LookupFile, FoundRows]], *, outside: bool) -> WindowRows:
        empty = pa.RecordBatch.from_pylist([], window_schema(self.shape))
        sizes = [rows.batch.num_rows for _, rows in lookups]
        levels = np.repeat([file.stored.file.level for file, _ in lookups], sizes).astype(np.int64)
        batch = pa.concat_batches([empty, *(rows.batch for _, rows in lookups)])
        return WindowRows(batch, levels, np.full(batch.num_rows, outside))
