"""A tally that says which files it was taken of: what is committed is compared with what was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap

from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.digest.digest import Tally

__all__ = ["FileTally", "files_of", "positions_of"]


@dataclass(frozen=True, slots=True)
class FileTally(Tally):
    """`files`: those whose rows were read whole. `positions`: serialised bitmaps of rows, by file name.

    Only count and digest tell tallies apart, and only they add up.
    """

    files: tuple[DataFile, ...] = field(default=(), compare=False)
    positions: Mapping[str, bytes] = field(default_factory=dict, compare=False)


def files_of(tallies: Iterable[Tally]) -> tuple[DataFile, ...]:
    """The files that were read whole, in order."""
    return tuple(file for one in tallies if isinstance(one, FileTally) for file in one.files)


def positions_of(tallies: Iterable[Tally]) -> dict[str, BitMap]:
    """The rows that were read at positions, by file; those of several tallies are joined."""
    found: dict[str, BitMap] = {}
    for one in tallies:
        for name, positions in one.positions.items() if isinstance(one, FileTally) else ():
            found[name] = found.get(name, BitMap()) | BitMap.deserialize(positions)
    return found
