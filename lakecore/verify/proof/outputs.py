"""Outputs read back: their manifest entries say what the bytes hold, and their keys strictly increase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn, TypeAlias

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, ProofError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.types.datatypes import AtomicType, DataField, RowType
from lakecore.verify.contents.column_stats import ColumnStats, keeps_blanks
from lakecore.verify.contents.file_indexes import index_problems
from lakecore.verify.contents.keyed_rows import KeyedRows
from lakecore.verify.digest.columns import StoredFile, read_covered, written_schema
from lakecore.verify.digest.digest import ZERO, Tally
from lakecore.verify.digest.rows import tally_rows
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.rules.order import KeyValues
from lakecore.verify.sample.choice import seeded_order
from lakecore.verify.sample.key_marks import KeyMarks

__all__ = ["OutputEvidence", "OutputPlace", "OutputTally", "check_output_file", "check_size"]

OutputTally: TypeAlias = Callable[[str, int, Sequence[pa.Array]], Tally]
"""It returns the tally of some rows of a file: it gets the path, the number of the first row, and columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEvidence:
    """The contents of files, read back. Keys are None for append files, and files in another order. It can be
    pickled.
    """

    rows: Tally = ZERO
    files: int = 0
    proven: tuple[DataFile, ...] = ()
    """These are the files, as their manifest entries describe them."""
    first_key: KeyValues | None = None
    last_key: KeyValues | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlace:
    """It says what an output is among those of its unit."""

    first_row: int = 0
    """It is the number of rows of the unit before those of the file."""
    changelog: bool = False
    """In a changelog keys may repeat."""
    marks: KeyMarks | None = None
    """They get those of the keys of the file."""
    tally: OutputTally | None = None
    """It counts the rows of a file with a key; None stands for `tally_rows`."""


SOLE_OUTPUT = OutputPlace()


def check_output_file(
    unit: str,
    file_io: FileIO,
    stored: StoredFile,
    shape: RowShape,
    schema: TableSchema,
    role: OutputPlace = SOLE_OUTPUT,
) -> OutputEvidence:
    """Read one output and compare it with its manifest entry.

    Raises ProofError naming `unit` and the file; also when the file cannot be decoded.
    """

    def refuse(problem: str) -> NoReturn:
        raise ProofError(unit, f"output {stored.path}: {problem}")

    first_row, changelog, marks = role.first_row, role.changelog, role.marks
    tally = role.tally or _tally_by(shape, first_row)
    check_size(file_io, stored, refuse)
    order = () if changelog else shape.order
    bounds = order or shape.key
    keyed_rows = KeyedRows(bounds, repeats=changelog or bool(order))
    rows = ZERO
    described = _described_columns(unit, shape, first_row)
    stats = ColumnStats(
        replace(shape, values=(*shape.values, *described)), chars=keeps_blanks(shape, stored.path)
    )
    try:
        for columns, ordered, watched in _read(file_io, stored, shape, schema, (order, described)):
            stats.add(watched)
            rows += tally(stored.path, rows.rows, columns)
            if shape.keyed:
                keyed_rows.add(ordered)
            if marks is not None:
                marks.add(columns[: len(shape.key)])
    except CorruptDataError as err:
        raise ProofError(unit, f"output {stored.path} cannot be read back: {err.problem}") from err
    if rows.rows != stored.file.row_count:
        refuse(f"it has {rows.rows} rows, but its description says {stored.file.row_count}")
    if shape.keyed:
        if not keyed_rows.in_order:
            falls = (
                f"its rows are not in the order of {shape.sorted_by}"
                if order
                else "its keys are out of order"
            )
            refuse(falls if changelog or order else "its keys do not strictly increase")
        _check_keyed(refuse, keyed_rows, stored, RowType(bounds))
    _check_description(refuse, file_io, stored, shape, schema, stats if rows.rows else None)
    if order:
        return OutputEvidence(rows=rows, files=1, proven=(stored.file,))
    return OutputEvidence(
        rows=rows,
        files=1,
        proven=(stored.file,),
        first_key=keyed_rows.first_key,
        last_key=keyed_rows.last_key,
    )


def _tally_by(shape: RowShape, first_row: int) -> OutputTally:
    """Return a function that tallies the rows of an output, which begin at `first_row` of the unit."""
    return lambda _, row, columns: tally_rows(columns, shape, first_row + row)


def check_size(file_io: FileIO, stored: StoredFile, refuse: Callable[[str], NoReturn]) -> None:
    """Call `refuse` unless the file is there and has the size that its description says."""
    status = file_io.stat(stored.path)
    if status is None:
        refuse("the file does not exist")
    if status.size != stored.file.file_size:
        refuse(f"it has {status.size} bytes, but its description says {stored.file.file_size}")


def _read(
    file_io: FileIO,
    stored: StoredFile,
    shape: RowShape,
    schema: TableSchema,
    beside_these: tuple[tuple[DataField, ...], tuple[DataField, ...]],
) -> Iterator[tuple[Sequence[pa.Array], Sequence[pa.Array], Sequence[pa.Array]]]:
    """Yield batches of the covered columns; of those that order the rows, with sequence number and kind; and
    of those whose statistics are compared: the covered ones and the second of `beside_these`.
    """
    order, described = beside_these
    stored_ids = {field.id for field in (*shape.key, *shape.values)}
    beside = (
        *described,
        *(field for field in order if field.id not in stored_ids | {f.id for f in described}),
    )
    wide = replace(shape, values=(*shape.values, *beside))
    known_ids = [field.id for field in (*wide.key, *wide.values)]
    places = [known_ids.index(field.id) for field in order]
    covered = len(known_ids) - len(beside)
    for columns in read_covered(file_io, stored.path, wide, schema):
        system = columns[len(known_ids) :]
        ordered = (*(columns[place] for place in places), *system) if order else columns
        yield (*columns[:covered], *system), ordered, columns[: covered + len(described)]


def _described_columns(unit: str, shape: RowShape, first_row: int) -> tuple[DataField, ...]:
    """Return the columns that are read completely for their statistics, besides the covered ones: one, chosen
    by the seed.
    """
    covered = {field.id for field in shape.values}
    others = [
        field for field in shape.sampled if field.id not in covered and isinstance(field.type, AtomicType)
    ]
    if not others:
        return ()
    return (others[seeded_order(shape.seed, f"{unit}, column, {first_row}", len(others))[0]],)


def _check_description(
    refuse: Callable[[str], NoReturn],
    file_io: FileIO,
    stored: StoredFile,
    shape: RowShape,
    schema: TableSchema,
    stats: ColumnStats | None,
) -> None:
    """Compare column statistics with the columns read and, in the full mode, file indexes with some of the
    rows.
    """
    columns = written_schema(schema, stored.file)
    try:
        for problem in stats.problems(stored.file, columns) if stats is not None else ():
            refuse(problem)
        if shape.mode is ProofMode.FULL:
            for _, problem in index_problems(file_io, stored.path, stored.file, columns):
                refuse(problem)
    except CorruptDataError as err:
        refuse(f"its description cannot be decoded: {err.problem}")


def _check_keyed(
    refuse: Callable[[str], NoReturn], rows: KeyedRows, stored: StoredFile, data_type: RowType
) -> None:
    file = stored.file
    facts: list[tuple[str, object, object]] = [("delete row count", rows.deletes, file.delete_row_count)]
    if rows.first_key is not None:
        first, last = (decode_row(key, data_type, stored.path) for key in (file.min_key, file.max_key))
        facts += [
            ("minimum sequence number", rows.low, file.min_sequence_number),
            ("maximum sequence number", rows.high, file.max_sequence_number),
            ("minimum key", list(map(comparable, rows.first)), list(map(comparable, first))),
            ("maximum key", list(map(comparable, rows.last)), list(map(comparable, last))),
        ]
    for what, fact, stated in facts:
        if fact != stated:
            refuse(f"its {what} is {fact}, but its description says {stated}")
