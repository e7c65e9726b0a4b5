"""This module opens the clients of obstore: all stores repeat requests in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from lakecore.errors import UnavailableError
from lakecore.fs.stores.object_errors import settings_error

__all__ = ["RETRIES", "TIMEOUT", "open_client", "s3_settings"]

RETRIES: Mapping[str, Any] = {"max_retries": 5}
"""It says how requests are repeated: after 0.1 s, and then after twice as long each time."""


TIMEOUT = "60s"
"""A request ends after that time; obstore's own 30 s are short for parts of 10 MB over a slow line."""


def open_client(
    class_name: str,
    extra: str,
    location: str,
    settings: Mapping[str, Any],
    credentials: Callable[[], Any] | None = None,
    certificates: bytes | None = None,
) -> Any:
    """Return obstore's client of a container or bucket, `scheme://NAME` or `scheme://NAME@account`.

    `http://` is spoken only where the address in the settings says so. `credentials` gives those that are not
    in the settings or the environment, and `certificates` are trusted beside those of the system. Raises
    UnavailableError that names `location` and the `extra` of the wheel when obstore is not installed,
    InvalidOptionError for settings that obstore refuses.
    """
    try:
        client = getattr(import_module("obstore.store"), class_name)
    except ImportError as err:
        raise UnavailableError(
            f"cannot open {location}: {err}; install it with pip install 'lakecore[{extra}]'"
        ) from err
    address = str(settings.get("endpoint") or settings.get("base_url") or "")
    http: dict[str, Any] = {"allow_http": address.startswith("http://"), "timeout": TIMEOUT}
    if certificates is not None:
        http["root_certificate"] = certificates
    more = {} if credentials is None else {"credential_provider": credentials}
    name = location.partition("://")[2].partition("@")[0]
    from obstore.exceptions import BaseError

    try:
        return client(name, config=dict(settings), client_options=http, retry_config=RETRIES, **more)
    except (BaseError, OSError, ValueError) as err:
        refusal = settings_error(err, location)
    raise refusal  # without its cause, whose text may have secrets


def s3_settings(endpoint: str, region: str, *, bucket_in_host: bool, conditional_put: str) -> dict[str, Any]:
    """Return the settings of a client for a service that speaks the protocol of S3."""
    return {
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,  # a variable of the environment with this name wins over `endpoint`
        "region": region,
        "virtual_hosted_style_request": bucket_in_host,
        "conditional_put": conditional_put,
        "disable_bulk_delete": True,
    }
