"""This module makes a snapshot of a tag: for a rollback to a tag, and for a branch from one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakecore.maintain.target import Target
from lakecore.metadata.tag import TAG_KEYS

__all__ = ["snapshot_of_tag"]

_CHANGELOG_KEYS = ("changelogManifestList", "changelogManifestListSize", "changelogRecordCount")


def snapshot_of_tag(target: Target, raw: Mapping[str, Any]) -> bytes:
    """Return the snapshot file for the fields of a tag file.

    It lacks the changelog if that was deleted when the tagged snapshot expired: readers would look for it.
    It costs one look at storage.
    """
    changelog = raw.get("changelogManifestList")
    lost = changelog is not None and target.file_io.stat(target.paths.manifest(changelog)) is None
    dropped = (*TAG_KEYS, *(_CHANGELOG_KEYS if lost else ()))
    return json.dumps({key: value for key, value in raw.items() if key not in dropped}, indent=2).encode()
