"""This module reads a split: files in order, or a merge of sorted runs; projected and filtered.

Rules of the format for primary-key tables: rows of one key are ordered by the sequence fields, then by
`_SEQUENCE_NUMBER`; the last wins, or the merge engine makes one row of them; a key whose row retracts does
not exist. Only conditions on key columns may be applied below the merge: they hold for all rows of a key or
for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.lsm.sections import Section, sections
from lakecore.merge.passes import Scratch, reduce_runs, run_limit, stage_runs
from lakecore.merge.sorted_merge import MergeSpec, merge_runs
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import SequenceOrder
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, RowKind, is_retract
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of, restricted
from lakecore.read.columns.evolve import cut_columns
from lakecore.read.context import ReadContext
from lakecore.read.file.file_index import IndexMatch, IndexSearch
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.read.file.key_range import KeyRange, RangeRows, read_range
from lakecore.read.file.sizes import DEFAULT_SIZES, ReadSizes, row_bytes, sizes_for
from lakecore.read.split.joined_rows import JoinedRows, read_joined
from lakecore.read.split.key_cuts import ranges, sample_cuts
from lakecore.scan.split import Split
from lakecore.store.indexes import load_deletions
from lakecore.types.datatypes import RowType

__all__ = ["EVERYTHING", "ReadRequest", "indexed_split", "read_section", "read_split", "split_shares"]

_FEW_RUNS = 4
_SMALL_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """It says what is read of a split."""

    columns: Sequence[str] | None = None
    """These are the names of columns of `ctx.schema`; None means all."""
    predicate: Predicate | None = None
    """Only rows for which it is true are returned."""
    kinds: bool = False
    """It adds `_VALUE_KIND` as the last column, as other readers of the format return it: the kind of the
    winner where runs may overlap, insert where files are read as they are.
    """
    retracts: bool = False
    """It includes keys whose winner retracts, for a split that is not raw convertible."""


EVERYTHING = ReadRequest()


def read_split(
    ctx: ReadContext,
    split: Split,
    request: ReadRequest = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split that `request` asks for.

    It holds some batches of every run that is open; more runs than memory allows are merged in passes over
    local disk. Raises NotFoundError when a file does not exist, CorruptDataError, UnsupportedError.
    """
    rows = indexed_split(ctx, split, request)
    if rows is not None:
        yield from rows()


def indexed_split(
    ctx: ReadContext,
    split: Split,
    request: ReadRequest = EVERYTHING,
) -> Callable[[], Iterator[pa.RecordBatch]] | None:
    """Evaluate the file indexes now and return the deferred `read_split`; None when no row can match.

    Reads of indexes are short and many: threads that do them at the same time wait for each other.
    """
    reader = _Reader(ctx, split, request)
    if not reader.may_match(split):
        return None
    return lambda: reader.finished(reader.rows(split))


def split_shares(
    ctx: ReadContext,
    split: Split,
    count: int,
    request: ReadRequest = EVERYTHING,
) -> tuple[Callable[[], Iterator[pa.RecordBatch]], ...]:
    """Cut a split into about `count` reads, or many more, that together return the rows of `read_split`.

    They may run at the same time: each holds what a merge holds. Sections are read alone, and one of more
    than its share is cut by keys; this costs two small reads of each of its files. A split that needs no
    merge, or of which keys are requested, stays whole.
    """
    reader = _Reader(ctx, split, request)
    if count < 2 or not reader.merges(split) or reader.key_predicate is not None:
        return (lambda: reader.finished(reader.rows(split)),)
    shares: list[Callable[[], Iterator[pa.RecordBatch]]] = []
    for section in reader.sections(split):
        size = sum(file.file_size for file in section.files)
        cut = len(section.runs) > 1 and size * count > split.size
        parts = -(-size * count // split.size) if cut else 1
        keys = sample_cuts(ctx, reader.bucket_dir, section.files, parts) if cut else ()
        shares += [partial(reader.section, section, bounds) for bounds in (ranges(keys) if keys else (None,))]
    return tuple(shares)


def read_section(
    ctx: ReadContext,
    split: Split,
    bounds: KeyRange,
    request: ReadRequest = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split that is one section, within a range of keys; for all else see `read_split`."""
    reader = _Reader(ctx, split, request)
    for section in reader.sections(split):
        yield from reader.section(section, bounds)


def _inserts(batch: pa.RecordBatch, *, kinds: bool) -> pa.RecordBatch:
    if not kinds:
        return batch
    zeros = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), batch.num_rows)
    return batch.append_column(pa.field(KIND_NAME, pa.int8(), nullable=False), zeros)


class _Reader:
    """Reads the columns that a query and its filter need from the files of one bucket."""

    def __init__(
        self,
        ctx: ReadContext,
        split: Split,
        request: ReadRequest,
    ) -> None:
        columns, predicate, kinds = request.columns, request.predicate, request.kinds
        self._ctx = ctx.in_partition(split.partition)
        self.bucket_dir = ctx.bucket_dir(split.partition, split.bucket)
        self._deletions = split.deletions_of
        self._result_columns = list(ctx.schema.row_type.names if columns is None else columns)
        extra = sorted(columns_of(predicate) - set(self._result_columns)) if predicate is not None else []
        self._kinds = kinds
        self._stored_kinds = kinds and ctx.keyed and not split.raw_convertible
        needed = (*self._result_columns, *extra)
        self._columns = (*needed, KIND_NAME) if self._stored_kinds else needed
        self._predicate = predicate
        self._retracts = request.retracts
        self._index_matches: Mapping[str, IndexMatch] = {}
        self._cut = RowType(())
        if ctx.parts.fields and self._folds_parts(split):
            self._cut, self._ctx = ctx.parts, self._ctx.with_parts(RowType(()))

    @property
    def key_predicate(self) -> Predicate | None:
        """Return the part of the predicate on the key alone; partition columns are the same in all rows."""
        return restricted(self._predicate, self._ctx.schema.primary_keys)

    def merges(self, split: Split) -> bool:
        """Return whether the split needs a merge at all."""
        options = self._ctx.options
        apart = options.pk_clustering_override or options.data_evolution
        return self._ctx.keyed and not split.raw_convertible and not apart

    def _folds_parts(self, split: Split) -> bool:
        """Return whether columns of which parts are requested must be read whole first: a merge engine or the
        predicate may look at all of their values.
        """
        looked_at = columns_of(self._predicate) if self._predicate is not None else frozenset()
        engine = self._ctx.engine if self.merges(split) else None
        return engine is not None or not looked_at.isdisjoint(self._ctx.parts.names)

    def may_match(self, split: Split) -> bool:
        """Evaluate the indexes of files that are read alone; False when they leave no row."""
        if self._predicate is None or self.merges(split) or self._ctx.options.data_evolution:
            return True
        self._index_matches = IndexSearch(self._ctx, self._predicate).search_files(
            self.bucket_dir, split.files
        )
        return any(match.rows is None or match.rows for match in self._index_matches.values())

    def sections(self, split: Split) -> tuple[Section, ...]:
        return sections(split.files, key_order(self._ctx.schema.key_type))

    def finished(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Filter the rows and project them to the requested columns."""
        names, predicate = self._result_columns, self._predicate
        for batch in rows:
            filtered = batch if predicate is None else batch.filter(mask(predicate, batch))
            if not filtered.num_rows:
                continue
            filtered = cut_columns(filtered, self._ctx.schema.row_type, self._cut)
            if self._stored_kinds:
                yield filtered.select([*names, KIND_NAME])
            else:
                yield _inserts(filtered.select(names), kinds=self._kinds)

    def rows(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of the split; a superset of those that match the predicate."""
        if self._ctx.options.data_evolution:
            yield from self._join(split)
        elif not self._ctx.keyed:
            for file in self._possible(split):
                yield from self._file(file, self._columns, self._predicate)
        elif not self.merges(split):
            for file in self._possible(split):
                yield from self._live(file, self._predicate)
        else:
            for section in self.sections(split):
                yield from self._section(section, None)

    def _possible(self, split: Split) -> Iterator[DataFile]:
        """Yield the files except those whose evaluated indexes leave no row."""
        for file in split.files:
            match = self._index_matches.get(file.file_name)
            if match is None or match.rows is None or match.rows:
                yield file

    def section(self, section: Section, bounds: KeyRange | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one section within `bounds`, filtered and projected."""
        return self.finished(self._section(section, bounds))

    def _section(self, section: Section, bounds: KeyRange | None) -> Iterator[pa.RecordBatch]:
        if len(section.runs) > 1:
            yield from self._merge(section, bounds)
            return
        for file in section.runs[0]:
            yield from self._live(file, self._predicate)

    def _join(self, split: Split) -> Iterator[pa.RecordBatch]:
        file_io = self._ctx.file_io
        deletions = {name: load_deletions(file_io, where) for name, where in self._deletions.items()}
        rows = JoinedRows(deletions, self._predicate)
        return read_joined(self._ctx, self.bucket_dir, split.files, self._columns, rows)

    def _live(self, file: DataFile, prunable: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file without its retracting rows; a file that records none is not checked."""
        if file.delete_row_count == 0 or self._retracts:
            yield from self._file(file, self._columns, prunable)
            return
        for batch in self._file(file, tuple(dict.fromkeys((*self._columns, KIND_NAME))), prunable):
            retracts = is_retract(batch.column(KIND_NAME).to_numpy())
            live = batch.filter(pa.array(~retracts)) if retracts.any() else batch
            yield live.select(list(self._columns))

    def _merge(self, section: Section, bounds: KeyRange | None) -> Iterator[pa.RecordBatch]:
        options, engine = self._ctx.options, self._ctx.engine
        keys = self._ctx.schema.trimmed_primary_keys
        beside = () if engine is None else engine.needed(self._columns)
        runs = sorted(_of_one_level(section.runs) if options.needs_lookup else section.runs, key=_age)
        numbered = options.snapshot_ordering or not _in_sequence(runs)
        kinds = any(file.delete_row_count != 0 for file in section.files)
        system = (SEQUENCE_NAME,) * numbered + (KIND_NAME,) * kinds
        needed = (*self._columns, *keys, *options.sequence_fields, *beside, *system)
        columns = tuple(dict.fromkeys(needed))
        sizes, limit = self._sizes(runs, columns)
        spec = MergeSpec(
            key_columns=keys,
            sequence_columns=options.sequence_fields,
            descending=options.sequence_order is SequenceOrder.DESCENDING,
            drop_retracts=not self._retracts,
            ignore_retracts=options.ignore_delete,
            columns=self._columns,
            engine=engine,
            levels=tuple(run[0].level for run in runs) if options.needs_lookup else None,
            numbered=numbered,
            kinds=kinds,
        )
        opened = [self._run(run, columns, sizes, bounds) for run in runs]
        with Scratch() as scratch:
            if engine is None:
                opened = reduce_runs(opened, limit, sizes.batch_rows, partial(_merge_runs, spec), scratch)
            else:
                opened = stage_runs(opened, limit, sizes.batch_rows, scratch)
            for window in merge_runs(opened, spec):
                yield window.batch

    def _run(
        self,
        files: tuple[DataFile, ...],
        columns: tuple[str, ...],
        sizes: ReadSizes,
        bounds: KeyRange | None,
    ) -> Iterator[pa.RecordBatch]:
        predicate = self.key_predicate
        for file in files:
            if bounds is not None:
                yield from self._file_range(file, columns, sizes, bounds)
                continue
            for batch in self._file(file, columns, predicate, sizes):
                yield batch if predicate is None else batch.filter(mask(predicate, batch))

    def _file_range(
        self, file: DataFile, columns: tuple[str, ...], sizes: ReadSizes, bounds: KeyRange
    ) -> Iterator[pa.RecordBatch]:
        rows = RangeRows(bounds, self._deleted_rows(file))
        return read_range(self._ctx, self.bucket_dir, file, columns, rows, sizes)

    def _file(
        self,
        file: DataFile,
        columns: tuple[str, ...],
        prunable: Predicate | None,
        sizes: ReadSizes = DEFAULT_SIZES,
    ) -> Iterator[pa.RecordBatch]:
        rows = FileRows(
            predicate=prunable,
            deletions=self._deleted_rows(file),
            index_match=self._index_matches.get(file.file_name),
        )
        yield from read_file(self._ctx, self.bucket_dir, file, columns, rows, sizes)

    def _deleted_rows(self, file: DataFile) -> BitMap | None:
        deletion = self._deletions.get(file.file_name)
        return None if deletion is None else load_deletions(self._ctx.file_io, deletion)

    def _sizes(self, runs: Sequence[tuple[DataFile, ...]], columns: tuple[str, ...]) -> tuple[ReadSizes, int]:
        """Return the read sizes of an open run, and how many may be open. Large inputs cost some reads of
        footers.
        """
        if len(runs) <= _FEW_RUNS and all(file.file_size < _SMALL_FILE for run in runs for file in run):
            return ReadSizes(), _FEW_RUNS
        paths = [self._ctx.paths.data_file(self.bucket_dir, file) for run in runs for file in run]
        width = row_bytes(self._ctx.file_io, paths, columns)
        limit = run_limit(len(columns), width)
        return sizes_for(min(len(runs), limit), len(columns), width), limit


def _merge_runs(spec: MergeSpec, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge some of the runs into one; retracting rows stay, for the rows that they hide may be in other
    runs.
    """
    for window in merge_runs(runs, replace(spec, drop_retracts=False, columns=None)):
        yield window.batch


def _of_one_level(runs: Sequence[tuple[DataFile, ...]]) -> list[tuple[DataFile, ...]]:
    """Return the same files in runs of one level each: files of several levels may be in one run of a
    section, while the level of a row decides whether it hides those below it.
    """
    return [
        tuple(file for file in run if file.level == level)
        for run in runs
        for level in sorted({file.level for file in run})
    ]


def _age(run: tuple[DataFile, ...]) -> tuple[int, int]:
    """Return the sort key of a run, oldest first: its level and sequence numbers decide between rows that are
    equal in all else.
    """
    return -max(file.level for file in run), max(file.max_sequence_number for file in run)


def _in_sequence(runs: Sequence[tuple[DataFile, ...]]) -> bool:
    """Return whether every row of a run has a higher sequence number than all rows of the runs before it.

    That is the usual case: writers go on counting, and compactions take neighbours. The numbers, which
    compress badly, need not be read then.
    """
    ranges = [
        (min(file.min_sequence_number for file in run), max(file.max_sequence_number for file in run))
        for run in runs
    ]
    return all(before[1] < after[0] for before, after in pairwise(ranges))
