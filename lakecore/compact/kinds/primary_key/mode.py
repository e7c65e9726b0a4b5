"""This module decides what a compaction of a primary-key table makes besides new files: a changelog, deletion
vectors. Pure.

Rules of the format. `changelog-producer=full-compaction`: a compaction to the last level announces how the
rows of that level change. Lookup (that producer, deletion vectors, merge engine first-row, `force-lookup`): a
compaction that takes up level 0 asks the levels above its output for the rows that it replaces; these give
the old rows of the changelog, take part in the merge, and are marked as deleted where they stay in place.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.format.data_reader import file_format
from lakecore.lsm.rewrites import Upgrade
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import ChangelogProducer, MergeEngine, TableOptions

__all__ = ["Derivation", "MergeMode"]


class Derivation(Enum):
    """This is the source of the old rows of changes, which is nothing, the levels below the output, or the
    last level.
    """

    NONE = "none"
    LOOKUP = "lookup"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeMode:
    """`announces`: changelog files are written. `marks`: replaced rows of other files are marked as deleted.

    `latest_wins`: the row of level 0 is the result whatever it replaces. `folds`: a row that is alone may
    become another one in a merge. `format_of`: file format by level.
    """

    derivation: Derivation = Derivation.NONE
    announces: bool = False
    marks: bool = False
    latest_wins: bool = True
    folds: bool = False
    format_of: Callable[[int], str] = lambda _: ""

    @classmethod
    def of(cls, options: TableOptions, format_of: Callable[[int], str]) -> MergeMode:
        """Return the mode of a table. A full-compaction producer comes before lookup (rule of the format)."""
        producer = options.changelog_producer
        derivation = Derivation.LOOKUP if options.needs_lookup else Derivation.NONE
        if producer is ChangelogProducer.FULL_COMPACTION:
            derivation = Derivation.FULL
        deduplicate = options.merge_engine is MergeEngine.DEDUPLICATE
        return cls(
            derivation=derivation,
            announces=producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION),
            marks=options.deletion_vectors,
            latest_wins=deduplicate and not options.sequence_fields and not options.ignore_delete,
            folds=not deduplicate,
            format_of=format_of,
        )

    @property
    def looks_up(self) -> bool:
        """Return whether rows of other levels matter at all."""
        return self.derivation is Derivation.LOOKUP and (self.announces or self.marks or not self.latest_wins)

    def upgrade(self, file: DataFile, output_level: int, max_level: int) -> Upgrade:
        """Return how to treat a file that overlaps nothing of its pick and changes its level."""
        if file_format(file.file_name) == "row":  # alone on a level, the other engines misread it
            return Upgrade.REWRITE
        if self.derivation is Derivation.FULL:
            return Upgrade.ANNOUNCE if output_level == max_level else Upgrade.MOVE
        if self.derivation is Derivation.NONE or file.level != 0:
            return Upgrade.MOVE
        if self.format_of(0) != self.format_of(output_level) or (self.marks and file.delete_row_count != 0):
            return Upgrade.REWRITE
        if output_level == max_level and not self.announces:
            return Upgrade.MOVE
        if output_level == max_level:
            return Upgrade.REWRITE if self.folds else Upgrade.ANNOUNCE
        if self.latest_wins:
            return Upgrade.ANNOUNCE if self.announces or self.marks else Upgrade.MOVE
        return Upgrade.REWRITE
