"""This module checks the metadata of new files that their bytes do not show, and that later merges and reads
depend on. Pure.

Level, schema, source, and in append tables sequence numbers and row ids are derived from the files that were
read and from the rules of the table. What the bytes do show is compared when they are read back (`outputs`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["PickFiles", "check_joined_rows", "check_new_files"]


@dataclass(frozen=True, slots=True)
class PickFiles:
    """These are the files of a pick: inputs and new files, each in the order of their rows."""

    inputs: Sequence[DataFile]
    new: Sequence[DataFile]
    changelog: Sequence[DataFile]
    """These are new changelog files."""


def check_new_files(
    pick: str, files: PickFiles, levels: Collection[int], schema_id: int, rules: TableRules
) -> None:
    """Raise ProofError naming the first file whose description does not follow from what was read.

    `levels`: those that its units were allowed to write to, empty where levels do not order rows.
    `schema_id`: that new files are written with.
    """
    new_files, changelog_files = files.new, files.changelog
    for file in (*new_files, *changelog_files):
        if file.schema_id != schema_id:
            raise ProofError(
                pick, f"{file.file_name} has schema {file.schema_id}, it was made with {schema_id}"
            )
    for file in new_files:
        if file.file_source is not FileSource.COMPACT:
            raise ProofError(pick, f"{file.file_name} does not say that a compaction made it")
        if levels and file.level not in levels:
            raise ProofError(
                pick, f"{file.file_name} is on level {file.level}, where it was to be on {levels}"
            )
        if rules.clustering_columns and file.level == 0:
            raise ProofError(pick, f"{file.file_name} is not in the order of keys, and lies on level 0")
    for file in changelog_files:
        if file.file_source is FileSource.COMPACT:
            raise ProofError(pick, f"{file.file_name} is a changelog, and says that a compaction made it")
    if rules.keeps_order and new_files:
        _check_numbers(pick, files.inputs, new_files)


def check_joined_rows(unit: str, read: Sequence[DataFile], new_files: Sequence[DataFile]) -> None:
    """Check files with columns of rows that existed: a new one must have the ids of all rows that were read,
    and the oldest and the newest of their sequence numbers. Raises ProofError.

    `read` and `new_files` are the files of one unit of a table with data evolution.
    """
    if not new_files:
        return
    first = min(_first(unit, file) for file in read)
    stop = max(_first(unit, file) + file.row_count for file in read)
    numbers = min(file.min_sequence_number for file in read), max(file.max_sequence_number for file in read)
    for file in new_files:
        if (file.first_row_id, file.row_count) != (first, stop - first):
            raise ProofError(unit, f"{file.file_name} says its first row is {file.first_row_id}, not {first}")
        if (file.min_sequence_number, file.max_sequence_number) != numbers:
            raise ProofError(
                unit, f"{file.file_name} does not have the sequence numbers {numbers} of its rows"
            )


def _check_numbers(pick: str, read: Sequence[DataFile], new_files: Sequence[DataFile]) -> None:
    """Check that new files take the place of the old ones in the order of rows, which is that of sequence
    numbers.
    """
    low, high = read[0].min_sequence_number, max(file.max_sequence_number for file in read)
    if new_files[0].min_sequence_number != low:
        raise ProofError(
            pick,
            f"{new_files[0].file_name} begins with sequence number {new_files[0].min_sequence_number}, but "
            f"its rows begin with {low}",
        )
    for file in new_files:
        if file.max_sequence_number - file.min_sequence_number + 1 != file.row_count:
            raise ProofError(pick, f"{file.file_name} has other sequence numbers than rows")
    for left, right in pairwise(new_files):
        if left.max_sequence_number >= right.min_sequence_number:
            raise ProofError(pick, f"{right.file_name} does not come after {left.file_name}")
    if new_files[-1].max_sequence_number > high:
        raise ProofError(
            pick, f"{new_files[-1].file_name} ends behind sequence number {high} of the rows that were read"
        )


def _first(unit: str, file: DataFile) -> int:
    if file.first_row_id is None:
        raise ProofError(unit, f"{file.file_name} holds columns of rows, and has no row ids")
    return file.first_row_id
