"""This module has the files of a unit as its merge reads them, rows in key order within the unit's share of
the keys, counted; and as the sampled proof of the merge sees them, with the rules of its last pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.compact.kinds.primary_key.expiry import Expiry
from lakecore.compact.kinds.primary_key.lookup.merge import with_level
from lakecore.compact.kinds.primary_key.unit import AGE_NAME, MergeUnit, Run, deleted_rows, stored
from lakecore.executor import count_rows
from lakecore.merge.passes import run_limit
from lakecore.merge.row_order import Bools
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.read.file.key_range import RangeRows, read_range
from lakecore.read.file.sizes import ReadSizes, row_bytes, sizes_for
from lakecore.verify.rules.merge_rules import ChangeSource, MergeRules, read_merge_rules
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.merge_sample import MergeSample

__all__ = ["UnitInputs", "merge_sample", "with_age"]

_FEW_RUNS = 4
_SMALL_FILE = 1 << 20


class UnitInputs:
    """These are the files of one unit. `rows_in` counts the rows read from them so far.

    `on_expired`: told of rows that are left out because they are too old (record-level expiry) at `now_ms`.

    `columns`: sequence number, kind and the table's; key columns are read once, as the table's own.
    """

    def __init__(self, unit: MergeUnit) -> None:
        self._unit = unit
        self.columns = (SEQUENCE_NAME, KIND_NAME, *unit.table.schema.row_type.names)
        self.rows_in = 0
        self.on_expired: Callable[[pa.RecordBatch], None] = lambda _: None
        stays = unit.by_level is not None and not unit.by_level.rewrites
        self._expiry = None if stays else Expiry.of(unit.table.schema, unit.table.reading.options)
        self.now_ms = unit.table.clock.now_ms()

    def read(self, run: Run, sizes: ReadSizes) -> Iterator[pa.RecordBatch]:
        """Yield the files of a run, one after another."""
        for file in run:
            for batch in self._batches(file, self.columns, sizes):
                count_rows(batch.num_rows)
                self.rows_in += batch.num_rows
                yield self._living(batch)

    def _living(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        old = self.too_old(batch)
        if old is None:
            return batch
        self.on_expired(batch.filter(pa.array(old)))
        return batch.filter(pa.array(~old))

    def too_old(self, batch: pa.RecordBatch) -> Bools | None:
        """Return which rows have expired, or None if none has. Rows of a file that stays as it is never
        have.
        """
        old = None if self._expiry is None else self._expiry.expired(batch, self.now_ms)
        return old if old is not None and old.any() else None

    def read_levels(self, run: Run, sizes: ReadSizes, age: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the files of a run as `read` does, with the level of each row in a last column, and with
        `age`, if given, before it.
        """
        for file in run:
            for batch in self.read((file,), sizes):
                yield with_level(batch if age is None else with_age(batch, age), file.level)

    def fresh_keys(self) -> Iterator[pa.RecordBatch]:
        """Yield the keys of the files of level 0, each batch in key order."""
        for run in self._unit.runs:
            for file in run:
                if file.level == 0:
                    yield from self._batches(file, self._unit.table.schema.trimmed_primary_keys, ReadSizes())

    def sizes(self, beside: int = 0) -> tuple[ReadSizes, int]:
        """Return what an open run may keep in memory, and how many may be open. Large inputs cost some reads
        of footers.

        `beside`: files that are open besides the runs.
        """
        unit = self._unit
        reading = unit.table.reading
        files = [file for run in unit.runs for file in run]
        small = max(file.file_size for file in files) < _SMALL_FILE
        if len(unit.runs) + beside <= _FEW_RUNS and small:
            return ReadSizes(), _FEW_RUNS
        paths = [reading.paths.data_file(unit.bucket_dir, file) for file in files]
        width = row_bytes(reading.file_io, paths)
        columns = len(self.columns)
        limit = run_limit(columns, width)
        return sizes_for(min(len(unit.runs) + beside, limit), columns, width), limit

    def _batches(
        self, file: DataFile, columns: tuple[str, ...], sizes: ReadSizes
    ) -> Iterator[pa.RecordBatch]:
        unit = self._unit
        place = (unit.table.reading, unit.bucket_dir)
        deleted = deleted_rows(unit, file)
        if unit.bounds is not None:
            return read_range(*place, file, columns, RangeRows(unit.bounds, deleted), sizes)
        return read_file(*place, file, columns, FileRows(deletions=deleted), sizes)


def with_age(batch: pa.RecordBatch, age: int) -> pa.RecordBatch:
    """Return the batch with `AGE_NAME` in a last column."""
    ages = pa.array(np.full(batch.num_rows, age, np.int32))
    return batch.append_column(pa.field(AGE_NAME, pa.int32(), nullable=False), ages)


def merge_sample(
    unit: MergeUnit,
    inputs: UnitInputs,
    files: Sequence[DataFile],
    changelog: Sequence[DataFile] = (),
    looked_up: Mapping[str, BitMap] | None = None,
) -> MergeSample:
    """Return the sample of a merge. `inputs` are as the merge read them; `files` and `changelog` are what it
    wrote; `looked_up` are the positions of the rows that it found in files above, by name of the file.
    """
    by_level = unit.by_level
    moves = by_level is not None and not by_level.rewrites
    return MergeSample(
        runs=[[_file(unit, file) for file in run] for run in unit.runs],
        rows=inputs.rows_in,
        outputs=None if moves else [stored(unit, file) for file in files],
        changelog=[stored(unit, file) for file in changelog],
        above=[[_file(unit, file) for file in level] for level in by_level.above] if by_level else (),
        looked_up=looked_up or {},
        rules=_rules(unit, moves=moves),
        nearest=by_level is not None and by_level.asks_nearest,
        may_drop=unit.licensed,
        now_ms=inputs.now_ms,
        cut=unit.bounds is not None,
    )


def _rules(unit: MergeUnit, *, moves: bool) -> MergeRules:
    """Return the rules of the merge. Rows of a file that only moves never expire."""
    schema, options, by_level = unit.table.schema, unit.table.reading.options, unit.by_level
    if by_level is None:
        return replace(read_merge_rules(schema, options), changes=ChangeSource.NONE)
    rules = read_merge_rules(schema, options, unit.output_level, by_level.top_level)
    return replace(
        rules, needs_lookup=by_level.needs_lookup, expire_column=None if moves else rules.expire_column
    )


def _file(unit: MergeUnit, file: DataFile) -> LookupFile:
    return LookupFile(stored(unit, file), deleted_rows(unit, file))
