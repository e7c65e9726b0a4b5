"""This module turns picks of a clustering into units: ranges of the rows of a pick, or groups of its
files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lakecore.compact.engine.deletion_vectors import counted
from lakecore.compact.engine.work import UnitTable, WorkPick, place_name
from lakecore.compact.kinds.sort.plan import Bounds, SortPick, file_groups, quantiles, sample_rows
from lakecore.compact.kinds.sort.ranges import Edges, file_edges, files_by_range
from lakecore.compact.kinds.sort.run import SampleTask, SortUnit, sample
from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.row.sort_rule import SortRule
from lakecore.verify.proof.sorted_rows import Bound

__all__ = ["UnitMaker"]

logger = logging.getLogger(__name__)

_SAMPLED_FILES = 32

Deleted = tuple[DeletionFile | None, ...]


@dataclass(frozen=True, kw_only=True)
class UnitMaker:
    """It makes the units of one round. `prefix`: begins the names of all files that they make."""

    table: UnitTable
    rule: SortRule
    executor: Executor
    prefix: str

    def work_picks(self, picks: Sequence[SortPick]) -> Iterator[WorkPick]:
        """Yield picks of units. Rows are sampled where a pick is cut into ranges, on the executor."""
        bounds = self._bounds(picks)
        for number, (pick, own) in enumerate(zip(picks, bounds, strict=True)):
            yield self._work_pick(pick, own, f"{self.prefix}-{number}")

    def _bounds(self, picks: Sequence[SortPick]) -> list[Bounds]:
        """Return the bounds of each pick. One whose sample fails is not cut: its unit reports what is
        wrong.
        """
        cut = [number for number, pick in enumerate(picks) if pick.cuts > 1 and not pick.local]
        tasks = [self._sample_task(picks[number]) for number in cut]
        bounds: list[Bounds] = [() for _ in picks]
        for number, rows in zip(cut, self.executor.run(sample, tasks) if tasks else (), strict=False):
            if isinstance(rows, BaseException):
                name = place_name(picks[number].place, self.table.schema)
                logger.warning(
                    "%s: its rows could not be sampled, so it is sorted as one range: %s", name, rows
                )
            else:
                bounds[number] = quantiles(rows, picks[number].cuts)
        return bounds

    def _sample_task(self, pick: SortPick) -> SampleTask:
        step = -(-len(pick.files) // _SAMPLED_FILES)
        return SampleTask(
            table=self.table.in_partition(pick.place.partition),
            rule=self.rule,
            bucket_dir=self._directory(pick),
            files=pick.files[::step],
            rows=sample_rows(self.table.schema.options, pick.cuts),
        )

    def _directory(self, pick: SortPick) -> str:
        return self.table.reading.bucket_dir(pick.place.partition, pick.place.bucket)

    def _work_pick(self, pick: SortPick, bounds: Bounds, prefix: str) -> WorkPick:
        name = place_name(pick.place, self.table.schema)
        deletions = tuple(
            None if vectors is None else counted(self.table, vectors) for vectors in pick.deletions
        )
        units = tuple(self._units(pick, name, deletions, bounds, prefix))
        parts = f"{len(units)} {'groups' if pick.local else 'ranges'}" if len(units) > 1 else ""
        picked = f"{pick.reason} -> L{pick.level}" if pick.reason else ""
        return WorkPick(
            name=name,
            place=pick.place,
            bucket_dir=self._directory(pick),
            reason=", ".join(filter(None, (str(self.rule), picked, parts))),
            replaced=pick.files,
            deletions=deletions,
            units=units,
        )

    def _edges(self, pick: SortPick, bounds: Bounds) -> list[Edges]:
        if not bounds:
            return [(None, None)] * len(pick.files)
        return file_edges(pick.files, self.rule, self.table.schema, self.table.schemas)

    def _units(
        self, pick: SortPick, name: str, deletions: Deleted, bounds: Bounds, prefix: str
    ) -> Iterator[SortUnit]:
        shares = list(_groups(pick) if pick.local else _ranges(pick, self._edges(pick, bounds), bounds))
        part = "group" if pick.local else "range"
        table = self.table.in_partition(pick.place.partition)
        for number, share in enumerate(shares):
            yield SortUnit(
                name=name if len(shares) == 1 else f"{name}, {part} {number + 1} of {len(shares)}",
                table=table,
                rule=self.rule,
                bucket_dir=self._directory(pick),
                files=tuple(pick.files[at] for at in share.read),
                deletions=tuple(deletions[at] for at in share.read),
                checked=share.checked,
                bounds=share.bounds,
                output_level=pick.level,
                file_prefix=f"{prefix}-{number}",
                rows=share.rows,
                overlap=self.executor.name == "local",
            )


@dataclass(frozen=True, slots=True)
class _Share:
    """What one unit does of a pick: the files that it reads, and which of those it counts for the proof."""

    read: Sequence[int]
    checked: tuple[int, ...]
    bounds: tuple[Bound | None, Bound | None]
    rows: int


def _groups(pick: SortPick) -> Iterator[_Share]:
    for group in file_groups(pick.files, pick.cuts):
        rows = sum(pick.files[at].row_count for at in group)
        yield _Share(group, tuple(range(len(group))), (None, None), rows)


def _ranges(pick: SortPick, edges: Sequence[Edges], bounds: Bounds) -> Iterator[_Share]:
    """Yield the shares of a pick. Each file is counted by the unit that reads the fewest to be counted, of
    those that read it.
    """
    by_range = files_by_range(edges, bounds)
    counted: list[list[int]] = [[] for _ in by_range]
    for at in range(len(pick.files)):
        readers = [number for number, files in enumerate(by_range) if at in files]
        counted[min(readers, key=lambda number: len(counted[number]))].append(at)
    ends = pairwise((None, *bounds, None))
    for files, own, end in zip(by_range, counted, ends, strict=True):
        if not files:
            continue
        rows = sum(pick.files[at].row_count for at in files) // len(by_range)
        yield _Share(files, tuple(files.index(at) for at in own), end, rows)
