"""This module checks whether a merge that looks rows up searches every file that may have them. Pure.

A merge that takes up level 0 asks the levels above for the rows that it replaces. Which files those are is
found from all live files of the bucket, and from nothing that the planner says: a file of a higher level that
stays, and whose keys reach into those of a fresh file, must be asked, and nearer levels before farther ones.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.rules.drop_licence import KeyOf, overlapping
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["LookupClaim", "check_lookup_claim", "check_moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupClaim:
    """This unit merges `merged` into `level`. `levels` are the files that it searches, nearest level
    first.
    """

    unit: str
    merged: Sequence[DataFile]
    level: int
    levels: Sequence[Sequence[DataFile]]


def check_lookup_claim(
    claim: LookupClaim,
    live: Sequence[DataFile],
    replaced: Collection[DataFile],
    rules: TableRules,
    key_of: KeyOf | None,
) -> None:
    """Raise ProofError naming a file that is not searched, or is searched out of turn.

    `live`: all files of the bucket. `replaced`: those that the pick rewrites. `key_of`: makes a serialised
    key comparable; None where descriptions of files hold no keys. Cost: a comparison or two a file.
    """
    fresh = [file for file in claim.merged if file.level == 0]
    if rules.clustering_columns:
        _check_age(claim.unit, fresh, live)
    if not rules.needs_old_rows or not fresh:
        return
    removed = {file.file_name for file in replaced}
    staying = {file.file_name: file for file in live if file.file_name not in removed and file.level > 0}
    searched_files = [file for level in claim.levels for file in level]
    if strange := {file.file_name for file in searched_files} - staying.keys():
        raise ProofError(
            claim.unit, f"older rows are looked up in {min(strange)}, which does not stay above level 0"
        )
    for near, far in pairwise(level for level in claim.levels if level):
        if max(file.level for file in near) >= min(file.level for file in far):
            raise ProofError(claim.unit, f"{far[0].file_name} is looked up before a file of a lower level")
    if key_of is not None:
        _check_runs(claim.unit, claim.levels, key_of)
    names = {file.file_name for file in searched_files}
    for file in overlapping(list(staying.values()), fresh, key_of):
        if file.file_name not in names:
            raise ProofError(
                claim.unit,
                f"{file.file_name} on level {file.level} may hold older rows of its keys, and "
                "is not looked up",
            )


def _check_runs(unit: str, levels: Sequence[Sequence[DataFile]], key_of: KeyOf) -> None:
    """Check that what is read as one sorted run is one: files of one level that follow one another."""
    for level in levels:
        for left, right in pairwise(level):
            if left.level != right.level:
                raise ProofError(
                    unit,
                    f"{left.file_name} of level {left.level} and {right.file_name} of level "
                    f"{right.level} are looked up as one level",
                )
            if key_of(left.max_key) >= key_of(right.min_key):
                raise ProofError(
                    unit, f"{left.file_name} and {right.file_name} are looked up as one run, out of order"
                )


def _check_age(unit: str, fresh: Sequence[DataFile], live: Sequence[DataFile]) -> None:
    """Check the order of level-0 files. Where files have another order than that of keys, the row that was
    committed later counts, whatever its sequence number: files of level 0 are merged in the order in which
    manifests have them.
    """
    places = {file.file_name: place for place, file in enumerate(live)}
    for older, newer in pairwise(fresh):
        if places.get(older.file_name, -1) >= places.get(newer.file_name, -1):
            raise ProofError(unit, f"{older.file_name} is merged before {newer.file_name}, and is newer")


def check_moved(
    name: str,
    moved: Sequence[tuple[DataFile, DataFile]],
    announced: Collection[DataFile],
    rules: TableRules,
) -> None:
    """Check files that move. Rule of the format: rows that leave level 0 are changes where the producer is
    lookup.

    `moved`: files before and after. Raises ProofError naming a file whose changes nobody tells of.
    """
    announced_names = {file.file_name for file in announced}
    for before, after in moved:
        leaves = rules.producer == "lookup" and before.level == 0 and after.level > 0
        if leaves and before.file_name not in announced_names:
            raise ProofError(
                name, f"{before.file_name} leaves level 0, and its rows are not in the changelog"
            )
