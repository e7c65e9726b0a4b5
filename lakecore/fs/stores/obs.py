"""This module connects to Huawei Cloud's OBS through its S3 interface, with the option names of
hadoop-huaweicloud, which Paimon takes.
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

__all__ = ["OBS_STORE", "connection_of"]

ENDPOINT: Option[str | None] = Option(
    "fs.obs.endpoint", str, None, "Address of the service, such as obs.cn-north-4.myhuaweicloud.com."
)
ACCESS_KEY: Option[str | None] = Option("fs.obs.access.key", str, None, "Id of the access key.")
SECRET_KEY: Option[str | None] = Option("fs.obs.secret.key", str, None, "Secret of that access key.")
SESSION_TOKEN: Option[str | None] = Option(
    "fs.obs.session.token", str, None, "Token of temporary credentials."
)
SINGLE_WRITER = single_writer("obs")
_EXAMPLE = "obs://bucket/path"
_HOST = re.compile(r"obs\.([a-z0-9-]+)\.myhuaweicloud\.(?:com|eu)")


def connection_of(raw: Mapping[str, str]) -> S3Connection:
    """Read catalog options. Raises InvalidOptionError when the endpoint or half of a key is missing."""
    texts = {option.key: option.read(raw) or "" for option in (ENDPOINT, ACCESS_KEY, SECRET_KEY)}
    for key, text in texts.items():
        if not text:
            raise InvalidOptionError(f"option {key} is missing; {_EXAMPLE} needs {', '.join(texts)}")
    endpoint, access_key, secret_key = texts.values()
    transport, _, host = endpoint.rstrip("/").rpartition("://")
    match = _HOST.fullmatch(host)
    region = match[1] if match else "us-east-1"
    address = S3Address(transport or "https", host, region, match is not None)
    return S3Connection("obs", address, StaticKeys(access_key, secret_key, SESSION_TOKEN.read(raw)))


OBS_STORE = Store(
    schemes=("obs",),
    example=_EXAMPLE,
    plain=lambda scheme, rest: bucket_path(scheme, rest, _EXAMPLE),
    open=opened_for_one_writer("OBS", SINGLE_WRITER, connection_of),
    options=(ENDPOINT, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, SINGLE_WRITER),
)
