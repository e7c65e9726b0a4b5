"""This module has the limits of a server."""

from __future__ import annotations

from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["ServerOptions"]


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """These are where a server listens and what it bears. Times are in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 0
    """It is 0 for a port that is free."""
    query_threads: int = 2
    max_frame: int = 4 << 20
    """The server closes the connection of a longer request."""
    max_answer: int = 64 << 20
    """A request whose rows are larger fails."""
    max_connections: int = 256
    frame_seconds: float = 10.0
    """A frame that has begun must be complete in this time, and an answer must be taken."""
    idle_seconds: float = 3600.0
    """A connection without a request for this long is closed."""
    identity: str = ""
    """It names the service: the connection of a client that expects another one is closed. Empty: no client
    is asked.
    """
    cache_directories: tuple[str, ...] = ()
    """The local copies of data files are below these directories of the machine, shared with its other
    processes, and found again after a restart. Empty: below TMPDIR, for as long as the process runs.
    """
    token: str | None = field(default=None, repr=False)
    """A client must send it first. Java's clients cannot: a server with a token closes their connections."""

    def __post_init__(self) -> None:
        if self.token == "":
            raise InvalidInputError("the token of a query server is empty; give one, or none at all")
        for name in ("query_threads", "max_frame", "max_answer", "max_connections"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name}={getattr(self, name)}: must be at least 1")
        for name in ("frame_seconds", "idle_seconds"):
            if not getattr(self, name) > 0:
                raise InvalidInputError(f"{name}={getattr(self, name)}: must be more than 0")
