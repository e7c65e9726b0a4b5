"""The `lakecore` connection: it opens the catalog from its fields, and turns lakecore's errors into
Airflow's.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.connection_fields import OPTION_OF_FIELD, store_options
from lakecore_airflow.secrets import conceal

if TYPE_CHECKING:
    from lakecore.catalog.catalog import Catalog
    from lakecore.jobs.cost.prices import PriceList
    from lakecore.jobs.remote.store import JobStore

__all__ = ["LakeHook", "airflow_errors", "is_permanent"]


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Fail the task at once for errors that no retry can repair; every other error is retried as usual."""
    from lakecore.errors import LakeError, explain

    try:
        yield
    except LakeError as err:
        if is_permanent(err):
            raise AirflowFailException(f"{type(err).__name__}: {explain(err)}") from err
        raise


def is_permanent(err: Exception) -> bool:
    """Return whether a retry without any change must fail again; False means that a retry may help.

    A conflict, an unanswered commit, storage that did not answer and a lease that somebody holds are retried,
    and so is every error that is not of lakecore.
    """
    from lakecore.errors import (
        AlreadyExistsError,
        CorruptDataError,
        InvalidInputError,
        NotFoundError,
        OnHoldError,
        PrivilegeError,
        ProofError,
    )

    permanent = (
        InvalidInputError,
        CorruptDataError,
        NotFoundError,
        AlreadyExistsError,
        PrivilegeError,
        ProofError,
        OnHoldError,
    )
    return isinstance(err, permanent)


class LakeHook(BaseHook):
    """It opens the catalog that a connection of type `lakecore` describes.

    Host is the warehouse; login and password are S3 keys; other fields are in `extra`, read key by key.
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = "lake_default"
    conn_type = "lakecore"
    hook_name = "Paimon lake (lakecore)"

    def __init__(self, lake_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake_conn_id = lake_conn_id

    def warehouse(self) -> str:
        """Return the warehouse of the connection. Raises InvalidInputError when its host field is empty."""
        from lakecore.errors import InvalidInputError

        conn = self.get_connection(self.lake_conn_id)
        if not conn.host:
            raise InvalidInputError(
                f"connection {self.lake_conn_id!r} names no warehouse: put its path or s3:// address there"
            )
        location = _location(conn.host, conn.schema)
        conceal(location)
        return location

    def options(self) -> dict[str, str]:
        """Return the options of the catalog and its storage, under the names of Paimon's catalog options."""
        conn = self.get_connection(self.lake_conn_id)
        extra = conn.extra_dejson
        options = {option: str(extra[field]) for field, option in OPTION_OF_FIELD.items() if extra.get(field)}
        options = {**self._further_options(extra.get("catalog_options")), **options}
        options |= store_options(options)
        if str(extra.get("s3_path_style", "")).lower() in ("true", "1"):  # text when the connection is a URI
            options["s3.path.style.access"] = "true"
        if conn.login:
            options["s3.access-key"] = conn.login
        if conn.password:
            options["s3.secret-key"] = conn.password
        conceal(options)
        return options

    def _further_options(self, text: object) -> dict[str, str]:
        """Return the options of the field for further ones, a JSON object. Its text may hold secrets."""
        from lakecore.errors import InvalidInputError

        if not text:
            return {}
        try:
            options = json.loads(text) if isinstance(text, str) else text
        except ValueError:
            options = None
        if not isinstance(options, dict) or any(isinstance(one, dict | list) for one in options.values()):
            raise InvalidInputError(
                f"connection {self.lake_conn_id!r}: further options are a JSON object of texts, such as "
                '{"dlf.region": "cn-hangzhou"}'
            )
        return {key: str(one).lower() if isinstance(one, bool) else str(one) for key, one in options.items()}

    def spark_master(self) -> str | None:
        """Return the master that the connection names; None means the engine's default, `local[*]`."""
        master = self.get_connection(self.lake_conn_id).extra_dejson.get("spark_master")
        return str(master) if master else None

    def price_list(self) -> PriceList:
        """Return what a core hour and a stored GB cost, as the connection says. Raises InvalidInputError for
        what is no price.
        """
        from lakecore.jobs.cost.prices import PriceList

        extra = self.get_connection(self.lake_conn_id).extra_dejson
        return PriceList.parse({name: extra.get(name) for name in PriceList.names()})

    def query_service_token(self) -> str | None:
        """Return the token that clients of query services must send; None where the connection has none."""
        token = self.get_connection(self.lake_conn_id).extra_dejson.get("query_service_token")
        return str(token) if token else None

    def table_url(self, table: str) -> str | None:
        """Return the address of the table's page elsewhere, from the connection's pattern with `{database}`
        and `{table}`.
        """
        pattern = self.get_connection(self.lake_conn_id).extra_dejson.get("table_url")
        if not pattern:
            return None
        database, _, name = table.partition(".")
        parts = {"{database}": database, "{table}": name}
        for hole, value in parts.items():
            pattern = str(pattern).replace(hole, urllib.parse.quote(value, safe=""))
        return str(pattern)

    def catalog(self) -> Catalog:
        """Open the catalog of the warehouse. Raises NotFoundError, InvalidInputError, UnavailableError."""
        from lakecore.catalog.config import CatalogConfig
        from lakecore.catalog.registry import open_catalog, with_catalog_name

        with with_catalog_name(self.lake_conn_id):
            return open_catalog(CatalogConfig(self.warehouse(), self.options()))

    def job_store(self) -> JobStore:
        """Return the jobs in the warehouse. Raises the errors of `catalog`."""
        from lakecore.clock import SystemClock
        from lakecore.jobs.remote.store import JobStore

        catalog = self.catalog()
        return JobStore(catalog.file_io, catalog.warehouse, SystemClock())

    def get_conn(self) -> Catalog:
        return self.catalog()

    def test_connection(self) -> tuple[bool, str]:
        """List the warehouse's databases, write and delete a small file below `.lakecore`, and connect to the
        Spark master or Spark Connect server: this is what the Test button of the connection form shows.
        """
        from lakecore.errors import LakeError
        from lakecore.spark.connect.address import without_parameters
        from lakecore.spark.master import check_form, check_master

        if not self.get_connection(self.lake_conn_id).host:  # Airflow tests a form under a random id
            return False, "the connection names no warehouse: put its path or s3:// address there"
        master = self.spark_master()
        try:
            catalog = self.catalog()
            databases = catalog.list_databases()
            if master is not None:
                check_form(master)
                check_master(master)
        except LakeError as err:
            return False, str(err)
        message = f"{len(databases)} database(s)"
        if not databases:
            message = _without_databases(catalog)
        if problem := self._why_not_written(catalog):
            message += f"; it can only be read: {problem}"
        spark = f"; the Spark master is {without_parameters(master)}" if master is not None else ""
        return True, f"{self.warehouse()} is reachable: {message}{spark}"

    def _why_not_written(self, catalog: Catalog) -> str:
        """Return why the warehouse cannot be written, or an empty text. A REST catalog is not asked: its
        server decides that for each table.
        """
        from lakecore.clock import SystemClock
        from lakecore.errors import LakeError
        from lakecore.fs.confined import service_files

        if self.options().get("metastore") == "rest":
            return ""
        file_io = service_files(catalog.file_io, catalog.warehouse)
        folder = f"{catalog.warehouse.rstrip('/')}/.lakecore/connection_test"
        path = f"{folder}/{SystemClock().fresh_id()}"
        try:
            file_io.write_new(path, b"the Test button of an Airflow connection wrote this")
            file_io.delete(path)
            file_io.delete(folder)
        except LakeError as err:
            return str(err)
        return ""


def _without_databases(catalog: Catalog) -> str:
    """Say what a warehouse without databases is: an empty one, or a directory with something else."""
    others = [one.name for one in catalog.file_io.list(catalog.warehouse) if not one.name.startswith(".")]
    if others:
        return f"it has no database, but other files, such as {others[0]}: is this the warehouse?"
    return "it has no database yet; if it should have some, this is not the warehouse"


def _location(host: str, scheme: str | None) -> str:
    """Join host and scheme: a connection that is given as a URI (`lakecore://…`) may have its scheme in
    another field.
    """
    return f"{scheme}://{host}" if scheme and "://" not in host else host
