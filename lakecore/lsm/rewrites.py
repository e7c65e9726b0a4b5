"""This module divides a pick into sections that are merged together and files that only change their
level. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.lsm.sections import KeyOf, Section, sections
from lakecore.metadata.manifest.data_file import DataFile

__all__ = ["OutputRules", "PickWork", "Upgrade", "divide", "worth_doing"]


class Upgrade(Enum):
    """It says what happens to a file that overlaps nothing and only has to change its level.

    MOVE changes nothing else. ANNOUNCE moves it as it is, and its rows are read for the change stream.
    REWRITE sends it through the merge.
    """

    MOVE = "move"
    ANNOUNCE = "announce"
    REWRITE = "rewrite"


def _move(_: DataFile) -> Upgrade:
    return Upgrade.MOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRules:
    """This is the output of a pick, and the files without overlap that are rewritten all the same. Sizes
    are in bytes.
    """

    output_level: int
    max_level: int
    small_file_size: int
    force_rewrite: bool = False
    upgrade: Callable[[DataFile], Upgrade] = _move
    """It decides on files that change their level and need not be rewritten."""
    expired: Callable[[DataFile], bool] = lambda _: False
    """It tells whether a file holds rows that are too old (record-level expiry)."""


@dataclass(frozen=True, slots=True)
class PickWork:
    """This is the work of a pick. Files of the pick that appear nowhere here are already where they
    belong.
    """

    rewrites: tuple[tuple[Section, ...], ...]
    """The sections, by group: each group is merged into one stream of new files."""
    upgrades: tuple[DataFile, ...]
    """These files keep their rows, and only their level is another."""
    announced: tuple[DataFile, ...] = ()
    """The rows of these upgrades belong into the change stream."""


def divide(files: Iterable[DataFile], key_of: KeyOf, rules: OutputRules) -> PickWork:
    """Divide the files of a pick.

    Rule of the format: overlapping sections and small files join their neighbours and merge with them; a
    file that is large enough and overlaps nothing moves unchanged, and ends the group before it.
    """
    work = _Work(rules)
    for section in sections(files, key_of):
        if len(section.runs) > 1:
            work.pending.append(section)
            continue
        for file in section.runs[0]:
            if file.file_size < rules.small_file_size:
                work.pending.append(Section(((file,),)))
            else:
                work.flush()
                work.move(file)
    work.flush()
    return PickWork(tuple(work.rewrites), tuple(work.upgrades), tuple(work.announced))


class _Work:
    def __init__(self, rules: OutputRules) -> None:
        self._rules = rules
        self.pending: list[Section] = []
        self.rewrites: list[tuple[Section, ...]] = []
        self.upgrades: list[DataFile] = []
        self.announced: list[DataFile] = []

    def flush(self) -> None:
        """Merge what has piled up; a single file has nothing to merge with and moves instead."""
        pending, self.pending = self.pending, []
        if len(pending) == 1 and len(pending[0].runs) == 1:
            for file in pending[0].runs[0]:
                self.move(file)
        elif pending:
            self.rewrites.append(tuple(pending))

    def move(self, file: DataFile) -> None:
        if _must_rewrite(file, self._rules):
            self.rewrites.append((Section(((file,),)),))
        elif file.level != self._rules.output_level:
            self._upgrade(file)

    def _upgrade(self, file: DataFile) -> None:
        way = self._rules.upgrade(file)
        if way is Upgrade.REWRITE:
            self.rewrites.append((Section(((file,),)),))
            return
        self.upgrades.append(file)
        if way is Upgrade.ANNOUNCE:
            self.announced.append(file)


def _must_rewrite(file: DataFile, rules: OutputRules) -> bool:
    """Return whether a file must be merged although it overlaps nothing. Deletes never reach the last level,
    and a file that does not record its number of deletes may have some.
    """
    may_hold_deletes = file.delete_row_count is None or file.delete_row_count > 0
    last = rules.output_level == rules.max_level and may_hold_deletes
    return rules.force_rewrite or last or rules.expired(file)


def worth_doing(files: Sequence[DataFile], output_level: int) -> bool:
    """Return False for a pick of nothing, or of one file that is at the output level already."""
    return bool(files) and not (len(files) == 1 and files[0].level == output_level)
