"""This module has the rules for options that determine where reads begin. It is pure."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.metadata.schema import TableSchema

__all__ = ["check_scan_rules"]


@dataclass(frozen=True, slots=True)
class _Mode:
    """A scan.mode: exactly one of `needed` must be set, and none of `excluded`."""

    needed: tuple[str, ...]
    excluded: tuple[str, ...]


_SNAPSHOT, _TAG, _MARK = "scan.snapshot-id", "scan.tag-name", "scan.watermark"
_MILLIS, _TEXT, _CREATED = "scan.timestamp-millis", "scan.timestamp", "scan.file-creation-time-millis"
_BETWEEN = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
_MODES = {
    "from-timestamp": _Mode((_MILLIS, _TEXT), (_SNAPSHOT, _CREATED, _TAG, *_BETWEEN)),
    "from-snapshot": _Mode((_SNAPSHOT, _TAG, _MARK), (_MILLIS, _TEXT, _CREATED, *_BETWEEN)),
    "incremental": _Mode(_BETWEEN, (_SNAPSHOT, _MILLIS, _CREATED, _TEXT, _TAG)),
    "from-snapshot-full": _Mode((_SNAPSHOT,), (_MILLIS, _TEXT, _CREATED, _TAG, *_BETWEEN)),
    "from-file-creation-time": _Mode((_CREATED,), (_SNAPSHOT, _MILLIS, _TAG, *_BETWEEN)),
}
_PLAIN = ("default", "full", "latest-full", "latest", "compacted-full", "from-creation-timestamp")
_IMPLIED = (
    ((_MILLIS, _TEXT), "from-timestamp"),
    ((_SNAPSHOT, _TAG, _MARK, "scan.version"), "from-snapshot"),
    ((_CREATED,), "from-file-creation-time"),
    (("scan.creation-time-millis",), "from-creation-timestamp"),
    (_BETWEEN[:2], "incremental"),
)
_NOT_PLAIN = (_MILLIS, _CREATED, _TEXT, _SNAPSHOT, _TAG, *_BETWEEN)
_BRANCHES = ("scan.fallback-branch", "scan.primary-branch")


def check_scan_rules(schema: TableSchema) -> None:
    """Raise InvalidOptionError naming the options that exclude each other, or the one that is missing."""
    raw = schema.options
    if all(raw.get(key, "").strip() for key in _BRANCHES):
        raise InvalidOptionError(f"options {' and '.join(_BRANCHES)} exclude each other; unset one of them")
    name = _mode(raw)
    mode = _MODES.get(name, _Mode((), _NOT_PLAIN))
    present = [key for key in mode.needed if key in raw]
    if mode.needed and len(present) != 1:
        raise InvalidOptionError(f"option scan.mode={name}: set exactly one of {', '.join(mode.needed)}")
    for key in mode.excluded:
        if key in raw:
            raise InvalidOptionError(
                f"option {key}={raw[key]}: it cannot be used with scan.mode={name}; unset one of them"
            )


def _mode(raw: Mapping[str, str]) -> str:
    name = raw.get("scan.mode", "default").strip().lower()
    if name not in _MODES and name not in _PLAIN:
        raise InvalidOptionError(f"option scan.mode={name}: must be one of {', '.join((*_PLAIN, *_MODES))}")
    if name == "default":
        return next((mode for keys, mode in _IMPLIED if any(key in raw for key in keys)), "latest-full")
    return name
