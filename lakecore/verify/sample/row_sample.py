"""This module makes the sampled proof of files joined in order: for some ranges of places, it compares every
column of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, ProofError
from lakecore.prefetch import in_threads
from lakecore.verify.digest.array_hash import hash_array
from lakecore.verify.digest.columns import read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import column_constant
from lakecore.verify.digest.rows import without_rows
from lakecore.verify.sample.choice import LEAST_SHARE, RowSample, join_samples, seeded_order, window_rows
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.output_sample import OutputSample

__all__ = ["sample_rows"]

_COPIED_ROWS = 8192
Words = npt.NDArray[np.uint64]


def sample_rows(
    context: ProofContext,
    unit: str,
    inputs: Sequence[LookupFile],
    outputs: Sequence[LookupFile],
    *,
    copied: bool = False,
) -> RowSample:
    """Compare a sample of rows. Raises ProofError naming `unit` and a column unless rows of `outputs` are the
    live rows of `inputs` at the same places. Ranges of places are chosen by the seed, until one row of 16 was
    compared; `copied`: one short range is enough, because all bytes were compared.

    Cost: one row of 16 and a few pages beside them, all columns. Memory: the hashes of one range.
    """
    before, after = _Chain.of(inputs), _Chain.of(outputs)
    size = sum(file.stored.file.file_size for file in inputs)
    width = _COPIED_ROWS if copied else window_rows(after.rows, 1.0, size // max(before.rows, 1))
    count = -(-after.rows // width)
    parts: list[RowSample] = []
    sample = OutputSample(context, unit)
    for number in seeded_order(context.shape.seed, unit, count):
        enough = copied or sum(part.rows for part in parts) * LEAST_SHARE >= before.rows
        if parts and enough:
            break
        span = (number * width, min((number + 1) * width, after.rows))
        _compare(context, unit, (before, after), span, sample)
        parts.append(RowSample(rows=span[1] - span[0], windows=1))
    sample.check()
    return join_samples(parts)


@dataclass(frozen=True, slots=True)
class _Chain:
    """Files one after another, and how many live rows each has."""

    files: tuple[LookupFile, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, files: Sequence[LookupFile]) -> _Chain:
        counts = (file.stored.file.row_count - len(file.deleted or ()) for file in files)
        return cls(tuple(files), tuple(counts))

    @property
    def rows(self) -> int:
        return sum(self.counts)

    def spans(self, start: int, stop: int) -> Iterator[tuple[LookupFile, tuple[int, int]]]:
        """Yield files with the positions between which they have their part of the live rows [start,
        stop).
        """
        first = 0
        for file, count in zip(self.files, self.counts, strict=True):
            low, high = max(start - first, 0), min(stop - first, count)
            first += count
            if low >= high:
                continue
            if not file.deleted:
                yield file, (low, high)
            else:
                live = BitMap(range(file.stored.file.row_count)) - file.deleted
                yield file, (live[low], live[high - 1] + 1)


def _compare(
    context: ProofContext,
    unit: str,
    chains: tuple[_Chain, _Chain],
    span: tuple[int, int],
    sample: OutputSample,
) -> None:
    before, after = chains

    def written_hashes() -> list[Words]:
        try:
            return _hashes(context, after, span, sample)
        except CorruptDataError as err:
            raise ProofError(unit, f"its outputs cannot be read back: {err}") from err

    sides = (lambda: _hashes(context, before, span), written_hashes)
    read, written = in_threads(lambda side: side(), sides, context.threads)
    for field, old, new in zip(context.shape.sampled, read, written, strict=True):
        if len(old) != len(new) or (old != new).any():
            row = span[0] + int((old != new).argmax()) if len(old) == len(new) else span[0]
            raise ProofError(
                unit,
                f"column {field.name} of row {row} of its outputs differs from its inputs (sample of seed "
                f"{context.shape.seed})",
            )


def _hashes(
    context: ProofContext, chain: _Chain, span: tuple[int, int], sample: OutputSample | None = None
) -> list[Words]:
    """Return one array of hashes per column, of the live rows of a span. `sample` is called with the rows of
    new files.
    """
    shape = context.shape.wide
    parts: list[list[Words]] = [[np.empty(0, np.uint64)] for _ in shape.values]
    for file, rows in chain.spans(*span):
        schema = context.schemas[file.stored.file.schema_id]
        start = rows[0]
        for columns in read_covered(context.file_io, file.stored.path, shape, schema, rows=rows):
            live: Sequence[pa.Array] = columns
            if file.deleted is not None:
                live = without_rows(columns, file.deleted, start)
            if sample is not None:
                sample.add(file.stored, columns, np.arange(start, start + len(columns[0])))
            start += len(columns[0])
            for part, column in zip(parts, live, strict=True):
                part.append(hash_array(column, column_constant(0)))
    return [np.concatenate(part) for part in parts]
