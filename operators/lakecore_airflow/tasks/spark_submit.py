"""This module starts a driver by the submit hook of Airflow's Spark provider (extra `spark-submit`).

The hook reads the connection and makes the command. The process is started here, in a session of its own: in
client mode it is the driver, and it must outlive the task that defers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from lakecore_airflow.tasks.submit_settings import SubmitSettings

if TYPE_CHECKING:
    from lakecore.jobs.remote.command import RemoteCommand

__all__ = ["DriverProcess", "log_tail", "start_driver"]

_RETURN_AT_ONCE = {
    "spark.yarn.submit.waitAppCompletion": "false",
    "spark.kubernetes.submission.waitAppCompletion": "false",
}
"""In cluster mode spark-submit ends when the cluster has the application."""
_PREFIX = "lakecore-submit-"
_TAIL_BYTES = 20_000


@dataclass(frozen=True)
class DriverProcess:
    """This is the process of spark-submit, and the file with its output."""

    process: subprocess.Popen[bytes]
    log: str
    in_cluster: bool
    """It tells whether the driver runs in the cluster, and not in this process."""

    def kill(self) -> None:
        """Ask the process and its children to end."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)


def start_driver(
    settings: SubmitSettings,
    command: RemoteCommand,
    conf: Mapping[str, Any],
    name: str,
    secrets: Mapping[str, str],
) -> DriverProcess:
    """Start spark-submit. `secrets` are variables that only a driver on this machine gets.

    Raises InvalidInputError without the provider or the connection, UnavailableError when a standalone master
    does not answer, UnsupportedError for a master of Spark Connect.
    """
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.remote.command import driver_file
    from lakecore.spark.master import check_form, check_master, refuse_connect

    hook = _hook(settings, command, conf, name)
    master, deploy_mode = hook._connection["master"], hook._connection["deploy_mode"]
    refuse_connect(
        master,
        "spark-submit starts a driver, and at this address is one that runs; engine=spark can use it",
    )
    check_form(master)
    check_master(master)
    in_cluster = deploy_mode == "cluster"
    if in_cluster and master.startswith(("spark://", "local")):
        raise InvalidInputError(
            f"deploy mode cluster with the master {master}: Spark runs Python drivers in the cluster on YARN "
            "and Kubernetes only; use the mode client"
        )
    try:
        argv = hook._build_spark_submit_command(settings.application or driver_file())
    except ValueError as err:
        raise InvalidInputError(f"Spark connection {settings.conn_id!r}: {err}") from err
    environment = {**os.environ, **{key: str(value) for key, value in (hook._env or {}).items()}}
    if not in_cluster:
        environment = {**environment, **command.environment, **secrets}
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    number, log = tempfile.mkstemp(prefix=_PREFIX, suffix=".log")
    try:
        process = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=number,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as err:
        raise InvalidInputError(
            f"{argv[0]} cannot be started ({err}); put it on the PATH of the worker, or name another "
            "spark-binary"
        ) from err
    finally:
        os.close(number)
    return DriverProcess(process, log, in_cluster)


def log_tail(log: str | None, lines: int = 40) -> str:
    """Return the last lines of the output of a driver, without secrets; empty if the file is not here."""
    from lakecore.errors import mask_secrets

    if log is None or not Path(log).name.startswith(_PREFIX):
        return ""
    try:
        with open(log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return mask_secrets("\n".join(text.splitlines()[-lines:]))


def _hook(settings: SubmitSettings, command: RemoteCommand, conf: Mapping[str, Any], name: str) -> Any:
    from lakecore.errors import InvalidInputError
    from lakecore_airflow.airflow_names import AirflowException

    try:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    except ImportError as err:
        raise InvalidInputError(
            "engine=submit needs Airflow's Spark provider: pip install 'lakecore[airflow,spark-submit]'"
        ) from err
    try:
        BaseHook.get_connection(settings.conn_id)  # the hook itself would submit to YARN without one
    except AirflowException as err:
        raise InvalidInputError(
            f"there is no connection {settings.conn_id!r} of type Spark, which engine=submit needs: {err}"
        ) from err
    arguments = dict(settings.hook)
    variables = {**command.environment, **arguments.pop("env_vars", {})}
    return SparkSubmitHook(
        conn_id=settings.conn_id,
        conf={**_RETURN_AT_ONCE, **conf},
        name=name,
        application_args=list(command.arguments),
        env_vars=variables or None,
        **arguments,
    )
