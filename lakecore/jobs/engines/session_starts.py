"""This module stores how long Spark sessions took to start: the last ones of each master in
`<warehouse>/.lakecore/session-starts/<master>.json`.

Two sessions that start at once may lose one of the two times; only forecasts depend on them.
"""

from __future__ import annotations

import json
import logging
import urllib.parse
from statistics import median
from typing import ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError
from lakecore.jobs.engines.engine_choice import SPARK_STARTS_S
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.target import Target
from lakecore.metadata.json_record import json_value

__all__ = ["SessionStarts"]

logger = logging.getLogger(__name__)

_MOST = 9
_SHORTEST_S, _LONGEST_S = 0.5, 600.0


@dataclass(frozen=True)
class SessionStarts(ServiceStore):
    """It stores the starts of a warehouse's sessions by the address of their master."""

    directory: ClassVar[str] = "session-starts"

    @classmethod
    def of(cls, target: Target) -> SessionStarts:
        """Return those of the warehouse of a table."""
        return cls(target.file_io, target.warehouse)

    def seconds(self, master: str) -> float:
        """Return the median of the last starts, or without any `SPARK_STARTS_S`. It costs a read. What cannot
        be read counts as nothing.
        """
        return median(self._read(master) or [SPARK_STARTS_S])

    def add(self, master: str, seconds: float) -> None:
        """Record a start. It costs a read and a write. A failure is logged: the session has started."""
        try:
            times = [*self._read(master), min(max(seconds, _SHORTEST_S), _LONGEST_S)][-_MOST:]
            text = json.dumps([round(one, 3) for one in times])
            self.file_io.overwrite(self._path(master), text.encode())
        except LakeError as err:
            logger.warning("the start of the Spark session on %s could not be recorded: %s", master, err)

    def _read(self, master: str) -> list[float]:
        path = self._path(master)
        try:
            values = json_value(self.file_io.read(path))
        except NotFoundError:
            return []
        except (LakeError, ValueError) as err:
            logger.warning("%s is ignored: %s", path, err)
            return []
        numbers = [one for one in values if type(one) in (int, float)] if isinstance(values, list) else []
        return [float(one) for one in numbers if _SHORTEST_S <= one <= _LONGEST_S][-_MOST:]

    def _path(self, master: str) -> str:
        return f"{self.root}/{urllib.parse.quote(master, safe='')}.json"
