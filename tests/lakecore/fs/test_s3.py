"""What is special about S3: credentials, conditional writes and their doubtful answers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from lakecore.errors import (
    CommitUncertainError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.publish import publish_resolved
from lakecore.fs.resolve import file_io_for
from lakecore.fs.s3 import S3FileIO, S3Options
from tests.support.fake_clock import FakeClock
from tests.support.s3_server import S3Server, s3_server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


class Client:
    """A client whose PUT fails, perhaps after it has worked."""

    def __init__(self, error: Exception, real: Any = None) -> None:
        self._error = error
        self._real = real

    def put_object(self, **arguments: Any) -> None:
        if self._real is not None:
            self._real.put_object(**arguments)
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def refusal(code: str, status: int) -> ClientError:
    error = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error, "PutObject")


def storage_with(client: Any) -> S3FileIO:
    storage = S3FileIO(S3Options())
    storage._connected = (client, None)
    return storage


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal("InternalError", 500), CommitUncertainError),
        (refusal("SlowDown", 503), CommitUncertainError),
        (refusal("ConditionalRequestConflict", 409), CommitUncertainError),
        (refusal("NotImplemented", 501), UnsupportedError),
        (refusal("AccessDenied", 403), UnavailableError),
        (refusal("NoSuchBucket", 404), NotFoundError),
        (ReadTimeoutError(endpoint_url="x"), CommitUncertainError),
    ],
)
def test_answers_to_a_conditional_put(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected, match=r"snapshot-1|conditional"):
        storage_with(Client(error)).publish("s3://b/snapshot-1", b"1")


def test_a_timeout_after_the_effect_is_settled_by_reading_back(server: S3Server) -> None:
    storage = S3FileIO(S3Options.from_options(server.options))
    real, arrow = storage._connect()
    storage._connected = (Client(ReadTimeoutError(endpoint_url="x"), real), arrow)
    path = f"s3://{server.bucket}/settled/snapshot-1"
    assert publish_resolved(storage, path, b"ours", FakeClock())
    assert not publish_resolved(storage, path, b"theirs", FakeClock())


def test_missing_bucket_and_wrong_address(server: S3Server) -> None:
    storage = file_io_for("s3://nowhere", server.options)
    with pytest.raises(NotFoundError, match="bucket does not exist"):
        storage.read("s3://nowhere/x")
    with pytest.raises(InvalidInputError, match="s3://bucket/key"):
        storage.read("/local")


def test_secrets_are_not_shown() -> None:
    options = S3Options.from_options({"s3.access-key": "id", "s3.secret-key": "hidden"})
    assert "hidden" not in repr(options)
    assert pickle.loads(pickle.dumps(S3FileIO(options))).options == options


def test_half_a_credential_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"s3\.secret-key"):
        S3Options.from_options({"s3.access-key": "id"})
