"""This module tallies inputs of which every row was copied, while their copies are read back.

The comparison of row groups (`verify.proof.spliced`) has shown that bytes and descriptions of the copy are
those of the input, at these rows. So both have the same rows, and decoding one of them is enough. Nothing is
taken from the writer: where the copies are, the comparison says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lakecore.errors import ProofError
from lakecore.executor import count_proven_rows
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import ZERO, Tally
from lakecore.verify.digest.file_tally import FileTally
from lakecore.verify.digest.rows import tally_rows
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.proof.spliced import CopiedGroups
from lakecore.verify.sample.key_marks import KeyMarks, Marks

__all__ = ["CopiedInputs", "has_tally_of_copy"]


def has_tally_of_copy(shape: RowShape, stored: StoredFile, schema_id: int) -> bool:
    """Return whether the tally of an input may be that of its copy, in a file of this schema. Mode `full`
    decodes every file. A file of another schema has its columns found by that schema, and rows that are
    numbered by their snapshot have other numbers than those that are stored.
    """
    return (
        shape.keyed
        and shape.mode is not ProofMode.FULL
        and stored.file.schema_id == schema_id
        and stored.number(shape) is None
    )


class CopiedInputs:
    """It gets the rows of all outputs of a unit, one file after the other, and tallies those of the inputs
    among them. `inputs` are those of which all rows were copied, by number.
    """

    def __init__(
        self, shape: RowShape, unit: str, inputs: Mapping[int, StoredFile], copied: CopiedGroups
    ) -> None:
        self._shape = shape
        self._unit = unit
        self._inputs = inputs
        self._copied = copied
        self._tallies: dict[int, Tally] = dict.fromkeys(inputs, ZERO)
        self._marks = {number: KeyMarks() for number in inputs}

    def tally(self, path: str, first_row: int, columns: Sequence[pa.Array]) -> Tally:
        """Return count and digest of the next rows of an output, which begin at `first_row` of the file."""
        shape, whole = self._shape, ZERO
        for start, stop, number in self._pieces(path, first_row, first_row + len(columns[0])):
            part = [column.slice(start - first_row, stop - start) for column in columns]
            rows = tally_rows(part, shape, 0)  # rows with a key have no places
            whole += rows
            if number is not None:
                count_proven_rows(
                    rows.rows
                )  # of the input; those of the output were counted as they were read
                self._tallies[number] += rows
                self._marks[number].add(part[: len(shape.key)])
        return whole

    def finished(self, marks: Marks) -> Iterator[FileTally]:
        """Yield the tallies of the inputs, and add their marks. Raises ProofError for an input of which not
        every row was in an output.
        """
        for number, stored in self._inputs.items():
            rows, file = self._tallies[number], stored.file
            if rows.rows != file.row_count:
                raise ProofError(
                    self._unit,
                    f"input {stored.path} has {file.row_count} rows, but {rows.rows} of its copy were read",
                )
            marks[stored.path] = self._marks[number]
            yield FileTally(rows.rows, rows.digest, (file,))

    def _pieces(self, path: str, start: int, stop: int) -> Iterator[tuple[int, int, int | None]]:
        """Yield the rows from `start` to before `stop` of an output in pieces, each with the number of its
        input; None for rows of others.
        """
        at = start
        for (first, last), number in self._copied.groups.get(path, ()):
            if number not in self._inputs or last <= at or first >= stop:
                continue
            if at < first:
                yield at, first, None
                at = first
            yield at, min(last, stop), number
            at = min(last, stop)
        if at < stop:
            yield at, stop, None
