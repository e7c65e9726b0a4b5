"""OSS as its S3 interface shows it: moto, which here refuses conditional PUTs as OSS does (501 NotImplemented)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.s3_server import BUCKET, s3_server

__all__ = ["OssServer", "oss_server"]


@dataclass(frozen=True, slots=True)
class OssServer:
    """Options to reach it, and the root of a bucket that exists. One writer at a time is certain."""

    options: dict[str, str]
    root: str


def unconditional(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The application without conditions for PUTs."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "PUT" and {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"} & environ.keys():
            start_response("501 Not Implemented", [("Content-Length", "0")])
            return [b""]
        return application(environ, start_response)

    return answer


@contextmanager
def oss_server() -> Iterator[OssServer]:
    """Starts on a free port of the loopback interface; forgets everything at the end."""
    with s3_server(unconditional) as s3:
        options = {
            "fs.oss.endpoint": s3.options["s3.endpoint"],
            "fs.oss.accessKeyId": "test",
            "fs.oss.accessKeySecret": "test",
            "lakecore.oss.single-writer": "true",
        }
        yield OssServer(options, f"oss://{BUCKET}")
