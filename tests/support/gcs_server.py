"""A server that speaks the part of Google Cloud Storage's XML interface that obstore uses, on this machine.

No emulator that a fresh machine can install has this interface with preconditions (fake-gcs-server and
gcp-storage-emulator have the JSON one). Google's XML interface is S3's with other header names, so this
translates them and asks moto. It creates with `x-goog-if-generation-match: 0` under a lock, as Google says it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.s3_server import BUCKET, S3Server, s3_server

__all__ = ["GcsServer", "gcs_server"]

OWNER = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
"""moto checks no signature, but shows objects to nobody without one."""
CREATE = "HTTP_X_GOOG_IF_GENERATION_MATCH"


@dataclass(frozen=True, slots=True)
class GcsServer:
    """Options to reach it, the root of a bucket that exists, and the S3 server behind it."""

    options: dict[str, str]
    root: str
    s3: S3Server


class Translation:
    """A WSGI application that puts the names of S3's headers in the place of Google's."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        assert environ.get(CREATE, "0") == "0"
        environ["HTTP_AUTHORIZATION"] = OWNER

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, ("x-goog-generation", "1")], *more)

        if "HTTP_X_GOOG_COPY_SOURCE" not in environ:
            if environ.pop(CREATE, None):
                environ["HTTP_IF_NONE_MATCH"] = "*"
            return self._application(environ, start)
        environ["HTTP_X_AMZ_COPY_SOURCE"] = environ.pop("HTTP_X_GOOG_COPY_SOURCE")
        with self._lock:
            if environ.pop(CREATE, None) and self._exists(environ):
                start("412 Precondition Failed", [("Content-Length", "0")])
                return [b""]
            return self._application(environ, start)

    def _exists(self, environ: dict[str, Any]) -> bool:
        status: list[str] = []
        head = {
            **{key: value for key, value in environ.items() if key != "HTTP_X_AMZ_COPY_SOURCE"},
            "REQUEST_METHOD": "HEAD",
        }
        list(self._application(head, lambda code, *_: status.append(code)))
        return status[0].startswith("200")


@contextmanager
def gcs_server() -> Iterator[GcsServer]:
    """Starts on a free port of the loopback interface; forgets everything at the end."""
    with s3_server(Translation) as s3:
        options = {
            "fs.gs.storage.root.url": s3.options["s3.endpoint"],
            "fs.gs.auth.type": "UNAUTHENTICATED",
        }
        yield GcsServer(options, f"gs://{BUCKET}", s3)
