"""This module has the provider information that Airflow reads from the entry point
`apache_airflow_provider`: the connection type and its form.
"""

from __future__ import annotations

from typing import Any

__all__ = ["get_provider_info"]


def _text(label: str, description: str, *, secret: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if secret:
        schema["format"] = "password"
    return {"label": label, "description": description, "schema": schema}


def get_provider_info() -> dict[str, Any]:
    """Return the provider description. A `lakecore` connection is a warehouse and the options to
    access it.
    """
    return {
        "package-name": "lakecore",
        "name": "lakecore",
        "description": "Maintenance of Apache Paimon lake tables.",
        "versions": ["0.1.0"],
        "extra-links": ["lakecore_airflow.links.ReportLink", "lakecore_airflow.links.TableLink"],
        "connection-types": [
            {
                "connection-type": "lakecore",
                "hook-class-name": "lakecore_airflow.hooks.LakeHook",
                "hook-name": "Paimon lake (lakecore)",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port"],
                    "relabeling": {
                        "host": "Warehouse",
                        "login": "S3 access key",
                        "password": "S3 secret key",
                    },
                    "placeholders": {
                        "host": "/data/warehouse or s3://bucket/warehouse",
                        "login": "only for s3:// warehouses; empty = the environment's credentials",
                    },
                },
                "conn-fields": {
                    "s3_endpoint": _text("S3 endpoint", "URL of an S3-compatible store; empty for AWS"),
                    "s3_region": _text("S3 region", "for example eu-central-1"),
                    "s3_path_style": {
                        "label": "S3 path-style access",
                        "schema": {"type": ["boolean", "null"], "default": False},
                    },
                    "s3_session_token": _text("S3 session token", "for temporary credentials", secret=True),
                    "azure_account_key": _text("Azure account key", "for abfss:// warehouses", secret=True),
                    "azure_sas_token": _text(
                        "Azure shared access signature", "instead of the account key", secret=True
                    ),
                    "gcs_key_file": _text(
                        "Google key file", "for gs://: path of a service account's JSON key on each worker"
                    ),
                    "oss_endpoint": _text("OSS endpoint", "for example oss-cn-hangzhou.aliyuncs.com"),
                    "oss_access_key_id": _text("OSS access key id", "for oss:// warehouses"),
                    "oss_access_key_secret": _text(
                        "OSS access key secret", "secret of that access key", secret=True
                    ),
                    "metastore": _text("Metastore", "filesystem (default), hive, jdbc or rest"),
                    "catalog_uri": _text(
                        "Address of the metastore",
                        "jdbc:postgresql://host/db, jdbc:mysql://host/db, thrift://host:9083 or https://host",
                        secret=True,
                    ),
                    "catalog_key": _text("Key of the catalog", "jdbc: which catalog of the database"),
                    "catalog_lock": _text(
                        "Lock of the catalog",
                        "hive, jdbc: true where commits take Paimon's lock, as Java's do",
                    ),
                    "jdbc_user": _text("User of the metastore", "jdbc: user of the database"),
                    "jdbc_password": _text(
                        "Password of the metastore", "jdbc: password of that user", secret=True
                    ),
                    "warehouse_user": _text(
                        "User of the warehouse", "where Paimon's users and privileges hold"
                    ),
                    "warehouse_password": _text(
                        "Password of the warehouse", "password of that user", secret=True
                    ),
                    "token_provider": _text("Provider of tokens", "rest: bear or dlf"),
                    "catalog_token": _text("Token of the catalog", "rest: the bearer token", secret=True),
                    "token_file": _text("File with the token", "rest: read again when the token changes"),
                    "service_location": _text(
                        "Place of lakecore's own files", "rest: a directory or s3:// prefix; chores need it"
                    ),
                    "catalog_options": _text(
                        "Further options", "a JSON object of options of the catalog", secret=True
                    ),
                    "query_service_token": _text(
                        "Token of query services", "clients must send it; Java's cannot", secret=True
                    ),
                    "spark_master": _text(
                        "Spark master", "local[*] (default), spark://host:7077, yarn, sc://host:15002, …"
                    ),
                    "price_core_hour": _text(
                        "Price of a core for an hour", "0.05; the pages then show what maintenance costs"
                    ),
                    "price_gb_month": _text("Price of a GB for a month", "0.023; of the storage of the lake"),
                    "currency": _text("Currency", "EUR, $: shown beside amounts"),
                    "table_url": _text(
                        "Page of a table",
                        "where the button Table of a task leads: https://catalog/{database}/{table}",
                    ),
                },
            }
        ],
    }
