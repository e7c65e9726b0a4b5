"""This module checks whether the latest snapshot can be read, before anything is removed: older snapshots may
be all that is left.

Its lists, manifests and index manifest are decoded, whatever their number: some 2-6 us an entry, a group of
manifests (8 MB) in memory at a time. Up to 10,000 data files are looked for by a listing of each of their
directories. Of more, 1,000 are looked at one by one, others at each snapshot: many lost files are found so, a
single one only by `fsck`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from lakecore.errors import CorruptDataError, NotFoundError, UnavailableError
from lakecore.maintain.deletion.candidates import Candidates, ReferencedFiles
from lakecore.maintain.deletion.hashed_names import NO_NAMES, within
from lakecore.maintain.deletion.reachable import Reach, grouped
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.manifest.byte_words import hash_bytes
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.indexes import IndexStore

__all__ = ["check_latest"]

_ALL_UP_TO = 10_000
_SAMPLE = 1_000
_DECODERS = 2


def check_latest(target: Target) -> None:
    """Raise CorruptDataError when the latest snapshot of the branch needs what is damaged or missing.

    Raises UnavailableError when snapshots are removed during the check. A branch without
    snapshots has nothing to check.
    """
    latest = target.snapshots.latest()
    if latest is None:
        return
    try:
        missing = _missing(target, latest)
        problem = f"needs {missing[0]}, which is missing{_more(missing)}" if missing else ""
    except NotFoundError as err:
        problem = f"needs a file that does not exist: {err}"
    if not problem:
        return
    if not target.snapshots.exists(latest.id):
        raise UnavailableError(
            f"{target.name}: snapshot {latest.id} was removed while it was being checked; run "
            "again when no other process removes snapshots"
        )
    raise CorruptDataError(target.paths.snapshot(latest.id), f"the latest snapshot {problem}")


def _missing(target: Target, latest: Snapshot) -> list[str]:
    """Return the files that the snapshot needs and that are missing, of those that are looked up. Raises
    NotFoundError.
    """
    manifests = target.manifests.data_manifests(latest)
    indexes = target.manifests.read_index(latest.index_manifest)
    step = _step(sum(file.num_added_files for file in manifests))
    manifests_to_look = _sampled_files(target, manifests, step, latest.id % step)
    paths = [
        deletion.path
        for deletion in manifests_to_look.planned_deletions(ReferencedFiles(NO_NAMES, frozenset()), "")
    ]
    missing_paths = _missing_paths(target, paths, whole=step == 1)
    store = IndexStore(target.file_io, target.paths, target.schema)
    step = _step(len(indexes))
    places = [store.path(file) for file in indexes[latest.id % step :: step]]
    lost = _missing_paths(target, places, whole=step == 1)
    return [*lost, *_live(target, latest, missing_paths)]


def _step(files: int) -> int:
    """Return n if every n-th file is looked up."""
    return 1 if files <= _ALL_UP_TO else max(1, files // _SAMPLE)


def _sampled_files(target: Target, manifests: Sequence[ManifestFile], step: int, first: int) -> Candidates:
    """Return every `step`-th of the files that the manifests add, from number `first` on. All manifests are
    decoded.
    """

    def sample(numbered: tuple[int, list[ManifestFile]]) -> Candidates:
        start, group = numbered
        entries = target.manifests.read(group)
        added = np.flatnonzero(entries.kind == EntryKind.ADD)
        return Candidates.of(target, entries.select(added[(first - start) % step :: step]))

    groups = list(grouped(manifests))
    counts = (sum(file.num_added_files for file in group) for group in groups)
    starts = accumulate(counts, initial=0)
    return Candidates.joined(in_threads(sample, zip(starts, groups, strict=False), _DECODERS))


def _missing_paths(target: Target, paths: Sequence[str], *, whole: bool) -> list[str]:
    """Return the paths that are missing. `whole` tells that these are all files of a directory, so it is
    listed.
    """
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folders[path.rpartition("/")[0]].append(path)

    def look(folder: str) -> list[str]:
        sought = folders[folder]
        if whole and len(sought) > 1:
            there = {status.name for status in target.file_io.list(folder)}
            sought = [path for path in sought if path.rpartition("/")[2] not in there]
        return [path for path in sought if target.file_io.stat(path) is None]

    return [path for part in in_threads(look, folders) for path in part]


def _live(target: Target, latest: Snapshot, paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths that the snapshot still needs: a later manifest may have removed the file."""
    if not paths:
        return
    hashes = hash_bytes([path.rpartition("/")[2].encode() for path in paths])
    place = target.paths.snapshot(latest.id)
    root = Root(RootKind.SNAPSHOT, target.paths.branch, str(latest.id), place, latest)
    lists = Reach(target)
    needed = within(hashes, lists.data([root], hashes).names).tolist()
    yield from (path for path, live in zip(paths, needed, strict=True) if live)


def _more(paths: Sequence[str]) -> str:
    return "" if len(paths) == 1 else f", and {len(paths) - 1} more files"
