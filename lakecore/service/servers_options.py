"""This module has the options of a service of several servers."""

from __future__ import annotations

from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.service.addresses import Address
from lakecore.service.server_options import ServerOptions

__all__ = ["ServersOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersOptions:
    """These are the options of a service whose servers share the buckets of a table."""

    servers: int = 2
    """So many servers run at once, each with a core of its own."""
    server: ServerOptions = field(default_factory=ServerOptions)
    """Each server takes a free port."""
    interval: float = 10.0
    """It is the time between two refreshes, in seconds."""
    replace: bool = False
    """It tells whether the service takes the place of one that still accepts connections."""
    health: Address | None = None
    """The health and the metrics of all servers are served over HTTP there (port 0: a free one); None: they
    are not served. They are as old as the last report of each server, one interval at most.
    """

    def __post_init__(self) -> None:
        if self.servers < 1:
            raise InvalidInputError(f"servers={self.servers}: must be at least 1")
        if not self.interval > 0:
            raise InvalidInputError(f"interval={self.interval}: must be more than 0 seconds")
        if self.server.port:
            raise InvalidInputError(
                f"port {self.server.port}: several servers of one machine cannot share it; leave it out"
            )
