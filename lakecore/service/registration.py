"""This module keeps the addresses of a running service in its table, and takes them out at its end.

A service that crashed leaves its addresses there: whoever starts next asks whether these servers accept
connections before it takes their place. Another service that takes the place meanwhile is respected: the
addresses are then its, and this one ends.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence

from lakecore.errors import AlreadyExistsError, CorruptDataError
from lakecore.service.addresses import Address, ServiceManager

__all__ = ["Registration", "accepts_connections"]

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 1.0


def accepts_connections(address: Address, seconds: float = _CONNECT_SECONDS) -> bool:
    """Tell whether somebody listens at an address; nothing is sent."""
    try:
        socket.create_connection((address.host, address.port), seconds).close()
    except OSError:
        return False
    return True


class Registration:
    """It writes the addresses of one service. Each method costs one or two operations of storage."""

    def __init__(
        self, table: str, manager: ServiceManager, addresses: Sequence[Address], identity: str = ""
    ) -> None:
        """Prepare; nothing is written. `table` is its name in messages, `identity` that of the servers."""
        self._identity = identity
        self._table = table
        self._manager = manager
        self._addresses = tuple(addresses)

    def register(self, *, replace: bool = False) -> None:
        """Write the addresses, after `check` unless `replace`."""
        if not replace:
            self.check()
        self._write()

    def check(self) -> None:
        """Raise AlreadyExistsError where servers of another service are registered and one of them accepts
        connections.
        """
        others = [one for one in self._stored_addresses() or () if one not in self._addresses]
        if (alive := next(filter(accepts_connections, others), None)) is not None:
            raise AlreadyExistsError(
                f"table {self._table}: a query service runs already, its server {alive} accepts connections; "
                "stop it, or start this one with replace"
            )

    def keep(self) -> bool:
        """Write the addresses again where they are gone; return whether they are still this service's."""
        present = self._stored_addresses()
        if present is None:
            logger.warning("table %s: the addresses of its query service had disappeared", self._table)
            self._write()
            return True
        return present == self._addresses

    def release(self) -> None:
        """Remove the addresses if they are still those of this service."""
        if self._stored_addresses() == self._addresses:
            self._manager.delete_service()
            self._manager.reset_identity((), "")

    def _write(self) -> None:
        """Write the identity first: clients that find the addresses without it ask for none."""
        self._manager.reset_identity(self._addresses, self._identity)
        self._manager.reset_service(self._addresses)

    def _stored_addresses(self) -> tuple[Address, ...] | None:
        """Return the addresses in the table; None also where the file is damaged, or half written."""
        try:
            return self._manager.service()
        except CorruptDataError as err:
            logger.warning("table %s: %s", self._table, err)
            return None
