"""This module connects to Tencent Cloud's COS through its S3 interface, with the option names of hadoop-cos,
which Paimon takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakecore.errors import InvalidOptionError
from lakecore.fs.stores.profiles import StaticKeys
from lakecore.fs.stores.s3_services import (
    S3Address,
    S3Connection,
    opened_for_one_writer,
    single_writer,
)
from lakecore.fs.stores.store import Store, bucket_path
from lakecore.options import Option

__all__ = ["COSN_STORE", "connection_of"]

# Spark and variables of the environment have options in lower case only, hence the second names
REGION: Option[str | None] = Option(
    "fs.cosn.bucket.region",
    str,
    None,
    "Region of the bucket, such as ap-beijing.",
    ("fs.cosn.userinfo.region",),
)
ENDPOINT: Option[str | None] = Option(
    "fs.cosn.bucket.endpoint_suffix",
    str,
    None,
    "Address of the service without the bucket; default cos.REGION.myqcloud.com.",
)
ACCESS_KEY: Option[str | None] = Option(
    "fs.cosn.userinfo.secretId", str, None, "Id of the access key.", ("fs.cosn.userinfo.secretid",)
)
SECRET_KEY: Option[str | None] = Option(
    "fs.cosn.userinfo.secretKey",
    str,
    None,
    "Secret of that access key.",
    ("fs.cosn.userinfo.secretkey",),
)
SESSION_TOKEN: Option[str | None] = Option(
    "fs.cosn.userinfo.sessionToken",
    str,
    None,
    "Token of temporary credentials.",
    ("fs.cosn.userinfo.sessiontoken",),
)
SINGLE_WRITER = single_writer("cosn")
_EXAMPLE = "cosn://bucket-1250000000/path"
_HOST = re.compile(r"cos\.([a-z0-9-]+)\.myqcloud\.com")


def connection_of(raw: Mapping[str, str]) -> S3Connection:
    """Read catalog options. Raises InvalidOptionError when the region or half of a key is missing."""
    texts = {option.key: option.read(raw) or "" for option in (ACCESS_KEY, SECRET_KEY)}
    for key, text in texts.items():
        if not text:
            raise InvalidOptionError(f"option {key} is missing; {_EXAMPLE} needs {', '.join(texts)}")
    access_key, secret_key = texts.values()
    keys = StaticKeys(access_key, secret_key, SESSION_TOKEN.read(raw))
    return S3Connection("cosn", _address(REGION.read(raw), ENDPOINT.read(raw)), keys)


def _address(region: str | None, endpoint: str | None) -> S3Address:
    """Return the address. The bucket is in the host name, but in the path of an address with a scheme."""
    transport, mark, host = (endpoint or f"cos.{region}.myqcloud.com").rstrip("/").rpartition("://")
    match = _HOST.fullmatch(host)
    if not region and match is None:
        raise InvalidOptionError(f"option {REGION.key} is missing; {_EXAMPLE} needs the region of the bucket")
    return S3Address(transport or "https", host, region or (match[1] if match else ""), not mark)


COSN_STORE = Store(
    schemes=("cosn",),
    example=_EXAMPLE,
    plain=lambda scheme, rest: bucket_path(scheme, rest, _EXAMPLE),
    open=opened_for_one_writer("COS", SINGLE_WRITER, connection_of),
    options=(REGION, ENDPOINT, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, SINGLE_WRITER),
)
