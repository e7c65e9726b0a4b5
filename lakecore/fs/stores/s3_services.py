"""This module connects to services that have an interface of S3 beside their own, and of which it is not
known that they create an object only if there is none. So lakecore only reads there, unless an option says
that one writer at a time is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileIO
from lakecore.fs.read_only import ReadOnlyFileIO
from lakecore.fs.stores.client import open_client, s3_settings
from lakecore.fs.stores.object_store import Connection, ObjectStoreFileIO
from lakecore.fs.stores.profiles import StaticKeys
from lakecore.options import Option, parse_bool

__all__ = ["S3Address", "S3Connection", "open_s3_client", "opened_for_one_writer", "single_writer"]


@dataclass(frozen=True, slots=True)
class S3Address:
    """It is the address of a service. `host` is without a bucket, and has `transport` (`https`) before it
    where the bucket is part of the path.
    """

    transport: str
    host: str
    region: str
    bucket_in_host: bool


@dataclass(frozen=True, slots=True)
class S3Connection:
    """It says how to reach the service of a scheme. The `extra` of the wheel has the same name."""

    scheme: str
    address: S3Address
    keys: StaticKeys
    has_folders: bool = field(default=False, init=False)
    can_create: bool = field(default=False, init=False)

    def connect(self, root: str) -> Any:
        """Return obstore's client for a bucket."""
        return open_s3_client(self.scheme, root, self.address, self.keys)


def open_s3_client(scheme: str, bucket: str, address: S3Address, keys: StaticKeys) -> Any:
    """Return obstore's client for a bucket, which sends no conditions. Raises UnavailableError when obstore
    is not installed.
    """
    in_host = address.bucket_in_host
    host = f"{bucket}.{address.host}" if in_host else address.host
    settings = s3_settings(
        f"{address.transport}://{host}", address.region, bucket_in_host=in_host, conditional_put="disabled"
    )
    settings |= {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "skip_signature": False,
    }
    if keys.session_token is not None:
        settings["session_token"] = keys.session_token
    return open_client("S3Store", scheme, f"{scheme}://{bucket}", settings, keys)


def single_writer(scheme: str) -> Option[bool]:
    """Return the option that says that one writer at a time is certain."""
    return Option(
        f"lakecore.{scheme}.single-writer", parse_bool, False, "Whether one writer at a time is certain."
    )


def opened_for_one_writer(
    service: str, certain: Option[bool], connect: Callable[[Mapping[str, str]], Connection]
) -> Callable[[Mapping[str, str]], FileIO]:
    """Return how a store is opened: read only unless `certain` says otherwise."""
    refusal = (
        f"{service} has no conditional PUT in its S3 interface that lakecore knows of, so two writers could "
        f"lose each other's commits; set {certain.key}=true if it is certain that only one writer at a time "
        "commits"
    )

    def open_store(options: Mapping[str, str]) -> FileIO:
        storage = ObjectStoreFileIO(connect(options))
        return storage if certain.read(options) else ReadOnlyFileIO(storage, refusal)

    return open_store
