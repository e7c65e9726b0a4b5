"""This module authorizes requests by signatures of Alibaba's Data Lake Formation; its keys are options, in a
file, or those of the role of an ECS machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

from lakecore.catalog.rest.authorization.authorizer import RestRequest
from lakecore.catalog.rest.authorization.dlf_signature import DlfKeys, sign_default, sign_openapi
from lakecore.catalog.rest.expiring_value import ExpiringValue
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnavailableError, UnsupportedError, reason

__all__ = ["ALGORITHMS", "DlfAuthorizer", "DlfPlace", "FixedKeys", "Loaded", "keys_of_ecs", "keys_of_file"]

ALGORITHMS = ("default", "openapi")
_REGION = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_SECONDS = 10.0
_MOST_BYTES = 1 << 16

Loaded = tuple[DlfKeys, int | None]


@dataclass(frozen=True, slots=True)
class DlfPlace:
    """This is where requests go, as their signatures name it."""

    host: str
    region: str
    algorithm: str

    @classmethod
    def of(cls, uri: str, region: str | None, algorithm: str | None) -> DlfPlace:
        """Return the place; region and algorithm are read from the address where they are not given, as in
        Java. Raises InvalidOptionError.
        """
        chosen = algorithm or ("openapi" if "dlfnext" in uri.lower() else "default")
        if chosen not in ALGORITHMS:
            raise InvalidOptionError(
                f"catalog option dlf.signing-algorithm={algorithm}: it is one of {', '.join(ALGORITHMS)}"
            )
        match = _REGION.search(uri)
        if region is None and match is None:
            raise InvalidOptionError(
                "catalog option dlf.region is missing, and the option uri has no region; give it"
            )
        parts = urlsplit(uri)
        return cls(parts.netloc, region or (match[1] if match else ""), chosen)


class DlfAuthorizer:
    """It gives each request a signature. Keys that expire are loaded again in time."""

    def __init__(self, place: DlfPlace, load: Callable[[], Loaded], clock: Clock) -> None:
        self.place = place
        self._clock = clock
        self._keys = ExpiringValue(load, clock)

    def __repr__(self) -> str:
        """Return the region."""
        return f"DlfAuthorizer({self.place.region})"

    def headers(self, request: RestRequest) -> Mapping[str, str]:
        """Return the headers of the signature. Raises UnavailableError when there are no keys."""
        keys, now_ms = self._keys.get(), self._clock.now_ms()
        if self.place.algorithm == "openapi":
            return sign_openapi(request, keys, self.place.host, now_ms, self._clock.fresh_id())
        return sign_default(request, keys, self.place.region, now_ms)

    def secrets(self) -> tuple[str, ...]:
        """Return the secret key and the security token."""
        keys = self._keys.last
        return () if keys is None else tuple(filter(None, (keys.secret, keys.security_token)))

    def refresh(self) -> bool:
        """Load the keys again for the next request."""
        self._keys.forget()
        return True


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """These are keys that stay the same."""

    keys: DlfKeys

    def __call__(self) -> Loaded:
        """Return the keys, which never expire."""
        return self.keys, None


def keys_of_file(path: str) -> Callable[[], Loaded]:
    """Return a function that reads keys from a file as Java's `DLFToken` has them."""
    return partial(_read_file, path)


def keys_of_ecs(address: str, role: str | None) -> Callable[[], Loaded]:
    """Return a function that asks the metadata service of an ECS machine for the keys of its role."""
    return partial(_ask_ecs, address, role)


def _read_file(path: str) -> Loaded:
    try:
        with open(path, encoding="utf-8") as file:
            return _parse_keys(file.read(_MOST_BYTES), path)
    except (OSError, UnicodeDecodeError) as err:
        raise UnavailableError(
            f"the keys of DLF in {path} cannot be read ({reason(err)}); check the option dlf.token-path"
        ) from err


def _ask_ecs(address: str, role: str | None) -> Loaded:
    base = address if address.endswith("/") else f"{address}/"
    return _parse_keys(_get(base + (role or _get(base).strip())), base)


def _get(url: str) -> str:
    try:
        import httpx
    except ImportError as err:
        raise UnsupportedError("a REST catalog needs the package httpx; install lakecore[rest]") from err
    try:
        answer = httpx.get(url, timeout=_SECONDS, follow_redirects=False)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as err:
        raise UnavailableError(
            f"{url}: the metadata service of ECS gave no keys of DLF ({reason(err)}); check the options "
            "dlf.token-ecs-metadata-url and dlf.token-ecs-role-name"
        ) from err
    return answer.text[:_MOST_BYTES]


def _parse_keys(text: str, where: str) -> Loaded:
    """Read keys. The text is a secret: messages do not show it."""
    try:
        raw = json.loads(text)
        keys = DlfKeys(str(raw["AccessKeyId"]), str(raw["AccessKeySecret"]), raw.get("SecurityToken"))
        expiration = raw.get("Expiration")
        if expiration is None:
            return keys, None
        expires = datetime.strptime(str(expiration), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return keys, int(expires.timestamp() * 1000)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnavailableError(
            f"{where} has no keys of DLF: it needs JSON with AccessKeyId, AccessKeySecret, and perhaps "
            "SecurityToken and Expiration (2026-01-31T23:59:59Z)"
        ) from None
