"""This module keeps other sites from acting in a user's name: a form has a token of its user, and a request
that changes something must come from a page of this Airflow.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

__all__ = ["VALID_MS", "form_token", "from_this_site", "is_valid"]

VALID_MS = 12 * 3_600_000


def form_token(secret: str, user: str, now_ms: int) -> str:
    """Return a token for the forms of a user. It is valid for twelve hours."""
    return f"{now_ms}.{_signature(secret, user, now_ms)}"


def is_valid(token: str, secret: str, user: str, now_ms: int) -> bool:
    """Return whether `form_token` made the token for this user, not too long ago."""
    text, _, signature = token.partition(".")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        return False
    fresh = 0 <= now_ms - int(text) <= VALID_MS
    return fresh and hmac.compare_digest(_signature(secret, user, int(text)).encode(), signature.encode())


def from_this_site(headers: Mapping[str, str], base_url: str) -> bool:
    """Return whether a page of this Airflow sent the request. Browsers name the origin of every POST; a
    request that names none is refused. `base_url`: the address that Airflow is configured with, which differs
    from the host of the request behind a proxy.
    """
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = urlsplit(headers.get("origin", "")).netloc.lower()
    return bool(origin) and origin in {headers.get("host", "").lower(), urlsplit(base_url).netloc.lower()}


def _signature(secret: str, user: str, now_ms: int) -> str:
    text = f"lakecore\0{user}\0{now_ms}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
