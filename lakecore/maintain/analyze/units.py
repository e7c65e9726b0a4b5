"""This module computes the statistics of a share of a table's rows: a unit reads some splits, and what
units find adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.maintain.analyze.columns import ColumnSketch
from lakecore.read.context import ReadContext
from lakecore.read.split.split_reader import ReadRequest, read_split
from lakecore.scan.split import Split, SplitPlan
from lakecore.types.datatypes import DataField

__all__ = ["UnitStatistics", "analyze_splits"]

_UNITS_PER_CORE = 2


@dataclass(frozen=True, kw_only=True)
class AnalyzeUnit:
    """This task counts the rows of `splits` and analyzes `fields`; without fields it only counts. It can
    be pickled.
    """

    context: ReadContext
    splits: tuple[Split, ...]
    fields: tuple[DataField, ...]


@dataclass(frozen=True, slots=True)
class UnitStatistics:
    """These are the statistics of one unit, which has a number of rows and the analyzed columns by name."""

    rows: int
    columns: dict[str, ColumnSketch]

    def __add__(self, other: UnitStatistics) -> UnitStatistics:
        """Return the statistics of all rows of both, which have none in common."""
        together = {name: column.merged(other.columns[name]) for name, column in self.columns.items()}
        return UnitStatistics(self.rows + other.rows, together)


def analyze_splits(
    context: ReadContext,
    plan: SplitPlan,
    fields: Sequence[DataField],
    executor: Executor,
    alive: Callable[[], None],
) -> UnitStatistics:
    """Return the statistics; they do not depend on the executor. `alive` is called between units. Raises the
    errors of a read.

    Memory: a unit holds what a merging read holds, and 256 kB a column; results of units that wait for
    earlier ones are as large, twice as many at most as units run at once. A bucket with a key is one split.
    """
    statistics = UnitStatistics(0, {field.name: ColumnSketch(field) for field in fields})
    units = (
        AnalyzeUnit(context=context, splits=splits, fields=tuple(fields))
        for splits in _shares(plan, executor.parallelism * _UNITS_PER_CORE)
    )
    for result in executor.run(analyze_unit, units):
        if isinstance(result, BaseException):
            raise result
        statistics += result
        alive()
    return statistics


def analyze_unit(unit: AnalyzeUnit) -> UnitStatistics:
    """Read the columns of the splits once."""
    sketches = {field.name: ColumnSketch(field) for field in unit.fields}
    counted = list(sketches) or [unit.context.schema.fields[0].name]
    rows = 0
    for split in unit.splits:
        for batch in read_split(unit.context, split, ReadRequest(counted)):
            rows += batch.num_rows
            for name, sketch in sketches.items():
                sketch.add(batch.column(name))
    return UnitStatistics(rows, sketches)


def _shares(plan: SplitPlan, count: int) -> Iterator[tuple[Split, ...]]:
    """Yield neighbouring splits, in about `count` shares of about as many bytes."""
    whole = plan.size
    share: list[Split] = []
    size = 0
    for split in plan:
        share.append(split)
        size += split.size
        if size * count >= whole:
            yield tuple(share)
            share, size = [], 0
    if share:
        yield tuple(share)
