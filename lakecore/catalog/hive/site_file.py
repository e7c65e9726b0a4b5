"""This module reads `hive-site.xml`, as far as a client of the metastore needs it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakecore.errors import NotFoundError, UnsupportedError
from lakecore.fs.stores.hadoop_site import check_values, site_properties

__all__ = ["METASTORE_URIS", "SOCKET_TIMEOUT", "WAREHOUSE_DIR", "read_site_file"]

METASTORE_URIS = "hive.metastore.uris"
WAREHOUSE_DIR = "hive.metastore.warehouse.dir"
SOCKET_TIMEOUT = "hive.metastore.client.socket.timeout"
_READ = (METASTORE_URIS, WAREHOUSE_DIR, SOCKET_TIMEOUT)
_NEW_NAMES = {
    "metastore.thrift.uris": METASTORE_URIS,
    "metastore.warehouse.dir": WAREHOUSE_DIR,
    "metastore.client.socket.timeout": SOCKET_TIMEOUT,
}
"""Hive 3 and 4 also know these names."""
_NOT_SUPPORTED = (
    "hive.metastore.sasl.enabled",
    "hive.metastore.use.SSL",
    "hive.metastore.thrift.framed.transport.enabled",
    "hive.metastore.thrift.compact.protocol.enabled",
)
_FILE = "hive-site.xml"


def read_site_file(directory: str) -> dict[str, str]:
    """Return the properties of `hive-site.xml` that a client obeys; all others are for Hive.

    Raises NotFoundError without the file, InvalidOptionError for one that is no configuration,
    UnsupportedError for a metastore that lakecore cannot speak to.
    """
    path = os.path.join(directory, _FILE)
    properties = _properties(path)
    for key in _NOT_SUPPORTED:
        if properties.get(key, "").strip().lower() == "true":
            raise UnsupportedError(
                f"{path}: property {key}=true: lakecore speaks to metastores without Kerberos and TLS, with "
                "the binary protocol only; use such an address of the metastore"
            )
    values = {_NEW_NAMES.get(key, key): value for key, value in properties.items()}
    check_values(path, values, _READ)
    return {key: values[key] for key in _READ if values.get(key, "").strip()}


def _properties(path: str) -> Mapping[str, str]:
    try:
        return site_properties(path)
    except FileNotFoundError as err:
        raise NotFoundError(
            f"{path} does not exist; correct hive-conf-dir or HIVE_CONF_DIR, or give the option uri"
        ) from err
