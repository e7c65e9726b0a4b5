"""Units of a pick that tells of changes or looks rows up: runs by level, and the files to ask. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.compact.kinds.primary_key.plan import BucketPick
from lakecore.compact.kinds.primary_key.unit import LookupMerge, MergeUnit, Run
from lakecore.data_class import dataclass
from lakecore.lsm.sections import Section, sections, stretch_runs
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import ChangelogProducer

__all__ = ["LeveledPick"]

KeyOf = Callable[[bytes], Any]


@dataclass(frozen=True)
class LeveledPick:
    """These are the units of one lookup merge. `model` is a unit of the pick without runs."""

    pick: BucketPick
    model: MergeUnit

    def units(self) -> list[MergeUnit]:
        """Return one unit per stretch and one per file whose rows are announced, in key order."""
        work = self.pick.work
        units = [self._unit(stretch, rewrites=True) for stretch in work.rewrites]
        units += [self._unit((Section(((file,),)),), rewrites=False) for file in work.announced]
        return sorted(units, key=lambda unit: min(self._key_of(f.min_key) for run in unit.runs for f in run))

    @property
    def required_files(self) -> tuple[DataFile, ...]:
        """Return the files above the output that may be searched."""
        searched_files = self._overlapping([
            file for file in (*self._rewritten, *self.pick.work.announced) if file.level == 0
        ])  # fmt: skip
        return tuple(file for level in searched_files for file in level)

    @property
    def _rewritten(self) -> tuple[DataFile, ...]:
        return tuple(f for stretch in self.pick.work.rewrites for section in stretch for f in section.files)

    @cached_property
    def _key_of(self) -> KeyOf:
        return key_order(self.model.table.schema.key_type)

    def _unit(self, stretch: tuple[Section, ...], *, rewrites: bool) -> MergeUnit:
        pick, model = self.pick, self.model
        files = [file for section in stretch for file in section.files]
        fresh = [file for file in files if file.level == 0]
        fresh_runs = stretch_runs(sections(fresh, self._key_of)) if fresh else ()
        lookup = pick.derivation is Derivation.LOOKUP
        return replace(
            model,
            runs=(*_level_runs(files, self._key_of), *fresh_runs),
            drop_deletes=rewrites and pick.drop_deletes,
            by_level=LookupMerge(
                derivation=pick.derivation,
                announces=self._announces and (bool(fresh) or not lookup),
                rewrites=rewrites,
                top_level=pick.max_level,
                fresh=len(fresh_runs),
                above=self._overlapping(fresh) if lookup else (),
            ),
        )

    @property
    def _announces(self) -> bool:
        producer = self.model.table.reading.options.changelog_producer
        return producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)

    def _overlapping(self, fresh: Sequence[DataFile]) -> tuple[tuple[DataFile, ...], ...]:
        """Return, by level, the files above the output whose key ranges overlap that of a fresh file."""
        ranges = _join([(self._key_of(file.min_key), self._key_of(file.max_key)) for file in fresh])
        ends = [high for _, high in ranges]
        overlapping = []
        for level in self.pick.above:
            files = []
            for file in level:
                at = bisect_left(ends, self._key_of(file.min_key))
                if at < len(ranges) and ranges[at][0] <= self._key_of(file.max_key):
                    files.append(file)
            overlapping.append(tuple(sorted(files, key=lambda file: self._key_of(file.min_key))))
        return tuple(level for level in overlapping if level)


def _level_runs(files: Iterable[DataFile], key_of: KeyOf) -> list[Run]:
    """Return the levels above 0, the highest (oldest) first, each in key order."""
    levels: dict[int, list[DataFile]] = {}
    for file in files:
        if file.level > 0:
            levels.setdefault(file.level, []).append(file)
    return [
        tuple(sorted(levels[level], key=lambda file: key_of(file.min_key)))
        for level in sorted(levels, reverse=True)
    ]


def _join(ranges: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return closed ranges in order, in which those that overlap are one."""
    out: list[tuple[Any, Any]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out
