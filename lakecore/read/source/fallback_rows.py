"""Rows of two branches: the second branch supplies partitions that the first does not have.

Rule of the format: a partition of which the first branch has any file is read from there completely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.predicate.tree import Predicate
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.pruning import prune_partitions
from lakecore.scan.split import Split
from lakecore.types.datatypes import RowType, with_nullable

__all__ = ["FallbackRows"]

Part: TypeAlias = tuple[Split, bool]


@dataclass(frozen=True)
class FallbackRows:
    """It reads two branches. `main` determines the columns: it is the branch that was opened."""

    first: SnapshotRows
    second: SnapshotRows
    main: SnapshotRows

    def __post_init__(self) -> None:
        sides = [
            [(field.name, with_nullable(field.type, True)) for field in rows.row_type]
            for rows in (self.first, self.second)
        ]
        if sides[0] != sides[1]:
            names = " and ".join(repr(rows.context.paths.branch) for rows in (self.first, self.second))
            raise InvalidInputError(
                f"{self.main.context.paths.table_path}: branches {names} have different "
                "columns: none can stand "
                "in for the other; give them the same columns, or unset scan.fallback-branch"
            )

    @property
    def description(self) -> str:
        return f"{self.first.description}, else {self.second.description}"

    @property
    def row_type(self) -> RowType:
        return self.main.row_type

    def plan(self, where: Predicate | None) -> Sequence[Part]:
        """Return the parts; each is a split, and whether it is of the second branch."""
        there = self._partitions(where)
        ours = ((split, False) for split in self.first.plan(where))
        theirs = ((split, True) for split in self.second.plan(where) if split.partition not in there)
        return (*ours, *theirs)

    def _partitions(self, where: Predicate | None) -> set[bytes]:
        """Return the partitions of the first branch, whatever they contain."""
        rows = self.first
        if rows.snapshot is None:
            return set()
        entries = rows.scanner.live_entries(rows.snapshot, rows.where)
        entries = entries.select(entries.bucket >= 0)
        if rows.context.keyed and rows.context.options.skips_level_0:
            entries = entries.select(entries.level > 0)
        if where is not None:
            entries = prune_partitions(entries, where, rows.context.schema.partition_type)
        return {entries.partitions[code] for code in set(entries.partition.tolist())}

    def read(
        self, part: Part, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a part, see `read_split`. Where columns are nullable on one side only, the main branch
        decides.
        """
        split, is_second = part
        rows = self.second if is_second else self.first
        return rows.read(split, columns, where, kinds=kinds)
