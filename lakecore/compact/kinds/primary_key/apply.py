"""This module turns bucket picks into picks of units: names and prefixes of files, and cuts of large
merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from lakecore.compact.engine.deletion_vectors import counted
from lakecore.compact.engine.work import UnitTable, WorkPick, place_name
from lakecore.compact.kinds.primary_key.cut import check_tiling, unit_count
from lakecore.compact.kinds.primary_key.lookup.pick import LeveledPick
from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.compact.kinds.primary_key.plan import BucketPick, stretch_runs
from lakecore.compact.kinds.primary_key.unit import MergeUnit, Run
from lakecore.executor import Executor
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.lsm.sections import Section
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.read.file.key_range import KeyRange
from lakecore.read.split.key_cuts import ranges, sample_cuts
from lakecore.scan.change_scanner import Deletions

__all__ = ["UnitBuilder"]

_LARGE_SHARE = 2
_LEAST_ALONE = 2
"""Copies pay where files that overlap no other have half of the bytes: such a merge is not cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CutRules:
    """`least_size`: bytes of a merge that may be cut."""

    parallelism: int
    least_size: int


@dataclass(frozen=True, kw_only=True)
class UnitBuilder:
    """This is a builder of the picks that the driver runs. `engine` is where units will run; it is only
    used when there is much to do.
    """

    table: UnitTable
    file_prefix: str
    engine: Executor
    deletions: Deletions = field(default_factory=dict)
    copy: CopyMode = CopyMode.OFF

    def work_picks(self, picks: Sequence[BucketPick]) -> tuple[WorkPick, ...]:
        """Return picks of units. Merges that are a large part of all are cut, if that can be done; it costs
        reads of page indexes.
        """
        sizes = [_size(stretch) for pick in picks for stretch in pick.work.rewrites]
        large = sum(sizes) >= self.table.reading.options.target_file_size
        parallelism = self.engine.parallelism if large else 1
        rules = _CutRules(
            parallelism=parallelism,
            least_size=sum(sizes) // (_LARGE_SHARE * parallelism),
        )
        return tuple(self._work_pick(pick, number, rules) for number, pick in enumerate(picks))

    def _work_pick(self, pick: BucketPick, number: int, rules: _CutRules) -> WorkPick:
        reading = self.table.reading
        name = place_name(pick.place, self.table.schema)
        bucket_dir = reading.bucket_dir(pick.place.partition, pick.place.bucket)
        model = MergeUnit(
            name=name,
            table=self.table,
            bucket_dir=bucket_dir,
            runs=(),
            output_level=pick.output_level,
            drop_deletes=pick.drop_deletes,
            file_prefix=f"{self.file_prefix}-{number}",
            tallied=(),
            deletions=self._deletions(pick),
        )
        leveled = None if pick.derivation is Derivation.NONE else LeveledPick(pick, model)
        if leveled is None:
            wholes = [
                replace(model, runs=stretch_runs(stretch), parts=self._parts(stretch), copy=self.copy)
                for stretch in pick.work.rewrites
            ]
        else:
            wholes = leveled.units()
        units = [unit for whole in wholes for unit in self._cut(whole, rules)]
        numbered = tuple(
            replace(unit, name=f"{name}, unit {i}", file_prefix=f"{unit.file_prefix}-{i}")
            for i, unit in enumerate(units)
        )
        replaced = tuple(f for stretch in pick.work.rewrites for section in stretch for f in section.files)
        return WorkPick(
            name=name,
            place=pick.place,
            bucket_dir=bucket_dir,
            reason=f"{pick.reason} to level {pick.output_level}",
            replaced=replaced,
            moved=tuple((file, replace(file, level=pick.output_level)) for file in pick.work.upgrades),
            units=numbered,
            deletions=tuple(model.deletions.get(file.file_name) for file in replaced),
            announced=pick.work.announced if leveled is not None else (),
            required_files=() if leveled is None else leveled.required_files,
        )

    def _parts(self, stretch: tuple[Section, ...]) -> tuple[tuple[Run, ...], ...]:
        """Return the parts of a merge of which files may be copied: sections of one file each, and what lies
        between them. They are empty where most rows must be merged, or a row alone may become another one.
        """
        options = self.table.reading.options
        merges = self.table.reading.engine is not None or options.ignore_delete or options.snapshot_ordering
        alone = sum(section.files[0].file_size for section in stretch if len(section.files) == 1)
        if self.copy is CopyMode.OFF or merges or options.record_expire_ms is not None:
            return ()
        if alone * _LEAST_ALONE < _size(stretch):
            return ()
        groups = groupby(stretch, key=lambda section: len(section.files) == 1)
        return tuple(
            part
            for single, group in groups
            for part in ([section.runs for section in group] if single else [stretch_runs(tuple(group))])
        )

    def _deletions(self, pick: BucketPick) -> dict[str, DeletionFile]:
        """Return the vectors of the files that the pick reads, with their cardinality."""
        if not self.deletions:
            return {}
        place = pick.place
        rewritten = (f for stretch in pick.work.rewrites for section in stretch for f in section.files)
        above = (file for level in pick.above for file in level)
        deletions = {
            file.file_name: self.deletions.get((place.partition, place.bucket, file.file_name))
            for file in (*rewritten, *above)
        }
        return {name: counted(self.table, vector) for name, vector in deletions.items() if vector is not None}

    def _cut(self, whole: MergeUnit, rules: _CutRules) -> list[MergeUnit]:
        files = [file for run in whole.runs for file in run]
        if whole.parts:
            return [replace(whole, tallied=tuple(files))]
        size = sum(file.file_size for file in files)
        target = self.table.reading.options.target_file_size
        count = unit_count(size, target, rules.parallelism) if size >= rules.least_size else 1
        cuts = sample_cuts(self.table.reading, whole.bucket_dir, files, count) if count > 1 else ()
        bounds = ranges(cuts)
        check_tiling(bounds)
        shares = _shares(files, len(bounds))
        return [
            replace(whole, bounds=None if bound == KeyRange() else bound, tallied=share)
            for bound, share in zip(bounds, shares, strict=True)
        ]


def _shares(files: Sequence[DataFile], count: int) -> list[tuple[DataFile, ...]]:
    """Return the files divided by size into shares: each unit digests some inputs completely, wherever their
    rows belong.
    """
    shares: list[list[DataFile]] = [[] for _ in range(count)]
    sizes = [0] * count
    for file in sorted(files, key=lambda file: -file.file_size):
        least = sizes.index(min(sizes))
        shares[least].append(file)
        sizes[least] += file.file_size
    return [tuple(share) for share in shares]


def _size(stretch: tuple[Section, ...]) -> int:
    return sum(file.file_size for section in stretch for file in section.files)
