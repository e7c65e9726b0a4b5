"""This module calls a Hive metastore, through the thrift client of the package pymetastore."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from threading import BoundedSemaphore
from typing import Any, NoReturn

from lakecore.catalog.hive.options import MetastoreAddress
from lakecore.catalog.remote.lost_answer import UNKNOWN, LostAnswerError
from lakecore.catalog.remote.pauses import pause_after
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    mask_secrets,
    printable,
    reason,
)

__all__ = ["MetastoreConnection", "thrift_types"]

logger = logging.getLogger(__name__)

_CONNECT_MS = 10_000
_GREETING_MS = 20_000
"""A server that is no metastore may never answer the first call, which costs a metastore nothing."""
_TRIES = 3
_LONGEST = 500
_MISSING = (
    "NoSuchObjectException",
    "UnknownTableException",
    "UnknownDBException",
    "UnknownPartitionException",
    "NoSuchLockException",
)
_UNREADABLE = (TypeError, OverflowError, ValueError, MemoryError)
"""The decoder of the package thrift that is compiled raises these for a damaged answer."""
_INVALID = ("InvalidObjectException", "InvalidOperationException", "InvalidPartitionException")


def thrift_types() -> Any:
    """Return the module with the records of the metastore. Raises UnsupportedError without the package."""
    try:
        from pymetastore.hive_metastore import ttypes
    except ImportError as err:
        raise UnsupportedError(
            "a Hive catalog needs the package pymetastore; install lakecore[hive]"
        ) from err
    return ttypes


class _Idle:
    """These are the open connections that nobody uses, and the permits to use one."""

    def __init__(self, size: int) -> None:
        self.permits = BoundedSemaphore(size)
        self.clients: list[_Client] = []


@dataclass(frozen=True, slots=True)
class _Client:
    """This is one open connection."""

    address: MetastoreAddress
    transport: Any
    calls: Any


@dataclass(frozen=True)
class MetastoreConnection:
    """This is the connection to one metastore, which may have several addresses. Connections are not pickled.

    A call that only reads is repeated up to 3 times, at the next address, when the connection is lost. A
    change is sent once: only connecting is repeated.
    """

    addresses: tuple[MetastoreAddress, ...]
    user: str
    timeout_ms: int
    pool_size: int
    clock: Clock = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_idle"}

    @cached_property
    def _idle(self) -> _Idle:
        return _Idle(self.pool_size)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        idle = self.__dict__.get("_idle")
        while idle is not None and idle.clients:
            _close(idle.clients.pop())

    def read(self, what: str, call: str, *arguments: Any) -> Any:
        """Return the answer to a call that only reads, or that may be repeated. `what` is in messages.

        Raises NotFoundError, InvalidInputError and UnavailableError.
        """
        for number in range(_TRIES):
            try:
                return self._call(what, call, arguments)
            except LostAnswerError as err:
                if number == _TRIES - 1:
                    raise UnavailableError(f"{what}: the metastore did not answer: {reason(err)}") from err
            self.clock.sleep(pause_after(number, None, self.clock))
        raise AssertionError("unreachable")

    def change(self, what: str, call: str, *arguments: Any) -> Any:
        """Send a change. Raises as `read`, AlreadyExistsError, and LostAnswerError if the change may have
        taken effect.
        """
        return self._call(what, call, arguments)

    def _call(self, what: str, call: str, arguments: tuple[Any, ...]) -> Any:
        from thrift.protocol.TProtocol import TProtocolException
        from thrift.Thrift import TException
        from thrift.transport.TTransport import TTransportException

        with self._client(what) as client:
            try:
                return getattr(client.calls, call)(*arguments)
            except (TTransportException, TProtocolException, OSError, EOFError, *_UNREADABLE) as err:
                _close(client)
                raise LostAnswerError(
                    f"{what}: the connection to the metastore {client.address} was lost "
                    f"({_text(err)}); {UNKNOWN}"
                ) from err
            except TException as err:
                _raise_answer(what, err)

    @contextmanager
    def _client(self, what: str) -> Iterator[_Client]:
        """Give a connection that nobody else uses, one that is open if there is any."""
        with self._idle.permits:
            client = self._idle_client() or self._connect(what)
            try:
                yield client
            except BaseException as err:
                if not isinstance(err, LakeError):
                    _close(client)  # it may be in the middle of an answer
                raise
            finally:
                if client.transport.isOpen():
                    self._idle.clients.append(client)

    def _idle_client(self) -> _Client | None:
        """Return an open connection; those that the metastore has closed meanwhile are left out."""
        while self._idle.clients:
            client = self._idle.clients.pop()
            if client.transport.isOpen():
                return client
            _close(client)
        return None

    def _connect(self, what: str) -> _Client:
        """Open a connection to the first address that answers."""
        problems: list[str] = []
        for number in range(_TRIES):
            problems = []
            for address in self.addresses:
                try:
                    return self._open(address)
                except _transport_errors() as err:
                    problems.append(f"{address}: {_text(err)}")
            if number < _TRIES - 1:
                self.clock.sleep(pause_after(number, None, self.clock))
        raise UnavailableError(
            f"{what}: no metastore could be reached ({'; '.join(problems)}); check the option uri, and "
            "whether the metastore runs"
        )

    def _open(self, address: MetastoreAddress) -> _Client:
        from pymetastore.hive_metastore import ThriftHiveMetastore
        from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport

        socket = TSocket(address.host, address.port)
        socket.setTimeout(_CONNECT_MS)
        transport = TBufferedTransport(socket)
        client = _Client(
            address, transport, ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
        )
        try:
            transport.open()
            socket.setTimeout(min(self.timeout_ms, _GREETING_MS))
            client.calls.set_ugi(
                self.user, [self.user]
            )  # directories that the metastore makes are the user's
            socket.setTimeout(self.timeout_ms)
        except BaseException:
            _close(client)
            raise
        return client


def _transport_errors() -> tuple[type[Exception], ...]:
    thrift_types()
    from thrift.Thrift import TException

    return (TException, OSError, EOFError)


def _close(client: _Client) -> None:
    with contextlib.suppress(OSError):
        client.transport.close()


def _raise_answer(what: str, err: Any) -> NoReturn:
    """Raise the error for what a metastore answered instead of a result."""
    from thrift.Thrift import TApplicationException

    name = type(err).__name__
    text = f"{what}: the metastore refused it: {_text(err)}"
    if isinstance(err, TApplicationException) and err.type == TApplicationException.UNKNOWN_METHOD:
        raise UnsupportedError(f"{text}; use a metastore of Hive 2.3 or 3") from err
    if name in _MISSING:
        raise NotFoundError(text) from err
    if name == "AlreadyExistsException":
        raise AlreadyExistsError(f"{text}; choose another name") from err
    if name in _INVALID:
        raise InvalidInputError(f"{text}; change the request") from err
    raise UnavailableError(f"{text}; look into the log of the metastore") from err


def _text(err: BaseException) -> str:
    return printable(mask_secrets(str(getattr(err, "message", None) or reason(err))), _LONGEST)
