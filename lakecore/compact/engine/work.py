"""This module defines the work of a compaction as values: rounds, picks made of units, and the result of a
unit. Picks, units and results can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.clock import Clock
from lakecore.compact.engine.strategy import Strategy
from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.metadata.manifest.byte_words import hash_bytes
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.context import ReadContext
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_text
from lakecore.scan.filters import ScanFilter
from lakecore.verify.digest.digest import Tally
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.proof.pick_proof import ProofContext, UnitProof
from lakecore.write.files.copy_plan import NOTHING_COPIED, CopyCount

__all__ = [
    "ManifestLists",
    "PickOutline",
    "Place",
    "PlannedRound",
    "Round",
    "RoundPlan",
    "Strategy",
    "Unit",
    "UnitFunction",
    "UnitResult",
    "UnitTable",
    "WorkPick",
    "attempt_name",
    "outlines_of",
    "place_name",
]


@dataclass(frozen=True, slots=True)
class Place:
    """A place is a bucket. `partition` is a serialised row."""

    partition: bytes
    bucket: int
    total_buckets: int


def place_name(place: Place, schema: TableSchema) -> str:
    """Return a place as in `dt=2024-01-01,hh=2/bucket-0`."""
    values = decode_row(place.partition, schema.partition_type, "partition")
    bucket = "postpone" if place.bucket < 0 else place.bucket
    return "/".join(filter(None, (partition_text(values, schema.partition_type), f"bucket-{bucket}")))


def attempt_name(clock: Clock) -> str:
    """Return what distinguishes the files of one attempt at a unit from those of another: 16 letters and
    digits.
    """
    return clock.fresh_id().replace("-", "")[:16]


@dataclass(frozen=True, kw_only=True)
class UnitTable:
    """Every unit of a run knows this about the table. `schemas`: those of all its input files, by id."""

    reading: ReadContext
    shape: RowShape
    schemas: Mapping[int, TableSchema]
    clock: Clock

    @cached_property
    def proof(self) -> ProofContext:
        return ProofContext(file_io=self.reading.file_io, shape=self.shape, schemas=self.schemas)

    def in_partition(self, partition: bytes) -> UnitTable:
        """Return the same for units of one partition, whose columns files may lack
        (ReadContext.in_partition).
        """
        return replace(self, reading=self.reading.in_partition(partition))

    @property
    def schema(self) -> TableSchema:
        """Return the schema that new files are written with, job options included."""
        return self.reading.schema


class Unit(Protocol):
    """A unit is one task, which is a share of a pick."""

    @property
    def name(self) -> str:
        """Return the name for messages, which is unique within a run."""
        ...

    @property
    def rows(self) -> int:
        """Return how many input rows the unit is expected to read, which is an estimate when a pick is
        cut.
        """
        ...

    @property
    def output_level(self) -> int:
        """Return the level of its new files; 0 in tables without levels."""
        ...

    def with_second_thread(self) -> Unit:
        """Return the same work, which decodes in one thread and encodes in another where it can."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """The result of a unit, which has new files in key (or row) order, rows read, the digests of whole
    inputs, and the unit's proof.

    `lookups`: positions (a serialised bitmap) by the name of a file that stays: rows that were looked up.
    `lookup_files`: names of new lookup files, by the name of a file that only moves. `proof` is None for a
    unit that has nothing else.
    """

    unit: str
    files: tuple[DataFile, ...]
    rows_in: int
    inputs: tuple[Tally, ...]
    proof: UnitProof | None
    changelog: tuple[DataFile, ...] = ()
    lookups: Mapping[str, bytes] = field(default_factory=dict)
    lookup_files: Mapping[str, str] = field(default_factory=dict)
    copied: CopyCount = NOTHING_COPIED
    """It counts the rows that were copied without decoding them."""


UnitFunction = Callable[[Any], UnitResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPick:
    """A pick is committed whole or not at all. `moved` has (before, after) of files that only change
    level.

    `units` are in key (or row) order and together read every row of `replaced` and `announced` once.
    `announced` are those of the moved files whose rows are read for the changelog. `required_files` stay and
    were searched for old rows; what the pick makes is valid only while they stay. `deletions` are in the
    order of `replaced`, with their cardinality; empty when no row of these files is deleted. `shared_rows`
    counts how often a row of `replaced` is in one more file (with other columns).
    """

    name: str
    place: Place
    bucket_dir: str
    reason: str
    replaced: tuple[DataFile, ...]
    moved: tuple[tuple[DataFile, DataFile], ...] = ()
    units: tuple[Unit, ...] = field(default=())
    announced: tuple[DataFile, ...] = ()
    required_files: tuple[DataFile, ...] = ()
    deletions: tuple[DeletionFile | None, ...] = ()
    shared_rows: int = 0

    @property
    def rows(self) -> int:
        """Return the input rows that units read, without deleted ones."""
        deleted = (vector.place.cardinality or 0 for vector in self.deletions if vector is not None)
        row_count = sum(file.row_count for file in (*self.replaced, *self.announced))
        return row_count - sum(deleted) - self.shared_rows

    @property
    def output_level(self) -> int:
        """Return the highest level that its units write to."""
        return max((unit.output_level for unit in self.units), default=0)

    @property
    def size(self) -> int:
        """Return the bytes of the input that is rewritten."""
        return sum(file.file_size for file in self.replaced)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PickOutline:
    """An outline is a pick in numbers, as a dry run reports it. Sizes are in bytes."""

    name: str
    place: Place
    reason: str
    output_level: int
    rewrites: int
    """This is the number of files that are rewritten."""
    rows: int
    """This is the number of rows that are read, without deleted ones."""
    size: int
    """This is the size of the files that are rewritten."""
    moved_rows: int
    """This is the number of rows of files that only change their level."""
    moved_size: int
    moves: Mapping[int, int]
    """This is the number of files that only change their level, by their level then."""
    names: npt.NDArray[np.uint64]
    """These are the hashes of the names of all these files."""

    @classmethod
    def of(cls, pick: WorkPick) -> PickOutline:
        """Describe a pick that has units."""
        moves: dict[int, int] = {}
        for _, after in pick.moved:
            moves[after.level] = moves.get(after.level, 0) + 1
        moved = [before for before, _ in pick.moved]
        return cls(
            name=pick.name,
            place=pick.place,
            reason=pick.reason,
            output_level=pick.output_level,
            rewrites=len(pick.replaced),
            rows=pick.rows,
            size=pick.size,
            moved_rows=sum(file.row_count for file in moved),
            moved_size=sum(file.file_size for file in moved),
            moves=moves,
            names=hash_bytes([file.file_name.encode() for file in (*pick.replaced, *moved)]),
        )

    @property
    def files(self) -> int:
        """Return how many files the pick works on."""
        return len(self.names)


def outlines_of(picks: Iterable[WorkPick]) -> tuple[PickOutline, ...]:
    """Describe the picks, in their order."""
    return tuple(map(PickOutline.of, picks))


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """It picks planned from one snapshot, and the function that runs their units."""

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
    """This is a round that a kind has planned. Its picks are built later, because that may read rows to
    sample.
    """

    has_picks: bool
    build: Callable[[], RoundPlan]
    outlines: tuple[PickOutline, ...] | None = None
    """These are the picks in numbers, where a dry run is planned without building them."""
    parallelism: int | None = None
    """The picks were cut for so many units at once; None where they are cut when they are built."""


ManifestLists: TypeAlias = tuple[Snapshot, tuple[ManifestFile, ...]]
"""This is the type of a snapshot with its manifests, as `Scanner.with_lists` reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """This is the input of one round, which is planned from `snapshot`. `executor` is where units will
    run.
    """

    snapshot: Snapshot | None
    executor: Executor
    file_prefix: str
    """This is the beginning of the names of new files."""
    where: ScanFilter | None = None
    """Only these files are planned; None means the scope of the run."""
    again: frozenset[Place] | None = None
    """These buckets are planned again; it is None in the first round."""
    lost: frozenset[Place] = frozenset()
    """Other commits touched these buckets while this run worked on them; they are left alone."""
    dry: bool = False
    """Only a report is wanted: nothing is written."""
    lists: ManifestLists | None = None
    """These are the manifests of a snapshot of this run, which need not be listed again."""
