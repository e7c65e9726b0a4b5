"""OSS, COS and OBS as their S3 interfaces show them: moto, which here refuses conditional PUTs as OSS does (501 NotImplemented)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.s3_server import BUCKET, s3_server

__all__ = ["OssServer", "cosn_server", "first_pages", "obs_server", "oss_server", "unconditional"]


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


@contextmanager
def cosn_server() -> Iterator[OssServer]:
    """As `oss_server`, with the scheme and the options of COS."""
    with s3_server(unconditional) as s3:
        options = {
            "fs.cosn.bucket.region": "ap-beijing",
            "fs.cosn.bucket.endpoint_suffix": s3.options["s3.endpoint"],
            "fs.cosn.userinfo.secretId": "test",
            "fs.cosn.userinfo.secretKey": "test",
            "lakecore.cosn.single-writer": "true",
        }
        yield OssServer(options, f"cosn://{BUCKET}")


@contextmanager
def obs_server(
    change: Callable[[Callable[..., Iterable[bytes]]], Callable[..., Iterable[bytes]]] = unconditional,
) -> Iterator[OssServer]:
    """As `oss_server`, with the scheme and the options of OBS."""
    with s3_server(change) as s3:
        options = {
            "fs.obs.endpoint": s3.options["s3.endpoint"],
            "fs.obs.access.key": "test",
            "fs.obs.secret.key": "test",
            "lakecore.obs.single-writer": "true",
        }
        yield OssServer(options, f"obs://{BUCKET}")


def first_pages(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The application as a service that ignores what is new in `ListObjectsV2`, with pages of ten objects."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        parts = environ["QUERY_STRING"].split("&")
        unknown = ("list-type", "continuation-token", "start-after")
        left = [one for one in parts if one.partition("=")[0] not in unknown]
        environ["QUERY_STRING"] = "&".join([*left, "max-keys=10"] if "list-type=2" in parts else left)
        return application(environ, start_response)

    return answer
