"""This module turns bucket picks into picks of units: names and prefixes of files, and cuts of large
merges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from lakecore.compact.engine.deletion_vectors import counted
from lakecore.compact.engine.work import UnitTable, WorkPick, place_name
from lakecore.compact.kinds.primary_key.cut import (
    check_tiling,
    divide,
    has_large_base,
    parts_of,
    stretch_size,
    unit_count,
)
from lakecore.compact.kinds.primary_key.lookup.pick import LeveledPick
from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.compact.kinds.primary_key.plan import BucketPick
from lakecore.compact.kinds.primary_key.unit import MergeUnit, MovedFileUnit, file_spec
from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.lookup.lookup_files import LookupFiles
from lakecore.lsm.sections import largest_run, stretch_runs
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.read.file.key_range import KeyRange
from lakecore.read.split.key_cuts import ranges, sample_cuts
from lakecore.scan.change_scanner import Deletions
from lakecore.write.files.copy_plan import table_refusal

__all__ = ["UnitBuilder"]

_LARGE_SHARE = 2


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
    copy: CopyMode = CopyMode.NONE

    def work_picks(self, picks: Sequence[BucketPick]) -> tuple[WorkPick, ...]:
        """Return picks of units. Merges that are a large part of all are cut, if that can be done; it costs
        reads of page indexes.
        """
        sizes = [stretch_size(stretch) for pick in picks for stretch in pick.work.rewrites]
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
        wholes = list(self._wholes(model, pick, rules)) if leveled is None else leveled.units()
        moved = tuple((file, replace(file, level=pick.output_level)) for file in pick.work.upgrades)
        units: list[MergeUnit | MovedFileUnit] = [
            unit for whole in wholes for unit in self._cut(whole, rules)
        ]
        units += self._lookup_units(model, moved)
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
            moved=moved,
            units=numbered,
            deletions=tuple(model.deletions.get(file.file_name) for file in replaced),
            announced=pick.work.announced if leveled is not None else (),
            required_files=() if leveled is None else leveled.required_files,
        )

    def _lookup_units(
        self, model: MergeUnit, moved: Sequence[tuple[DataFile, DataFile]]
    ) -> list[MovedFileUnit]:
        """Return units that write the lookup files of files that leave level 0 as they are."""
        lookup_files = LookupFiles(self.table.reading, model.bucket_dir)
        return [
            MovedFileUnit(
                name=model.name,
                table=self.table,
                bucket_dir=model.bucket_dir,
                file=after,
                file_prefix=model.file_prefix,
            )
            for before, after in moved
            if before.level == 0 and lookup_files.needs(after)
        ]

    def _wholes(self, model: MergeUnit, pick: BucketPick, rules: _CutRules) -> Iterator[MergeUnit]:
        """Yield the merges of a pick. One of which files may be copied is divided between its sections, into
        as many units as another one of its size. One of which row groups may be copied is cut as others are.
        """
        for stretch in pick.work.rewrites:
            divided, mode = [stretch], self._copy_mode()
            divides = bool(parts_of(stretch, mode))
            copies = divides or has_large_base(stretch_runs(stretch), mode)
            if not copies or table_refusal(file_spec(model)) is not None:
                mode = CopyMode.NONE
            elif divides:
                size = stretch_size(stretch)
                divided = divide(stretch, size // self._unit_count(size, rules))
            for sections in divided:
                parts, runs = parts_of(sections, mode), stretch_runs(sections)
                copies = bool(parts) or has_large_base(runs, mode)
                yield replace(model, runs=runs, parts=parts, copy=mode if copies else CopyMode.NONE)

    def _copy_mode(self) -> CopyMode:
        """Return what may be copied; nothing where a row alone may become another one, or leave."""
        options = self.table.reading.options
        merges = self.table.reading.engine is not None or options.ignore_delete or options.snapshot_ordering
        return CopyMode.NONE if merges or options.record_expire_ms is not None else self.copy

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
        count = self._unit_count(size, rules)
        base = None if whole.copy is CopyMode.NONE else largest_run(whole.runs)
        kept_whole = () if base is None else whole.runs[base]
        place = (self.table.reading, whole.bucket_dir)
        cuts = sample_cuts(*place, files, count, kept_whole) if count > 1 else ()
        bounds = ranges(cuts)
        check_tiling(bounds)
        shares = _shares(files, len(bounds))
        return [
            replace(whole, bounds=None if bound == KeyRange() else bound, tallied=share)
            for bound, share in zip(bounds, shares, strict=True)
        ]

    def _unit_count(self, size: int, rules: _CutRules) -> int:
        """Return into how many units a merge of so many bytes is cut."""
        target = self.table.reading.options.target_file_size
        return unit_count(size, target, rules.parallelism) if size >= rules.least_size else 1


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
