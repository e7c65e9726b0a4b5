"""This module has the fields of a connection of the type `lakecore` that stand for options of a catalog, and
makes such a connection of a catalog. It imports nothing of Airflow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakecore.catalog.config import CatalogConfig

__all__ = ["OPTION_OF_FIELD", "connection_of", "store_options"]

OPTION_OF_FIELD: Mapping[str, str] = MappingProxyType(
    {
        "s3_endpoint": "s3.endpoint",
        "s3_region": "s3.region",
        "s3_session_token": "s3.session-token",
        "azure_account_key": "fs.azure.account.key",
        "azure_sas_token": "fs.azure.sas.fixed.token",
        "gcs_key_file": "fs.gs.auth.service.account.json.keyfile",
        "oss_endpoint": "fs.oss.endpoint",
        "oss_access_key_id": "fs.oss.accessKeyId",
        "oss_access_key_secret": "fs.oss.accessKeySecret",
        "metastore": "metastore",
        "catalog_uri": "uri",
        "catalog_key": "catalog-key",
        "catalog_lock": "lock.enabled",
        "jdbc_user": "jdbc.user",
        "jdbc_password": "jdbc.password",
        "warehouse_user": "user",
        "warehouse_password": "password",
        "token_provider": "token.provider",
        "catalog_token": "token",
        "token_file": "token-file",
        "service_location": "lakecore.service-location",
    }
)
"""These fields of `extra` are options of the catalog under another name."""
_GCS_KEY_FILE = "fs.gs.auth.service.account.json.keyfile"
_GCS_AUTHENTICATION = "fs.gs.auth.type"
_CREDENTIALS = {"s3.access-key": "login", "s3.secret-key": "password"}


def store_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that follow from others: a key file of Google is used with its own way to log in
    only.
    """
    if _GCS_KEY_FILE in options and _GCS_AUTHENTICATION not in options:
        return {_GCS_AUTHENTICATION: "SERVICE_ACCOUNT_JSON_KEYFILE"}
    return {}


def connection_of(config: CatalogConfig, spark_master: str) -> dict[str, Any]:
    """Return a connection that opens the catalog, as `airflow connections import` reads it. It has the
    secrets of the catalog.

    An option without a field of its own is among the further options. A relative path of a warehouse becomes
    absolute, because Airflow's processes have other working directories.
    """
    fields = {option: field for field, option in OPTION_OF_FIELD.items()}
    extra = {fields[name]: value for name, value in config.options.items() if name in fields}
    credentials = {
        _CREDENTIALS[name]: value for name, value in config.options.items() if name in _CREDENTIALS
    }
    further = {
        name: value
        for name, value in config.options.items()
        if name not in fields and name not in _CREDENTIALS
    }
    if further:
        extra["catalog_options"] = json.dumps(further, sort_keys=True)
    if spark_master:
        extra["spark_master"] = spark_master
    connection = {"conn_type": "lakecore", "host": _host(config), **credentials}
    return connection | {"extra": extra} if extra else connection  # Airflow cannot store an empty one


def _host(config: CatalogConfig) -> str:
    is_path = ":" not in config.warehouse and config.options.get("metastore") != "rest"
    return os.path.abspath(config.warehouse) if config.warehouse and is_path else config.warehouse
