"""This module connects to the database of a JDBC catalog, through SQLAlchemy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from lakecore.catalog.jdbc.options import PASSWORD, URI, USER
from lakecore.catalog.remote.options import POOL_SIZE
from lakecore.errors import (
    AlreadyExistsError,
    InvalidOptionError,
    UnavailableError,
    UnsupportedError,
    mask_secrets,
    reason,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["JdbcConnection"]

_SQLITE_WAIT_SECONDS = 30
_CONNECT_SECONDS = 10
_DATABASES = ("sqlite", "postgresql")
_FORMS = "jdbc:sqlite:/PATH or jdbc:postgresql://HOST[:PORT]/DATABASE"


@dataclass(frozen=True)
class JdbcConnection:
    """This is the database of a catalog. Connections are opened when they are first used; they are neither
    pickled nor shown.
    """

    kind: str
    """It is `sqlite` or `postgresql`."""
    place: str
    """This is the file, or `host:port/database`, without user and password."""
    _address: Mapping[str, Any] = field(repr=False)
    """These are the arguments of SQLAlchemy's `URL.create`, with the password."""
    _pool_size: int = 2

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> JdbcConnection:
        """Read the address from the option `uri`, user and password from it or from `jdbc.user` and
        `jdbc.password`. Raises InvalidOptionError, UnsupportedError for another kind of database.
        """
        uri = URI.read(raw)
        if not uri:
            raise InvalidOptionError(f"catalog option uri is missing; write {_FORMS}")
        match = re.fullmatch(r"jdbc:([A-Za-z]+):(.*)", uri, re.DOTALL)
        if match is None:
            raise InvalidOptionError(
                f"catalog option uri={_without_secrets(uri)}: this is no JDBC address; write {_FORMS}"
            )
        kind, rest = match[1].lower(), match[2]
        if kind not in _DATABASES:
            raise UnsupportedError(
                f"catalog option uri={_without_secrets(uri)}: this release knows the databases "
                f"{', '.join(_DATABASES)} only; use one of them"
            )
        size = POOL_SIZE.read(raw)
        if kind == "sqlite":
            return cls(kind, rest, {"drivername": "sqlite", "database": _sqlite_file(rest)}, size)
        return _postgresql(rest, USER.read(raw), PASSWORD.read(raw), size)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_engine"}

    @cached_property
    def _engine(self) -> Engine:
        try:
            from sqlalchemy import URL, create_engine
        except ImportError as err:
            raise UnsupportedError(
                "a JDBC catalog needs the package sqlalchemy; install lakecore[jdbc]"
            ) from err
        waits: dict[str, Any] = {"timeout": _SQLITE_WAIT_SECONDS}
        if self.kind == "postgresql":
            waits = {"connect_timeout": _CONNECT_SECONDS, "options": "-c TimeZone=UTC"}
        try:
            return create_engine(
                URL.create(**self._address),
                pool_size=self._pool_size,
                pool_pre_ping=True,
                connect_args=waits,
                hide_parameters=True,
            )
        except ImportError as err:
            raise UnsupportedError(
                "a JDBC catalog on PostgreSQL needs the package psycopg; install lakecore[jdbc]"
            ) from err

    @contextmanager
    def transaction(self, what: str) -> Iterator[Connection]:
        """Open a transaction, which ends with the block. `what` is in the message of a failure.

        Raises AlreadyExistsError for a key that is taken, UnavailableError when the database does not answer
        or refuses.
        """
        from sqlalchemy.exc import IntegrityError, SQLAlchemyError

        engine = self._engine
        try:
            with engine.begin() as connection:
                yield connection
        except IntegrityError as err:
            raise AlreadyExistsError(f"{what}: the name is taken in {self.kind} {self.place}") from err
        except SQLAlchemyError as err:
            raise UnavailableError(
                f"{what}: the database {self.kind} {self.place} refused or did not answer: "
                f"{mask_secrets(reason(getattr(err, 'orig', None) or err))}"
            ) from err

    def use_write_ahead_log(self) -> None:
        """Switch SQLite to its write-ahead log, with which readers block no writer: Java 1.4 leaves queries
        open. The file keeps the mode. PostgreSQL needs nothing.
        """
        if self.kind != "sqlite":
            return
        from sqlalchemy import text

        with self.transaction("open the catalog") as database:
            database.execute(text("PRAGMA journal_mode=WAL"))

    def close(self) -> None:
        """Close the connections."""
        engine = self.__dict__.get("_engine")
        if engine is not None:
            engine.dispose()


def _without_secrets(uri: str) -> str:
    """Return an address without what may be a secret in its parameters."""
    return mask_secrets(uri.partition("?")[0])


def _sqlite_file(rest: str) -> str:
    if not rest or rest.startswith((":", "file:")) or "?" in rest:
        raise UnsupportedError(
            f"catalog option uri=jdbc:sqlite:{rest.partition('?')[0]}: specify the path of a file, such as "
            "jdbc:sqlite:/lake/catalog.db; a database in memory belongs to one process"
        )
    return rest


def _postgresql(rest: str, user: str | None, password: str | None, size: int) -> JdbcConnection:
    try:
        parts = urlsplit(f"postgresql:{rest}")
        port = parts.port or 5432
    except ValueError as err:
        raise InvalidOptionError(f"catalog option uri: {reason(err)}; write {_FORMS}") from err
    database = unquote(parts.path.lstrip("/"))
    if not parts.hostname or not database:
        raise InvalidOptionError(f"catalog option uri: it has no host or no database; write {_FORMS}")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(set(parameters) - {"user", "password"}):
        raise UnsupportedError(
            f"catalog option uri: its parameter {unknown[0]} would have no effect; leave it out (known: "
            "user, password)"
        )
    address = {
        "drivername": "postgresql+psycopg",
        "username": user or parameters.get("user") or parts.username,
        "password": password or parameters.get("password") or parts.password,
        "host": parts.hostname,
        "port": port,
        "database": database,
    }
    return JdbcConnection("postgresql", f"{parts.hostname}:{port}/{database}", address, size)
