"""This module holds candidates for deletion, with what it takes to delete them, and without the manifests
that named them.

Memory: some 130 bytes a file, whatever its manifest entry says; more for files with extra files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.maintain.deletion.hashed_names import Hashes, name_set, within
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.verify.fsck.references import bucket_directory

__all__ = ["Candidates", "PlannedDeletion", "ReferencedFiles"]


@dataclass(frozen=True, slots=True)
class PlannedDeletion:
    """No root needs this file. `size` is in bytes, 0 where it is not recorded. `why` is text for users."""

    path: str
    size: int
    why: str
    state: tuple[str, str] | None = field(default=None, compare=False)
    """This is the state of the snapshot in a root file, by which another one of this name is recognised. It
    is not in the ledger: a resumed run removes no roots.
    """


@dataclass(frozen=True, slots=True)
class ReferencedFiles:
    """These are the candidates that some root references: data and changelog files as hashes of their
    names, and extra files by name.
    """

    names: Hashes
    extras: frozenset[str]

    def joined(self, other: ReferencedFiles) -> ReferencedFiles:
        return ReferencedFiles(name_set([self.names, other.names]), self.extras | other.extras)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    """Data files without extra files, stored in columns. `folder` has codes into `folders`."""

    hashes: Hashes
    names: tuple[bytes, ...]
    sizes: npt.NDArray[np.int64]
    folder: npt.NDArray[np.int64]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Special:
    """A data file that has extra files (`extras` are names and paths), or is in another root."""

    name_hash: int
    path: str
    size: int
    extras: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """These are the files that manifest entries name, perhaps several times."""

    plain: tuple[_Plain, ...] = ()
    special: tuple[_Special, ...] = ()

    @classmethod
    def of(cls, target: Target, entries: ManifestEntries) -> Candidates:
        """Collect the candidates of entries. Cost: 1 us an entry; some 50 us with extra files."""
        directory = bucket_directory(target.paths, target.schema)
        plain = entries.select(entries.extra_hash == 0)
        places = plain.partition.astype(np.int64) << 32 | plain.bucket.astype(np.uint32)
        _, first, codes = np.unique(places, return_index=True, return_inverse=True)
        folders = [directory(plain.partition_of(i), int(plain.bucket[i])) for i in first.tolist()]
        columns = _Plain(
            hashes=plain.name_hash,
            names=tuple(plain.names()),
            sizes=plain.file_size,
            folder=codes,
            folders=tuple(folders),
        )
        lanes = np.flatnonzero(entries.extra_hash != 0)
        special = []
        for name_hash, entry in zip(entries.name_hash[lanes].tolist(), entries.rows(lanes), strict=True):
            place, file = directory(entry.partition, entry.bucket), entry.file
            extras = zip(file.extra_files, target.paths.extra_files(place, file), strict=True)
            path = target.paths.data_file(place, file)
            special.append(
                _Special(name_hash=name_hash, path=path, size=file.file_size, extras=tuple(extras))
            )
        return cls((columns,) if len(plain) else (), tuple(special))

    @classmethod
    def joined(cls, parts: Iterable[Candidates]) -> Candidates:
        """Join the candidates of all parts."""
        candidates = tuple(parts)
        plain = tuple(one for part in candidates for one in part.plain)
        return cls(plain, tuple(one for part in candidates for one in part.special))

    def hashes(self) -> Hashes:
        """Return the hashes of the names of the data files, as a set."""
        special = np.array([one.name_hash for one in self.special], np.uint64)
        return name_set([*(part.hashes for part in self.plain), special])

    def sizes(self) -> Iterator[tuple[Hashes, npt.NDArray[np.int64]]]:
        """Yield the hashes of the names of data files, with their sizes, in parts."""
        yield from ((part.hashes, part.sizes) for part in self.plain)
        special = [(one.name_hash, one.size) for one in self.special]
        yield (
            np.array([name for name, _ in special], np.uint64),
            np.array([size for _, size in special], np.int64),
        )

    def planned_deletions(self, referenced: ReferencedFiles, why: str) -> list[PlannedDeletion]:
        """Return the data and extra files that no root references; each path once."""
        out: dict[str, PlannedDeletion] = {}
        for path, size in self._free(referenced):
            if path not in out:
                out[path] = PlannedDeletion(path, size, why)
        return list(out.values())

    def _free(self, referenced: ReferencedFiles) -> Iterator[tuple[str, int]]:
        for part in self.plain:
            free = np.flatnonzero(~within(part.hashes, referenced.names)).tolist()
            for lane in free:
                folder = part.folders[part.folder[lane]]
                yield f"{folder}/{part.names[lane].decode()}", int(part.sizes[lane])
        is_referenced = within(
            np.array([one.name_hash for one in self.special], np.uint64), referenced.names
        ).tolist()
        for one, needed in zip(self.special, is_referenced, strict=True):
            if not needed:
                yield one.path, one.size
            yield from ((path, 0) for name, path in one.extras if name not in referenced.extras)
