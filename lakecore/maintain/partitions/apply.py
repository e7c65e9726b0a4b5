"""Looks at the partitions of a table, and marks some as done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.maintain.partitions.plan import AgedPartition, ExpireStrategy
from lakecore.maintain.target import Target
from lakecore.metadata.entries import ManifestEntries
from lakecore.metadata.options import TableOptions
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path, partition_text
from lakecore.types.datatypes import AtomicType, TypeRoot
from lakecore.types.text import value_text

__all__ = ["aged", "described", "mark_done"]

_NUMBERED = (TypeRoot.DATE, TypeRoot.TIME)
_SUCCESS_FILE = "success-file"


def aged(
    target: Target, entries: ManifestEntries, strategy: ExpireStrategy, offset_ms: int
) -> list[AgedPartition]:
    """The partitions that have files. `offset_ms`: of the writers' wall clock to UTC.

    By update time it costs the details of every file (some 30 us each), else a look at each partition.
    """
    kind = target.schema.partition_type
    youngest = np.zeros(len(entries.partitions), np.int64)
    if strategy is ExpireStrategy.UPDATE_TIME:
        times = np.array([file.creation_time or 0 for file in entries.files()], np.int64)
        np.maximum.at(youngest, entries.partition, times)
    out = []
    for code in np.unique(entries.partition).tolist():
        row = decode_row(entries.partitions[code], kind, target.paths.table_path)
        texts = tuple(_text(value, field.type) for value, field in zip(row, kind.fields, strict=True))
        values = dict(zip(kind.names, row, strict=True))
        out.append(AgedPartition(values=values, texts=texts, updated_ms=int(youngest[code]) - offset_ms))
    return out


def _text(value: Any, kind: Any) -> str | None:
    """Rule of the format: as the value is held, so a DATE is a number of days."""
    if value is None:
        return None
    if isinstance(kind, AtomicType) and kind.root in _NUMBERED:
        return str(value)
    return value_text(value, kind)


def described(target: Target, values: Mapping[str, Any]) -> str:
    """`dt=2024-01-01,hh=2`."""
    kind = target.schema.partition_type
    return partition_text([values[name] for name in kind.names], kind)


def mark_done(target: Target, partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write the marks; their paths. Raises UnsupportedError for actions that need a catalog or a service."""
    actions = target.schema.options.get("partition.mark-done-action", _SUCCESS_FILE).split(",")
    others = [action.strip() for action in actions if action.strip() != _SUCCESS_FILE]
    if others:
        raise UnsupportedError(
            f"table {target.name}: option partition.mark-done-action={','.join(actions)}: this release "
            "marks by "
            f"{_SUCCESS_FILE} only; use another engine, or change the option"
        )
    options = TableOptions.from_schema(target.schema)
    kind = target.schema.partition_type
    written = []
    for values in partitions:
        row = [values[name] for name in kind.names]
        below = partition_path(row, kind, options.partition_default_name, options.partition_legacy_name)
        path = f"{target.paths.table_path}/{below}/_SUCCESS"
        target.file_io.overwrite(path, _mark(target, path))
        written.append(path)
    return written


def _mark(target: Target, path: str) -> bytes:
    now = target.clock.now_ms()
    try:
        created = int(json.loads(target.file_io.read(path))["creationTime"])
    except (NotFoundError, ValueError, KeyError, TypeError):
        created = now
    return json.dumps({"creationTime": created, "modificationTime": now}).encode()
