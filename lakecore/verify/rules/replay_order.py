"""This module computes in which order postponed files are replayed, from their descriptions. Pure.

Rule of the format: rows are replayed in the order in which they were written, which files show by their
creation time; for files of one writer and time by the number that ends their name. Where rows are ordered by
snapshots (`sequence.snapshot-ordering`) the sequence number of the file, its snapshot, comes before all that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile

__all__ = ["check_waiting", "replay_order"]


def replay_order(files: Iterable[DataFile], *, snapshot_ordering: bool) -> list[DataFile]:
    """Return the order of `files`, which are the postponed ones of a partition, in any order."""
    ordered = sorted(files, key=_writer)
    ordered.sort(key=lambda file: file.creation_time or 0)
    if snapshot_ordering:
        ordered.sort(key=lambda file: file.min_sequence_number)
    return ordered


def check_waiting(unit: str, replayed: Iterable[DataFile], live: Collection[DataFile]) -> None:
    """Raise ProofError unless exactly the `live` postponed files of a partition are replayed, each once.

    A file that is left behind would be replayed after rows that are newer.
    """
    names = [file.file_name for file in replayed]
    there = {file.file_name for file in live}
    if rest := there - set(names):
        raise ProofError(unit, f"{min(rest)} has postponed rows too, and is not replayed with the others")
    if strange := set(names) - there:
        raise ProofError(unit, f"{min(strange)} is replayed, but is no postponed file of the partition")
    if len(names) != len(there):
        raise ProofError(unit, "a postponed file is replayed twice")


def _writer(file: DataFile) -> tuple[int, str, int]:
    """Return the number of the writer, what distinguishes its attempts, and the number of the file.

    Names end in `-s-<writer>-w-<attempt>-<number>.<format>`; a file of another name comes before those of its
    time.
    """
    _, separator, rest = file.file_name.partition("-s-")
    while separator:
        writer, writer_part, attempt = rest.partition("-w-")
        if writer_part and writer.isdecimal():
            unique, _, number = attempt.partition(".")[0].rpartition("-")
            if unique and number.isdecimal():
                return int(writer), unique, int(number)
        _, separator, rest = rest.partition("-s-")
    return -1, file.file_name, 0
