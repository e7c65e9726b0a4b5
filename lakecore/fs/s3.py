"""This module has the storage of S3 and services that speak its protocol.

Atomic creation is a conditional PUT (`If-None-Match: *`): the service refuses a key that exists. Needed
of the service: conditional writes (AWS since 2024, MinIO, Ceph, R2, …) and strong read-after-write.
Data is read and written through pyarrow's file system, small objects through boto3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.failures import check_whole, storage_errors
from lakecore.fs.file_io import FileStatus
from lakecore.fs.object_output import ObjectOutput
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

_MISSING = frozenset({"404", "NoSuchKey", "NotFound"})
_TAKEN_CODES = frozenset({"412", "PreconditionFailed"})
_RACED = frozenset({"409", "ConditionalRequestConflict"})
_DENIED = frozenset({"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"})
_CLIENT_FAULTS = range(400, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """It says how to reach the service. Keys and tokens are left out of `repr`."""

    endpoint: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    path_style: bool = False

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


class S3FileIO:
    """It implements `FileIO` over one S3 service. It connects on first use and is pickled as its options."""

    def __init__(self, options: S3Options) -> None:
        self.options = options
        self._connected: tuple[Any, Any] | None = None

    def __reduce__(self) -> tuple[type[S3FileIO], tuple[S3Options]]:
        return S3FileIO, (self.options,)

    def open_input(self, path: str) -> Any:
        bucket, key = _split(path)
        with storage_errors("read", path):
            return self._arrow.open_input_file(f"{bucket}/{key}")

    def open_ranges(self, path: str) -> Any:
        return self.open_input(path)

    def read(self, path: str) -> bytes:
        bucket, key = _split(path)
        with _service_errors("read", path):
            answer = self._client.get_object(Bucket=bucket, Key=key)
            check_whole(path, int(answer.get("ContentLength", 0)))
            body: bytes = answer["Body"].read()
            return body

    def open_output(self, path: str) -> ObjectOutput:
        """Upload in parts; the object appears on `close`. An existing key is not noticed."""
        bucket, key = _split(path)
        with storage_errors("create", path):
            stream = self._arrow.open_output_stream(f"{bucket}/{key}")
        return ObjectOutput(path, stream, self, errors=storage_errors, cancel=_finish)

    def write_new(self, path: str, data: bytes) -> None:
        if not self.publish(path, data):
            raise AlreadyExistsError(f"cannot create {path}: it exists already")

    def publish(self, path: str, data: bytes) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, key = _split(path)
        try:
            self._client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
        except ClientError as err:
            return _refused(err, path)
        except BotoCoreError as err:
            raise CommitUncertainError(f"it is not known whether {path} was published: {err}") from err
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        bucket, key = _split(path)
        with _service_errors("overwrite", path):
            self._client.put_object(Bucket=bucket, Key=key, Body=data)

    def list(self, path: str) -> list[FileStatus]:
        bucket, key = _split(path.rstrip("/") + "/")
        statuses: list[FileStatus] = []
        with _service_errors("list", path):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=bucket, Prefix=key, Delimiter="/"):
                folders = (item["Prefix"].rstrip("/") for item in page.get("CommonPrefixes", ()))
                statuses.extend(FileStatus(f"s3://{bucket}/{folder}", 0, True, 0) for folder in folders)
                statuses.extend(
                    _status(bucket, item) for item in page.get("Contents", ()) if item["Key"] != key
                )
        return sorted(statuses, key=lambda status: status.path)

    def stat(self, path: str) -> FileStatus | None:
        bucket, key = _split(path)
        try:
            with _service_errors("look at", path):
                head = self._client.head_object(Bucket=bucket, Key=key)
        except NotFoundError:
            with _service_errors("look at", path):
                below = self._client.list_objects_v2(Bucket=bucket, Prefix=key.rstrip("/") + "/", MaxKeys=1)
            return FileStatus(path, 0, True, 0) if below.get("KeyCount") else None
        modified = int(head["LastModified"].timestamp() * 1000)
        return FileStatus(path, head["ContentLength"], False, modified)

    def delete(self, path: str) -> None:
        bucket, key = _split(path)
        with suppress(NotFoundError), _service_errors("delete", path):
            self._client.delete_object(Bucket=bucket, Key=key)

    def move(self, path: str, target: str) -> None:
        """Copy the object within the service, whatever its size, then delete the original."""
        bucket, key = _split(path)
        other_bucket, other_key = _split(target)
        if self.stat(target) is not None:
            raise AlreadyExistsError(f"cannot move {path}: {target} exists already")
        with _service_errors("move", path):
            self._client.copy({"Bucket": bucket, "Key": key}, other_bucket, other_key)
        self.delete(path)

    def make_directory(self, path: str) -> bool:
        """Put an empty object of the name `<path>/`; two that make it at once may both get True."""
        if self.stat(path) is not None:
            return False
        bucket, key = _split(path)
        with _service_errors("create", path):
            self._client.put_object(Bucket=bucket, Key=f"{key.rstrip('/')}/", Body=b"")
        return True

    def move_directory(self, path: str, target: str) -> bool:
        """Return False: an object store has no directories, so each object would be copied."""
        return False

    def remove_directory(self, path: str) -> None:
        bucket, key = _split(path)
        with suppress(NotFoundError), _service_errors("delete", path):
            self._client.delete_object(Bucket=bucket, Key=f"{key.rstrip('/')}/")

    @property
    def _client(self) -> Any:
        return self._connect()[0]

    @property
    def _arrow(self) -> Any:
        return self._connect()[1]

    def _connect(self) -> tuple[Any, Any]:
        if self._connected is None:
            self._connected = (_boto_client(self.options), _arrow_file_system(self.options))
        return self._connected


def _finish(stream: Any) -> None:
    """End an upload that pyarrow cannot cancel; its object is deleted afterwards."""
    with suppress(OSError):
        stream.close()


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.removeprefix("s3://").partition("/")
    if not path.startswith("s3://") or not bucket:
        raise InvalidInputError(f"{path!r} is not an S3 path; write s3://bucket/key")
    return bucket, key


def _status(bucket: str, item: Mapping[str, Any]) -> FileStatus:
    modified = int(item["LastModified"].timestamp() * 1000)
    return FileStatus(f"s3://{bucket}/{item['Key']}", item["Size"], False, modified)


@contextmanager
def _service_errors(action: str, path: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as err:
        raise _translate(err, action, path) from err
    except BotoCoreError as err:
        raise UnavailableError(f"cannot {action} {path}: {err}") from err


def _translate(err: Any, action: str, path: str) -> LakeError:
    code = str(err.response.get("Error", {}).get("Code", ""))
    if code == "NoSuchBucket":
        return NotFoundError(f"cannot {action} {path}: the bucket does not exist")
    if code in _MISSING:
        return NotFoundError(f"cannot {action} {path}: the object does not exist")
    if code in _DENIED:
        return UnavailableError(
            f"cannot {action} {path}: {code}; check s3.access-key, s3.secret-key and policy"
        )
    return UnavailableError(f"cannot {action} {path}: {err}")


def _refused(err: Any, path: str) -> bool:
    """Return False if a conditional PUT failed because the key is taken, and raise the error otherwise."""
    code = str(err.response.get("Error", {}).get("Code", ""))
    status = err.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _TAKEN_CODES:
        return False
    if code == "NotImplemented":
        raise UnsupportedError(
            f"cannot publish {path}: this service has no conditional writes, which atomic commits need; "
            "use a service that has them"
        ) from err
    if code in _RACED or status not in _CLIENT_FAULTS:
        raise CommitUncertainError(f"it is not known whether {path} was published: {err}") from err
    raise _translate(err, "publish", path) from err


def _boto_client(options: S3Options) -> Any:
    import boto3
    from botocore.config import Config

    style = {"addressing_style": "path" if options.path_style else "auto"}
    return boto3.client(
        "s3",
        endpoint_url=options.endpoint,
        aws_access_key_id=options.access_key,
        aws_secret_access_key=options.secret_key,
        aws_session_token=options.session_token,
        region_name=options.region,
        config=Config(s3=style, retries={"mode": "standard", "max_attempts": 4}),
    )


def _arrow_file_system(options: S3Options) -> Any:
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(
        access_key=options.access_key,
        secret_key=options.secret_key,
        session_token=options.session_token,
        region=options.region,
        endpoint_override=options.endpoint,
        force_virtual_addressing=not options.path_style and options.endpoint is not None,
    )


S3_STORE = Store(
    schemes=("s3", "s3a", "s3n"),
    example="s3://bucket/path",
    plain=lambda scheme, rest: bucket_path("s3", rest, "s3://bucket/path"),
    open=lambda options: S3FileIO(S3Options.from_options(options)),
    options=_OPTIONS,
)
