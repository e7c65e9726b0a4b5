"""This module has the options of a JDBC catalog, with the names of Paimon's `JdbcCatalogOptions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecore.catalog.remote.options import (
    LOCK_ENABLED,
    LOCK_SLEEP,
    LOCK_TIMEOUT,
    POOL_SIZE,
    SYNC_PROPERTIES,
    holds_lock,
    parse_count,
)
from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option

__all__ = ["OPTIONS", "JdbcOptions"]


URI: Option[str | None] = Option("uri", str.strip, None, "The JDBC address of the database.")
CATALOG_KEY = Option("catalog-key", str.strip, "jdbc", "Which catalog of the database this is.")
USER: Option[str | None] = Option("jdbc.user", str, None, "The user of the database.")
PASSWORD: Option[str | None] = Option("jdbc.password", str, None, "The password of that user.")
LOCK_KEY_LENGTH = Option("lock-key-max-length", parse_count, 255, "The longest key of a lock.")

OPTIONS: tuple[Option[Any], ...] = (
    URI,
    CATALOG_KEY,
    USER,
    PASSWORD,
    POOL_SIZE,
    LOCK_ENABLED,
    LOCK_TIMEOUT,
    LOCK_SLEEP,
    LOCK_KEY_LENGTH,
    SYNC_PROPERTIES,
)
"""These are all options of a JDBC catalog, beside those of storage."""


@dataclass(frozen=True, slots=True)
class JdbcOptions:
    """These are the options of a JDBC catalog but for the connection; times are in milliseconds."""

    key: str
    lock_enabled: bool
    lock_timeout_ms: int
    lock_sleep_ms: int
    lock_key_length: int
    sync_properties: bool

    @classmethod
    def from_options(cls, raw: Mapping[str, str], *, object_store: bool) -> JdbcOptions:
        """Read the options. The lock is on by default on object stores only, as in Java. Raises
        InvalidOptionError.
        """
        key = CATALOG_KEY.read(raw)
        if not key or len(key) > 255:
            raise InvalidOptionError(f"catalog option {CATALOG_KEY.key}={key}: it has 1 to 255 characters")
        return cls(
            key=key,
            lock_enabled=holds_lock(raw, object_store=object_store),
            lock_timeout_ms=LOCK_TIMEOUT.read(raw),
            lock_sleep_ms=LOCK_SLEEP.read(raw),
            lock_key_length=LOCK_KEY_LENGTH.read(raw),
            sync_properties=SYNC_PROPERTIES.read(raw),
        )
