"""This module has the operator that keeps the query service of a table alive, and the sensor for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from lakecore_airflow.airflow_names import AirflowSkipException
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.links import ReportLink, TableLink
from lakecore_airflow.secrets import LakeTask, conceal
from lakecore_airflow.tasks.run_time import stopped_after

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from lakecore.service.query_service import ServiceOptions

__all__ = ["QueryServiceOperator", "QueryServiceSensor"]


class QueryServiceOperator(LakeTask):
    """Run the query service of a table in this task, until `run_for` is over or the task is stopped.

    Where a service runs already, the task is skipped: a DAG that is scheduled every few minutes keeps one
    alive. A task that is stopped answers what was asked, and takes its address out of the table. A token that
    clients must send is the field `query_service_token` in `extra` of the connection. The XCom has the
    address, the number of requests, and the last snapshot.

    :param table: `database.table`. (templated)
    :param host: address of the worker to listen on; with `0.0.0.0` clients find the service under the full
        name of the worker. (templated)
    :param port: 0 for a free port.
    :param interval: seconds between two refreshes.
    :param run_for: end after this time; None: run until the task is stopped.
    :param cache_directory: directory of the worker for local copies of data files, or several, separated by
        commas; other processes of the machine share them, and the next task finds them again. None: a
        temporary directory, which the task removes at its end. (templated)
    """

    template_fields: Sequence[str] = ("table", "host", "cache_directory", "lake_conn_id")
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(), TableLink())
    ui_color = "#e3ecf8"

    def __init__(
        self,
        *,
        table: str,
        lake_conn_id: str = LakeHook.default_conn_name,
        host: str = "127.0.0.1",
        port: int = 0,
        interval: float = 10.0,
        run_for: timedelta | None = None,
        cache_directory: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.lake_conn_id = lake_conn_id
        self.host = host
        self.port = port
        self.interval = interval
        self.run_for = run_for
        self.cache_directory = cache_directory
        self._stop: threading.Event | None = None  # tasks are copied, and events cannot be

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.errors import AlreadyExistsError
        from lakecore.service.query_service import QueryService

        with airflow_errors(), stopped_after(self.run_for) as stop:
            self._stop = stop
            catalog = LakeHook(self.lake_conn_id).catalog()
            with QueryService(lambda: catalog.load_table(self.table), self._options()) as service:
                try:
                    address = service.start()
                except AlreadyExistsError as err:
                    raise AirflowSkipException(str(err)) from err
                self.log.info("table %s is served at %s", self.table, address)
                service.run(stop)
                health = service.health()
                requests = service.figures.requests
        self.log.info("%d requests were answered", requests)
        return {
            "table": self.table,
            "address": str(address),
            "snapshot": health["snapshot"],
            "requests": requests,
        }

    def on_kill(self) -> None:
        """Let the service end: it answers what was asked, and takes its address out of the table."""
        if self._stop is not None:
            self._stop.set()

    def _cache_directories(self) -> tuple[str, ...]:
        names = (self.cache_directory or "").split(",")
        return tuple(name.strip() for name in names if name.strip())

    def _options(self) -> ServiceOptions:
        from lakecore.service.query_service import ALL_ADDRESSES, ServiceOptions
        from lakecore.service.server_options import ServerOptions

        token = LakeHook(self.lake_conn_id).query_service_token()
        conceal({"token": token})
        return ServiceOptions(
            server=ServerOptions(
                host=self.host,
                port=self.port,
                token=token,
                cache_directories=self._cache_directories(),
            ),
            advertised_host=socket.getfqdn() if self.host in ALL_ADDRESSES else None,
            interval=self.interval,
        )


class QueryServiceSensor(BaseSensorOperator):
    """Wait until a query service of a table is registered and all its servers accept connections.

    The XCom has the addresses. The servers are asked by a connection without a request, from the worker: use
    `mode="reschedule"` where the wait may be long.

    :param table: `database.table`. (templated)
    """

    template_fields: Sequence[str] = ("table", "lake_conn_id")
    operator_extra_links: Sequence[BaseOperatorLink] = (TableLink(),)

    def __init__(self, *, table: str, lake_conn_id: str = LakeHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.lake_conn_id = lake_conn_id

    def poke(self, context: Context) -> PokeReturnValue:
        from lakecore.service.registration import accepts_connections
        from lakecore.service.remote_query import service_manager

        with airflow_errors():
            table = LakeHook(self.lake_conn_id).catalog().load_table(self.table)
            addresses = service_manager(table).service() or ()
        silent = [str(one) for one in addresses if not accepts_connections(one)]
        if not addresses or silent:
            reason = f"no answer from {', '.join(silent)}" if silent else "no service is registered"
            self.log.info("table %s: %s", self.table, reason)
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(
            is_done=True, xcom_value={"table": self.table, "addresses": [str(one) for one in addresses]}
        )
