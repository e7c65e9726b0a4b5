"""The licence to drop deletes: it is given when no file that stays can hold an older row of their keys. Pure.

A delete hides the older rows of its key. A merge may leave it out only where none of them can be anywhere
else: this is derived from all live files of the bucket, as the manifests of the planned snapshot list them,
and from nothing that the planner says. A file that stays holds no older row of a key if its key range has
none of the keys, or if it is of level 0 and all its rows came later; where user fields or snapshots order
rows, what came later may still be older. With deletion vectors a delete of level 0 may be dropped too where
its key was looked up in the files that stay, for the row there is marked as deleted; reads merge nothing
above level 0, so deletes there hide nothing.

Deletes are dropped by merges of primary-key tables (with and without levels) and by the two merges of tables
that `clustering.columns` sort. Rescaling keeps every row (its proof has no dropped rows). Postponed rows
become files of level 0 with their deletes, and a delete is left out only where the table ignores all of them
(`postponed_rows.ignored_kinds`). Files without a key have no deletes; indexes are built of files as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["DropClaim", "KeyOf", "check_licence", "overlapping"]

KeyOf = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropClaim:
    """A unit that wants to drop deletes of `merged`. `searched` are files that stay, in which its keys were
    looked up.
    """

    unit: str
    merged: Sequence[DataFile]
    searched: Collection[DataFile] = ()


def check_licence(
    claim: DropClaim,
    live: Sequence[DataFile],
    replaced: Collection[DataFile],
    rules: TableRules,
    key_of: KeyOf | None,
) -> None:
    """Raise ProofError naming the file that may hold older rows.

    `live` are all files of the bucket, `replaced` those that the pick rewrites. `key_of` makes a serialised
    key comparable; None where descriptions of files hold no keys. Cost: a comparison or two a file.
    """
    names = {file.file_name for file in live}
    removed = {file.file_name for file in replaced}
    for file in (*replaced, *claim.merged, *claim.searched):
        if file.file_name not in names:
            raise ProofError(claim.unit, f"{file.file_name} is not among the live files of its bucket")
    if strange := {file.file_name for file in claim.merged} - removed:
        raise ProofError(claim.unit, f"{min(strange)} is merged, but the commit does not remove it")
    hiding = [file for file in claim.merged if not rules.deletion_vectors or file.level == 0]
    if not hiding or rules.engine == "first-row":  # where the oldest row counts, a delete hides none
        return
    searched = {file.file_name for file in claim.searched} if rules.marks else set()
    staying = [file for file in live if file.file_name not in removed and file.file_name not in searched]
    newest = max(file.max_sequence_number for file in hiding)
    ordered = not rules.sequence and not rules.snapshot_ordering and not rules.clustering_columns
    for file in overlapping(staying, hiding, key_of):
        if not (ordered and file.level == 0 and file.min_sequence_number > newest):
            raise ProofError(
                claim.unit,
                f"its deletes may not be dropped: {file.file_name} on level {file.level} stays, and may hold "
                "older rows of their keys",
            )


def overlapping(
    files: Sequence[DataFile], hiding: Iterable[DataFile], key_of: KeyOf | None
) -> Iterable[DataFile]:
    """Return those of `files` that may hold a key of `hiding`."""
    if key_of is None:
        return files
    ranges = _join(sorted((key_of(file.min_key), key_of(file.max_key)) for file in hiding))
    ends = [high for _, high in ranges]

    def meets(file: DataFile) -> bool:
        at = bisect_left(ends, key_of(file.min_key))
        return at < len(ranges) and bool(ranges[at][0] <= key_of(file.max_key))

    return filter(meets, files)


def _join(ranges: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return closed ranges in order, in which those that overlap are one."""
    result: list[tuple[Any, Any]] = []
    for low, high in ranges:
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], high))
        else:
            result.append((low, high))
    return result
