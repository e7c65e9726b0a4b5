"""This module proves row groups and runs of pages that were copied from parquet files without decoding them.

A copy holds when each row group of an output has the bytes, and all that footer and page indexes say of them
that a row group of an input has, at the place of its rows; when every row group of each copied input is there
once, in order (in a merge by key: every row group and run of pages that its plan names); and when schema,
notes and column orders of the output are those of the input. A footer may have the bounds of a column in no
row group. Row groups that were encoded anew are tallied row by row. Nothing here knows how a copy was
written: outputs are read back.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import NoReturn

from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, ProofError
from lakecore.format.parquet.footer_bounds import footer_bounds
from lakecore.prefetch import in_threads
from lakecore.verify.contents.footer_stats import float_problems, footer_problems, splice_problems
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import ZERO, Tally
from lakecore.verify.digest.file_tally import FileTally
from lakecore.verify.digest.page_runs import RunDifference, compare_run
from lakecore.verify.digest.row_groups import GroupPart, StoredGroups, open_groups
from lakecore.verify.digest.rows import tally_rows
from lakecore.verify.proof.outputs import OutputEvidence, check_size
from lakecore.verify.proof.pick_proof import tally_input
from lakecore.verify.sample.choice import RowSpan

__all__ = ["CopiedGroups", "SpliceInput", "SpliceOutput", "SpliceRows", "check_row_groups", "check_splices"]

_LEAST_THREADED = 4 << 20
"""Bytes of a row group on a local disk, from which on several threads compare it with its copy."""


@dataclass(frozen=True, slots=True)
class SpliceInput:
    """This is an input of the unit, with the positions of its deleted rows, None if there are none."""

    stored: StoredFile
    deleted: BitMap | None = None


@dataclass(frozen=True, slots=True)
class SpliceOutput:
    """This is the claim of a writer about one new file. `origins` has for each row group the number of the
    input that it was copied from, or None where it was encoded.
    """

    stored: StoredFile
    origins: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class SpliceRows:
    """This holds of a unit: tallies of its inputs, in their order, and what its outputs hold."""

    inputs: tuple[FileTally, ...]
    outputs: OutputEvidence


@dataclass(frozen=True, slots=True)
class CopiedGroups:
    """These row groups of outputs were compared with those of inputs, by path of the output, in order:
    `groups` has the rows of each with the number of the input, and `rows` the rows [start, stop) of those
    that follow each other in output and input alike.
    """

    groups: Mapping[str, Sequence[tuple[RowSpan, int]]]
    rows: Mapping[str, Sequence[RowSpan]]


def check_splices(
    context: ProofContext, unit: str, inputs: Sequence[SpliceInput], outputs: Sequence[SpliceOutput]
) -> SpliceRows:
    """Compare copied row groups with those of their inputs, and tally the rows of all others. `inputs` and
    `outputs` are in the order of their rows.

    Raises ProofError; CorruptDataError for an input. It reads every file once, those that were not copied
    by their covered columns.
    """
    copied = _origins(outputs)
    if copied - set(range(len(inputs))):
        raise ProofError(unit, "a row group was copied from a file that it does not read")
    decoded: dict[int, FileTally] = {}
    places = []
    rows = 0
    for number, one in enumerate(inputs):
        places.append(rows)
        if number in copied:
            rows += one.stored.file.row_count
            continue
        tally = tally_input(context, unit, one.stored, rows, one.deleted)
        decoded[number] = FileTally(tally.rows, tally.digest, (one.stored.file,))
        rows += tally.rows
    with ExitStack() as stack:
        run = _Comparison(context, unit, inputs, places, stack)
        evidence = OutputEvidence()
        for output in outputs:
            tally = run.compare(output, evidence.rows.rows)
            evidence = OutputEvidence(
                rows=evidence.rows + tally,
                files=evidence.files + 1,
                proven=(*evidence.proven, output.stored.file),
            )
        tallies = decoded | {number: run.finished(number) for number in copied}
    return SpliceRows(tuple(tallies[number] for number in range(len(inputs))), evidence)


def check_row_groups(
    context: ProofContext,
    unit: str,
    inputs: Sequence[SpliceInput],
    outputs: Sequence[SpliceOutput],
    copied: Mapping[int, Sequence[GroupPart]],
) -> CopiedGroups:
    """Compare the copied row groups of a merge by key with those of the inputs. `copied` names, by the number
    of an input, its row groups and runs of pages that must be copied, in order. Keys, and rows that were
    merged, are proven otherwise.

    Raises ProofError; CorruptDataError for an input. It reads copied inputs and their copies once.
    """
    if _origins(outputs) != set(copied):
        raise ProofError(unit, "row groups were copied from other files than those to be copied")
    with ExitStack() as stack:
        run = _Comparison(context, unit, inputs, [0] * len(inputs), stack)
        run.expected = copied
        for output in outputs:
            run.compare(output, 0)
        for number in copied:
            run.finished(number)
        return CopiedGroups(run.copied_groups, run.copied_rows)


def _origins(outputs: Sequence[SpliceOutput]) -> set[int]:
    return {origin for output in outputs for origin in output.origins if origin is not None}


class _Comparison:
    """The row groups of copied inputs are taken one after the other: those in `expected`, or all of an input
    that it does not name.
    """

    def __init__(
        self,
        context: ProofContext,
        unit: str,
        inputs: Sequence[SpliceInput],
        places: Sequence[int],
        stack: ExitStack,
    ) -> None:
        self._context = context
        self._unit = unit
        self._inputs = inputs
        self._places = places
        self._stack = stack
        self._current: int | None = None
        self._groups: StoredGroups | None = None
        self._next_part = 0
        self._compared: RowSpan = (0, 0)
        self._follows = False
        self.expected: Mapping[int, Sequence[GroupPart]] = {}
        self._tallies: dict[int, Tally] = {}
        self._whole: set[int] = set()
        self._partial: set[int] = set()
        self.copied_rows: dict[str, list[RowSpan]] = {}
        self.copied_groups: dict[str, list[tuple[RowSpan, int]]] = {}

    def compare(self, output: SpliceOutput, first_row: int) -> Tally:
        """Return the tally of an output, whose rows begin at the place `first_row`. Raises ProofError."""
        stored = output.stored
        try:
            with open_groups(self._context.file_io, stored.path) as written:
                return self._compare_groups(output, written, first_row)
        except CorruptDataError as err:
            if err.path != stored.path:
                raise
            self._refuse(stored, f"it cannot be read back: {err.problem}")

    def finished(self, number: int) -> FileTally:
        """Return the tally of a copied input. Raises ProofError unless every row group was copied."""
        file = self._inputs[number].stored.file
        if number not in self._whole:
            raise ProofError(self._unit, f"not every row group of input {file.file_name} was copied")
        tally = self._tallies[number]
        return FileTally(tally.rows, tally.digest, (file,))

    def _compare_groups(self, output: SpliceOutput, written: StoredGroups, first_row: int) -> Tally:
        stored = output.stored
        check_size(self._context.file_io, stored, lambda problem: self._refuse(stored, problem))
        counts = written.group_rows
        if len(output.origins) != len(counts) or sum(counts) != stored.file.row_count:
            self._refuse(stored, f"it has {sum(counts)} rows in {len(counts)} row groups")
        if written.metadata.num_rows != sum(counts):
            self._refuse(
                stored, f"its footer counts {written.metadata.num_rows} rows, its row groups {sum(counts)}"
            )
        whole = ZERO
        numbered = groupby(enumerate(output.origins), key=lambda one: one[1])
        for origin, members in numbered:
            numbers = [number for number, _ in members]
            if origin is None:
                span = whole.rows, whole.rows + sum(counts[number] for number in numbers)
                whole += self._encoded_rows(stored, span, first_row)
                continue
            self._check_columns(stored, written, origin)
            for number in numbers:
                start = whole.rows
                whole += self._copied_rows(stored, written, number, origin, first_row + start)
                self._add_copied_rows(stored, (start, whole.rows), origin)
        self._check_description(output, written)
        return whole

    def _copied_rows(
        self, stored: StoredFile, written: StoredGroups, number: int, origin: int, place: int
    ) -> Tally:
        """Compare a row group with the next one of an input."""
        source = self._source(origin)
        parts = self._parts(origin, source)
        if self._next_part >= len(parts):
            self._refuse(
                stored,
                f"row group {number} was copied from {self._inputs[origin].stored.path}, "
                "which has no further one",
            )
        part = parts[self._next_part]
        span = source.rows_of(part)
        if span is None:
            raise ProofError(self._unit, f"input {self._inputs[origin].stored.path} has other row groups")
        self._follows = self._next_part > 0 and self._compared[1] == span[0]
        self._compared = span
        try:
            if part.rows is None:
                checksum = self._group_checksum(stored, (source, part.group), (written, number))
            else:
                checksum = compare_run(source, part, written, number)
        except RunDifference as err:
            self._refuse(stored, f"row group {number}: {err} ({self._inputs[origin].stored.path})")
        rows = span[1] - span[0]
        self._next_part += 1
        so_far = self._tallies.get(origin, ZERO)
        self._tallies[origin] = so_far + _tally(rows, self._places[origin] + so_far.rows, checksum)
        if self._next_part == len(parts):
            self._whole.add(origin)
        return _tally(rows, place, checksum)

    def _group_checksum(
        self, stored: StoredFile, read: tuple[StoredGroups, int], copy: tuple[StoredGroups, int]
    ) -> int:
        """Compare a whole row group with its copy. Raises RunDifference."""
        bare = copy[0].leaves_without_bounds
        expected, copied = (one.group(number).without_bounds(bare) for one, number in (read, copy))
        problem = expected.difference(copied)
        if problem is not None:
            raise RunDifference(problem)
        return self._checksum(stored, read, copy)

    def _add_copied_rows(self, stored: StoredFile, rows: RowSpan, origin: int) -> None:
        """Add the rows of the row group that was compared last."""
        self.copied_groups.setdefault(stored.path, []).append((rows, origin))
        spans = self.copied_rows.setdefault(stored.path, [])
        if self._follows and spans and spans[-1][1] == rows[0]:
            rows = spans.pop()[0], rows[1]
        spans.append(rows)

    def _parts(self, origin: int, source: StoredGroups) -> Sequence[GroupPart]:
        """Return the parts of an input that must be copied."""
        parts = self.expected.get(origin)
        if parts is None:
            return [GroupPart(number) for number in range(len(source.group_rows))]
        if [part.group for part in parts if part.rows is None] != list(range(len(source.group_rows))):
            self._partial.add(origin)
        return parts

    def _checksum(
        self, stored: StoredFile, read: tuple[StoredGroups, int], copy: tuple[StoredGroups, int]
    ) -> int:
        """Compare the bytes of two row groups, and return the checksum of both."""

        def compare(blocks: tuple[tuple[int, int], tuple[int, int]]) -> bytes:
            data = copy[0].block_bytes(blocks[1])
            if read[0].block_bytes(blocks[0]) != data:
                self._refuse(stored, "it has other bytes than the file that a row group was copied from")
            return struct.pack("<I", zlib.crc32(data))

        pairs = [*zip(read[0].blocks(read[1]), copy[0].blocks(copy[1]), strict=True)]
        is_small = sum(size for (_, size), _ in pairs) < _LEAST_THREADED and stored.path.startswith("/")
        return zlib.crc32(b"".join(in_threads(compare, pairs, 1 if is_small else self._context.threads)))

    def _source(self, origin: int) -> StoredGroups:
        if self._groups is None or self._current != origin:
            one = self._inputs[origin]
            if one.deleted is not None:
                raise ProofError(self._unit, f"{one.stored.path} was copied, although rows of it are deleted")
            self._stack.close()
            self._groups = self._stack.enter_context(open_groups(self._context.file_io, one.stored.path))
            self._current, self._next_part = origin, 0
            if sum(self._groups.group_rows) != one.stored.file.row_count or origin in self._tallies:
                raise ProofError(
                    self._unit,
                    f"input {one.stored.path} has other rows than its description says, or was copied twice",
                )
        return self._groups

    def _check_columns(self, stored: StoredFile, written: StoredGroups, origin: int) -> None:
        source = self._source(origin)
        if written.identity == source.identity:
            return
        if written.columns != source.columns:
            self._refuse(stored, f"its schema is not that of {self._inputs[origin].stored.path}")
        if written.rest != source.rest:
            self._refuse(
                stored, f"its notes or column orders are not those of {self._inputs[origin].stored.path}"
            )

    def _encoded_rows(self, stored: StoredFile, span: tuple[int, int], first_row: int) -> Tally:
        shape, schema = self._context.shape, self._context.schemas[stored.file.schema_id]
        if shape.keyed:  # whose rows have no places
            return Tally(span[1] - span[0], 0)
        tally = ZERO
        for columns in read_covered(self._context.file_io, stored.path, shape, schema, rows=span):
            tally += tally_rows(columns, shape, first_row + span[0] + tally.rows)
        return tally

    def _check_description(self, output: SpliceOutput, written: StoredGroups) -> None:
        stored, schemas = output.stored, self._context.schemas
        schema = schemas[stored.file.schema_id]
        origins = [origin for origin in dict.fromkeys(output.origins) if origin is not None]
        files = [self._inputs[origin].stored.file for origin in origins if origin not in self._partial]
        others = [self._inputs[origin].stored.file for origin in origins if origin in self._partial]
        for problem in footer_problems(
            footer_bounds(written.metadata, written.is_exact), stored.file, schema
        ):
            self._refuse(stored, problem)
        for problem in splice_problems(
            stored.file, schema, [(file, schemas[file.schema_id]) for file in files]
        ):
            self._refuse(stored, problem)
        for problem in float_problems(
            stored.file, schema, [(file, schemas[file.schema_id]) for file in others]
        ):
            self._refuse(stored, problem)

    def _refuse(self, stored: StoredFile, problem: str) -> NoReturn:
        raise ProofError(self._unit, f"output {stored.path}: {problem}")


def _tally(rows: int, first_row: int, checksum: int) -> Tally:
    """Return count and digest of a row group, whose rows begin at the place `first_row` of the unit."""
    data = struct.pack("<qqI", first_row, rows, checksum)
    return Tally(rows, int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big"))
