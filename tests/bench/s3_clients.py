"""Benchmark: operations of storage on S3 through boto3 and pyarrow, as before, and through obstore, as now.

    .venv/bin/python -m tests.bench.s3_clients

The server is moto in this process. Each client runs in processes of its own, so that its CPU and its memory are not those of
the server. Times include the server's work, which is most of them; requests and CPU are what the clients differ in.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lakecore.fs.file_io import FileStatus
from tests.bench.cached_requests import Requests
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.s3_server import BUCKET, S3Server, s3_server

CLIENTS = ("boto3 and pyarrow", "obstore")
KEYS, PUTS, READS, RANGES = 10_000, 200, 200, 40
SMALL, LARGE, RANGE = 2 << 10, 64 << 20, 64 << 10
STEPS = ("import and first read", "conditional put", "list", "small read", "ranged read", "write 64 MB")
COUNTS = {"conditional put": PUTS, "small read": READS, "ranged read": RANGES}


class Boto3Files:
    """What lakecore did with boto3 and pyarrow before: small objects through the first, data through the second."""

    def __init__(self, options: dict[str, str]) -> None:
        import boto3
        from botocore.config import Config
        from pyarrow.fs import S3FileSystem

        keys = options["s3.access-key"], options["s3.secret-key"]
        self.small = boto3.client(
            "s3",
            endpoint_url=options["s3.endpoint"],
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            region_name=options["s3.region"],
            config=Config(s3={"addressing_style": "path"}, retries={"mode": "standard", "max_attempts": 4}),
        )
        self.large = S3FileSystem(
            access_key=keys[0],
            secret_key=keys[1],
            region=options["s3.region"],
            endpoint_override=options["s3.endpoint"],
        )

    def read(self, path: str) -> bytes:
        return self.small.get_object(Bucket=BUCKET, Key=key_of(path))["Body"].read()

    def publish(self, path: str, data: bytes) -> bool:
        from botocore.exceptions import ClientError

        try:
            self.small.put_object(Bucket=BUCKET, Key=key_of(path), Body=data, IfNoneMatch="*")
        except ClientError as err:
            if err.response["Error"]["Code"] != "PreconditionFailed":
                raise
            return False
        return True

    def list(self, path: str) -> list[FileStatus]:
        pages = self.small.get_paginator("list_objects_v2")
        return [
            FileStatus(one["Key"], one["Size"], False, int(one["LastModified"].timestamp() * 1000))
            for page in pages.paginate(Bucket=BUCKET, Prefix=f"{key_of(path)}/", Delimiter="/")
            for one in page.get("Contents", ())
        ]

    def open_ranges(self, path: str) -> Any:
        return self.large.open_input_file(f"{BUCKET}/{key_of(path)}")

    def open_output(self, path: str) -> Any:
        return self.large.open_output_stream(f"{BUCKET}/{key_of(path)}")


def key_of(path: str) -> str:
    return path.removeprefix(f"s3://{BUCKET}/")


def storage(client: str, options: dict[str, str]) -> Any:
    if client != "obstore":
        return Boto3Files(options)
    from lakecore.fs.stores.s3 import S3FileIO, S3Options

    return S3FileIO(S3Options.from_options(options))


def run(client: str, step: str, options: dict[str, str], number: int) -> dict[str, float]:
    """One step in this process: its wall time and CPU after a first request, and the peak of memory."""
    begun, cpu = time.perf_counter(), time.process_time()
    files, root = storage(client, options), f"s3://{BUCKET}"
    assert len(files.read(f"{root}/small/0")) == SMALL
    if step != STEPS[0]:
        work(files, step, f"{root}/{client.split()[0]}-{number}", 0)
        begun, cpu = time.perf_counter(), time.process_time()
        work(files, step, f"{root}/{client.split()[0]}-{number}", COUNTS.get(step, 1))
    return {
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
        "peak": peak(),
    }


def peak() -> int:
    """The peak of this process's memory since it was started; that of `getrusage` includes its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


def work(files: Any, step: str, own: str, count: int) -> None:
    root = f"s3://{BUCKET}"
    match step:
        case "conditional put":
            for one in range(count):
                assert files.publish(f"{own}/put-{one}", b"x" * SMALL)
            assert count == 0 or not files.publish(f"{own}/put-0", b"y")
        case "list":
            assert count == 0 or len(files.list(f"{root}/many")) == KEYS
        case "small read":
            for one in range(count):
                assert len(files.read(f"{root}/small/{one}")) == SMALL
        case "ranged read":
            with files.open_ranges(f"{root}/large") as source:
                for one in range(count):
                    assert len(source.read_at(RANGE, one * RANGE * 25)) == RANGE
        case "write 64 MB":
            with files.open_output(f"{own}/large-{count}") as out:
                for _ in range(LARGE >> 20 if count else 0):
                    out.write(b"x" * (1 << 20))


def measured_step(
    server: S3Server, counter: Requests, client: str, step: str, repeats: int
) -> dict[str, Any]:
    results, requests = [], 0
    for number in range(repeats):
        counter.take()
        words = ["--client", client, "--step", step, "--number", str(number)]
        words += ["--options", json.dumps(server.options)]
        answer = subprocess.run(
            [sys.executable, "-m", "tests.bench.s3_clients", *words],
            check=True,
            capture_output=True,
            text=True,
        )
        results.append(json.loads(answer.stdout))
        requests = counter.take()["all"]
    return {
        "requests of the process": requests,
        "cpu_ms": round(1000 * statistics.median(one["cpu"] for one in results), 1),
        "ms": round(1000 * statistics.median(one["seconds"] for one in results), 1),
        "peak_mb": round(statistics.median(one["peak"] for one in results) / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--client", "--step", "--options"):
        parser.add_argument(name)
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    given = parser.parse_args()
    if given.client is not None:
        print(json.dumps(run(given.client, given.step, json.loads(given.options), given.number)))
        return
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    counters: list[Requests] = []

    def counted(application: Callable[..., Iterable[bytes]]) -> Requests:
        counters.append(Requests(application))
        return counters[-1]

    with s3_server(counted) as server:
        measured = conditions([])
        fill()
        figures: dict[str, Any] = {"keys": KEYS, "repeats": given.repeats, **COUNTS}
        for client in CLIENTS:
            figures[client] = {
                step: measured_step(server, counters[0], client, step, given.repeats) for step in STEPS
            }
    write_figures("s3_clients", measured, figures, given.figures)
    print(json.dumps(figures, indent=2))


def fill() -> None:
    """Put the objects into the server's memory; by requests that would take a minute."""
    from moto.s3.models import s3_backends

    backend = s3_backends["123456789012"]["aws"]
    for number in range(KEYS):
        backend.put_object(BUCKET, f"many/file-{number:06}", b"")
    for number in range(max(READS, 1)):
        backend.put_object(BUCKET, f"small/{number}", b"x" * SMALL)
    backend.put_object(BUCKET, "large", b"x" * LARGE)


if __name__ == "__main__":
    main()
