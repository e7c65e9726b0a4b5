"""This module provides the Spark context that units run in: the active one, or a new one set up for Python
work without SQL.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.spark.class_archive import share_options
from lakecore.spark.java import find_java
from lakecore.spark.master import check_form, check_master, refuse_connect
from lakecore.spark.stderr_capture import StderrCapture
from lakecore.spark.versions import check_version

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

__all__ = ["DRIVER_JVM", "LOCAL_TRIES", "by_spark_submit", "has_context", "spark_context", "stderr_capture"]

logger = logging.getLogger(__name__)

LOCAL_TRIES = 4
"""A unit whose Python worker died is tried so often, in local mode too (Spark's own default there is one)."""

_LOG4J = Path(__file__).with_name("log4j2.properties")
DRIVER_JVM: tuple[str, ...] = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
)
"""The driver's JVM schedules and carries small messages: it starts faster without the optimising compiler."""

_LAUNCHER_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # it composes the driver's command line

_DEFAULTS = {
    "spark.app.name": "lakecore",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # 7.6 ms a task instead of 27
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "lakecore.spark.daemon",
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",  # workers keep what they free: see lakecore/__init__.py
    "spark.task.maxFailures": str(LOCAL_TRIES),
}
_LOCAL_DEFAULTS = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",  # whatever this machine's name resolves to
    "spark.driver.host": "127.0.0.1",
}


_stderr: StderrCapture | None = None
"""Of the JVM that this process started; pyspark keeps it, too, until the process ends."""


def stderr_capture() -> StderrCapture | None:
    """Return the captured standard error of the driver's JVM; None where another process started it."""
    return _stderr


def has_context() -> bool:
    """Return whether this process has an active Spark context. It does not import pyspark."""
    context_class = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return getattr(context_class, "_active_spark_context", None) is not None


def spark_context(
    master: str | None = None, conf: Mapping[str, str] | None = None
) -> tuple[SparkContext, bool]:
    """Return the active context (then `master` and `conf` are not used), or a new one; and whether it is new.

    `master` None means what spark-submit says, else `local[*]`. A new context takes seconds. Raises
    InvalidInputError without pyspark or Java, UnsupportedError for a pyspark that is
    too old, UnavailableError when Spark does not start.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise InvalidInputError(
            "pyspark is not installed: pip install 'lakecore[spark]', or use the local engine"
        )
    import pyspark

    if not hasattr(pyspark.SparkContext, "_active_spark_context"):  # pyspark-client: Spark Connect alone
        raise InvalidInputError("this pyspark has no SparkContext (pyspark-client): install pyspark itself")
    check_version()
    active = pyspark.SparkContext._active_spark_context
    if active is not None:
        if master is not None and master != active.master:
            logger.info("the job uses the active Spark context on %s instead of %s", active.master, master)
        return active, False
    return _start(master, conf or {}), True


def by_spark_submit() -> bool:
    """Return whether spark-submit started this process, and has chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _start(master: str | None, conf: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    py4j = logging.getLogger("py4j")  # it narrates at INFO, even while the interpreter ends
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.WARNING)
    # Under spark-submit the JVM runs already, and knows its settings.
    submitted = by_spark_submit()
    jvm_options = DRIVER_JVM
    if not submitted:
        jvm_options += share_options(find_java())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(_LAUNCHER_JVM))
    settings = SparkConf()
    if master is not None:
        settings.setMaster(_with_tries(master))
    elif not submitted or not settings.contains("spark.master"):
        settings.setMaster(_with_tries("local[*]"))
    for key, value in conf.items():
        settings.set(key, value)
    settings.setIfMissing("spark.driver.extraJavaOptions", " ".join(jvm_options))
    for key, value in _defaults(settings.get("spark.master", "") or "").items():
        settings.setIfMissing(key, value)
    chosen = settings.get("spark.master") or ""
    if chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if not submitted:
        refuse_connect(chosen, "this needs a SparkContext, and a client of Spark Connect has none")
        check_form(chosen)
        check_master(chosen)
    try:
        return SparkContext(conf=settings, gateway=None if submitted else _gateway(settings))
    except Exception as err:  # py4j and pyspark raise several unrelated types here
        raise UnavailableError(
            f"Spark did not start on {settings.get('spark.master')}: {err}; check the master and spark conf"
        ) from err


def _gateway(settings: SparkConf) -> Any:
    """Start a JVM whose standard error is captured; None where this process has one already."""
    global _stderr
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    with SparkContext._lock:
        if SparkContext._gateway is not None:
            return None
    _stderr = StderrCapture()
    return launch_gateway(settings, {"stderr": _stderr.file})


def _defaults(master: str) -> dict[str, str]:
    return _DEFAULTS | (_LOCAL_DEFAULTS if master.startswith("local") else {})


def _with_tries(master: str) -> str:
    """Return the master with the number of tries: `local` and `local[N]` allow one try of a task, so more are
    spelled out.
    """
    if master == "local":
        return f"local[1,{LOCAL_TRIES}]"
    return re.sub(r"^local\[\s*([0-9]+|\*)\s*\]$", rf"local[\1,{LOCAL_TRIES}]", master)
