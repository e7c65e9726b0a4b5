"""This module checks whether a Spark master, or a Spark Connect server, answers: Spark itself tries for
minutes, and then does not say why.
"""

from __future__ import annotations

import re
import socket

from lakecore.errors import InvalidInputError, UnavailableError, UnsupportedError
from lakecore.processes.cores import core_count
from lakecore.spark.connect.address import check_address, check_server, is_connect, without_parameters

__all__ = ["check_form", "check_master", "local_cores", "refuse_connect"]

_STANDALONE = "spark://"
_FORMS = re.compile(r"local|local\[(\*|\d+)(,\s*\d+)?\]|local-cluster\[[\d,\s]+\]|spark://.+|yarn|k8s://.+")
_LOCAL = re.compile(r"local(\[(?P<cores>\*|\d+)(,\s*\d+)?\])?")
_SECONDS = 5.0
"""How long each address may take to answer."""


def check_form(master: str) -> None:
    """Check that a text is the address of a Spark master, or of a Spark Connect server. Raises
    InvalidInputError.
    """
    if is_connect(master):
        check_address(master)
    elif not _FORMS.fullmatch(master):
        raise InvalidInputError(
            f"Spark master {master!r} is no master of Spark; use local[*], spark://host:7077, yarn, k8s:// "
            "or sc://host:15002"
        )


def refuse_connect(master: str, reason: str) -> None:
    """Raise UnsupportedError with the reason if the master is the address of a Spark Connect server."""
    if is_connect(master):
        raise UnsupportedError(
            f"Spark master {without_parameters(master)}: {reason}; use local[*], spark://host:7077, yarn or k8s://"
        )


def local_cores(master: str) -> int | None:
    """Return the number of cores of a local master: that of a session, whose executor is the driver. None: it
    is another one.
    """
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match["cores"] or "1"
    return core_count() if cores == "*" else max(int(cores), 1)


def check_master(master: str) -> None:
    """Connect to a standalone master, `spark://host:port[,host:port]`, and hang up; one answer is enough. A
    Spark Connect server, `sc://host:port`, is asked for its version.

    Spark locates other masters (`local`, `yarn`, `k8s://…`). Raises InvalidInputError for an invalid address,
    and where the client of Spark Connect is missing, UnavailableError with the reason when nobody answers.
    """
    if is_connect(master):
        check_server(master)
    if not master.startswith(_STANDALONE):
        return
    reasons = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, port = _address(address, master)
        try:
            socket.create_connection((host, port), timeout=_SECONDS).close()
        except (OSError, UnicodeError) as err:  # a name may be none that can be asked for
            reasons.append(f"{address}: {_reason(err)}")
        else:
            return
    why = "; ".join(reasons)
    raise UnavailableError(
        f"the Spark master {master} does not answer ({why}); check its address, and that it runs"
    )


def _address(address: str, master: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InvalidInputError(
            f"Spark master {master}: {address!r} is not HOST:PORT; write spark://host:7077"
        )
    return host.strip("[]"), int(port)


def _reason(err: Exception) -> str:
    if isinstance(err, TimeoutError):
        return f"there was no answer within {_SECONDS:g} s"
    return getattr(err, "strerror", None) or str(err)
