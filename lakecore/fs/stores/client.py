"""This module opens the clients of obstore: all stores repeat requests in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lakecore.errors import UnavailableError

__all__ = ["RETRIES", "open_client"]

RETRIES: Mapping[str, Any] = {"max_retries": 5}
"""It says how requests are repeated: after 0.1 s, and then after twice as long each time."""


def open_client(
    class_name: str, extra: str, location: str, container: str, settings: Mapping[str, Any], address: str
) -> Any:
    """Return obstore's client of a container or bucket. `address` is that of the service: `http://` is
    spoken only where it says so. Raises UnavailableError that names `location` and the `extra` of the wheel
    when obstore is not installed.
    """
    try:
        client = getattr(import_module("obstore.store"), class_name)
    except ImportError as err:
        raise UnavailableError(
            f"cannot open {location}: {err}; install it with pip install 'lakecore[{extra}]'"
        ) from err
    http = {"allow_http": address.startswith("http://")}
    return client(container, config=dict(settings), client_options=http, retry_config=RETRIES)
