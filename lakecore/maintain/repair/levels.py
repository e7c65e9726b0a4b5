"""Repair of levels whose files overlap: newer ones become files of level 0, where they may, and are merged.

Readers take a level above 0 for one sorted run, and show a key twice that two of its files have. On level 0
the sequence numbers of its rows decide, as ever. Only where that is certain to be right: with merge engine
deduplicate (two files that hold the same rows would be added up by others), without deletion vectors (level 0
would not be read), and where compactions make no changelog (it would tell the rows again).

Files are copied: the same file must not come back to a level on which it has been, since manifests are netted
by name and level.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lakecore.maintain.repair.context import Action, ActionResult, Parameters, RepairContext
from lakecore.maintain.repair.copies import copy_files, replace_with_copies
from lakecore.maintain.repair.plan import ActionPreview
from lakecore.maintain.target import Target
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile, ManifestEntry
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.options import ChangelogProducer, MergeEngine, TableOptions
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_text

__all__ = ["LEVELS"]

_SAFE_CHANGELOGS = (ChangelogProducer.NONE, ChangelogProducer.INPUT)


def _may(target: Target) -> bool:
    options = TableOptions.from_schema(target.schema)
    return (
        bool(target.schema.primary_keys)
        and options.merge_engine is MergeEngine.DEDUPLICATE
        and not options.deletion_vectors
        and options.changelog_producer in _SAFE_CHANGELOGS
    )


def _find(target: Target) -> list[ManifestEntry]:
    """Return the files of the latest snapshot to be moved to a lower level. The cost is that of decoding two
    keys per file.
    """
    latest = target.snapshots.latest()
    if latest is None or not _may(target):
        return []
    files = live_entries(target.manifests.read(target.manifests.data_manifests(latest)))
    levels: dict[tuple[bytes, int, int], list[ManifestEntry]] = defaultdict(list)
    for entry in files.select((files.level > 0) & (files.bucket >= 0)).rows():
        levels[entry.partition, entry.bucket, entry.file.level].append(entry)
    key = key_order(target.schema.key_type)
    return [entry for group in levels.values() for entry in _overlapping(group, key)]


def _overlapping(group: Sequence[ManifestEntry], key: Any) -> Iterator[ManifestEntry]:
    """Yield the files of one level that overlap older ones which stay."""
    groups: list[tuple[Any, Any]] = []
    """Key ranges without overlap, in order."""
    for entry in sorted(group, key=lambda one: (one.file.max_sequence_number, one.file.file_name)):
        low, high = key(entry.file.min_key), key(entry.file.max_key)
        at = bisect(groups, low, key=lambda one: one[0])
        if (at and groups[at - 1][1] >= low) or (at < len(groups) and groups[at][0] <= high):
            yield entry
        else:
            groups.insert(at, (low, high))


def _look(context: RepairContext, branch: str, _: Parameters) -> ActionPreview | None:
    target = context.at(branch)
    problems, latest = _find(target), target.snapshots.latest_id()
    if not problems or latest is None:
        return None
    return ActionPreview(
        why=f"snapshot {latest} has files that overlap others of their level, so keys in both are read twice",
        changes=tuple(sorted(_line(target, entry) for entry in problems)),
        paths=frozenset({target.paths.snapshot(latest)}),
    )


def _line(target: Target, entry: ManifestEntry) -> str:
    partition_type = target.schema.partition_type
    name = partition_text(
        decode_row(entry.partition, partition_type, target.paths.table_path), partition_type
    )
    place = f"{name + ' ' if name else ''}bucket {entry.bucket}"
    return f"{place}: {entry.file.file_name} is moved from level {entry.file.level} to level 0"


def _lower(context: RepairContext, branch: str, _: Parameters, paths: frozenset[str]) -> ActionResult:
    """Move the files to a lower level in a COMPACT. Raises CommitConflictError when others replaced one of
    the files meanwhile.
    """
    target = context.at(branch)
    chosen = (entry for entry in _find(target) if _line(target, entry) in paths)
    return replace_with_copies(context, target, chosen, partial(_copy, target))


def _copy(target: Target, folder: str, file: DataFile, copy: DataFile) -> DataFile:
    copy_files(target, folder, list(zip(file.all_names, copy.all_names, strict=True)))
    return replace(copy, level=0)


LEVELS = Action(look=_look, do=_lower)
