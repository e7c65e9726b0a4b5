"""ADD and DELETE cancel: this module finds the files that are live after a list of entries. Pure,
vectorised, exact.

Rule of the format: a file is added at most once per identity (partition, bucket, level, name, extra files,
embedded index, external path), so an identity with a DELETE is dead and one without is live.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.metadata.manifest.byte_words import hash_bytes, mix
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries

__all__ = [
    "duplicate_adds",
    "duplicate_problem",
    "entries_only_in",
    "identity_groups",
    "identity_hash",
    "live_and_deletes",
    "live_entries",
    "live_places",
    "net_entries",
    "remaining_deletes",
    "with_kind",
]

Ints = npt.NDArray[Any]


def live_entries(
    entries: ManifestEntries, *, strict: bool = True, where: str = "manifests"
) -> ManifestEntries:
    """Return the ADD entries that no DELETE cancels, in order. DELETEs without an ADD are dropped.

    `strict`: raise CorruptDataError naming the file if one identity is added twice; else keep the first.
    It costs a sort of 64-bit hashes (0.15 s a million).
    """
    keep = _outcome(entries, strict, where).add
    return entries.select(keep)


def live_places(entries: ManifestEntries) -> Ints:
    """Return the places of the ADD entries that no DELETE cancels, in order; of one that is added twice the
    first.
    """
    return np.flatnonzero(_outcome(entries, False, "").add)


def remaining_deletes(entries: ManifestEntries) -> ManifestEntries:
    """Return the DELETE entries whose ADD is not among `entries`, in order."""
    return entries.select(_outcome(entries, False, "").delete)


def live_and_deletes(entries: ManifestEntries) -> tuple[ManifestEntries, ManifestEntries]:
    """Return `live_entries`, not strict, and `remaining_deletes` for the cost of one."""
    outcome = _outcome(entries, False, "")
    return entries.select(outcome.add), entries.select(outcome.delete)


def duplicate_adds(entries: ManifestEntries) -> ManifestEntries:
    """Return the files that are added more than once, each as its first ADD, in order. It costs what
    `live_entries` does.
    """
    lanes, group = identity_groups(entries)
    is_add = entries.kind[lanes] == EntryKind.ADD
    _, first, counts = np.unique(group[is_add], return_index=True, return_counts=True)
    return entries.select(np.sort(lanes[is_add][first[counts > 1]]))


def duplicate_problem(entry: ManifestEntry) -> str:
    """Return what is wrong with manifests that add a file twice."""
    return f"file {entry.file.file_name} of bucket {entry.bucket}, level {entry.file.level} is added twice"


def with_kind(entries: ManifestEntries, kind: EntryKind) -> ManifestEntries:
    """Return the same files, all added or all deleted."""
    return replace(entries, kind=np.full(len(entries), kind, np.int8))


def entries_only_in(entries: ManifestEntries, present: ManifestEntries) -> ManifestEntries:
    """Return the files of `entries` that `present` lacks, as ADDs; all entries of both must be live."""
    lone = remaining_deletes(ManifestEntries.concat([present, with_kind(entries, EntryKind.DELETE)]))
    return with_kind(lone, EntryKind.ADD)


def net_entries(entries: ManifestEntries, *, where: str = "manifests") -> ManifestEntries:
    """Return what remains after pairs cancel, in order: live ADDs, and DELETEs whose ADD is elsewhere."""
    outcome = _outcome(entries, True, where)
    return entries.select(outcome.add | outcome.delete)


@dataclass(frozen=True, slots=True)
class _Outcome:
    add: Ints
    delete: Ints


def identity_hash(entries: ManifestEntries) -> Ints:
    """Return a 64-bit hash over the identity of each entry. Equal identities have equal hashes, also of other
    manifests.
    """
    state = mix(entries.name_hash, hash_bytes(entries.partitions)[entries.partition])
    place = (entries.level.astype(np.uint64) << np.uint64(32)) | (
        entries.bucket.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    )
    return mix(mix(state, place), entries.extra_hash)


def identity_groups(entries: ManifestEntries) -> tuple[Ints, Ints]:
    """Return the lanes of the entries whose identity another entry may have, and the number of the group of
    each: lanes of one group have one identity, and come in their order. It costs a sort of hashes.
    """
    lanes, group = _candidates(identity_hash(entries))
    return (lanes, _split_collisions(entries, lanes, group)) if len(lanes) else (lanes, group)


def _outcome(entries: ManifestEntries, strict: bool, where: str) -> _Outcome:
    adds = entries.kind == EntryKind.ADD
    lone_add, lone_delete = adds.copy(), ~adds
    lanes, group = identity_groups(entries)
    if not len(lanes):
        return _Outcome(lone_add, lone_delete)
    count = int(group.max()) + 1
    added = np.bincount(group, weights=adds[lanes], minlength=count)
    if strict and (added > 1).any():
        _report_duplicate(entries, lanes, group, int(np.flatnonzero(added > 1)[0]), where)
    deleted = np.bincount(group, weights=~adds[lanes], minlength=count)
    first = np.zeros(len(lanes), bool)
    first[np.unique(group * 2 + adds[lanes], return_index=True)[1]] = True
    lone_add[lanes] = adds[lanes] & (deleted[group] == 0) & first
    lone_delete[lanes] = ~adds[lanes] & (added[group] == 0) & first
    return _Outcome(lone_add, lone_delete)


def _candidates(hashes: Ints) -> tuple[Ints, Ints]:
    """Return the lanes whose hash occurs more than once, by group and then in order, and the group of
    each.
    """
    order = np.argsort(hashes)
    ranked = hashes[order]
    same = ranked[1:] == ranked[:-1]
    shared = np.zeros(len(hashes), np.bool_)
    shared[1:] |= same
    shared[:-1] |= same
    places = np.flatnonzero(shared)
    lanes = order[places]
    starts = np.ones(len(places), np.bool_)
    starts[1:] = ranked[places[1:]] != ranked[places[:-1]]
    group = np.cumsum(starts) - 1
    within = np.lexsort((lanes, group))
    return lanes[within], group[within]


def _split_collisions(entries: ManifestEntries, lanes: Ints, group: Ints) -> Ints:
    """Return groups of truly equal identities: each lane is compared with its predecessor, and regrouped
    where one differs.

    `lanes` come in order of group; equal hashes of different identities are possible and must not cancel.
    """
    part = entries.select(lanes)
    later = np.flatnonzero(group[1:] == group[:-1]) + 1
    equal = _same_identity(part, later - 1, later)
    if equal.all():
        return group
    bad = np.isin(group, group[later[~equal]])
    identities: dict[Any, int] = {}
    out = group.copy()
    rows = np.flatnonzero(bad)
    base = int(group.max()) + 1
    for lane, entry in zip(rows.tolist(), part.rows(rows), strict=True):
        out[lane] = base + identities.setdefault(entry.identity, len(identities))
    return np.unique(out, return_inverse=True)[1]


def _same_identity(part: ManifestEntries, left: Ints, right: Ints) -> Ints:
    equal = np.ones(len(left), bool)
    for column in (part.partition, part.bucket, part.level, part.extra_hash):
        equal &= column[left] == column[right]
    equal &= part.name_words().same(left, right)
    extras = np.flatnonzero(equal & (part.extra_hash[left] != 0))
    if len(extras):
        a, b = part.rows(left[extras]), part.rows(right[extras])
        equal[extras] = [x.identity == y.identity for x, y in zip(a, b, strict=True)]
    return equal


def _report_duplicate(entries: ManifestEntries, lanes: Ints, group: Ints, bad: int, where: str) -> None:
    entry = entries.row(int(lanes[np.flatnonzero(group == bad)[0]]))
    raise CorruptDataError(where, duplicate_problem(entry))
