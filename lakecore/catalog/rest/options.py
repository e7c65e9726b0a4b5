"""This module has the options of a REST catalog, with the names of Paimon's `RESTCatalogOptions`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from lakecore.errors import MASK, InvalidOptionError, UnsupportedError, reason
from lakecore.options import Option, parse_bool

__all__ = ["HEADER_PREFIX", "OPTIONS", "RestOptions", "merged_options"]

HEADER_PREFIX = "header."
"""Options with this prefix are headers of all requests."""

URI: Option[str | None] = Option("uri", str.strip, None, "The address of the server.")
PREFIX: Option[str | None] = Option("prefix", str, None, "The part of all paths after /v1; the server knows.")
TOKEN_PROVIDER: Option[str | None] = Option(
    "token.provider", str.strip, None, "How requests are authorized: bear."
)
TOKEN: Option[str | None] = Option("token", str, None, "The bearer token.")
DATA_TOKEN = Option("data-token.enabled", parse_bool, False, "Refused: storage with tokens of the server.")

OPTIONS: tuple[Option[Any], ...] = (URI, PREFIX, TOKEN_PROVIDER, TOKEN, DATA_TOKEN)
"""These are all options that only a REST catalog has, beside the headers."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class RestOptions:
    """This is the address of the server, with the headers of all requests."""

    uri: str
    """It is the address without a slash at the end."""
    headers: Mapping[str, str] = field(repr=False)
    """These are the headers of all requests, with the token."""

    def without_token(self, text: bytes) -> bytes:
        """Return an answer without the token, which a careless server may repeat."""
        token = self.headers["Authorization"].removeprefix("Bearer ")
        return text.replace(token.encode(), MASK.encode())

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> RestOptions:
        """Read the options. Raises InvalidOptionError for those that are missing or damaged, UnsupportedError
        for another provider of tokens than `bear`.
        """
        provider, token = TOKEN_PROVIDER.read(raw), TOKEN.read(raw)
        if provider is None or not token:
            missing = TOKEN_PROVIDER.key if provider is None else TOKEN.key
            raise InvalidOptionError(
                f"catalog option {missing} is missing; write token.provider=bear and the token of the server"
            )
        if provider.lower() != "bear":
            raise UnsupportedError(
                f"catalog option {TOKEN_PROVIDER.key}={provider}: this release signs no requests; use a "
                "server that accepts bearer tokens, with token.provider=bear"
            )
        headers = _headers(raw)
        return cls(
            _address(URI.read(raw)), {**headers, "Authorization": _header_value(TOKEN.key, f"Bearer {token}")}
        )


def merged_options(own: Mapping[str, str], answer: Mapping[str, Any]) -> dict[str, str]:
    """Merge options as Java's `ConfigResponse.merge`: defaults of the server, options of the caller,
    overrides of the server. Raises UnsupportedError for data tokens, which the server may ask for.
    """
    merged: dict[str, Any] = {**_texts(answer, "defaults"), **own, **_texts(answer, "overrides")}
    options = {key: str(value) for key, value in merged.items() if value is not None}
    if DATA_TOKEN.read(options):
        raise UnsupportedError(
            f"catalog option {DATA_TOKEN.key}=true: this release gets no tokens for storage from the "
            "server; give the credentials of the storage by options such as s3.access-key"
        )
    return options


def _texts(answer: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    text = answer.get(key)
    return text if isinstance(text, Mapping) else {}


def _address(uri: str | None) -> str:
    """Return the address, with http:// where it names no scheme (as Java does)."""
    if not uri:
        raise InvalidOptionError("catalog option uri is missing; write https://HOST:PORT")
    full = uri if uri.startswith(("http://", "https://")) else f"http://{uri}"
    try:
        parts = urlsplit(full)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as err:
        raise InvalidOptionError(f"catalog option uri: {reason(err)}; write https://HOST:PORT") from err
    if not valid or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidOptionError(
            "catalog option uri: it needs a host, and has no user, parameters or fragment; write "
            "https://HOST:PORT, and the token as the option token"
        )
    return full.rstrip("/")


def _headers(raw: Mapping[str, str]) -> dict[str, str]:
    headers = {}
    for key, value in raw.items():
        if key.startswith(HEADER_PREFIX):
            name = key.removeprefix(HEADER_PREFIX)
            if not _HEADER_NAME.fullmatch(name):
                raise InvalidOptionError(f"catalog option {key}: this is not the name of a header")
            headers[name] = _header_value(key, value)
    return headers


def _header_value(key: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise InvalidOptionError(f"catalog option {key}: a header has printable ASCII characters only")
    return value
