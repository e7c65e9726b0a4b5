"""This module has the files of one bucket as a lookup sees them: runs, the nearest first. Pure.

Rules of Paimon's LookupLevels: level 0 is searched file by file, the newest first, then level 1, 2, …; of a
higher level at most one file holds a key. A table whose compactions look rows up is searched from level 1
on: level 0 is left to the next compaction. Beyond Paimon: where files of writers that worked at the same time
overlap in sequence numbers, a row that was found is compared with those of runs that may have a higher one,
as a merged read does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.lookup.query.packed_keys import KeyColumns, OneKey, Packed, Widths
from lakecore.lsm.runs import level_runs
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.row.binary_row import decode_row
from lakecore.row.values import values_array
from lakecore.types.datatypes import RowType

__all__ = ["BucketRules", "BucketView", "Run"]


@dataclass(frozen=True, slots=True)
class BucketRules:
    """These rules hold for all buckets of a table."""

    key_type: RowType
    start_level: int
    """Files of lower levels are not searched."""
    by_level: bool
    """It tells whether the nearest level with a key has its row, whatever the sequence numbers are."""


@dataclass(frozen=True)
class Run:
    """It is one file of level 0, or the files of a higher level in key order."""

    files: tuple[DataFile, ...]
    key_type: RowType

    @cached_property
    def max_sequence(self) -> int:
        """Return the highest sequence number of its rows."""
        return max(file.max_sequence_number for file in self.files)

    @cached_property
    def _bounds(self) -> tuple[KeyColumns, KeyColumns]:
        lows = _keys([file.min_key for file in self.files], self.key_type)
        return lows, _keys([file.max_key for file in self.files], self.key_type)

    @cached_property
    def widths(self) -> Widths:
        """Return the widths of the packed bounds."""
        lows, highs = self._bounds
        return tuple(map(max, lows.widths, highs.widths))

    def file_of(self, key: OneKey) -> int:
        """Return the number of the file whose bounds enclose one key; -1 for none."""
        lows, highs = self._plain
        value = key.plain(self.widths)
        place = bisect_left(highs, value)
        return place if place < len(highs) and lows[place] <= value else -1

    @cached_property
    def _plain(self) -> tuple[list[Any], list[Any]]:
        lows, highs = self._pack
        return lows.tolist(), highs.tolist()

    @cached_property
    def _pack(self) -> tuple[Packed, Packed]:
        lows, highs = self._bounds
        return lows.packed(self.widths), highs.packed(self.widths)

    def files_of(self, keys: Packed) -> np.ndarray[Any, Any]:
        """Return for each key, packed with `widths`, the number of the file whose bounds enclose it; -1 for
        none.
        """
        lows, highs = self._pack
        places = np.searchsorted(highs, keys)
        inside = np.minimum(places, len(highs) - 1)
        return np.where((places < len(highs)) & (lows[inside] <= keys), inside, -1)


@dataclass(frozen=True)
class BucketView:
    """These are the files of one bucket at one snapshot. A refresh makes another one."""

    rules: BucketRules
    files: Mapping[str, DataFile]
    total_buckets: int
    deletions: Mapping[str, DeletionFile]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Return the runs that are searched, the nearest first."""
        order = key_order(self.rules.key_type)
        searched = (file for file in self.files.values() if file.level >= self.rules.start_level)
        return tuple(
            Run(tuple(sorted(run.files, key=lambda file: order(file.min_key))), self.rules.key_type)
            for run in level_runs(searched)
        )

    @cached_property
    def nearest_is_current(self) -> bool:
        """Return whether the first run that has a key has its current row."""
        if self.rules.by_level:
            return True
        spans = [(min(f.min_sequence_number for f in run.files), run.max_sequence) for run in self.runs]
        return all(newer[0] > older[1] for newer, older in pairwise(spans))

    def changed(
        self,
        before: Iterable[DataFile],
        after: Iterable[DataFile],
        total_buckets: int | None = None,
        deletions: Mapping[str, DeletionFile] | None = None,
    ) -> BucketView:
        """Return the view after a commit. Raises InvalidInputError for a file in `before` that is not there.

        `total_buckets` and `deletions` (all deletion vectors of the bucket) stay as they are where they are
        None; so does a number of 0, which no files have.
        """
        files = dict(self.files)
        for file in before:
            if (earlier := files.get(file.file_name)) is None or earlier.level != file.level:
                raise InvalidInputError(
                    f"file {file.file_name} of level {file.level} cannot be removed: the query does not have "
                    "it; give the changes of all snapshots in order, or create a new query"
                )
            del files[file.file_name]
        files.update((file.file_name, file) for file in after)
        return replace(
            self,
            files=files,
            total_buckets=total_buckets or self.total_buckets,
            deletions=self.deletions if deletions is None else deletions,
        )


def _keys(rows: Sequence[bytes], key_type: RowType) -> KeyColumns:
    values: list[tuple[Any, ...]] = [decode_row(row, key_type, "the key of a data file") for row in rows]
    columns = [
        values_array([row[at] for row in values], field.type) for at, field in enumerate(key_type.fields)
    ]
    return KeyColumns(columns, key_type)
