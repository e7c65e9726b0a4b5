"""This module reads what the environment says of AWS: addresses, regions, and credentials of profiles.

The client obstore takes keys, web identities and roles of containers and machines from the environment by
itself. It knows no profiles, so those of `~/.aws` are read here, and their credentials (SSO, roles,
`credential_process`) are obtained by botocore, which is optional.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnavailableError, reason

__all__ = [
    "StaticKeys",
    "configured_certificates",
    "configured_endpoint",
    "configured_region",
    "profile_credentials",
]

_PROFILE = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
_FILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
_SOURCES = frozenset(
    {
        "aws_access_key_id",
        "credential_process",
        "credential_source",
        "login_session",
        "role_arn",
        "sso_session",
        "sso_start_url",
    }
)
"""A profile with one of these settings has credentials."""

_WITHOUT_FILES = (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("AWS_WEB_IDENTITY_TOKEN_FILE",))
_UNSUPPORTED = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
_LIFE_MS = 10 * 60_000
"""botocore renews credentials at the latest ten minutes before their end, so they are used that long."""


@dataclass(frozen=True, slots=True)
class StaticKeys:
    """It gives obstore the keys of options. A token of the environment does not belong to them."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __call__(self) -> dict[str, Any]:
        return {
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "token": self.session_token,
            "expires_at": None,
        }


@dataclass(frozen=True, slots=True)
class ProfileCredentials:
    """It gives obstore the credentials that botocore has, which botocore renews before they end."""

    credentials: Any = field(repr=False)

    def __call__(self) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            frozen = self.credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError, OSError, ValueError) as err:
            raise PermissionError(_cause(err)) from None
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": self._end(),
        }

    def _end(self) -> datetime | None:
        """Return until when obstore may use them, or None for keys that do not end."""
        expiry: datetime | None = getattr(self.credentials, "_expiry_time", None)
        if expiry is None:
            return None
        latest = datetime.fromtimestamp((SystemClock().now_ms() + _LIFE_MS) / 1000, UTC)
        return min(latest, expiry.astimezone(UTC) if expiry.tzinfo else expiry.replace(tzinfo=UTC))


def profile_credentials(location: str) -> ProfileCredentials | None:
    """Return the credentials that botocore finds where the environment names a profile or has files of AWS,
    and None where obstore finds all credentials that there are.

    Raises UnavailableError when the profile does not exist or has no credentials, and when it has some but
    botocore is not installed.
    """
    if not (_variable(*_PROFILE) or _paths()) or _is_anonymous():
        return None
    try:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.session import Session
    except ImportError:
        _check_unused(location)
        return None
    try:
        credentials = Session().get_credentials()
    except (BotoCoreError, ClientError, OSError, ValueError) as err:
        raise UnavailableError(
            f"cannot open {location}: botocore obtained no credentials: {_cause(err)}; check AWS_PROFILE and "
            "~/.aws"
        ) from None
    if credentials is None:
        raise UnavailableError(
            f"cannot open {location}: neither the options nor the environment have credentials; set "
            "s3.access-key and s3.secret-key, or AWS_PROFILE, or check ~/.aws"
        )
    return ProfileCredentials(credentials)


def configured_endpoint() -> str | None:
    """Return the address of S3 that the environment or the profile names. Raises InvalidInputError for
    kinds of addresses that lakecore does not derive.
    """
    for name in _UNSUPPORTED:
        if _variable(name).lower() == "true":
            raise InvalidInputError(
                f"{name}=true has no effect on lakecore; write that address of the service into s3.endpoint"
            )
    if _variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").lower() == "true":
        return None
    return _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") or _profile().get("endpoint_url")


def configured_certificates() -> bytes | None:
    """Return the certificates that the environment or the profile names. Raises InvalidInputError when they
    cannot be read.
    """
    path = _variable("AWS_CA_BUNDLE") or _profile().get("ca_bundle") or _variable("REQUESTS_CA_BUNDLE")
    if not path:
        return None
    try:
        return Path(os.path.expanduser(path)).read_bytes()
    except OSError as err:
        raise InvalidInputError(
            f"cannot read the certificates {path}: {reason(err)}; correct AWS_CA_BUNDLE"
        ) from None


def configured_region() -> str | None:
    """Return the region that the environment or the profile names."""
    return _variable("AWS_DEFAULT_REGION", "AWS_REGION") or _profile().get("region")


def _cause(err: Exception) -> str:
    """Return the kind of an error of botocore, and its text unless it may quote what a program printed."""
    kind = type(err).__name__
    is_safe = kind in ("ProfileNotFound", "ClientError", "UnauthorizedSSOTokenError", "SSOTokenLoadError")
    return f"{kind}: {reason(err)}" if is_safe else kind


def _check_unused(location: str) -> None:
    """Raise UnavailableError if the credentials would be those of a profile, which only botocore can read."""
    if any(all(_variable(name) for name in names) for names in _WITHOUT_FILES):
        return
    if _variable(*_PROFILE) or _profile().keys() & _SOURCES:
        raise UnavailableError(
            f"cannot open {location}: the credentials are those of a profile of AWS, which need botocore; "
            "install it with pip install 'lakecore[aws]', or set s3.access-key and s3.secret-key"
        )


def _profile() -> Mapping[str, str]:
    """Return the settings of the profile that the environment names, with those of its keys."""
    name = _variable(*_PROFILE) or "default"
    settings: dict[str, str] = {}
    for path in _paths():
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, configparser.Error) as err:
            raise InvalidInputError(f"cannot read {path}: {type(err).__name__}; correct the file") from None
        for section in (name, f"profile {name}"):
            if parser.has_section(section):
                settings |= parser[section]
    return settings


def _paths() -> tuple[Path, ...]:
    """Return the files of AWS that there are. A home that this user must not look into has none."""
    paths = (os.path.expanduser(_variable(name) or usual) for name, usual in _FILES.items())
    return tuple(Path(path) for path in paths if os.path.isfile(path))


def _variable(*names: str) -> str:
    """Return the first of these variables of the environment that is set and not empty."""
    return next((os.environ[name].strip() for name in names if os.environ.get(name, "").strip()), "")


def _is_anonymous() -> bool:
    return _variable("AWS_SKIP_SIGNATURE").lower() == "true"
