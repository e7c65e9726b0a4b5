"""One round of a run as values: what it is planned from, and its picks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakecore.compact.engine.work import Place, UnitFunction, UnitTable, WorkPick
from lakecore.executor import Executor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import Snapshot

__all__ = ["PlannedRound", "Round", "RoundPlan"]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Picks planned from one snapshot, and the function that runs their units."""

    picks: tuple[WorkPick, ...]
    function: UnitFunction
    table: UnitTable
    outdated: Mapping[Place, str]
    """Buckets, with their names, whose picks would rewrite files of a newer schema than the job knows, and so
    lose what only that schema can hold. They are left out."""
    live: ManifestEntries
    """Live files of all buckets of the picks; empty where no unit drops deletes."""


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """What a kind chose, before its picks are built: that may read rows, to sample them."""

    has_picks: bool
    build: Callable[[], RoundPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The input of one round, which is planned from `snapshot`. `executor` is where units will run."""

    snapshot: Snapshot | None
    executor: Executor
    file_prefix: str
    """The beginning of the names of new files."""
    again: frozenset[Place] | None = None
    """Buckets that are planned again; None in the first round."""
    lost: frozenset[Place] = frozenset()
    """Buckets that other commits touched while this run worked on them, and that are left alone."""
    dry: bool = False
    """Only a report is wanted: nothing is written."""
