"""This module has the record of a table that was dropped: `drop.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, reason
from lakecore.maintain.deletion.runs import LATEST_MS, quoted_table
from lakecore.metadata.file_names import checked_name
from lakecore.metadata.json_record import json_object

__all__ = ["DropState", "DroppedTable"]


class DropState(Enum):
    """It says how far the drop, or what came after it, has got."""

    MOVING = "moving"
    """The files are on their way; a repeated drop completes it."""
    KEPT = "kept"
    """All files are kept, and the table can be restored."""
    RESTORING = "restoring"
    """The files are on their way back; a repeated restore completes it."""
    PURGING = "purging"
    """The files are being deleted; the next purge completes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """This is a table that was dropped. `dropped_ms` is in milliseconds since the epoch."""

    id: str
    table: str
    path: str
    """This is the directory that the table had. It is for people: no file is moved to a place that only a
    record names.
    """
    dropped_ms: int
    by: str
    state: DropState
    entry: str = ""
    """This is what the catalog had of the table beside its files, in the catalog's own form; empty where the
    files have everything.
    """

    def encoded(self) -> bytes:
        """Return the bytes of the record."""
        raw = asdict(self) | {"state": self.state.value}
        return json.dumps({key: one for key, one in raw.items() if key != "entry" or one}, indent=2).encode()

    @classmethod
    def decoded(cls, data: bytes, path: str) -> DroppedTable:
        """Parse the record at `path`. Raises CorruptDataError, also for a record of another folder."""
        try:
            raw = json_object(data)
            record = cls(**raw | {"state": DropState(raw["state"])})
            _check(record, raw)
            folder, _, drop = path.rpartition("/")[0].rpartition("/")
            if (quoted_table(record.table), record.id) != (folder.rpartition("/")[2], drop):
                raise ValueError(f"it names drop {record.id!r} of table {record.table!r}")
        except (ValueError, KeyError, TypeError) as err:
            raise CorruptDataError(path, f"is not the record of a drop: {reason(err)}") from err
        return record


def _check(record: DroppedTable, raw: Mapping[str, Any]) -> None:
    """Check the types, because whoever can write into the warehouse can write a record."""
    for name in ("id", "table", "path", "by"):
        if not isinstance(raw[name], str):
            raise TypeError(f"{name} is not a string")
    if not isinstance(record.entry, str):
        raise TypeError("entry is not a string")
    checked_name(record.id, "id")
    if type(record.dropped_ms) is not int or not 0 <= record.dropped_ms < LATEST_MS:
        raise ValueError(f"{record.dropped_ms!r} is not a time in milliseconds")
