"""An S3-compatible server on this machine, for as long as a test needs it."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["S3Server", "s3_server"]

BUCKET = "lake"


@dataclass(frozen=True, slots=True)
class S3Server:
    """Options to reach it, and a bucket that exists."""

    options: dict[str, str]
    bucket: str
    front: Front

    @property
    def root(self) -> str:
        return f"s3://{self.bucket}"

    @contextmanager
    def losing_answers(self, path: str, times: int) -> Iterator[None]:
        """The next `times` PUTs to a path that ends like the pattern are done, but nobody hears of it."""
        self.front.lose = (re.compile(path + r"\Z"), times)
        try:
            yield
            assert self.front.lose[1] == 0, "a request that should have lost its answer was not made"
        finally:
            self.front.lose = None


class Front:
    """The moto application with PUTs one at a time: it looks for a key and stores it in two steps."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()
        self.lose: tuple[re.Pattern[str], int] | None = None

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "PUT":
            return self._application(environ, start_response)
        with self._lock:
            answer = self._application(environ, start_response)
            if self.lose is not None and self.lose[1] and self.lose[0].search(environ["PATH_INFO"]):
                self.lose = (self.lose[0], self.lose[1] - 1)
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer


@contextmanager
def s3_server(translate: Callable[[Any], Any] = lambda application: application) -> Iterator[S3Server]:
    """Starts on a free port of the loopback interface; forgets everything at the end. `translate` puts another
    application before it.
    """
    import boto3
    from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    front = Front(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, translate(front), threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        options = {
            "s3.endpoint": f"http://127.0.0.1:{server.port}",
            "s3.access-key": "test",
            "s3.secret-key": "test",
            "s3.region": "us-east-1",
            "s3.path.style.access": "true",
        }
        client = boto3.client(
            "s3",
            endpoint_url=options["s3.endpoint"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)
        yield S3Server(options, BUCKET, front)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
