"""This module keeps the watermarks of the streams of alignment groups: `<warehouse>/.lakecore/alignment`, one
small file a stream that runs.

A stream renews its file while its process lives, which Spark kills when a query is stopped. A file that was
not renewed for the length of its lease counts no more, so that a stopped query holds the others back for a
while only. Each file may be deleted at any time: its stream writes it again.
"""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, reason
from lakecore.maintain.service_store import ServiceStore
from lakecore.metadata.json_record import json_object
from lakecore.read.source.alignment.rule import Standing, StreamState

__all__ = ["LEASE_MS", "AlignmentStore"]

_VERSION = 1
_ENDING = ".json"
LEASE_MS = 10_000
"""A stream holds others back for so long after it renewed its file."""
_FORGET_MS = 3_600_000
"""After so long the file of a stream that ended without a word is removed."""


@dataclass(frozen=True)
class AlignmentStore(ServiceStore):
    """It stores what the streams of a warehouse tell the others of their groups."""

    directory: ClassVar[str] = "alignment"

    def others(self, group: str, stream: str, now_ms: int) -> list[StreamState]:
        """Return the states of the other streams of a group that are alive. It costs a listing and a read for
        each stream. Raises CorruptDataError.
        """
        states = []
        for status in self.file_io.list(self._folder(group)):
            name = status.path.rsplit("/", 1)[-1]
            if status.is_dir or not name.endswith(_ENDING) or name == stream + _ENDING:
                continue
            try:
                state, renewed_ms = _parse(status.path, self.file_io.read(status.path))
            except NotFoundError:
                continue  # the stream ended between the two
            if now_ms - renewed_ms <= LEASE_MS:
                states.append(state)
            elif now_ms - renewed_ms > _FORGET_MS:
                self.file_io.delete(status.path)
        return states

    def save(self, group: str, stream: str, state: StreamState, now_ms: int) -> None:
        """Store the state of a stream, and renew its lease. It costs a write."""
        raw = {
            "version": _VERSION,
            "table": state.table,
            "standing": state.standing.value,
            "watermark": state.watermark,
            "renewed": now_ms,
        }
        self.file_io.overwrite(self._path(group, stream), json.dumps(raw).encode())

    def remove(self, group: str, stream: str) -> None:
        """Remove the state of a stream that ended."""
        self.file_io.delete(self._path(group, stream))

    def _folder(self, group: str) -> str:
        return f"{self.root}/{hashlib.sha256(group.encode()).hexdigest()[:32]}"

    def _path(self, group: str, stream: str) -> str:
        return f"{self._folder(group)}/{stream}{_ENDING}"


def _parse(path: str, data: bytes) -> tuple[StreamState, int]:
    try:
        raw = json_object(data)
        if raw["version"] != _VERSION:
            raise ValueError(f"its version is {raw['version']!r}, and this release knows {_VERSION}")
        watermark = None if raw["watermark"] is None else int(raw["watermark"])
        return StreamState(str(raw["table"]), Standing(raw["standing"]), watermark), int(raw["renewed"])
    except (ValueError, KeyError, TypeError) as err:
        problem = f"this is not the state of an aligned stream: {reason(err)}; delete it"
        raise CorruptDataError(path, problem) from err
