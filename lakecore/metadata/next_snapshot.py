"""This module makes the next snapshot of a change without new rows, for chores that rewrite metadata or
roll back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["ManifestList", "next_metadata_only"]

ManifestList = tuple[str, int]
"""This is the name of a manifest list and its size in bytes."""


def next_metadata_only(
    latest: Snapshot, base: ManifestList, delta: ManifestList, kind: CommitKind, now_ms: int, **fields: Any
) -> Snapshot:
    """Return the snapshot that follows `latest` with these manifest lists and without new rows or a
    changelog.

    Everything else stays as it is but for `fields`. Times of snapshots never go back (rule of the format).
    """
    common: dict[str, Any] = {
        "uuid": None,
        "id": latest.id + 1,
        "base_manifest_list": base[0],
        "base_manifest_list_size": base[1],
        "delta_manifest_list": delta[0],
        "delta_manifest_list_size": delta[1],
        "changelog_manifest_list": None,
        "changelog_manifest_list_size": None,
        "changelog_record_count": None,
        "commit_kind": kind,
        "time_millis": max(now_ms, latest.time_millis),
        "delta_record_count": 0,
        "operation": None,
    }
    return replace(latest, **(common | fields))
