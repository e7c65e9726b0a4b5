"""This module runs one unit of a rescaling: it writes the rows of some old buckets to new ones, run by run;
they are read back and proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from lakecore.compact.engine.outputs import rewritten_files
from lakecore.compact.engine.work import UnitTable, attempt_name
from lakecore.compact.kinds.rescale.plan import BucketGroup, Layer
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.merge.passes import Scratch, run_limit, stage_runs
from lakecore.merge.sorted_merge import MergeSpec, merge_runs
from lakecore.metadata.key_value import key_names
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.read.file.sizes import ReadSizes, row_bytes, sizes_for
from lakecore.row.bucket import assign_buckets
from lakecore.store.indexes import load_deletions
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import ZERO, Tally
from lakecore.verify.proof.certificate import UnitEvidence
from lakecore.verify.proof.outputs import OutputEvidence
from lakecore.verify.proof.pick_proof import UnitProof, check_outputs, tally_input
from lakecore.verify.proof.rescaled import BucketRule, check_bucket
from lakecore.write.files.rolling import RollingWriter

__all__ = ["RescaleResult", "RescaleUnit", "run_unit"]

_BUFFER_BYTES = 64 << 20
_LEAST_BUFFER = 256 << 10


@dataclass(frozen=True, kw_only=True)
class RescaleUnit:
    """This unit moves the rows of the old buckets of `group` that belong to its new buckets.

    `rule` is the function from rows to their new bucket. `residues` is (number of groups, this group), with
    which the bucket of every row must agree. `deletions` are by old bucket and file name. `checked` tells
    whether this unit counts the inputs for the proof. `file_prefix` begins the names of new files; the unit
    adds the attempt.
    """

    name: str
    table: UnitTable
    group: BucketGroup
    layers: tuple[Layer, ...]
    deletions: dict[tuple[int, str], DeletionFile]
    rule: BucketRule
    residues: tuple[int, int]
    bucket_dirs: dict[int, str]
    checked: bool
    file_prefix: str

    @property
    def rows(self) -> int:
        return sum(file.row_count for layer in self.layers for _, run in layer.runs for file in run)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleResult:
    """The result of a unit: it has new files by new bucket, digests of whole inputs (none where another unit
    counts them), and the proof.
    """

    files: tuple[tuple[int, tuple[DataFile, ...]], ...]
    inputs: tuple[Tally, ...]
    proof: UnitProof


@dataclass(slots=True)
class _Target:
    """A new bucket while a layer is written."""

    writer: RollingWriter
    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0

    def add(self, batch: pa.RecordBatch, limit: int) -> None:
        self.batches.append(batch)
        self.size += batch.nbytes
        if self.size >= limit:
            self.flush()

    def flush(self) -> None:
        if self.batches:
            batches, self.batches, self.size = self.batches, [], 0
            self.writer.write(pa.concat_batches(batches))


def run_unit(unit: RescaleUnit) -> RescaleResult:
    """Move rows, read back. On any failure the files of this attempt are removed again.

    Raises ProofError when the outputs do not hold, CorruptDataError, UnavailableError.
    """
    attempt = attempt_name(unit.table.clock)
    writers: list[RollingWriter] = []
    files_of_buckets: list[tuple[int, tuple[DataFile, ...]]] = []
    evidence = OutputEvidence()
    numbers = dict.fromkeys(unit.group.new, 0)
    try:
        for number, layer in enumerate(unit.layers):
            prefix = f"{unit.file_prefix}-{attempt}-{number}"
            targets = _targets(unit, layer, prefix, numbers)
            writers += [target.writer for target in targets.values()]
            _move(unit, layer, targets)
            for bucket, target in targets.items():
                files = target.writer.close()
                numbers[bucket] += sum(file.row_count for file in files)
                files_of_buckets.append((bucket, files))
                evidence = _join(evidence, _check(unit, bucket, files))
        inputs = _tallies(unit) if unit.checked else ()
    except BaseException:
        for writer in writers:
            writer.abort()
        raise
    evidence_of_rows = UnitEvidence(rows=evidence.rows.rows) if unit.table.reading.keyed else None
    return RescaleResult(
        files=tuple((bucket, files) for bucket, files in files_of_buckets if files),
        inputs=inputs,
        proof=UnitProof(unit=unit.name, outputs=evidence, evidence=evidence_of_rows),
    )


def _move(unit: RescaleUnit, layer: Layer, targets: dict[int, _Target]) -> None:
    step, residue = unit.residues
    limit = max(_BUFFER_BYTES // len(targets), _LEAST_BUFFER)
    key, function, total = unit.rule.key, unit.rule.function, unit.rule.total
    with Scratch() as scratch:
        for batch in _rows(unit, layer, scratch):
            buckets = assign_buckets(batch, key, total, function)
            if (buckets % step != residue).any():
                raise CorruptDataError(
                    unit.name, "contains a row in another bucket than that of its bucket key; run fsck"
                )
            for bucket, target in targets.items():
                rows = np.flatnonzero(buckets == bucket)
                if len(rows):
                    part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
                    target.add(part, limit)
    for target in targets.values():
        target.flush()


def _rows(unit: RescaleUnit, layer: Layer, scratch: Scratch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the layer; rows with a key are in the order of keys. Runs of different buckets share
    no key.
    """
    sizes, limit = _sizes(unit, layer)
    runs = [_run(unit, bucket, files, sizes) for bucket, files in layer.runs]
    if not unit.table.reading.keyed or len(runs) == 1:
        for run in runs:
            yield from run
        return
    staged = stage_runs(runs, limit, sizes.batch_rows, scratch)
    spec = MergeSpec(key_columns=key_names(unit.table.schema))
    for window in merge_runs(staged, spec):
        if window.batch.num_rows:
            yield window.batch


def _sizes(unit: RescaleUnit, layer: Layer) -> tuple[ReadSizes, int]:
    """Return what an open run may keep in memory, and how many may be open. It costs reads of some
    footers.
    """
    reading = unit.table.reading
    paths = [
        reading.paths.data_file(unit.bucket_dirs[bucket], file) for bucket, run in layer.runs for file in run
    ]
    width, columns = row_bytes(reading.file_io, paths), len(unit.table.schema.fields)
    limit = run_limit(columns, width)
    return sizes_for(min(len(layer.runs), limit), columns, width), limit


def _run(
    unit: RescaleUnit, bucket: int, files: Sequence[DataFile], sizes: ReadSizes
) -> Iterator[pa.RecordBatch]:
    reading = unit.table.reading
    for file in files:
        vector = unit.deletions.get((bucket, file.file_name))
        deleted = None if vector is None else load_deletions(reading.file_io, vector)
        yield from read_file(
            reading, unit.bucket_dirs[bucket], file, None, FileRows(deletions=deleted), sizes
        )


def _targets(unit: RescaleUnit, layer: Layer, prefix: str, numbers: dict[int, int]) -> dict[int, _Target]:
    """Return a writer for each new bucket. Rows with a key keep their numbers, others are numbered from
    `numbers` on.

    Numbers that are snapshots (sequence.snapshot-ordering) are stored, as files of a compaction do.
    """
    table = unit.table
    sources = {file.file_source for _, run in layer.runs for file in run}
    stores = table.reading.options.snapshot_ordering or sources == {FileSource.COMPACT}
    source = FileSource.COMPACT if stores else FileSource.APPEND
    targets = {}
    for bucket in unit.group.new:
        spec = rewritten_files(table, unit.bucket_dirs[bucket], f"{prefix}-{bucket}", layer.level)
        spec = replace(spec, source=source, first_sequence=numbers[bucket])
        targets[bucket] = _Target(RollingWriter(table.reading.file_io, spec, table.clock.now_ms))
    return targets


def _check(unit: RescaleUnit, bucket: int, files: Sequence[DataFile]) -> OutputEvidence:
    """Return the evidence of one sorted run of a new bucket, read back: complete, in key order, and of this
    bucket.
    """
    context = unit.table.proof
    stored = [_stored_file(unit, bucket, file) for file in files]
    outputs = check_outputs(context, unit.name, stored)
    for one in stored:
        check_bucket(context, unit.name, one, unit.rule, bucket)
    return outputs


def _join(whole: OutputEvidence, part: OutputEvidence) -> OutputEvidence:
    """Return the evidence of several runs, whose key ranges may overlap."""
    return OutputEvidence(
        rows=whole.rows + part.rows,
        files=whole.files + part.files,
        proven=whole.proven + part.proven,
    )


def _tallies(unit: RescaleUnit) -> tuple[Tally, ...]:
    """Return the tallies of every whole input."""
    context = unit.table.proof
    tallies = [ZERO]
    for layer in unit.layers:
        for bucket, run in layer.runs:
            for file in run:
                vector = unit.deletions.get((bucket, file.file_name))
                deleted = None if vector is None else load_deletions(context.file_io, vector)
                stored = _stored_file(unit, bucket, file)
                tallies.append(tally_input(context, unit.name, stored, deleted=deleted))
    return tuple(tallies)


def _stored_file(unit: RescaleUnit, bucket: int, file: DataFile) -> StoredFile:
    return StoredFile(unit.table.reading.paths.data_file(unit.bucket_dirs[bucket], file), file)
