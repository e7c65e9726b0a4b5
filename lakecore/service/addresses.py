"""This module keeps the addresses of servers in the table: `<table>/service/service-primary-key-lookup`.

The file is a JSON array of "host:port", in the order of the numbers of the servers. Source: Paimon's
ServiceManager; Jackson writes the addresses. Beside it a service of lakecore records its identity, which its
clients tell the servers: the protocol does not name the table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError
from lakecore.fs.file_io import FileIO

__all__ = ["PRIMARY_KEY_LOOKUP", "Address", "ServiceManager", "parse_address"]

PRIMARY_KEY_LOOKUP = "primary-key-lookup"
_MOST = 65535
_IDENTITY = "lakecore-identity"
"""This file of the directory is lakecore's own; Paimon has none of this name."""


@dataclass(frozen=True, slots=True)
class Address:
    """This is where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address of "host:port" or "[IPv6]:port". Raises InvalidInputError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    digits = port.isascii() and port.isdigit()
    if not colon or not bare or (":" in bare and bare == host) or not digits or not 0 < int(port) <= _MOST:
        raise InvalidInputError(f"address {text!r}: write host:port, with a port from 1 to {_MOST}")
    return Address(bare, int(port))


class ServiceManager:
    """It reads and writes which servers a table has. Each method is one operation of storage."""

    def __init__(self, file_io: FileIO, table_path: str) -> None:
        self._file_io = file_io
        self._table_path = table_path

    def service(self, name: str = PRIMARY_KEY_LOOKUP) -> tuple[Address, ...] | None:
        """Return the addresses, None where no service runs. Raises CorruptDataError."""
        path = self._path(name)
        try:
            data = self._file_io.read(path)
        except NotFoundError:
            return None
        try:
            address = json.loads(data)
            if not isinstance(address, list) or not address:
                raise ValueError("not a list of addresses")
            return tuple(parse_address(str(text)) for text in address)
        except (ValueError, InvalidInputError) as err:
            raise CorruptDataError(path, f"not the addresses of a service: {err}") from err

    def reset_service(self, addresses: Sequence[Address], name: str = PRIMARY_KEY_LOOKUP) -> None:
        """Replace the addresses. Raises InvalidInputError where there are none."""
        if not addresses:
            raise InvalidInputError(f"service {name}: no address is given; delete the service instead")
        text = json.dumps([str(address) for address in addresses])
        self._file_io.overwrite(self._path(name), text.encode())

    def delete_service(self, name: str = PRIMARY_KEY_LOOKUP) -> None:
        """Remove the addresses; they may be missing."""
        self._file_io.delete(self._path(name))

    def identity(self, addresses: Sequence[Address]) -> str:
        """Return the identity of the service with these addresses; empty where it has none, as Java's.

        Raises UnavailableError. A file that is damaged counts as none.
        """
        try:
            raw = json.loads(self._file_io.read(self._path(_IDENTITY)))
            same = raw["addresses"] == [str(address) for address in addresses]
            return str(raw["identity"]) if same else ""
        except (NotFoundError, ValueError, TypeError, KeyError):
            return ""

    def reset_identity(self, addresses: Sequence[Address], identity: str) -> None:
        """Record the identity of a service beside its addresses; empty: there is none."""
        path = self._path(_IDENTITY)
        if not identity:
            self._file_io.delete(path)
            return
        text = json.dumps({"addresses": [str(address) for address in addresses], "identity": identity})
        self._file_io.overwrite(path, text.encode())

    def _path(self, name: str) -> str:
        return f"{self._table_path}/service/service-{name}"
