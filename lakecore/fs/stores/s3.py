"""This module connects to S3 and to services that speak its protocol, with the option names of Paimon.

Atomic creation is a conditional PUT (`If-None-Match: *`): the service refuses a key that exists. Needed
of the service: conditional writes (AWS since 2024, MinIO, Ceph, R2, …) and strong read-after-write.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote, urlsplit

from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError
from lakecore.fs.stores.client import open_client, s3_settings
from lakecore.fs.stores.object_errors import object_errors
from lakecore.fs.stores.object_store import ObjectStoreFileIO
from lakecore.fs.stores.profiles import (
    StaticKeys,
    configured_certificates,
    configured_endpoint,
    configured_region,
    profile_credentials,
)
from lakecore.fs.stores.store import Store, bucket_path
from lakecore.options import Option, parse_bool

__all__ = ["S3_STORE", "S3FileIO", "S3Options"]

ENDPOINT: Option[str | None] = Option("s3.endpoint", str, None, "Address of the service; default AWS.")
ACCESS_KEY: Option[str | None] = Option(
    "s3.access-key", str, None, "Default: the environment's credentials.", ("s3.access.key",)
)
SECRET_KEY: Option[str | None] = Option(
    "s3.secret-key", str, None, "Secret key that belongs to s3.access-key.", ("s3.secret.key",)
)
SESSION_TOKEN: Option[str | None] = Option(
    "s3.session-token", str, None, "Token of temporary credentials.", ("s3.session.token",)
)
REGION: Option[str | None] = Option("s3.region", str, None, "Region of the bucket.", ("s3.endpoint.region",))
PATH_STYLE = Option(
    "s3.path.style.access",
    parse_bool,
    False,
    "Whether the bucket is part of the path, not of the host name.",
    ("s3.path-style-access",),
)
_OPTIONS = (ENDPOINT, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, REGION, PATH_STYLE)

_DOMAINS = {
    "cn-": "amazonaws.com.cn",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "eusc-": "amazonaws.eu",
}
"""These are the domains of regions outside of `amazonaws.com`, by the beginning of the region."""

_GLOBAL = "s3.amazonaws.com"
_AWS_HOST = re.compile(r"(?:\S+\.)?s3[.-](?:dualstack\.|fips\.)?([a-z]{2,}(?:-[a-z]+)+-\d+)\.\S+")
_HOST_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
"""A certificate of the service is valid for such buckets in the host name, not for those with dots."""

_LARGEST_COPY = 5 << 30
"""A service copies no larger object with one request."""

_PIECE = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """It says how to reach the service. Keys and tokens are left out of `repr`."""

    endpoint: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    path_style: bool = False
    scheme: str = field(default="s3", init=False)
    has_folders: bool = field(default=False, init=False)
    can_create: bool = field(default=True, init=False)

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> S3Options:
        """Read catalog options. Raises InvalidInputError if only half of the credentials is given."""
        options = cls(
            endpoint=ENDPOINT.read(raw),
            access_key=ACCESS_KEY.read(raw),
            secret_key=SECRET_KEY.read(raw),
            session_token=SESSION_TOKEN.read(raw),
            region=REGION.read(raw),
            path_style=PATH_STYLE.read(raw),
        )
        if (options.access_key is None) != (options.secret_key is None):
            raise InvalidInputError("give both s3.access-key and s3.secret-key, or neither")
        return options

    def connect(self, root: str) -> Any:
        """Return obstore's client for a bucket. Without options it takes address, region and credentials of
        the environment. Raises UnavailableError when obstore is not installed or a profile of AWS has no
        credentials, InvalidInputError for an address that is not one of a service.
        """
        location = f"s3://{root}"
        address, region = self._address(root)
        base, is_in_host = _bucket_address(address, root, self.path_style)
        return _open_client(location, base, region, is_in_host, self._credentials(location))

    def _credentials(self, location: str) -> Any:
        """Return what gives obstore credentials, or None if it takes those of the environment."""
        if self.access_key is not None and self.secret_key is not None:
            return StaticKeys(self.access_key, self.secret_key, self.session_token)
        return profile_credentials(location)

    def _address(self, bucket: str) -> tuple[str, str]:
        """Return the address of the service and the region."""
        endpoint = self.endpoint or configured_endpoint()
        region = self.region or configured_region()
        if endpoint:
            address = endpoint if "://" in endpoint else f"https://{endpoint}"
            host = urlsplit(address).hostname
            if not host:
                raise InvalidInputError(
                    f"s3.endpoint={endpoint} has no host; write https://HOST or HOST:PORT"
                )
            if host != _GLOBAL:
                match = _AWS_HOST.fullmatch(host)
                return address.rstrip("/"), region or (match[1] if match else "us-east-1")
        region = region or _region_of(bucket)
        domain = next((one for start, one in _DOMAINS.items() if region.startswith(start)), "amazonaws.com")
        return f"https://s3.{region}.{domain}", region


class S3FileIO(ObjectStoreFileIO):
    """It is the storage of S3. An empty directory is the empty object `<path>/`, as in Java."""

    connection: S3Options

    def make_directory(self, path: str) -> bool:
        """Put an empty object of the name `<path>/`; two that make it at once may both get True."""
        if self.stat(path) is not None:
            return False
        client = self._directory(path)
        import obstore

        with object_errors("create", path):
            obstore.put(client, "", b"", use_multipart=False)
        return True

    def remove_directory(self, path: str) -> None:
        """Remove the object `<path>/`; files below are not looked for."""
        client = self._directory(path)
        import obstore

        with object_errors("delete", path):
            obstore.delete(client, "")

    def _directory(self, path: str) -> Any:
        """Return a client whose root is the object `<path>/`, which obstore cannot name otherwise."""
        client, key = self._client(path)
        if any(part in ("", ".", "..") for part in key.split("/")):  # an URL would lead elsewhere
            raise InvalidInputError(
                f"{path} is a bucket, or has an empty part, '.' or '..'; name a directory"
            )
        location = self._root(path)
        config = client.config
        is_in_host = str(config["virtual_hosted_style_request"]).lower() == "true"
        base = config["endpoint"] if is_in_host else f"{config['endpoint']}/{location.partition('://')[2]}"
        address = f"{base}/{quote(key, safe='/-._~')}"
        return _open_client(location, address, config["region"], True, client.credential_provider)

    def _copy_new(self, path: str, target: str) -> int:
        """Copy within the service, or through this process what the service does not copy at once."""
        size: int = self._head("move", path)["size"]
        if self._exists(target):
            raise AlreadyExistsError(f"cannot move {path}: {target} exists already")
        client, key = self._client(path)
        other, other_key = self._client(target)
        if other is not client or size > _LARGEST_COPY:
            self._copy_pieces(path, target, size)
            return size
        import obstore

        with object_errors("move", path):
            obstore.copy(client, key, other_key, overwrite=True)
        return size

    def _copy_pieces(self, path: str, target: str, size: int) -> None:
        with self.open_ranges(path) as source, self.open_output(target) as copied:
            for start in range(0, size, _PIECE):
                copied.write(source.read_at(_PIECE, start))


def _open_client(location: str, base: str, region: str, is_in_host: bool, credentials: Any) -> Any:
    """Return obstore's client of a bucket; `base` has its name in the host (`is_in_host`) or lacks it."""
    settings = s3_settings(base, region, bucket_in_host=is_in_host, conditional_put="etag")
    if credentials is not None:
        settings["skip_signature"] = False
    return open_client("S3Store", "s3", location, settings, credentials, configured_certificates())


def _bucket_address(address: str, bucket: str, path_style: bool) -> tuple[str, bool]:
    """Return the address with the bucket in the host name, and True, or the address alone and False."""
    parts = urlsplit(address)
    if path_style or not _HOST_BUCKET.fullmatch(bucket) or _is_ip(parts.hostname or ""):
        return address, False
    return f"{parts.scheme}://{bucket}.{parts.netloc}{parts.path}", True


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _region_of(bucket: str) -> str:
    """Return the region that AWS names for a bucket."""
    from lakecore.fs.stores.bucket_region import region_of

    return region_of(bucket)


S3_STORE = Store(
    schemes=("s3", "s3a", "s3n"),
    example="s3://bucket/path",
    plain=lambda scheme, rest: bucket_path("s3", rest, "s3://bucket/path"),
    open=lambda options: S3FileIO(S3Options.from_options(options)),
    options=_OPTIONS,
)
