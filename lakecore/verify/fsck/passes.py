"""This module divides the files of a large table into groups of buckets, so that a check of the table has the
entries of one group in memory at a time.

A table of few files is checked in one pass. Of a larger one the first pass reads every manifest once and has
no files: it checks what is not of a bucket, and counts the files of each bucket. Then each group has a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.metadata.manifest.block_spans import GroupBlocks
from lakecore.metadata.manifest.bucket_counts import BucketCounts
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import WHOLE, EntryRequest
from lakecore.metadata.manifest.manifest_file import ManifestFile

__all__ = ["CheckPass", "GroupPass", "OnePass", "Survey", "TooManyFilesError"]

Ints: TypeAlias = npt.NDArray[Any]
_DIVIDED = -1


class TooManyFilesError(Exception):
    """One pass would have more files in memory than it may. The caller checks the table in groups."""


class CheckPass(Protocol):
    """A pass looks at the entries of some buckets."""

    @property
    def request(self) -> EntryRequest:
        """Return what the pass needs of a manifest that it reads."""
        ...

    @property
    def is_first(self) -> bool:
        """Return whether the pass reads whole manifests, which earlier passes did not."""
        ...

    @property
    def has_buckets(self) -> bool:
        """Return whether the pass has any bucket."""
        ...

    def begin(self, files: Sequence[ManifestFile]) -> None:
        """Tell the pass which manifests are read next. Raises TooManyFilesError."""
        ...

    def without_reading(self, path: str) -> ManifestEntries | None:
        """Return the entries of a manifest that need not be read, or None."""
        ...

    def is_unreadable(self, path: str) -> bool:
        """Return whether an earlier look at a manifest has found that it cannot be read."""
        ...

    def take(self, path: str, entries: ManifestEntries | None) -> ManifestEntries:
        """Return those of the entries that are of the pass; None are those of an unreadable manifest."""
        ...

    def has(self, partition: bytes, bucket: int) -> bool:
        """Return whether a bucket is one of the pass. `partition` is serialised."""
        ...


class OnePass:
    """It is the only pass over a table, which has at most `most` entries in its manifests."""

    request = WHOLE
    is_first = True
    has_buckets = True

    def __init__(self, most: int) -> None:
        self._remaining = most
        self._names: set[str] = set()

    def begin(self, files: Sequence[ManifestFile]) -> None:
        for file in files:
            if file.file_name not in self._names:
                self._names.add(file.file_name)
                self._remaining -= file.entry_count
        if self._remaining < 0:
            raise TooManyFilesError

    def without_reading(self, path: str) -> ManifestEntries | None:
        return None

    def is_unreadable(self, path: str) -> bool:
        return False

    def take(self, path: str, entries: ManifestEntries | None) -> ManifestEntries:
        return ManifestEntries.empty() if entries is None else entries

    def has(self, partition: bytes, bucket: int) -> bool:
        return True


class Survey:
    """It is the first of several passes: it has no bucket, and counts the entries of all.

    `place` returns the directory of a partition, by which partitions are kept together. Memory: some 200
    bytes a bucket, and 4 bytes for each partition of each manifest.
    """

    request = WHOLE
    is_first = True
    has_buckets = False

    def __init__(self, place: Callable[[bytes], str]) -> None:
        self._place = place
        self._counts = BucketCounts()
        self._codes: dict[bytes, int] = {}
        self._manifests: dict[str, Ints | None] = {}

    def begin(self, files: Sequence[ManifestFile]) -> None:
        pass

    def without_reading(self, path: str) -> ManifestEntries | None:
        return None  # it may be a finding for each snapshot that needs it

    def is_unreadable(self, path: str) -> bool:
        return path in self._manifests and self._manifests[path] is None

    def take(self, path: str, entries: ManifestEntries | None) -> ManifestEntries:
        codes = self._manifests.get(path)
        if entries is not None and codes is None:
            places = tuple(self.place(partition) for partition in entries.partitions)
            self._counts.add(replace(entries, partitions=places))
            numbers = (self._codes.setdefault(places[i], len(self._codes)) for i in _codes_of(entries))
            codes = np.unique(np.fromiter(numbers, np.int32))
        self._manifests[path] = codes
        return ManifestEntries.empty()

    def has(self, partition: bytes, bucket: int) -> bool:
        return False

    def place(self, partition: bytes) -> bytes:
        """Return what all partitions of one directory have in common."""
        try:
            return self._place(partition).encode()
        except CorruptDataError:
            return b"/" + partition  # no directory begins so

    def groups(self, most: int) -> list[GroupPass]:
        """Return the passes over all buckets, each of at most `most` entries, unless one bucket has more.

        A bucket that was not counted, because its snapshot came later, is of the last.
        """
        numbers: dict[bytes, int | dict[int, int]] = {}
        blocks: list[GroupBlocks | None] = []
        for count, group in enumerate(self._counts.groups(most), 1):
            blocks.append(group.blocks)
            for place in group.partitions:
                if group.buckets is None:
                    numbers[place] = count - 1
                    continue
                buckets = numbers.setdefault(place, {})
                assert isinstance(buckets, dict)
                buckets.update(dict.fromkeys(group.buckets, count - 1))
        passes = blocks or [None]
        last = len(passes) - 1
        return [GroupPass(self, number, last, numbers, own) for number, own in enumerate(passes)]

    def may_have(self, path: str, places: Ints) -> bool:
        """Return whether a manifest has entries of some partitions, whose codes are given, or is unknown."""
        codes = self._manifests.get(path)
        return codes is None or bool(np.isin(codes, places).any())

    def codes_of(self, is_wanted: Callable[[bytes], bool]) -> Ints:
        """Return the codes of the partitions for whose directory the function is true."""
        return np.array([code for place, code in self._codes.items() if is_wanted(place)], np.int32)


@dataclass(slots=True)
class GroupPass:
    """It is the pass over one group of buckets, by what the survey has counted."""

    survey: Survey
    number: int
    last: int
    numbers: dict[bytes, int | dict[int, int]]
    blocks: GroupBlocks | None = None
    """These are the blocks that can have entries of the pass, of the manifests that the survey has read."""
    is_first: bool = False
    has_buckets: bool = True
    _places: Ints = field(init=False)

    def __post_init__(self) -> None:
        self._places = self.survey.codes_of(self._has_place)

    @property
    def request(self) -> EntryRequest:
        def mask(partitions: Sequence[bytes]) -> npt.NDArray[np.bool_]:
            places = (self._has_place(self.survey.place(partition)) for partition in partitions)
            return np.fromiter(places, np.bool_, len(partitions))

        return EntryRequest(partitions=mask, blocks=self.blocks)

    def begin(self, files: Sequence[ManifestFile]) -> None:
        pass

    def without_reading(self, path: str) -> ManifestEntries | None:
        return None if self.survey.may_have(path, self._places) else ManifestEntries.empty()

    def is_unreadable(self, path: str) -> bool:
        return self.survey.is_unreadable(path)

    def take(self, path: str, entries: ManifestEntries | None) -> ManifestEntries:
        if entries is None:
            return ManifestEntries.empty()
        return entries.select(self._mask(entries)).own_copy()  # the rest of the manifest is not kept

    def has(self, partition: bytes, bucket: int) -> bool:
        number = self.numbers.get(self.survey.place(partition), self.last)
        return (number if isinstance(number, int) else number.get(bucket, self.last)) == self.number

    def _has_place(self, place: bytes) -> bool:
        number = self.numbers.get(place, self.last)
        if isinstance(number, int):
            return number == self.number
        return self.number == self.last or self.number in number.values()

    def _mask(self, entries: ManifestEntries) -> npt.NDArray[np.bool_]:
        numbers = [self.numbers.get(self.survey.place(one), self.last) for one in entries.partitions]
        whole = [_DIVIDED if isinstance(number, dict) else number for number in numbers]
        of_entry = np.array(whole, np.int64)[entries.partition]
        for code, number in enumerate(numbers):
            if isinstance(number, dict):
                lanes = np.flatnonzero(entries.partition == code)
                buckets, inverse = np.unique(entries.bucket[lanes], return_inverse=True)
                groups = np.array([number.get(one, self.last) for one in buckets.tolist()], np.int64)
                of_entry[lanes] = groups[inverse]
        mask: npt.NDArray[np.bool_] = of_entry == self.number
        return mask


def _codes_of(entries: ManifestEntries) -> list[int]:
    codes: list[int] = np.unique(entries.partition).tolist()
    return codes
