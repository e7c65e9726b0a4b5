"""This module connects to Alibaba Cloud's OSS through its S3 interface, with the option names of Paimon.

That interface has no conditional PUT, which atomic commits need. So lakecore only reads, unless an option
says that one writer at a time is certain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.fs.file_io import FileIO
from lakecore.fs.read_only import ReadOnlyFileIO
from lakecore.fs.stores.object_store import ObjectStoreFileIO
from lakecore.fs.stores.profiles import StaticKeys
from lakecore.fs.stores.s3_services import S3Address, open_s3_client
from lakecore.fs.stores.store import Store, bucket_path
from lakecore.options import Option, parse_bool

__all__ = ["OSS_STORE", "OssConnection"]

# Spark and variables of the environment have options in lower case only, hence the second names
ENDPOINT: Option[str | None] = Option(
    "fs.oss.endpoint", str, None, "Address of the service, such as oss-cn-hangzhou.aliyuncs.com."
)
ACCESS_KEY: Option[str | None] = Option(
    "fs.oss.accessKeyId", str, None, "Id of the access key.", ("fs.oss.accesskeyid",)
)
SECRET_KEY: Option[str | None] = Option(
    "fs.oss.accessKeySecret",
    str,
    None,
    "Secret of that access key.",
    ("fs.oss.accesskeysecret",),
)
SESSION_TOKEN: Option[str | None] = Option(
    "fs.oss.securityToken", str, None, "Token of temporary credentials.", ("fs.oss.securitytoken",)
)
SINGLE_WRITER = Option(
    "lakecore.oss.single-writer",
    parse_bool,
    False,
    "Whether one writer at a time is certain.",
)
_EXAMPLE = "oss://bucket/path"
_HOST = re.compile(r"(?:s3\.)?(oss-([a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com)")
_READ_ONLY = (
    "OSS has no conditional PUT in its S3 interface, so two writers could lose each other's commits; set "
    f"{SINGLE_WRITER.key}=true if it is certain that only one writer at a time commits"
)


@dataclass(frozen=True, slots=True)
class OssConnection:
    """It says how to reach the service. Keys and tokens are left out of `repr`."""

    endpoint: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    scheme: str = field(default="oss", init=False)
    has_folders: bool = field(default=False, init=False)
    can_create: bool = field(default=False, init=False)

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> OssConnection:
        """Read catalog options. Raises InvalidOptionError when the endpoint or half of a key is missing."""
        texts = {option.key: option.read(raw) for option in (ENDPOINT, ACCESS_KEY, SECRET_KEY)}
        for key, text in texts.items():
            if not text:
                raise InvalidOptionError(f"option {key} is missing; {_EXAMPLE} needs {', '.join(texts)}")
        endpoint, access_key, secret_key = (text or "" for text in texts.values())
        return cls(endpoint.rstrip("/"), access_key, secret_key, SESSION_TOKEN.read(raw))

    def connect(self, root: str) -> Any:
        """Return obstore's client for a bucket. Alibaba's service has the bucket in the host name; at any
        other address it is part of the path.
        """
        transport, mark, host = self.endpoint.rpartition("://")
        match = _HOST.fullmatch(host)
        address = S3Address(
            transport if mark else "https",
            f"s3.{match[1]}" if match else host,
            match[2] if match else "us-east-1",
            match is not None,
        )
        keys = StaticKeys(self.access_key, self.secret_key, self.session_token)
        return open_s3_client(self.scheme, root, address, keys)


def _open(options: Mapping[str, str]) -> FileIO:
    storage = ObjectStoreFileIO(OssConnection.from_options(options))
    return storage if SINGLE_WRITER.read(options) else ReadOnlyFileIO(storage, _READ_ONLY)


OSS_STORE = Store(
    schemes=("oss",),
    example=_EXAMPLE,
    plain=lambda scheme, rest: bucket_path(scheme, rest, _EXAMPLE),
    open=_open,
    options=(ENDPOINT, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, SINGLE_WRITER),
)
