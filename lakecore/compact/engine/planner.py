"""This module has what the planners of all kinds of tables share: the context of a plan, and the check of
picks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from lakecore.compact.engine.schedule import scheduled
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import (
    PickOutline,
    Place,
    RoundPlan,
    Strategy,
    UnitTable,
    WorkPick,
    place_name,
)
from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.schema import TableSchema
from lakecore.scan.change_scanner import Deletions
from lakecore.verify.digest.shape import ProofMode

__all__ = ["PlanContext", "PlannedPick", "TablePlanner", "with_known_schema"]


class PlannedPick(Protocol):
    """Pure planning makes this pick, before it has units."""

    @property
    def place(self) -> Place:
        """Return its bucket."""
        ...

    @property
    def newest_schema(self) -> int:
        """Return the highest schema id among the files whose rows it may read."""
        ...


class TablePlanner(Protocol):
    """It plans the rounds of a run over tables of one kind."""

    def plan(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Return picks among live `entries`, none of them in the buckets `excluded`.

        The names of new files begin with `file_prefix`. Raises InvalidOptionError, UnsupportedError.
        """
        ...

    def outline(
        self, entries: ManifestEntries, excluded: Collection[Place], deletions: Deletions
    ) -> tuple[PickOutline, ...]:
        """Return the same picks in numbers, for a dry run."""
        ...


AnyPick = TypeVar("AnyPick", bound=PlannedPick)


def with_known_schema(
    picks: Sequence[AnyPick], schema: TableSchema
) -> tuple[list[AnyPick], dict[Place, str]]:
    """Return the picks that have no file of a schema newer than `schema`, and the names of the buckets of the
    others (`RoundPlan.outdated`).
    """
    newer = (pick.place for pick in picks if pick.newest_schema > schema.id)
    readable = [pick for pick in picks if pick.newest_schema <= schema.id]
    return readable, {place: place_name(place, schema) for place in newer}


@dataclass(frozen=True, kw_only=True)
class PlanContext:
    """The planner sees a run as this value."""

    target: RewriteTarget
    strategy: Strategy
    proof: ProofMode
    executor: Executor
    """Runs the units later; a planner asks it for its cores."""
    seed: str = ""
    """The seed chooses the rows of sampled proofs."""
    copy: CopyMode = CopyMode.NONE
    """It tells what is copied without decoding."""

    def unit_table(self, entries: ManifestEntries) -> UnitTable:
        """Return what units know about the table."""
        return self.target.unit_table(entries, self.proof, self.seed)

    def executable(
        self, picks: Iterable[AnyPick], excluded: Collection[Place]
    ) -> tuple[list[AnyPick], dict[Place, str]]:
        """Return the picks that can be done, and the buckets that are outdated (`RoundPlan.outdated`)."""
        schema = self.target.reading.schema
        return with_known_schema([pick for pick in picks if pick.place not in excluded], schema)

    def scheduled(self, picks: Sequence[WorkPick]) -> tuple[WorkPick, ...]:
        """Return the picks in the order in which the executor runs them best."""
        return scheduled(picks, self.executor)
