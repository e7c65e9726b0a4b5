"""This module defines a snapshot, which is one committed version of a table, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from lakecore.data_class import dataclass
from lakecore.display import html_table, one_line
from lakecore.errors import CorruptDataError, UnsupportedError, reason
from lakecore.metadata.file_names import checked_name
from lakecore.metadata.json_record import json_object
from lakecore.types.text import timestamp_text

__all__ = ["BATCH_IDENTIFIER", "RESCALED", "CommitKind", "Snapshot"]

BATCH_IDENTIFIER = 9223372036854775807
"""The commit identifier of batch jobs of other writers (Long.MAX_VALUE); lakecore's jobs use unique ones."""

RESCALED = "lakecore.rescaled"
"""The property of an OVERWRITE that gave partitions another number of buckets, and its value: no row is
new.
"""
_VERSION = 3


class CommitKind(Enum):
    """This is the kind of change that a snapshot committed."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"

    @property
    def keeps_rows(self) -> bool:
        """Return whether a commit of this kind leaves all rows of the table as they are."""
        return self in (CommitKind.COMPACT, CommitKind.ANALYZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """This is the file `snapshot/snapshot-<id>`. Fields that a version of the format lacks are None."""

    version: int = _VERSION
    """This is the version of the snapshot's JSON: 1 to 3."""
    uuid: str | None = None
    """This is the identity of the snapshot, whatever its id; None from older writers."""
    id: int
    """This is the number of the snapshot, from 1."""
    schema_id: int
    """This is the schema with which the snapshot was committed."""
    base_manifest_list: str
    """This is the file that lists the manifests of the state before the commit, merged where they were
    small.
    """
    base_manifest_list_size: int | None = None
    """It is in bytes."""
    delta_manifest_list: str
    """This is the file that lists the manifests of what the commit added and removed."""
    delta_manifest_list_size: int | None = None
    """It is in bytes."""
    changelog_manifest_list: str | None = None
    """This is the file that lists the manifests of the changelog; None without one."""
    changelog_manifest_list_size: int | None = None
    """It is in bytes."""
    index_manifest: str | None = None
    """This is the file that lists the indexes and deletion vectors; None without any."""
    commit_user: str
    """It says who committed; one user names one writer or one run of a job."""
    commit_identifier: int
    """This is the number of the commit among those of its user."""
    commit_kind: CommitKind
    """It says what kind of change it was."""
    time_millis: int
    """This is the time of the commit, in milliseconds since the epoch."""
    total_record_count: int | None = None
    """These are the rows of all live files, before merging."""
    delta_record_count: int | None = None
    """These are the rows of added files less those of removed files."""
    changelog_record_count: int | None = None
    """These are the rows of the changelog files."""
    watermark: int | None = None
    """All rows up to this event time have arrived, in milliseconds; None without one."""
    statistics: str | None = None
    """This is the file with statistics of the table; None without any."""
    properties: Mapping[str, str] | None = None
    """This is what the writer stored with the snapshot."""
    next_row_id: int | None = None
    """This is the first row id that is free; None without row tracking."""
    operation: str | None = None
    """This is the statement that committed, such as DELETE; None where the writer does not tell."""

    @classmethod
    def from_json(cls, text: str | bytes, path: str) -> Snapshot:
        """Parse a snapshot (or tag) file. Keys this release does not know are ignored.

        Raises CorruptDataError naming `path`, UnsupportedError for a newer version or kind.
        """
        try:
            raw = json_object(text, exact=True)
            _check_known(raw, path)
            values = {f.name: raw[_key(f.name)] for f in fields(cls) if raw.get(_key(f.name)) is not None}
            values.setdefault("version", 1)
            values["commit_kind"] = CommitKind(raw["commitKind"])
            return _check(cls(**values))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            raise CorruptDataError(path, f"is not a snapshot: {reason(err)}") from err

    @property
    def state(self) -> tuple[str, str]:
        """Return the lists that say which files are live, equal for two files of a snapshot. Other fields may
        differ, because a tag by an earlier release lacks those that the release does not know.
        """
        return self.base_manifest_list, self.delta_manifest_list

    def __repr__(self) -> str:
        """Return the commit and its counts on one line; `to_json` has everything."""
        return one_line("Snapshot", self.id, self._facts())

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("Snapshot", self.id, self._facts())

    def _facts(self) -> dict[str, object]:
        return {
            "kind": self.commit_kind,
            "user": self.commit_user,
            "time": f"{timestamp_text(self.time_millis * 1_000_000)} UTC",
            "rows": self.total_record_count,
            "added": self.delta_record_count,
            "schema": self.schema_id,
            "watermark": self.watermark,
        }

    def to_json(self) -> str:
        """Encode the fields in order; None is left out, as other writers of the format do."""
        pairs = ((_key(f.name), getattr(self, f.name)) for f in fields(self))
        plain = {key: _plain(value) for key, value in pairs if value is not None}
        return json.dumps(plain, indent=2)


def _check_known(raw: Mapping[str, Any], path: str) -> None:
    version, kind = raw.get("version"), raw.get("commitKind")
    if isinstance(version, int) and version > _VERSION:
        raise UnsupportedError(
            f"{path}: the snapshot has version {version}, but this release reads up to {_VERSION}; use a "
            "newer one"
        )
    if isinstance(kind, str) and kind not in {kind_known.value for kind_known in CommitKind}:
        raise UnsupportedError(
            f"{path}: commit kind {kind!r} is unknown to this release; use a newer release"
        )


_TEXT = ("base_manifest_list", "delta_manifest_list", "commit_user")
_OPTIONAL_TEXT = ("changelog_manifest_list", "index_manifest", "statistics", "uuid", "operation")
_FILES = ("base_manifest_list", "delta_manifest_list", *_OPTIONAL_TEXT[:3])
_INTEGERS = ("version", "id", "schema_id", "commit_identifier", "time_millis")
_OPTIONAL_INTEGERS = (
    "base_manifest_list_size", "delta_manifest_list_size", "changelog_manifest_list_size",
    "total_record_count", "delta_record_count", "changelog_record_count", "watermark", "next_row_id",
)  # fmt: skip
_COUNTS = ("id", "schema_id")
_LONG = 1 << 63


def _check(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot after its types were checked: one with a wrong type must fail here, not deep in a
    plan.
    """
    for name in _TEXT:
        if not isinstance(getattr(snapshot, name), str):
            raise TypeError(f"{name} is not a string")
    for name in _OPTIONAL_TEXT:
        if not isinstance(getattr(snapshot, name), str | None):
            raise TypeError(f"{name} is not a string")
    for name in _FILES:
        value = getattr(snapshot, name)
        if value is not None:
            checked_name(value, _key(name))
    for name in (*_INTEGERS, *_OPTIONAL_INTEGERS):
        value = getattr(snapshot, name)
        if value is not None or name in _INTEGERS:
            _check_integer(name, value)
    _check_properties(snapshot.properties)
    return snapshot


def _check_integer(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is not an integer")
    if not (0 if name in _COUNTS else -_LONG) <= value < _LONG:
        raise ValueError(f"{name} is out of range")


def _check_properties(properties: Any) -> None:
    if properties is not None and not isinstance(properties, Mapping):
        raise TypeError("properties is not an object")
    if any(not isinstance(value, str) for value in (properties or {}).values()):
        raise TypeError("a property is not a string")


def _plain(value: Any) -> Any:
    if isinstance(value, CommitKind):
        return value.value
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _key(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
