"""This module puts a catalog's list of partitions, or of tags, right by the files of all branches.

A partition is listed while some branch has files of it; with option `metastore.tag-to-partition` the list has
the tags instead. The action `done-partition` lists a partition a second time with `.done` behind its last
text: the second entry lasts as long as the first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lakecore.errors import LakeError, explain
from lakecore.maintain.target import Target
from lakecore.metadata.listed_partitions import TAG_FIELD, has_listed_partitions, partition_texts, spec_texts
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.scan.scanner import Scanner
from lakecore.store.partition_list import PartitionList, PartitionTexts
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["DONE", "list_tags", "remove_dropped", "repair_list"]

logger = logging.getLogger(__name__)

DONE = ".done"


def list_tags(target: Target) -> tuple[str, ...]:
    """Put the list of tags right after one was made or removed. What fails is logged and returned as a note.

    It costs nothing without option metastore.tag-to-partition, else a call for the list and a listing of the
    tags of each branch.
    """
    if target.stores.partition_list is None or not TAG_FIELD.read(target.schema.options):
        return ()
    return _try_change(target, "tags", lambda: repair_list(target))


def remove_dropped(target: Target, dropped: Sequence[Mapping[str, Any]] | None) -> tuple[str, ...]:
    """Remove partitions from the list whose rows were dropped; they are named by internal values, of some
    columns or all. None names all partitions. What fails is logged and returned as a note.
    """
    if target.stores.partition_list is None or not has_listed_partitions(target.schema):
        return ()
    return _try_change(target, "partitions", lambda: repair_list(target, dropped))


def _try_change(target: Target, what: str, change: Callable[[], None]) -> tuple[str, ...]:
    try:
        change()
    except LakeError as err:
        note = (
            f"the {what} were changed, but not their list in the catalog ({explain(err)}); run "
            f"`lakecore repair {target.name.partition('$')[0]}`"
        )
        logger.warning("%s: %s", target.name, note)
        return (note,)
    return ()


def repair_list(
    target: Target, only: Sequence[Mapping[str, Any]] | None = None, *, removes: bool = True
) -> None:
    """Remove from the list what no branch has, unless `removes` is False, then add what some branch has and
    the list lacks. It does nothing where the catalog keeps no list.

    `only` names partitions to look at by internal values; None means all. The files are read again after a
    removal, so that a partition which another writer filled meanwhile is listed again.
    """
    partition_list = target.stores.partition_list
    if partition_list is None:
        return
    before, present = partition_list.partitions(), _present(target, only)
    keys = target.schema.partition_keys
    texts = None if only is None else spec_texts(only, target.schema)
    missing = [one for one in before if _base(one, present) not in present]
    removable = [one for one in missing if removes and _agrees(one, keys, texts)]
    _remove(partition_list, removable, target)
    if removable:
        present = _present(target, only)
    partition_list.add(sorted(present.difference(before) | present.intersection(removable)))


def _remove(partition_list: PartitionList, removable: Sequence[PartitionTexts], target: Target) -> None:
    if removable:
        logger.info(
            "%s: %d partitions without files are removed from the catalog's list", target.name, len(removable)
        )
        partition_list.remove(removable)


def _base(partition: PartitionTexts, present: set[PartitionTexts]) -> PartitionTexts:
    """Return the partition whose end an entry with `.done` stands for; any other one is itself."""
    if partition in present or not partition or not partition[-1].endswith(DONE):
        return partition
    return (*partition[:-1], partition[-1].removesuffix(DONE))


def _agrees(
    partition: PartitionTexts, keys: Sequence[str], texts: Sequence[Mapping[str, str]] | None
) -> bool:
    """Return whether one of `texts` names the partition; None names all."""
    if texts is None:
        return True
    own = dict(zip(keys, _base(partition, set()), strict=True)).items()
    exact = dict(zip(keys, partition, strict=True)).items()
    return any(text.items() <= own or text.items() <= exact for text in texts)


def _present(target: Target, only: Sequence[Mapping[str, Any]] | None) -> set[PartitionTexts]:
    """Return what the list is to have: all tags, or all partitions with files, of all branches."""
    branches = [target.at_branch(name) for name in (MAIN_BRANCH, *target.branches.list())]
    if TAG_FIELD.read(target.schema.options):
        return {(name,) for branch in branches for name in branch.tags.list()}
    return {texts for branch in branches for texts in _with_files(branch, only)}


def _with_files(branch: Target, only: Sequence[Mapping[str, Any]] | None) -> set[PartitionTexts]:
    """Return the partitions with files in the latest snapshot of a branch. It reads the manifests."""
    latest = branch.snapshots.latest()
    if latest is None:
        return set()
    chosen = EVERYTHING if only is None else ScanFilter(partitions=tuple(only))
    entries = Scanner(branch.name, branch.stores).live_entries(latest, chosen)
    used = [entries.partitions[code] for code in np.unique(entries.partition).tolist()]
    return {tuple(one.values()) for one in partition_texts(used, branch.schema)}
