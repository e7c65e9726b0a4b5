"""This module declares the options that a catalog obeys. Any other is refused by name: an option without
effect would mislead.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from lakecore.catalog.privileges.options import PASSWORD, USER
from lakecore.catalog.warehouse.table_defaults import TABLE_DEFAULT_PREFIX
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.fs.allowed_paths import PATH_OPTIONS
from lakecore.fs.resolve import STORAGE_OPTIONS
from lakecore.fs.stores.registry import accepts_option
from lakecore.store.cache.limits import CACHE_OPTIONS

__all__ = [
    "METASTORE",
    "ONLY_VALUES",
    "WAREHOUSE_KEYS",
    "WITHOUT_EFFECT",
    "catalog_option_keys",
    "check_catalog_options",
    "is_shared_option",
]

METASTORE = "metastore"

_KNOWN_KEYS = frozenset(
    {METASTORE, "warehouse"}
    | {key for one in (*STORAGE_OPTIONS, *PATH_OPTIONS, *CACHE_OPTIONS) for key in one.keys}
)
ONLY_VALUES: Mapping[str, tuple[str, str]] = {
    "cache.manifest.soft-values": ("false", "the memory of the cache is bounded by its options"),
    "catalog-options-table.enabled": ("true", "the table sys.catalog_options is always there"),
    "resolving-file-io.enabled": (
        "true",
        "a file outside of the warehouse is read from the store of its path",
    ),
}
"""One value of such an option describes what every catalog does here. It is accepted, and other values are
refused with the reason.
"""
_NO_BLOCK_CACHE = "blocks of data files are not kept on this machine, but for lookups (docs/lookup.md)"
WITHOUT_EFFECT: Mapping[str, str] = {
    "case-sensitive": "names are used as they are written; Flink's jobs for change data read the option",
    "allow-upper-case": "names are used as they are written; Flink's jobs for change data read the option",
    "lock.type": "the lock of a catalog is that of its metastore or database",
    "client-pool-cache.": "each catalog has connections of its own to a metastore",
    "default-database": "the name of a table has its database; a configured catalog may have the option",
    "disable-create-table-in-default-db": "the name of a new table has its database",
    "dlf.oss-endpoint": "the endpoint of data files is that of fs.oss.endpoint",
    "file-io.allow-cache": "connections to a store belong to a catalog, and end with it",
    "hadoop-conf-loader": "files of Hadoop are read from hadoop-conf-dir, HADOOP_CONF_DIR and HADOOP_HOME",
    "hadoop-load-default-config": "defaults of Hadoop's own jars are not read",
    "header.": "only catalogs with metastore=rest send headers",
    "io-cache.": _NO_BLOCK_CACHE,
    "lineage-use-catalog-key-as-identifier": "lineage names a table by its store and its path",
    "local-cache.": _NO_BLOCK_CACHE,
    "metastore.client.class": "a Hive metastore is asked in its own protocol, without classes of Java",
    "security.kerberos.login.use-ticket-cache": "the ticket cache is used where no keytab is given",
}
"""These are the reasons why options of Paimon, by the beginning of their keys, have no effect."""
WAREHOUSE_KEYS = frozenset(key for one in (USER, PASSWORD) for key in one.keys)
"""These options have the catalogs whose tables lie below one warehouse, of whatever kind."""


def check_catalog_options(
    options: Mapping[str, str], kind: str = "filesystem", own: frozenset[str] = frozenset()
) -> None:
    """Raise UnsupportedError for another metastore than `kind` and for values that no catalog obeys,
    InvalidOptionError for unknown options. `own` are the options of that kind of catalog, beside those of
    storage.
    """
    metastore = options.get(METASTORE, kind).strip().lower()
    if metastore != kind:
        raise UnsupportedError(
            f"catalog option {METASTORE}={options[METASTORE]}: this is a catalog of the kind {kind}; open it "
            "with lakecore.load_catalog, which chooses the kind"
        )
    for key, (only, why) in ONLY_VALUES.items():
        if options.get(key, only).strip().lower() != only:
            raise UnsupportedError(
                f"catalog option {key}={options[key]}: {why}; set it to {only}, or leave it out"
            )
    known_keys = _KNOWN_KEYS | own | set(ONLY_VALUES)
    for key in sorted(set(options) - known_keys):
        if key.startswith(TABLE_DEFAULT_PREFIX) or accepts_option(key):
            continue
        for beginning, why in WITHOUT_EFFECT.items():
            if key.startswith(beginning):
                raise UnsupportedError(f"catalog option {key}: it would have no effect: {why}; leave it out")
        near = get_close_matches(key, sorted(known_keys), 3)
        every_key = (
            f"did you mean {' or '.join(near)}"
            if near
            else f"the known options are {', '.join(sorted(known_keys))}, {TABLE_DEFAULT_PREFIX}*"
        )
        raise InvalidOptionError(f"catalog option {key}: it is unknown and would have no effect; {every_key}")


def is_shared_option(key: str) -> bool:
    """Return whether an option is obeyed by catalogs of every kind that have a warehouse."""
    return (
        key in _KNOWN_KEYS
        or key in ONLY_VALUES
        or key.startswith(TABLE_DEFAULT_PREFIX)
        or accepts_option(key)
    )


def catalog_option_keys() -> frozenset[str]:
    """Return the keys of the options that a catalog of a file system accepts."""
    return _KNOWN_KEYS | WAREHOUSE_KEYS | set(ONLY_VALUES)
