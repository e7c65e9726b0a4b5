"""This module has the options of a Hive catalog, with the names of Paimon's `HiveCatalogOptions`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from lakecore.catalog.hive.site_file import METASTORE_URIS, SOCKET_TIMEOUT, WAREHOUSE_DIR, read_site_file
from lakecore.catalog.remote.options import (
    LOCK_ENABLED,
    LOCK_SLEEP,
    LOCK_TIMEOUT,
    POOL_SIZE,
    SYNC_PROPERTIES,
)
from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum

__all__ = ["OPTIONS", "HiveOptions", "MetastoreAddress"]

_FORM = "thrift://HOST:PORT, several of them separated by commas"
_ADDRESS = re.compile(r"thrift://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})/?")


class TableKind(Enum):
    """This is the kind of new tables: whose files a drop removes, or not."""

    MANAGED = "managed"
    EXTERNAL = "external"


def _seconds_ms(text: str) -> int:
    """Parse a time of Hive's configuration, where a plain number means seconds."""
    return int(text) * 1000 if text.strip().isdigit() else parse_duration_ms(text)


URI: Option[str | None] = Option("uri", str.strip, None, "The thrift addresses of the metastore.")
CONF_DIR: Option[str | None] = Option("hive-conf-dir", str.strip, None, "The directory of hive-site.xml.")
IN_PROPERTIES = Option(
    "location-in-properties", parse_bool, False, "Whether locations are properties of tables and databases."
)
TABLE_TYPE = Option(
    "table.type", parse_enum(TableKind), TableKind.MANAGED, "Whether new tables are managed or external."
)
CASCADE = Option(
    "alter-table-cascade", parse_bool, True, "Whether changes of columns reach the entries of partitions."
)
SKIP_STATISTICS = Option(
    "hive.skip-update-stats", parse_bool, False, "Whether the metastore leaves a changed table's statistics."
)
TIMEOUT = Option(SOCKET_TIMEOUT, _seconds_ms, 600_000, "How long the metastore may take for an answer.")

FORMAT_TABLES = Option(
    "format-table.enabled", parse_bool, True, "Whether tables that Hive made of files are listed and read."
)

OPTIONS: tuple[Option[Any], ...] = (
    URI,
    CONF_DIR,
    IN_PROPERTIES,
    TABLE_TYPE,
    CASCADE,
    SKIP_STATISTICS,
    TIMEOUT,
    FORMAT_TABLES,
    POOL_SIZE,
    LOCK_ENABLED,
    LOCK_TIMEOUT,
    LOCK_SLEEP,
    SYNC_PROPERTIES,
)
"""These are all options of a Hive catalog, beside those of storage."""


@dataclass(frozen=True, slots=True)
class MetastoreAddress:
    """This is where a metastore listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HiveOptions:
    """These are the options of a Hive catalog; times are in milliseconds."""

    addresses: tuple[MetastoreAddress, ...]
    timeout_ms: int
    pool_size: int
    warehouse: str | None
    """It is the warehouse of hive-site.xml; None where that file names none."""
    in_properties: bool
    external: bool
    cascade: bool
    skip_statistics: bool
    sync_properties: bool
    format_tables: bool
    lock_enabled: bool | None
    """None means that no option decides: `HiveCatalog.open` then sets it by the storage of the warehouse."""
    lock_timeout_ms: int
    lock_sleep_ms: int

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> HiveOptions:
        """Read the options, and hive-site.xml in `hive-conf-dir` or $HIVE_CONF_DIR, over which options win.

        Raises InvalidOptionError, NotFoundError and UnsupportedError for the file.
        """
        directory = CONF_DIR.read(raw) or os.environ.get("HIVE_CONF_DIR", "").strip()
        site = read_site_file(directory) if directory else {}
        uri = URI.read(raw) or site.get(METASTORE_URIS)
        if not uri:
            raise InvalidOptionError(
                f"catalog option uri is missing; write {_FORM}, or name a directory by hive-conf-dir "
                f"whose hive-site.xml has {METASTORE_URIS}"
            )
        return cls(
            addresses=_addresses(uri),
            timeout_ms=max(TIMEOUT.read({**site, **raw}), 1),
            pool_size=POOL_SIZE.read(raw),
            warehouse=site.get(WAREHOUSE_DIR),
            in_properties=IN_PROPERTIES.read(raw),
            external=TABLE_TYPE.read(raw) is TableKind.EXTERNAL,
            cascade=CASCADE.read(raw),
            skip_statistics=SKIP_STATISTICS.read(raw),
            sync_properties=SYNC_PROPERTIES.read(raw),
            format_tables=FORMAT_TABLES.read(raw),
            lock_enabled=LOCK_ENABLED.read(raw),
            lock_timeout_ms=LOCK_TIMEOUT.read(raw),
            lock_sleep_ms=LOCK_SLEEP.read(raw),
        )


def _addresses(uri: str) -> tuple[MetastoreAddress, ...]:
    addresses = []
    for text in filter(None, (part.strip() for part in uri.split(","))):
        match = _ADDRESS.fullmatch(text)
        if match is None or not 0 < int(match[2]) < 1 << 16:
            raise InvalidOptionError(
                f"catalog option uri: an address of the metastore is not of the form {_FORM}"
            )
        addresses.append(MetastoreAddress(match[1].strip("[]"), int(match[2])))
    if not addresses:
        raise InvalidOptionError(f"catalog option uri: it has no address; write {_FORM}")
    return tuple(addresses)
