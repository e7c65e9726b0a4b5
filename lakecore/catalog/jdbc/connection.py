"""This module connects to the database of a JDBC catalog, through SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakecore.catalog.jdbc.address import JdbcAddress
from lakecore.catalog.jdbc.tls import MysqlTls
from lakecore.catalog.remote.options import POOL_SIZE
from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    UnavailableError,
    UnsupportedError,
    mask_secrets,
    reason,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["JdbcConnection", "is_deadlock"]

_SQLITE_WAIT_SECONDS = 30
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 60
"""A server that never answers is not waited for without a limit. InnoDB waits 50 seconds for a lock."""
_KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": _ANSWER_SECONDS * 1000,
}
"""libpq notices with these parameters after a minute that a server does not exist any more."""
_MYSQL_SESSION = "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
"""A value that a column cannot store is an error in each session, whatever the mode of the server."""
_LOCK_WAIT_TIMEOUT, _DEADLOCK = 1205, 1213
_LAST_CHARACTER = 0xFFFF


@dataclass(frozen=True)
class JdbcConnection:
    """This is the database of a catalog. Connections are opened when they are first used; they are neither
    pickled nor shown.
    """

    kind: str
    """It is `sqlite`, `postgresql` or `mysql`."""
    place: str
    """This is the file, or `host:port/database`, without user and password."""
    _address: Mapping[str, Any] = field(repr=False)
    """These are the arguments of SQLAlchemy's `URL.create`, with the password."""
    _pool_size: int = 2
    _tls: MysqlTls = MysqlTls()

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> JdbcConnection:
        """Read the address from the option `uri`, user and password from it or from `jdbc.user` and
        `jdbc.password`. Raises InvalidOptionError, UnsupportedError for another kind of database.
        """
        address = JdbcAddress.from_options(raw)
        return cls(address.kind, address.place, address.url, POOL_SIZE.read(raw), address.tls)

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
        try:
            return create_engine(
                URL.create(**self._address),
                pool_size=self._pool_size,
                pool_pre_ping=True,
                hide_parameters=True,
                **self._engine_arguments(),
            )
        except ImportError as err:
            driver = "psycopg" if self.kind == "postgresql" else "pymysql"
            raise UnsupportedError(
                f"a JDBC catalog on {self.kind} needs the package {driver}; install lakecore[jdbc]"
            ) from err

    def _engine_arguments(self) -> dict[str, Any]:
        """Return how long to wait for this kind of database, and what each session sets: UTC, for one."""
        if self.kind == "sqlite":
            return {"connect_args": {"timeout": _SQLITE_WAIT_SECONDS}}
        if self.kind == "postgresql":
            timeouts = {"connect_timeout": _CONNECT_SECONDS, **_KEEPALIVES}
            return {"connect_args": {**timeouts, "options": "-c TimeZone=UTC"}}
        return {
            "connect_args": {
                "connect_timeout": _CONNECT_SECONDS,
                "read_timeout": _ANSWER_SECONDS,
                "write_timeout": _ANSWER_SECONDS,
                "charset": "utf8mb4",
                "init_command": _MYSQL_SESSION,
                **self._tls.connect_parameters(),
            },
            "isolation_level": "READ COMMITTED",
        }

    @contextmanager
    def transaction(self, what: str) -> Iterator[Connection]:
        """Open a transaction, which ends with the block. `what` is in the message of a failure.

        Raises AlreadyExistsError for a key that is taken, InvalidInputError for a value that a column cannot
        store, UnavailableError when the database does not answer or refuses.
        """
        from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

        engine = self._engine
        try:
            with engine.begin() as connection:
                yield connection
        except IntegrityError as err:
            raise AlreadyExistsError(f"{what}: the name is taken in {self.kind} {self.place}") from err
        except DataError as err:
            raise InvalidInputError(
                f"{what}: the database {self.kind} {self.place} cannot store a value: "
                f"{mask_secrets(reason(err.orig or err))}"
            ) from err
        except SQLAlchemyError as err:
            raise UnavailableError(
                f"{what}: the database {self.kind} {self.place} refused or did not answer: "
                f"{mask_secrets(reason(getattr(err, 'orig', None) or err))}; {self._remedy(err)}"
            ) from err

    def _remedy(self, err: Exception) -> str:
        """Return what to check after a failure: without a statement no connection was made."""
        if self.kind == "sqlite":
            return "check the file of the option uri and the rights to it and its directory, or try again"
        if getattr(err, "statement", None) is None:
            return "check the options uri, jdbc.user and jdbc.password, and that the server runs"
        return "try again, and look into the log of the server"

    def can_store(self, text: str) -> bool:
        """Return whether the columns of a catalog have all characters of a text. In MySQL they are utf8mb3,
        which has those of up to three bytes.
        """
        return self.kind != "mysql" or all(ord(character) <= _LAST_CHARACTER for character in text)

    def use_write_ahead_log(self) -> None:
        """Switch SQLite to its write-ahead log, with which readers block no writer: Java 1.4 leaves queries
        open. The file keeps the mode. Other databases need nothing.
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


def is_deadlock(err: UnavailableError) -> bool:
    """Return whether MySQL or MariaDB rolled a transaction back because of another one, not for a failure."""
    arguments: tuple[object, ...] = getattr(getattr(err.__cause__, "orig", None), "args", ())
    return arguments[:1] in ((_LOCK_WAIT_TIMEOUT,), (_DEADLOCK,))
