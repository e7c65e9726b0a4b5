"""This module checks the address of a Spark Connect server, and asks the server whether it answers."""

from __future__ import annotations

import os
import re
import uuid
from typing import TYPE_CHECKING, Any, TypeGuard

from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.spark.versions import CONNECT, check_feature

if TYPE_CHECKING:
    from pyspark.sql.connect.client import DefaultChannelBuilder

__all__ = [
    "channel_builder",
    "check_address",
    "check_client",
    "check_server",
    "is_connect",
    "without_parameters",
]

_SCHEME = "sc://"
_FORM = re.compile(r"sc://(\[[0-9A-Fa-f:.]+\]|[^/;\s:\[\]]+)(:(\d{1,5}))?/?(;[^;=\s]+=[^;\s]*)*;?")
_ANSWER_SECONDS = 5.0
"""A server may take so long to answer."""


def is_connect(master: str | None) -> TypeGuard[str]:
    """Return whether a master is the address of a Spark Connect server."""
    return master is not None and master.startswith(_SCHEME)


def without_parameters(master: str) -> str:
    """Return the address for messages: without its parameters, among which may be a token."""
    return master.partition(";")[0].rstrip("/")


def check_address(master: str) -> None:
    """Check the form of an address: `sc://host:port`, by default with port 15002, then `/;key=value;…`.

    Raises InvalidInputError.
    """
    match = _FORM.fullmatch(master)
    if match is None or not 0 < int(match[3] or 15002) < 1 << 16:
        raise InvalidInputError(
            f"Spark Connect server {without_parameters(master)!r} is no address; write "
            "sc://host:15002, or with parameters sc://host:15002/;use_ssl=true;token=…"
        )


def check_client() -> None:
    """Raise InvalidInputError where the client of Spark Connect is not installed, UnsupportedError for a
    PySpark that is too old.
    """
    remedy = "pip install 'lakecore[connect]', or use the local engine"
    try:
        check_feature(CONNECT, "jobs on Spark Connect")
        from pyspark.sql.connect.utils import check_dependencies

        check_dependencies()
    except ImportError as err:
        reason = str(err).strip().split("\n", 1)[0]
        raise InvalidInputError(f"Spark Connect cannot be used here ({reason}): {remedy}") from err


def check_server(master: str) -> str:
    """Ask the server for the version of its Spark, and return it. It takes 5 s at most.

    Raises the errors of `check_address` and `check_client`, UnavailableError with the reason when no server
    of Spark Connect answers.
    """
    check_address(master)
    check_client()
    import grpc

    try:
        return _spark_version(channel_builder(master))
    except grpc.RpcError as err:
        raise UnavailableError(
            f"the Spark Connect server {without_parameters(master)} does not answer ({_reason(err)}); check "
            "its address, and that it runs"
        ) from err


def channel_builder(server: str) -> DefaultChannelBuilder:
    """Return what makes connections to a server. They share nothing with earlier ones: gRPC would not try a
    server again for some seconds after one that was refused.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder

    return DefaultChannelBuilder(server, [("grpc.use_local_subchannel_pool", 1)])


def _spark_version(builder: DefaultChannelBuilder) -> str:
    """Ask in a session of its own, which is released. Raises grpc.RpcError."""
    from pyspark.sql.connect import proto

    user = builder.userId or os.environ.get("SPARK_USER", os.environ.get("USER"))
    ids = {"session_id": str(uuid.UUID(bytes=os.urandom(16), version=4)), "user_context": {"user_id": user}}
    call: dict[str, Any] = {"metadata": builder.metadata(), "timeout": _ANSWER_SECONDS}
    with builder.toChannel() as channel:
        stub = proto.SparkConnectServiceStub(channel)
        request = proto.AnalyzePlanRequest(**ids)
        request.spark_version.SetInParent()
        answer = stub.AnalyzePlan(request, **call)
        stub.ReleaseSession(proto.ReleaseSessionRequest(**ids), **call)
    return str(answer.spark_version.version)


def _reason(err: Any) -> str:
    import grpc

    if err.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"there was no answer within {_ANSWER_SECONDS:g} s"
    return str(err.details()).strip().split("\n", 1)[0] or str(err.code())
