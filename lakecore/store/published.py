"""This module finds the files that published snapshots name. They are never left over, whatever a run
believes of itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.metadata.snapshot import Snapshot
from lakecore.store.manifests import ManifestStore

__all__ = ["names_in"]


def names_in(manifests: ManifestStore, snapshots: Iterable[Snapshot]) -> frozenset[str]:
    """Return the names of all data and changelog files, and of the files beside them, that these snapshots
    added or removed. It costs a read of the delta and changelog manifests of each.
    """
    return frozenset(
        name
        for snapshot in snapshots
        for listed in (snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
        if listed is not None
        for file in manifests.read(manifests.read_list(listed)).files()
        for name in file.all_names
    )
