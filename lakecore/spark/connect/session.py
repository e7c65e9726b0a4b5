"""This module opens sessions of Spark Connect, and tells errors of a lost session from those of a job."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError, UnavailableError
from lakecore.spark.connect.address import channel_builder, check_client, check_server, without_parameters
from lakecore.spark.connect.remote_version import check_workers

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

__all__ = ["ConnectSession", "has_no_session", "is_connection_error", "open_session", "use_session"]

_RETRIES: dict[str, Any] = {"max_retries": 8, "max_backoff": 5000}
"""A server that does not answer is asked again for some 25 s; PySpark asks for more than 10 min."""
_NO_SESSION = ("INVALID_HANDLE", "NO_ACTIVE_SESSION", "RESPONSE_ALREADY_RECEIVED")


@dataclass(frozen=True, slots=True)
class ConnectSession:
    """It is a session whose server has the lakecore of this process."""

    session: SparkSession
    cores: int
    """The server runs so many tasks at once."""
    server: str
    """This is its address as messages show it."""
    is_own: bool
    """It tells whether lakecore opened the session, and so closes it."""

    def close(self) -> None:
        """Release the session on the server, if it was opened here."""
        if self.is_own:
            self.session.stop()

    def drop(self) -> None:
        """Close the connection to a server that is gone, or has forgotten the session."""
        if self.is_own:
            with suppress(Exception):  # nothing of it is used any more
                self.session.client.close()


def open_session(server: str, conf: Mapping[str, str]) -> ConnectSession:
    """Open a session with properties of Spark. It takes some seconds. Raises the errors of `check_server` and
    `check_workers`; InvalidInputError for a property that a session cannot change; UnavailableError.
    """
    check_server(server)
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    _silence_client()
    session = SparkSession(connection=channel_builder(server))
    session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
    opened = ConnectSession(session, 0, without_parameters(server), is_own=True)
    try:
        _set(session, conf)
        return _checked_session(opened)
    except BaseException:
        opened.close()
        raise


def use_session(session: SparkSession) -> ConnectSession:
    """Return an open session, which stays open. Raises the errors of `check_client` and
    `check_workers`; UnavailableError.
    """
    check_client()
    host = f"sc://{session.client.host}"
    return _checked_session(ConnectSession(session, 0, host, is_own=False))


def is_connection_error(err: BaseException) -> bool:
    """Return whether an error means that the server does not answer, or has forgotten the session."""
    import grpc

    code = getattr(err, "_grpc_status_code", None)
    return code is grpc.StatusCode.UNAVAILABLE or has_no_session(err)


def has_no_session(err: BaseException) -> bool:
    """Return whether an error means that the server answers and has forgotten the session: it was started
    anew, or the session was idle for too long.
    """
    text = f"{getattr(err, '_errorClass', None) or ''} {err}"
    # PySpark asserts that answers come from one server
    return isinstance(err, AssertionError) or any(name in text for name in _NO_SESSION)


def _silence_client() -> None:
    """Let PySpark neither log nor warn of calls that failed, with traces of stacks: errors have that."""
    client = logging.getLogger("pyspark.sql.connect.logging")
    if client.level == logging.NOTSET:
        client.setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=r"pyspark\.sql\.connect\.client")


def _checked_session(opened: ConnectSession) -> ConnectSession:
    try:
        cores = check_workers(opened.session)
    except LakeError:
        raise
    except Exception as err:  # PySpark raises several unrelated types here
        reason = str(err).strip().split("\n", 1)[0]
        raise UnavailableError(
            f"no task ran on the Spark Connect server {opened.server}: {reason}; look at its log"
        ) from err
    return ConnectSession(opened.session, cores, opened.server, opened.is_own)


def _set(session: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        try:
            session.conf.set(key, value)
        except Exception as err:  # PySpark raises several unrelated types here
            reason = str(err).strip().split("\n", 1)[0]
            raise InvalidInputError(
                f"property {key} of Spark: a session of Spark Connect cannot set it ({reason}); leave it "
                "out, or set it where the server is started"
            ) from err
