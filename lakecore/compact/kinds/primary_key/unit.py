"""This module describes one unit of a primary-key compaction as a value: what is merged, into what, and
what is emitted of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import pyarrow as pa
from pyroaring import BitMap

from lakecore.compact.engine.outputs import compacted_files
from lakecore.compact.engine.work import UnitTable
from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.data_class import dataclass
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.merge.engines.deduplicate import Deduplicate
from lakecore.merge.sorted_merge import MergeSpec
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.options import SequenceOrder
from lakecore.metadata.row_kind import KEY_PREFIX
from lakecore.read.file.key_range import KeyRange
from lakecore.row.sort_rule import SortRule
from lakecore.store.indexes import load_deletions
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.rules.drop_licence import DropClaim
from lakecore.verify.rules.lookup_files import LookupClaim
from lakecore.write.files.rolling import FileSpec

__all__ = [
    "AGE_NAME",
    "LookupMerge",
    "MergeUnit",
    "MovedFileUnit",
    "Run",
    "changelog_spec",
    "deleted_rows",
    "file_spec",
    "merge_spec",
    "stored",
]

Run = tuple[DataFile, ...]

AGE_NAME = "__lakecore_age"
"""A column beside those of the files: the number of the row's run, from the oldest on; -1 above level 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupMerge:
    """A merge has to know these levels. `above` are files where its keys are looked up, nearest level
    first.

    `announces` tells that it writes a changelog. `rewrites` is False for a file that only moves and whose
    rows are announced. `fresh` is the number of runs of level 0, which are the last ones.
    """

    derivation: Derivation
    announces: bool
    rewrites: bool
    top_level: int
    fresh: int
    above: tuple[tuple[DataFile, ...], ...]

    @property
    def needs_lookup(self) -> bool:
        """Return whether changes are told of keys in level 0, which are looked up for it."""
        return self.derivation is Derivation.LOOKUP and self.fresh > 0

    @property
    def asks_nearest(self) -> bool:
        """Return whether the nearest level that has a key answers for it."""
        return self.derivation is not Derivation.FULL


@dataclass(frozen=True, kw_only=True)
class MergeUnit:
    """This unit merges `runs` (oldest first, each in key order) into files of `output_level`.

    `file_prefix` begins the names of new files; the unit adds the attempt. `tallied` are whole inputs whose
    digest this unit takes. `bounds` is the unit's share of the keys, None for all of them. `overlap` lets it
    encode in another thread than decode and merge. `deletions` are, by name of the file whose rows are
    deleted, those of inputs and of files above. `by_level` is None for a merge that makes only new files.
    `rule` is the order of rows in new files; None: that of keys. With a rule the files above are in that
    order too, and of the rows of a key that of the last run counts, whatever their sequence numbers.
    `licensed` tells that the proof lets deletes be dropped (`verify.drop_licence`).
    """

    name: str
    table: UnitTable
    bucket_dir: str
    runs: tuple[Run, ...]
    output_level: int
    drop_deletes: bool
    file_prefix: str
    tallied: tuple[DataFile, ...]
    bounds: KeyRange | None = None
    overlap: bool = False
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    by_level: LookupMerge | None = None
    rule: SortRule | None = None
    licensed: bool = False
    parts: tuple[tuple[Run, ...], ...] = ()
    """These are the runs of parts of the unit, in key order. Files that are the only one of their part may be
    copied; without parts nothing is.
    """
    copy: CopyMode = CopyMode.NONE

    @property
    def drops(self) -> DropClaim | None:
        """Return the deletes that the unit wants to drop, for the licence."""
        if not self.drop_deletes:
            return None
        above = () if self.by_level is None else self.by_level.above
        return DropClaim(
            unit=self.name,
            merged=tuple(file for run in self.runs for file in run),
            searched=tuple(file for level in above for file in level),
        )

    @property
    def lookup_claim(self) -> LookupClaim:
        """Return which files the unit merges, and which it searches for older rows."""
        return LookupClaim(
            unit=self.name,
            merged=tuple(file for run in self.runs for file in run),
            level=self.output_level,
            levels=() if self.by_level is None else self.by_level.above,
        )

    def with_licence(self) -> MergeUnit:
        return replace(self, licensed=True)

    @property
    def rows(self) -> int:
        return sum(file.row_count for run in self.runs for file in run)

    @property
    def threads(self) -> int:
        """Return how many threads may copy files and read them for the proof."""
        return 2 if self.overlap else 1

    def with_second_thread(self) -> MergeUnit:
        return replace(self, overlap=True)


@dataclass(frozen=True, kw_only=True)
class MovedFileUnit:
    """This unit writes the lookup file of `file`, which leaves level 0 as it is and has its new level.

    Rule of Paimon's LookupMergeTreeCompactRewriter. `file_prefix` is that of new data files of the pick; it
    becomes a part of the name.
    """

    name: str
    table: UnitTable
    bucket_dir: str
    file: DataFile
    file_prefix: str

    @property
    def rows(self) -> int:
        return self.file.row_count

    @property
    def output_level(self) -> int:
        """Return 0: the unit makes no data file."""
        return 0

    def with_second_thread(self) -> MovedFileUnit:
        return self


def deleted_rows(unit: MergeUnit, file: DataFile) -> BitMap | None:
    """Return the positions of the deleted rows of a file, or None when no row of it is deleted. Its vector is
    read.
    """
    deletion = unit.deletions.get(file.file_name)
    return None if deletion is None else load_deletions(unit.table.reading.file_io, deletion)


def merge_spec(unit: MergeUnit, *, drop_deletes: bool) -> MergeSpec:
    """Return how rows of a key become one. Where rows expire, the proof needs all of them."""
    options, engine = unit.table.reading.options, unit.table.reading.engine
    by_age = unit.rule is not None
    if engine is None and options.record_expire_ms is not None:
        engine = Deduplicate(options.ignore_delete)
    return MergeSpec(
        key_columns=unit.table.schema.trimmed_primary_keys,
        sequence_columns=(AGE_NAME,) if by_age else options.sequence_fields,
        descending=options.sequence_order is SequenceOrder.DESCENDING,
        drop_retracts=drop_deletes,
        ignore_retracts=options.ignore_delete and not by_age,
        evidence=True,
        lost_rows=unit.table.shape.mode is ProofMode.FULL,
        proof_columns=tuple(field.name for field in unit.table.shape.values),
        engine=engine,
    )


def file_spec(unit: MergeUnit) -> FileSpec:
    """Return the specification of the unit's new data files."""
    return _files(unit, unit.file_prefix, FileSource.COMPACT, changelog=False)


def changelog_spec(unit: MergeUnit) -> FileSpec | None:
    """Return the specification of its changelog files, or None when it writes none. Rule of the format: they
    count as appended.
    """
    if unit.by_level is None or not unit.by_level.announces:
        return None
    options = unit.table.reading.options
    prefix = options.changelog_file_prefix + unit.file_prefix.removeprefix(options.data_file_prefix)
    return _files(unit, prefix, FileSource.APPEND, changelog=True)


def stored(unit: MergeUnit, file: DataFile) -> StoredFile:
    """Return a file of the unit's bucket with its path."""
    return StoredFile(unit.table.reading.paths.data_file(unit.bucket_dir, file), file)


def _files(unit: MergeUnit, prefix: str, source: FileSource, *, changelog: bool) -> FileSpec:
    spec = compacted_files(unit.table, unit.bucket_dir, prefix, keyed=True, level=unit.output_level)
    columns = () if unit.rule is None or changelog else unit.rule.columns
    return replace(spec, source=source, changelog=changelog, clustering_columns=columns)


def with_keys(batch: pa.RecordBatch, keys: tuple[str, ...]) -> pa.RecordBatch:
    """Return the batch with `_KEY_` columns beside the columns that they repeat (rule of the format); no
    values are copied.
    """
    names = [KEY_PREFIX + key for key in keys] + batch.schema.names
    return pa.RecordBatch.from_arrays([batch.column(key) for key in keys] + batch.columns, names=names)
