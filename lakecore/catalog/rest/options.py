"""This module has the options of a REST catalog, with the names of Paimon's `RESTCatalogOptions`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from lakecore.catalog.rest.authorization.authorizer import Authorizer
from lakecore.catalog.rest.authorization.bearer import BearerToken, FileToken, checked_token
from lakecore.catalog.rest.authorization.dlf import (
    DlfAuthorizer,
    DlfPlace,
    FixedKeys,
    Loaded,
    keys_of_ecs,
    keys_of_file,
)
from lakecore.catalog.rest.authorization.dlf_signature import DlfKeys
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import MASK, InvalidOptionError, UnsupportedError, reason
from lakecore.options import Option, parse_bool

__all__ = ["HEADER_PREFIX", "OPTIONS", "RestOptions", "merged_options"]

HEADER_PREFIX = "header."
"""Options with this prefix are headers of all requests."""

URI: Option[str | None] = Option("uri", str.strip, None, "The address of the server.")
PREFIX: Option[str | None] = Option("prefix", str, None, "The part of all paths after /v1; the server knows.")
TOKEN_PROVIDER: Option[str | None] = Option(
    "token.provider", str.strip, None, "How requests are authorized: bear or dlf."
)
TOKEN: Option[str | None] = Option("token", str, None, "The bearer token.")
TOKEN_FILE: Option[str | None] = Option(
    "token-file", str.strip, None, "A file with the bearer token, which is read again."
)
DATA_TOKEN = Option(
    "data-token.enabled", parse_bool, False, "Whether storage is opened with tokens of the server."
)
SERVICE_LOCATION: Option[str | None] = Option(
    "lakecore.service-location", str.strip, None, "Below it are lakecore's own files, in .lakecore."
)
DLF_REGION: Option[str | None] = Option("dlf.region", str.strip, None, "The region that signatures name.")
DLF_KEY_ID: Option[str | None] = Option("dlf.access-key-id", str.strip, None, "The key that signs.")
DLF_SECRET: Option[str | None] = Option("dlf.access-key-secret", str.strip, None, "The secret of the key.")
DLF_SECURITY_TOKEN: Option[str | None] = Option(
    "dlf.security-token", str.strip, None, "The token of keys that a role has."
)
DLF_TOKEN_PATH: Option[str | None] = Option("dlf.token-path", str.strip, None, "A file with the keys.")
DLF_LOADER: Option[str | None] = Option(
    "dlf.token-loader", str.strip, None, "Where keys come from: local_file or ecs."
)
DLF_ECS_URL = Option(
    "dlf.token-ecs-metadata-url",
    str.strip,
    "http://100.100.100.200/latest/meta-data/Ram/security-credentials/",
    "The metadata service of the ECS machine.",
)
DLF_ECS_ROLE: Option[str | None] = Option(
    "dlf.token-ecs-role-name", str.strip, None, "The role of the machine."
)
DLF_ALGORITHM: Option[str | None] = Option(
    "dlf.signing-algorithm", str.strip, None, "How requests are signed: default or openapi."
)

_DLF = (
    DLF_REGION,
    DLF_KEY_ID,
    DLF_SECRET,
    DLF_SECURITY_TOKEN,
    DLF_TOKEN_PATH,
    DLF_LOADER,
    DLF_ECS_URL,
    DLF_ECS_ROLE,
    DLF_ALGORITHM,
)
OPTIONS: tuple[Option[Any], ...] = (
    URI,
    PREFIX,
    TOKEN_PROVIDER,
    TOKEN,
    TOKEN_FILE,
    DATA_TOKEN,
    SERVICE_LOCATION,
    *_DLF,
)
"""These are all options that only a REST catalog has, beside the headers."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class RestOptions:
    """This is the address of the server, with what all requests need."""

    uri: str
    """It is the address without a slash at the end."""
    headers: Mapping[str, str] = field(repr=False)
    """These are the headers of all requests, beside those that authorize them."""
    authorizer: Authorizer
    """It gives requests the headers by which the server knows the caller."""

    def without_secrets(self, text: bytes) -> bytes:
        """Return an answer without the secrets of the caller, which a careless server may repeat."""
        for secret in self.authorizer.secrets():
            text = text.replace(secret.encode(), MASK.encode())
        return text

    @classmethod
    def from_options(cls, raw: Mapping[str, str], clock: Clock) -> RestOptions:
        """Read the options. Raises InvalidOptionError for those that are missing or damaged, UnsupportedError
        for an unknown provider of tokens.
        """
        uri = _address(URI.read(raw))
        return cls(uri, _headers(raw), _authorizer(raw, uri, clock))


def _authorizer(raw: Mapping[str, str], uri: str, clock: Clock) -> Authorizer:
    provider = (TOKEN_PROVIDER.read(raw) or "").lower()
    if provider == "bear":
        _check_no_others(raw, provider, _DLF)
        return _bearer(raw, clock)
    if provider == "dlf":
        _check_no_others(raw, provider, (TOKEN, TOKEN_FILE))
        return DlfAuthorizer(
            DlfPlace.of(uri, DLF_REGION.read(raw), DLF_ALGORITHM.read(raw)), _keys(raw), clock
        )
    if not provider:
        raise InvalidOptionError(
            f"catalog option {TOKEN_PROVIDER.key} is missing; write token.provider=bear and the token of the "
            "server, or token.provider=dlf and its keys"
        )
    raise UnsupportedError(
        f"catalog option {TOKEN_PROVIDER.key}={provider}: this release knows bear and dlf; use one of them"
    )


def _check_no_others(raw: Mapping[str, str], provider: str, others: tuple[Option[Any], ...]) -> None:
    for option in others:
        if any(key in raw for key in option.keys):
            raise InvalidOptionError(
                f"catalog option {option.key} would have no effect with token.provider={provider}; "
                "leave it out"
            )


def _bearer(raw: Mapping[str, str], clock: Clock) -> Authorizer:
    token, path = TOKEN.read(raw), TOKEN_FILE.read(raw)
    if bool(token) == bool(path):
        raise InvalidOptionError(
            f"catalog option {TOKEN.key}: with token.provider=bear give the token of the server, or a file "
            f"that has it ({TOKEN_FILE.key}), and not both"
        )
    return BearerToken(checked_token(TOKEN.key, token)) if token else FileToken(path or "", clock)


def _keys(raw: Mapping[str, str]) -> Callable[[], Loaded]:
    """Return what loads the keys of DLF: by a loader, from a file or from options, in Java's order."""
    loader, path = DLF_LOADER.read(raw), DLF_TOKEN_PATH.read(raw)
    if loader == "ecs":
        return keys_of_ecs(DLF_ECS_URL.read(raw), DLF_ECS_ROLE.read(raw))
    if loader not in (None, "local_file"):
        raise UnsupportedError(
            f"catalog option {DLF_LOADER.key}={loader}: there are local_file and ecs; use one of them"
        )
    if path:
        return keys_of_file(path)
    key_id, secret = DLF_KEY_ID.read(raw), DLF_SECRET.read(raw)
    if loader is not None or not key_id or not secret:
        missing = DLF_TOKEN_PATH.key if loader else f"{DLF_KEY_ID.key} or {DLF_SECRET.key}"
        raise InvalidOptionError(
            f"catalog option {missing} is missing; with token.provider=dlf give the two, or a file "
            f"({DLF_TOKEN_PATH.key}), or {DLF_LOADER.key}=ecs"
        )
    return FixedKeys(DlfKeys(key_id, secret, DLF_SECURITY_TOKEN.read(raw)))


def merged_options(own: Mapping[str, str], answer: Mapping[str, Any]) -> dict[str, str]:
    """Merge options as Java's `ConfigResponse.merge`: defaults of the server, options of the caller,
    overrides of the server.
    """
    merged: dict[str, Any] = {**_texts(answer, "defaults"), **own, **_texts(answer, "overrides")}
    return {key: str(value) for key, value in merged.items() if value is not None}


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
