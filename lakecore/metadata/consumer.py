"""This module defines a consumer, which is the saved position of a streaming read, and its JSON
(`consumer/consumer-<id>`).
"""

from __future__ import annotations

import json

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, reason
from lakecore.metadata.json_record import json_object

__all__ = ["Consumer"]

_READS_STATE = "lakecore.reads-state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A streaming read under the name `id` still needs snapshot `next_snapshot` and all later ones."""

    id: str
    next_snapshot: int
    reads_state: bool = False
    """The whole state of that snapshot is not read yet, and a read that begins here begins with it. Only
    lakecore writes and obeys this; other readers of the format ignore it.
    """
    updated_ms: int = 0
    """This is when its file was last written, in milliseconds since the epoch (0: not yet, or unknown).
    Option `consumer.expiration-time` counts the age from then.
    """

    @classmethod
    def from_json(cls, text: bytes, path: str, *, consumer_id: str, updated_ms: int = 0) -> Consumer:
        """Parse a consumer file. Raises CorruptDataError naming `path`."""
        try:
            raw = json_object(text)
            position, reads_state = raw["nextSnapshot"], raw.get(_READS_STATE, False)
            if not isinstance(position, int) or isinstance(position, bool):
                raise TypeError("nextSnapshot is not an integer")
            if abs(position) >= 1 << 63:
                raise ValueError("nextSnapshot is out of range")
            if not isinstance(reads_state, bool):
                raise TypeError(f"{_READS_STATE} is neither true nor false")
        except (ValueError, KeyError, TypeError, RecursionError) as err:
            raise CorruptDataError(path, f"is not a consumer: {reason(err)}") from err
        return cls(id=consumer_id, next_snapshot=position, reads_state=reads_state, updated_ms=updated_ms)

    def to_json(self) -> str:
        state = {_READS_STATE: True} if self.reads_state else {}
        return json.dumps({"nextSnapshot": self.next_snapshot, **state}, indent=2)
