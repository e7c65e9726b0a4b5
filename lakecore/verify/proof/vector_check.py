"""This module compares deletion vectors that are about to be committed with the old ones and with what was
looked up. It is pure.

After the commit the vectors of a bucket must be: the old ones, without those of files that go, joined with
the rows that the units of its picks replaced. Marks of several units on one file add up. No other is marked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, IndexFile

__all__ = ["VectorChange", "check_named", "check_vectors", "joined_marks", "moved_marks"]

Marks = Mapping[str, BitMap]
_BLOB_SUFFIX = ".blob"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorChange:
    """These are the deletion vectors that one bucket has before and after a commit."""

    before: Marks = field(default_factory=dict)
    """These are the vectors of the index files that are removed, as read."""
    after: Marks = field(default_factory=dict)
    """These are the vectors of the new index files, as read back."""
    new: Sequence[IndexFile] = ()
    """These are the new index files."""
    live: Sequence[IndexFile] = ()
    """These are all index files of the bucket with vectors, as they were."""
    removed: Collection[str] = ()
    """These are the names of the index files that are removed."""


def check_named(unit: str, change: VectorChange, new: Sequence[IndexFile], old: Sequence[IndexFile]) -> None:
    """Check the names of vectors. `new` and `old` are the index files of the bucket that the messages of the
    commit add and remove.

    They are those that were read: a commit without them would bring deleted rows back. Raises ProofError.
    """
    if [*new] != [*change.new] or {file.file_name for file in old} != {*change.removed}:
        raise ProofError(
            unit,
            f"the commit adds {len(new)} index files of the bucket and removes {len(old)}, but "
            f"{len(change.new)} and {len(change.removed)} were checked, or others",
        )


def check_vectors(unit: str, change: VectorChange, removed: Collection[str], marks: Marks) -> None:
    """Check the vectors. `removed` are the data files that are removed; `marks` are rows that are deleted
    now, by file that stays or is added.

    Raises ProofError naming `unit`.
    """
    _check_index_files(unit, change)
    staying = {
        vector.data_file
        for file in change.live
        if file.file_name not in change.removed
        for vector in file.deletions
    }
    if leftover := staying & (set(removed) | marks.keys() | change.after.keys()):
        raise ProofError(
            unit, f"the old deletion vector of {min(leftover)} stays although a new one replaces it"
        )
    unremoved = {name: rows for name, rows in change.before.items() if name not in removed}
    if wrong := marks.keys() & set(removed):
        raise ProofError(
            unit, f"a deletion vector would delete rows of {min(wrong)}, but the commit removes that file"
        )
    expected = joined_marks([unremoved, marks])
    actual = {name: rows for name, rows in change.after.items() if rows}
    if expected != actual:
        raise ProofError(unit, _difference(expected, actual))


def joined_marks(parts: Iterable[Marks]) -> dict[str, BitMap]:
    """Return the marked rows by file, those of all parts together."""
    marks: dict[str, BitMap] = {}
    for part in parts:
        for name, rows in part.items():
            if rows:
                marks[name] = marks.get(name, BitMap()) | rows
    return marks


def moved_marks(
    unit: str, before: Marks, removed: Iterable[DataFile], added: Iterable[DataFile]
) -> dict[str, BitMap]:
    """Return the deleted rows of removed files at their positions in the new files: a row keeps its id.

    It is for files whose rows have ids of their own (data evolution). Raises ProofError for a deleted row
    that has no new file.
    """
    marked = [file for file in removed if before.get(file.file_name)]
    base = min((_first_id(unit, file) for file in marked), default=0)
    ids = BitMap()
    for file in marked:
        ids |= before[file.file_name].shift(_first_id(unit, file) - base)
    moved: dict[str, BitMap] = {}
    for file in added if ids else ():
        first = _first_id(unit, file) - base
        inside = ids & BitMap(range(max(first, 0), max(first + file.row_count, 0)))
        if inside and not file.file_name.endswith(_BLOB_SUFFIX):
            moved[file.file_name] = inside.shift(-first)
    placed = sum(map(len, moved.values()))
    if placed != len(ids):
        raise ProofError(unit, f"only {placed} of {len(ids)} deleted rows are in a new file")
    return moved


def _first_id(unit: str, file: DataFile) -> int:
    if file.first_row_id is None:
        raise ProofError(unit, f"{file.file_name} has deleted rows, but no row ids")
    return file.first_row_id


def _check_index_files(unit: str, change: VectorChange) -> None:
    """Check that new index files have vectors, those that were read and with as many rows, and that the old
    ones existed.
    """
    strange = set(change.removed) - {file.file_name for file in change.live}
    if strange:
        raise ProofError(
            unit, f"the commit removes index file {min(strange)}, which its bucket does not have"
        )
    ids: dict[str, int | None] = {}
    for file in change.new:
        if file.index_type != DELETION_VECTORS:
            raise ProofError(
                unit, f"index file {file.file_name} has type {file.index_type} instead of {DELETION_VECTORS}"
            )
        for vector in file.deletions:
            if vector.data_file in ids:
                raise ProofError(unit, f"the commit adds two deletion vectors of {vector.data_file}")
            ids[vector.data_file] = vector.cardinality
    counts: dict[str, int | None] = {name: len(rows) for name, rows in change.after.items()}
    if ids != counts:
        raise ProofError(
            unit, "the new deletion vectors delete another number of rows than their description says"
        )


def _difference(expected: Marks, actual: Marks) -> str:
    for name in sorted(expected.keys() | actual.keys()):
        due, there = expected.get(name, BitMap()), actual.get(name, BitMap())
        if due != there:
            wrong = f"{len(due - there)} are missing and {len(there - due)} too many"
            return f"the deletion vector of {name} deletes {len(there)} rows instead of {len(due)}: {wrong}"
    return "its deletion vectors differ from the expected ones"
