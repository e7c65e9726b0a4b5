"""This module chooses the executor of units on Spark by the master: a SparkContext, or Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from lakecore.spark.connect.address import check_address, check_client, is_connect
from lakecore.spark.connect.executor import ConnectExecutor
from lakecore.spark.executor import SparkExecutor
from lakecore.spark.java import find_spark

__all__ = ["new_start_check", "spark_executor"]

_MASTER, _REMOTE = "spark.master", "spark.remote"


def spark_executor(
    master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkExecutor | ConnectExecutor:
    """Return the executor for a master. The address `sc://host:port` means Spark Connect. It may also be the
    property `spark.remote` or `spark.master`, or, if no master is named, the variable `SPARK_REMOTE`.

    Nothing starts yet. Raises InvalidInputError for an address of another form.
    """
    server = _server(master, conf or {})
    if server is None:
        return SparkExecutor(master, conf)
    check_address(server)
    settings = {key: value for key, value in (conf or {}).items() if key not in (_MASTER, _REMOTE)}
    return ConnectExecutor(server, settings)


def new_start_check(master: str | None = None, conf: Mapping[str, str] | None = None) -> Callable[[], None]:
    """Return a function that raises a LakeError where the executor of `spark_executor` cannot start: a client
    of Spark Connect needs no Java.
    """
    return find_spark if _server(master, conf or {}) is None else check_client


def _server(master: str | None, conf: Mapping[str, str]) -> str | None:
    """Return the address of the Spark Connect server that is named, or None."""
    address = conf.get(_REMOTE) or conf.get(_MASTER) or master or os.environ.get("SPARK_REMOTE")
    return address if is_connect(address) else None
