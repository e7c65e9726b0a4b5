"""This module encodes what a writer prepared for a commit as bytes, which travel to the process that commits.

The bytes are JSON with a version; they are never a pickle, so that reading them runs no code of whoever wrote
them. Bytes of rows are base64. A version or a field that is not known is refused. A checksum recognises bytes
that were damaged on their way; it is no signature. So names and numbers that a manifest cannot hold are
refused, too: a commit of them would make the table unreadable.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.file_names import checked_location, checked_name

__all__ = ["PreparedCommit", "decode_commit", "encode_commit"]

_VERSION = 5
_EARLIER = (3, 4)
"""These versions have no checksum, and 3 has no field `assigned`."""
_WIDE: int = 1 << 63
_NARROW: int = 1 << 31
_NARROW_FIELDS = frozenset({"bucket", "total_buckets", "level"})
"""Manifests have these numbers as 32 bits, and the others as 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommit:
    """It holds what one writer made, and the state that its rows were placed by."""

    table: str
    """This is the path of the table."""
    user: str
    """This is the user of the commit."""
    identifier: int
    """This is the number of the commit among those of the user."""
    messages: tuple[CommitMessage, ...]
    """There is one message for each bucket that got rows."""
    placed: bool = False
    """Rows were placed by a state that must not change before the commit."""
    read_snapshot: int | None = None
    """The state is that of this snapshot; None means an empty table."""
    read_time: int | None = None
    """That snapshot was committed at this time, in milliseconds."""
    prepared_after: int = 0
    """This snapshot was there when the writer ended: the commit can only be a later one. 0 if none was."""
    event_time: int | None = None
    """This is the latest event time of the rows, in milliseconds; None without a column that has it."""
    whole_table: bool = False
    """See `Preconditions`."""
    same_counts: bool = False
    """See `Preconditions`."""
    hash_indexes: Mapping[bytes, tuple[str, ...]] | None = field(default=None)
    """See `Preconditions`."""
    assigned: bool = False
    """The dynamic buckets of the rows were assigned by other processes, so that a bucket has one writer."""


def encode_commit(prepared: PreparedCommit) -> bytes:
    """Return the bytes of a prepared commit."""
    text = _text(_encode(prepared))
    return f'{{"version":{_VERSION},"sha256":"{_checksum(text)}","prepared":{text}}}'.encode()


def decode_commit(data: bytes) -> PreparedCommit:
    """Decode what `encode_commit` wrote. Raises InvalidInputError for other bytes, UnsupportedError for a
    version that is not known.
    """
    try:
        raw = json.loads(data)
        version = raw["version"]
        if version == _VERSION and raw["sha256"] != _checksum(_text(raw["prepared"])):
            raise ValueError("they have another checksum than they had when they were written")
        if version in _EARLIER:
            version = _VERSION
            raw["prepared"].setdefault("assigned", False)
        if version == _VERSION:
            commit: PreparedCommit = _decode(PreparedCommit, raw["prepared"])
            return commit
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as err:
        raise InvalidInputError(f"these bytes are no prepared commit: {err}") from err
    raise UnsupportedError(
        f"a prepared commit has version {version!r}, and this release knows {_VERSION}; use the same release "
        "of lakecore to write and to commit"
    )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _encode(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, tuple):
        return [_encode(one) for one in value]
    if isinstance(value, Mapping):
        return [[_encode(key), _encode(one)] for key, one in value.items()]
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, raw: Any) -> Any:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        inner = [one for one in get_args(kind) if one is not NoneType]
        return None if raw is None else _decode(inner[0], raw)
    if origin is tuple:
        return tuple(_decode(get_args(kind)[0], one) for one in _check(list, raw))
    if origin is Mapping:
        key, value = get_args(kind)
        return {_decode(key, left): _decode(value, right) for left, right in _check(list, raw)}
    if is_dataclass(kind):
        return _decode_record(kind, _check(dict, raw))
    if kind is bytes:
        return base64.b64decode(_check(str, raw), validate=True)
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return kind(_check(int, raw))
    return _check(kind, raw)


def _decode_record(kind: Any, raw: dict[str, Any]) -> Any:
    if set(raw) != {one.name for one in fields(kind)}:
        raise ValueError(f"{kind.__name__} does not have the fields {', '.join(raw)}")
    hints = _hints(kind)
    values = {name: _decode(hints[name], one) for name, one in raw.items()}
    for name, value in values.items():
        _check_value(name, value)
    return kind(**values)


def _check_value(name: str, value: Any) -> None:
    """Raise ValueError for what a manifest cannot hold, and for a name that leads elsewhere."""
    if name == "file_name":
        checked_name(value, name)
    for one in value if name == "extra_files" else ():
        checked_name(one, name)
    if name == "external_path" and value is not None:
        checked_location(value, name)
    if name in _NARROW_FIELDS and not -_NARROW <= value < _NARROW:
        raise ValueError(f"{name}={value} has more than 32 bits")


def _check(kind: type, raw: Any) -> Any:
    if type(raw) is not kind:
        raise ValueError(f"{raw!r} is not of type {kind.__name__}")
    if isinstance(raw, int) and not -_WIDE <= raw < _WIDE:
        raise ValueError(f"{raw} has more than 64 bits")
    return raw
