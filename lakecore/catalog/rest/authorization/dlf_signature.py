"""This module signs requests as Alibaba's Data Lake Formation wants them (Java's `DLFDefaultSigner` and
`DLFOpenApiSigner`). It is pure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import field
from datetime import UTC, datetime
from urllib.parse import quote_plus, unquote_plus

from lakecore.catalog.rest.authorization.authorizer import RestRequest
from lakecore.data_class import dataclass

__all__ = ["DlfKeys", "sign_default", "sign_openapi"]

_ALGORITHM = "DLF4-HMAC-SHA256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_JSON = "application/json"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class DlfKeys:
    """These are the credentials of a user or a role; those of a role come with a security token."""

    key_id: str
    secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def sign_default(request: RestRequest, keys: DlfKeys, region: str, now_ms: int) -> dict[str, str]:
    """Return the headers of a request to an endpoint in the network of the region (DLF4-HMAC-SHA256)."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    time, date = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    headers = {"x-dlf-date": time, "x-dlf-content-sha256": _UNSIGNED, "x-dlf-version": "v1"}
    if request.body:
        headers |= {"Content-Type": _JSON, "Content-MD5": _md5(request.body)}
    if keys.security_token is not None:
        headers["x-dlf-security-token"] = keys.security_token
    query = "&".join(
        _parameter(key.strip(), quote_plus(value)) for key, value in sorted(request.query.items())
    )
    lines = sorted(f"{key.lower()}:{value.strip()}" for key, value in headers.items())
    canonical = "\n".join([request.method, request.path, query, *lines, _UNSIGNED])
    scope = f"{date}/{region}/DlfNext/aliyun_v4_request"
    text = "\n".join([_ALGORITHM, time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"aliyun_v4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    authorization = f"{_ALGORITHM} Credential={keys.key_id}/{scope},Signature={signature}"
    return {**headers, "Authorization": authorization}


def sign_openapi(request: RestRequest, keys: DlfKeys, host: str, now_ms: int, nonce: str) -> dict[str, str]:
    """Return the headers of a request to the public endpoint (HMAC-SHA1, version 2026-01-18)."""
    headers = {
        "Date": _http_date(now_ms),
        "Accept": _JSON,
        "Host": host,
        "x-acs-signature-method": "HMAC-SHA1",
        "x-acs-signature-nonce": nonce,
        "x-acs-signature-version": "1.0",
        "x-acs-version": "2026-01-18",
    }
    if request.body:
        headers |= {"Content-MD5": _md5(request.body), "Content-Type": _JSON}
    if keys.security_token is not None:
        headers["x-acs-security-token"] = keys.security_token
    own = sorted(f"{key}:{value.strip()}" for key, value in headers.items() if key.startswith("x-acs-"))
    standard = [headers.get(key, "") for key in ("Accept", "Content-MD5", "Content-Type", "Date")]
    text = "\n".join([request.method, *standard, *own, _resource(request)])
    signature = base64.b64encode(hmac.digest(keys.secret.encode(), text.encode(), "sha1")).decode()
    return {**headers, "Authorization": f"acs {keys.key_id}:{signature}"}


def _resource(request: RestRequest) -> str:
    path, query = unquote_plus(request.path), sorted(request.query.items())
    parameters = "&".join(_parameter(key, value) for key, value in query)
    return f"{path}?{parameters}" if query else path


def _parameter(key: str, value: str) -> str:
    return f"{key}={value}" if value else key


def _md5(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()


def _http_date(now_ms: int) -> str:
    """Return the date of a header, whatever the locale of the process."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment.day:02} {month} {moment.year} {moment:%H:%M:%S} GMT"
