"""This module words the error that a run ends with when picks failed, and says what helps where a proof
was refused. It is pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakecore.compact.engine.work import WorkPick
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, ProofError, most_severe
from lakecore.metadata.manifest.data_file import DataFile

__all__ = ["PickFailure", "duplicate_commit", "failure_of"]

_NAMED_FILES = 8


@dataclass(frozen=True, slots=True)
class PickFailure:
    """This is a pick that was not done, and its error. `read`: the files that it read."""

    name: str
    read: tuple[DataFile, ...]
    error: Exception

    @classmethod
    def of(cls, pick: WorkPick, error: Exception) -> PickFailure:
        moved = (before for before, _ in pick.moved)
        files = dict.fromkeys((*pick.replaced, *pick.announced, *pick.required_files, *moved))
        return cls(pick.name, tuple(files), error)


def duplicate_commit(user: str, identifier: int, snapshot_id: int) -> CommitConflictError:
    """Return the error of a run whose commit another run of the same name has made: the first to commit
    continues.
    """
    return CommitConflictError(
        f"commit {identifier} of {user} is already in snapshot {snapshot_id}: another run with the same "
        "commit user and identifier is active; let that run finish"
    )


def failure_of(table: str, failures: Sequence[PickFailure]) -> Exception:
    """Return the error that a run ends with: a refused proof or damage comes before what a retry may
    repair.
    """
    refused = [failure for failure in failures if isinstance(failure.error, ProofError)]
    if refused:
        return _refusal(table, refused[0], len(failures) - 1)
    grave = most_severe([failure.error for failure in failures])
    first = next(failure for failure in failures if failure.error is grave)
    first.error.add_note(f"this happened while {first.name} was compacted; {len(failures)} picks failed")
    return first.error


def _refusal(table: str, failure: PickFailure, others: int) -> ProofError:
    """Return the error for a refused pick, which has the unit, the problem, what was read, and what helps."""
    error, name = failure.error, failure.name
    unit, problem = (error.unit, error.problem) if isinstance(error, ProofError) else (name, str(error))
    also = f" ({others} more picks failed, too)" if others else ""
    rows = sum(file.row_count for file in failure.read)
    combined = ProofError(
        unit,
        f"{problem}. Nothing of {name} was committed, and its new files were removed{also}. The pick "
        f"has {rows} rows in {_names(failure.read)}. Another run would be refused in the same way: "
        f"check the table with `lakecore fsck --deep {table}`, compact its other partitions with "
        "--where, keep these files, and report this message with them",
    )
    combined.__cause__ = error
    return combined


def _names(files: Sequence[DataFile]) -> str:
    listed = ", ".join(f"{file.file_name} (level {file.level})" for file in files[:_NAMED_FILES])
    more = len(files) - _NAMED_FILES
    return f"{listed} and {more} more files" if more > 0 else listed
