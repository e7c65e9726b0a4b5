"""This module reads the JDBC address of a catalog's database. It is pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from lakecore.catalog.jdbc.options import PASSWORD, URI, USER
from lakecore.catalog.jdbc.tls import TLS_PARAMETERS, MysqlTls
from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError, mask_secrets, reason

__all__ = ["JdbcAddress"]

_DATABASES = ("sqlite", "postgresql", "mysql")
_FORMS = (
    "jdbc:sqlite:/PATH, jdbc:postgresql://HOST[:PORT]/DATABASE, or jdbc:mysql://HOST[:PORT]/DATABASE for "
    "MySQL and MariaDB"
)
_DRIVERS = MappingProxyType({"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"})
_PORTS = MappingProxyType({"postgresql": 5432, "mysql": 3306})
_OWN_DATABASE = "nullDatabaseMeansCurrent"
"""With this parameter Java looks for tables in the database of the address only, as lakecore does."""


@dataclass(frozen=True, slots=True)
class JdbcAddress:
    """This is where the database of a catalog is, and who connects to it."""

    kind: str
    """It is `sqlite`, `postgresql` or `mysql`."""
    place: str
    """This is the file, or `host:port/database`, without user and password."""
    url: Mapping[str, Any] = field(repr=False)
    """These are the arguments of SQLAlchemy's `URL.create`, with the password."""
    tls: MysqlTls = MysqlTls()
    """It says how connections to MySQL and MariaDB are encrypted."""

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> JdbcAddress:
        """Read the option `uri`, user and password from it or from `jdbc.user` and `jdbc.password`. Raises
        InvalidOptionError, UnsupportedError for another kind of database.
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
        if kind == "mariadb":
            raise UnsupportedError(
                f"catalog option uri={_without_secrets(uri)}: Java's catalog has no lock for this address; "
                "write jdbc:mysql: for MariaDB, too, for all writers"
            )
        if kind not in _DATABASES:
            raise UnsupportedError(
                f"catalog option uri={_without_secrets(uri)}: this release knows the databases "
                f"{', '.join(_DATABASES)} only; use one of them"
            )
        if kind == "sqlite":
            return cls(kind, rest, {"drivername": "sqlite", "database": _sqlite_file(rest)})
        return _server(kind, rest, USER.read(raw), PASSWORD.read(raw))


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


def _server(kind: str, rest: str, user: str | None, password: str | None) -> JdbcAddress:
    try:
        parts = urlsplit(f"{kind}:{rest}")
        port = parts.port or _PORTS[kind]
    except ValueError as err:
        raise InvalidOptionError(f"catalog option uri: {reason(err)}; write {_FORMS}") from err
    database = unquote(parts.path.lstrip("/"))
    if not parts.hostname or not database:
        raise InvalidOptionError(f"catalog option uri: it has no host or no database; write {_FORMS}")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check_parameters(kind, parameters)
    url = {
        "drivername": _DRIVERS[kind],
        "username": user or parameters.get("user") or parts.username,
        "password": password or parameters.get("password") or parts.password,
        "host": parts.hostname,
        "port": port,
        "database": database,
    }
    place = f"{parts.hostname}:{port}/{database}"
    return JdbcAddress(kind, place, url, MysqlTls.from_parameters(parameters))


def _check_parameters(kind: str, parameters: Mapping[str, str]) -> None:
    supported = ["user", "password"]
    if kind == "mysql":
        supported += TLS_PARAMETERS
    if kind == "mysql" and parameters.get(_OWN_DATABASE) == "true":
        supported.append(_OWN_DATABASE)
    unknown = sorted(set(parameters) - set(supported))
    if unknown:
        more = ", ".join(["", f"{_OWN_DATABASE}=true", *TLS_PARAMETERS]) if kind == "mysql" else ""
        raise UnsupportedError(
            f"catalog option uri: its parameter {unknown[0]} would have no effect; leave it out (known: "
            f"user, password{more})"
        )
