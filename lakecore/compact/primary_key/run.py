"""One unit of a primary-key compaction: merge runs into new files, then read them back for the proof."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakecore.compact.work import UnitResult, UnitTable
from lakecore.merge.passes import Scratch, reduce_runs, run_limit
from lakecore.merge.sorted_merge import Evidence, FoldEvidence, MergedWindow, MergeSpec, merge_runs
from lakecore.metadata.data_file import DataFile, FileSource
from lakecore.metadata.options import SequenceOrder
from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME
from lakecore.read.ahead import read_ahead
from lakecore.read.context import ReadContext
from lakecore.read.file_reader import read_file
from lakecore.read.key_range import KeyRange, read_range
from lakecore.read.sizes import ReadSizes, row_bytes, sizes_for
from lakecore.verify.certificate import Certifier, UnitEvidence
from lakecore.verify.columns import StoredFile
from lakecore.verify.digest import total
from lakecore.verify.fold import FoldCertifier
from lakecore.verify.fold_evidence import Fate, FoldedWindow, join_passes
from lakecore.verify.fold_evidence import FoldEvidence as UnitFolds
from lakecore.verify.fold_rules import fold_rules
from lakecore.verify.proof import UnitProof, check_outputs, tally_input
from lakecore.verify.shape import ProofMode
from lakecore.write.rolling import FileSpec, RollingWriter

__all__ = ["MergeUnit", "run_unit"]

Run = tuple[DataFile, ...]
_FEW_RUNS = 4
_SMALL_FILE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class MergeUnit:
    """Merge `runs` (oldest first, each in key order) into files of `output_level`.

    `file_prefix`: begins the names of new files; the unit adds what tells attempts apart. `tallied`: whole
    inputs whose digest this unit takes. `bounds`: the unit's share of the keys, None for all of them.
    `overlap`: encode in another thread than decode and merge.
    """

    name: str
    table: UnitTable
    bucket_dir: str
    runs: tuple[Run, ...]
    output_level: int
    drop_deletes: bool
    file_prefix: str
    tallied: tuple[DataFile, ...]
    bounds: KeyRange | None = None
    overlap: bool = False

    @property
    def rows(self) -> int:
        return sum(file.row_count for run in self.runs for file in run)


def run_unit(unit: MergeUnit) -> UnitResult:
    """Merge, write, read back. On any failure the files of this attempt are removed again.

    Raises ProofError when the merge or its outputs do not hold, CorruptDataError, UnavailableError.
    """
    table = unit.table
    writer = RollingWriter(table.reading.file_io, _file_spec(unit), table.clock.now_ms)
    merge = _UnitMerge(unit)
    try:
        windows = merge.windows()
        with closing(read_ahead(windows) if unit.overlap else windows) as found:
            for window in found:
                if window.batch.num_rows:
                    writer.write(_with_keys(window.batch, table.schema.trimmed_primary_keys))
        files = writer.close()
        outputs = check_outputs(table.proof, unit.name, [_stored(unit, file) for file in files])
        inputs = tuple(tally_input(table.proof, unit.name, _stored(unit, file)) for file in unit.tallied)
    except BaseException:
        writer.abort()
        raise
    proof = UnitProof(unit=unit.name, outputs=outputs, evidence=merge.evidence())
    return UnitResult(unit=unit.name, files=files, rows_in=merge.rows_in, inputs=inputs, proof=proof)


class _UnitMerge:
    """The certified merge of a unit, in as many passes as its number of runs asks for.

    `rows_in`: rows read from files so far.
    """

    def __init__(self, unit: MergeUnit) -> None:
        self._unit = unit
        self._columns = (SEQUENCE_NAME, KIND_NAME, *unit.table.schema.row_type.names)
        self._rules = fold_rules(unit.table.schema, unit.table.reading.options)
        self._certifiers: list[Certifier] = []
        self._folds: list[FoldCertifier] = []
        self.rows_in = 0

    def windows(self) -> Generator[MergedWindow]:
        """Windows of the last pass, each checked before it is handed on."""
        unit = self._unit
        sizes, limit = self._sizes()
        runs: list[Iterator[pa.RecordBatch]] = [self._read(run, sizes) for run in unit.runs]
        with Scratch() as scratch:
            runs = reduce_runs(runs, limit, sizes.batch_rows, self._inner_pass, scratch)
            yield from self._pass(runs, drop_deletes=unit.drop_deletes)

    def evidence(self) -> UnitEvidence | UnitFolds:
        """The account of all passes: rows that left in an earlier one count too."""
        if self._folds:
            *earlier, latest = [certifier.evidence for certifier in self._folds]
            return join_passes(earlier, latest)
        *inner, last = [certifier.evidence for certifier in self._certifiers]
        lost, dropped = total(e.lost for e in inner), total(e.dropped for e in inner)
        return replace(
            last,
            rows=last.rows + lost.rows + dropped.rows,
            lost=last.lost + lost,
            dropped=last.dropped + dropped,
            ties=last.ties + sum(e.ties for e in inner),
        )

    def _inner_pass(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Deletes stay: rows that they hide may be in other runs."""
        for window in self._pass(runs, drop_deletes=False):
            yield window.batch

    def _pass(
        self, runs: Sequence[Iterator[pa.RecordBatch]], *, drop_deletes: bool
    ) -> Iterator[MergedWindow]:
        spec = _merge_spec(self._unit, drop_deletes=drop_deletes)
        check = self._certify(spec)
        for window in merge_runs(runs, spec):
            check(window)
            yield MergedWindow(window.batch, window.rows_in)

    def _certify(self, spec: MergeSpec) -> Callable[[MergedWindow], None]:
        """A check for the windows of a new pass."""
        name, shape = self._unit.name, self._unit.table.shape
        if spec.engine is None:
            kept = Certifier(name, shape, may_drop=spec.drop_retracts)
            self._certifiers.append(kept)
            return partial(_check_kept, kept)
        now_ms = self._unit.table.clock.now_ms()
        folds = FoldCertifier(name, shape, self._rules, may_drop=spec.drop_retracts, now_ms=now_ms)
        self._folds.append(folds)
        return partial(_check_folds, folds)

    def _read(self, run: Run, sizes: ReadSizes) -> Iterator[pa.RecordBatch]:
        """The files of a run, one after another. Key columns are read once: as the table's own columns."""
        place = (self._unit.table.reading, self._unit.bucket_dir)
        for file in run:
            for batch in self._read_file(place, file, sizes):
                self.rows_in += batch.num_rows
                yield batch

    def _read_file(
        self, place: tuple[ReadContext, str], file: DataFile, sizes: ReadSizes
    ) -> Iterator[pa.RecordBatch]:
        bounds, rows, buffer = self._unit.bounds, sizes.batch_rows, sizes.buffer_size
        if bounds is not None:
            return read_range(*place, file, self._columns, bounds, batch_size=rows, buffer_size=buffer)
        return read_file(*place, file, self._columns, batch_size=rows, buffer_size=buffer)

    def _sizes(self) -> tuple[ReadSizes, int]:
        """What an open run may hold, and how many may be open. Large inputs cost some reads of footers."""
        unit = self._unit
        reading = unit.table.reading
        files = [file for run in unit.runs for file in run]
        if len(unit.runs) <= _FEW_RUNS and max(file.file_size for file in files) < _SMALL_FILE:
            return ReadSizes(), _FEW_RUNS
        paths = [reading.paths.data_file(unit.bucket_dir, file) for file in files]
        width = row_bytes(reading.file_io, paths)
        columns = len(self._columns)
        limit = run_limit(columns, width)
        return sizes_for(min(len(unit.runs), limit), columns, width), limit


def _merge_spec(unit: MergeUnit, *, drop_deletes: bool) -> MergeSpec:
    options = unit.table.reading.options
    return MergeSpec(
        key_columns=unit.table.schema.trimmed_primary_keys,
        sequence_columns=options.sequence_fields,
        descending=options.sequence_order is SequenceOrder.DESCENDING,
        drop_retracts=drop_deletes,
        ignore_retracts=options.ignore_delete,
        evidence=True,
        gone=unit.table.shape.mode is ProofMode.FULL,
        shown=tuple(field.name for field in unit.table.shape.values),
    )


def _check_kept(certifier: Certifier, window: MergedWindow) -> None:
    seen = window.evidence
    assert isinstance(seen, Evidence)
    certifier.window(seen.keys, seen.sequence, seen.kinds, seen.lost, seen.dropped, seen.gone)


def _check_folds(certifier: FoldCertifier, window: MergedWindow) -> None:
    seen = window.evidence
    assert isinstance(seen, FoldEvidence)
    fates = np.where(seen.ignored, Fate.IGNORED, Fate.FOLDED).astype(np.int8)
    certifier.window(FoldedWindow(rows=seen.rows, results=seen.results, groups=seen.groups, fates=fates))


def _with_keys(batch: pa.RecordBatch, keys: tuple[str, ...]) -> pa.RecordBatch:
    """`_KEY_` columns beside the columns they repeat (rule of the format); no values are copied."""
    names = [KEY_PREFIX + key for key in keys] + batch.schema.names
    return pa.RecordBatch.from_arrays([batch.column(key) for key in keys] + batch.columns, names=names)


def _file_spec(unit: MergeUnit) -> FileSpec:
    reading = unit.table.reading
    attempt = unit.table.clock.fresh_id().replace("-", "")[:16]
    return FileSpec(
        directory=unit.bucket_dir,
        name_prefix=f"{unit.file_prefix}-{attempt}",
        schema=unit.table.schema,
        keyed=True,
        level=unit.output_level,
        source=FileSource.COMPACT,
        target_size=reading.options.target_file_size,
        options=unit.table.schema.options,
    )


def _stored(unit: MergeUnit, file: DataFile) -> StoredFile:
    return StoredFile(unit.table.reading.paths.data_file(unit.bucket_dir, file), file)
