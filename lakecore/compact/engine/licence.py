"""This module decides which picks may drop deletes, and ask all they must, by the live files they were
planned from. Pure.

The planner's own flag is only a claim: a pick that claims more than `verify.drop_licence` grants is refused
before any of its units runs, and units without a licence have certifiers that let no delete go. A pick whose
units ask too few files for older rows, or that moves rows nobody tells of, is refused likewise
(`verify.lookup_files`), and so is one whose files would not fit in with those that stay (`verify.layout`),
and one that does not know which rows of its files are deleted (`verify.vector_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol, cast, runtime_checkable

import numpy as np

from lakecore.compact.engine.work import Place, Unit, WorkPick
from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile, IndexFile
from lakecore.metadata.schema import TableSchema
from lakecore.verify.rules.drop_licence import DropClaim, KeyOf, check_licence
from lakecore.verify.rules.layout import OutputRange, check_levels, check_row_order
from lakecore.verify.rules.lookup_files import LookupClaim, check_lookup_claim, check_moved
from lakecore.verify.rules.table_rules import TableRules
from lakecore.verify.rules.vector_rules import check_planned_vectors

__all__ = ["DroppingUnit", "JoiningUnit", "LookupUnit", "MarkedUnit", "levels_of", "licensed"]

Refused = tuple[WorkPick, ProofError]


@runtime_checkable
class DroppingUnit(Protocol):
    """A unit that may leave out deletes."""

    name: str

    @property
    def drops(self) -> DropClaim | None:
        """Return the deletes that the unit wants to drop, or None."""
        ...

    def with_licence(self) -> Unit:
        """Return the same unit, with a certifier that lets it drop deletes."""
        ...


@runtime_checkable
class LookupUnit(Protocol):
    """This unit may have to ask other files for older rows."""

    @property
    def lookup_claim(self) -> LookupClaim:
        """Return which files the unit merges, and which it searches."""
        ...


@runtime_checkable
class JoiningUnit(Protocol):
    """This unit puts the rows of files one after another."""

    @property
    def joins(self) -> tuple[DataFile, ...]:
        """Return the files, in the order of their rows."""
        ...


@runtime_checkable
class MarkedUnit(LookupUnit, Protocol):
    """This unit reads files without their deleted rows."""

    @property
    def deletions(self) -> Mapping[str, DeletionFile]:
        """Return the deletion files, by name of the file, of all files that the unit reads."""
        ...


@dataclass(frozen=True)
class _LiveFiles:
    """Live files by bucket; they become objects only for buckets that are asked for."""

    entries: ManifestEntries

    @cached_property
    def _lanes(self) -> dict[tuple[bytes, int], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        entries = self.entries
        if not len(entries):
            return {}
        place = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
        order = np.argsort(place, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(place[order])) + 1)
        return {
            (entries.partition_of(int(lanes[0])), int(entries.bucket[lanes[0]])): lanes for lanes in parts
        }

    def of(self, place: Place) -> list[DataFile]:
        lanes = self._lanes.get((place.partition, place.bucket))
        return [] if lanes is None else self.entries.select(lanes).files()


def licensed(
    picks: Sequence[WorkPick],
    live: ManifestEntries,
    schema: TableSchema,
    rules: TableRules,
    vectors: Mapping[tuple[bytes, int], Sequence[IndexFile]],
) -> tuple[tuple[WorkPick, ...], tuple[Refused, ...]]:
    """Return the picks whose claims hold, their units with licences; and those that claim too much.

    `vectors`: the index files with deletion vectors, by serialised partition and bucket.
    """
    files = _LiveFiles(live)
    key_of = key_order(schema.key_type) if schema.primary_keys and not rules.clustering_columns else None
    picks_licensed: list[WorkPick] = []
    refused: list[Refused] = []
    for pick in picks:
        try:
            _check_vectors(pick, vectors.get((pick.place.partition, pick.place.bucket), ()))
            picks_licensed.append(_license(pick, files, rules, key_of))
        except ProofError as err:
            refused.append((pick, err))
    return tuple(picks_licensed), tuple(refused)


def levels_of(pick: WorkPick) -> frozenset[int]:
    """Return the levels to which the units of a pick may write; none where levels order no rows."""
    return frozenset(unit.lookup_claim.level for unit in pick.units if isinstance(unit, LookupUnit))


def _license(pick: WorkPick, files: _LiveFiles, rules: TableRules, key_of: KeyOf | None) -> WorkPick:
    claims = [unit.drops if isinstance(unit, DroppingUnit) else None for unit in pick.units]
    check_moved(pick.name, pick.moved, pick.announced, rules)
    if not any(claims) and key_of is None and not rules.needs_old_rows and not rules.keeps_order:
        return pick
    live = files.of(pick.place)
    units = []
    for unit, claim in zip(pick.units, claims, strict=True):
        if claim is not None:
            check_licence(claim, live, pick.replaced, rules, key_of)
            unit = cast(DroppingUnit, unit).with_licence()
        if isinstance(unit, LookupUnit):
            check_lookup_claim(unit.lookup_claim, live, pick.replaced, rules, key_of)
        if isinstance(unit, JoiningUnit) and rules.keeps_order:
            check_row_order(pick.name, live, unit.joins)
        units.append(unit)
    if key_of is not None:
        check_levels(pick.name, live, pick.replaced, pick.moved, _stretches(pick), key_of)
    return replace(pick, units=tuple(units))


def _check_vectors(pick: WorkPick, live: Sequence[IndexFile]) -> None:
    """Check that merges by key use the deleted rows of the files that they read, and of those that they
    search.
    """
    for unit in pick.units:
        if isinstance(unit, MarkedUnit):
            files = [
                *unit.lookup_claim.merged,
                *(file for level in unit.lookup_claim.levels for file in level),
            ]
            check_planned_vectors(pick.name, [file.file_name for file in files], unit.deletions, live)


def _stretches(pick: WorkPick) -> list[OutputRange]:
    """Return the stretches whose units write files; units that only announce rows of files that move write
    none.
    """
    announced_names = {file.file_name for file in pick.announced}
    asks = (unit.lookup_claim for unit in pick.units if isinstance(unit, LookupUnit))
    return [
        OutputRange(ask.merged, ask.level)
        for ask in asks
        if announced_names.isdisjoint(f.file_name for f in ask.merged)
    ]
