"""This module compares data files with the listings of their buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.manifest.byte_words import hash_bytes
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.verify.fsck.references import bucket_directory

__all__ = ["missing_places"]


def missing_places(target: Target, files: ManifestEntries) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return the positions of files that neither a listing nor a look-up finds, and their paths.

    Cost: a listing a bucket, and a look at each file that it lacks. Raises UnavailableError.
    """
    unlisted = [*_plain_unlisted(target, files), *_special_unlisted(target, files)]
    there = in_threads(lambda one: target.file_io.stat(one[1]) is not None, unlisted)
    missing = [one for one, exists in zip(unlisted, there, strict=True) if not exists]
    return np.array([lane for lane, _ in missing], np.int64), tuple(path for _, path in missing)


def _plain_unlisted(target: Target, files: ManifestEntries) -> Iterator[tuple[int, str]]:
    """Yield the missing files among those that are in their bucket and have no extra files."""
    directory = bucket_directory(target.paths, target.schema)
    plain = np.flatnonzero(files.extra_hash == 0)
    key = files.partition[plain].astype(np.int64) << 32 | (files.bucket[plain].astype(np.int64) & 0xFFFFFFFF)
    order = np.argsort(key, kind="stable")
    groups = np.split(plain[order], np.flatnonzero(np.diff(key[order])) + 1) if len(plain) else []
    folders = [directory(files.partition_of(int(g[0])), int(files.bucket[g[0]])) for g in groups]
    listings = in_threads(lambda folder: _list(target, folder), folders)
    for folder, group, listed in zip(folders, groups, listings, strict=True):
        absent = group[~np.isin(files.name_hash[group], listed)]
        for lane, name in zip(absent.tolist(), files.select(absent).names(), strict=True):
            yield lane, f"{folder}/{name.decode()}"


def _special_unlisted(target: Target, files: ManifestEntries) -> Iterator[tuple[int, str]]:
    """Yield the missing files among those that have extra files, or are elsewhere: each is looked up by its
    own path.
    """
    directory = bucket_directory(target.paths, target.schema)
    special = np.flatnonzero(files.extra_hash != 0)
    by_folder: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for lane, entry in zip(special.tolist(), files.rows(special), strict=True):
        path = target.paths.data_file(directory(entry.partition, entry.bucket), entry.file)
        by_folder[path.rpartition("/")[0]].append((lane, path))
    for folder, group in by_folder.items():
        present = {status.path for status in target.file_io.list(folder)}
        yield from (one for one in group if one[1] not in present)


def _list(target: Target, folder: str) -> npt.NDArray[np.uint64]:
    return hash_bytes([status.name.encode() for status in target.file_io.list(folder)])
