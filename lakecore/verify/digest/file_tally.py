"""A tally that names the files it was taken of: what is committed is compared with what was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.digest.digest import Tally

__all__ = ["FileTally", "files_of", "positions_of"]


@dataclass(frozen=True, slots=True)
class FileTally(Tally):
    """This tally has its files. Only count and digest distinguish tallies, and only they are added."""

    files: tuple[DataFile, ...] = field(default=(), compare=False)
    """The rows of these files were read completely."""
    positions: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    """These are serialised bitmaps of the rows that were read at positions, by file name."""


def files_of(tallies: Iterable[Tally]) -> tuple[DataFile, ...]:
    """Return the files that were read completely, in order."""
    return tuple(file for one in tallies if isinstance(one, FileTally) for file in one.files)


def positions_of(tallies: Iterable[Tally]) -> dict[str, BitMap]:
    """Return the rows that were read at positions, by file; those of several tallies are joined."""
    result: dict[str, BitMap] = {}
    for one in tallies:
        for name, positions in one.positions.items() if isinstance(one, FileTally) else ():
            result[name] = result.get(name, BitMap()) | BitMap.deserialize(positions)
    return result
