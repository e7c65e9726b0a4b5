"""Benchmark: requests per second and their latency at a query service, next to Java Paimon's server, on the same files.

    .venv/bin/python -m tests.bench.query_service [--rows 1000000] [--seconds 10] [--figures DIRECTORY]

The table is that of the bench of lookups. A process of its own asks for one key at a time over 1, 8 and 64 connections: each sends its
next request when the answer to the last one is there. The keys are warm: the server has read the data files before the clock
starts. The process that asks takes a good part of the second core; it is the same for both servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakecore
from lakecore.lookup.query.serialized_query import SerializedQuery
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.service.server import KvQueryServer
from lakecore.service.wire.frames import LENGTH, Frame, FrameType, encode_frame
from lakecore.service.wire.messages import LookupRequest, encode_request
from lakecore.table import Table
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.lookup import TABLE, prepared
from tests.bench.tables import PAIMON
from tests.support.kv_service import java_service
from tests.support.oracle import Oracle

CLIENTS = (1, 8, 64)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each number of clients asks")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--ask", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--clients", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.ask:
        host, _, port = options.ask.rpartition(":")
        print(json.dumps(asyncio.run(ask(host, int(port), options))))
        return
    measured = conditions([PAIMON])
    figures = compare(options.rows, options.seconds)
    print(json.dumps(figures, indent=2))
    write_figures("query_service", measured, {"rows": options.rows, **figures}, options.figures)


def compare(rows: int, seconds: float) -> dict[str, Any]:
    with Oracle(PAIMON) as oracle:
        warehouse = prepared(oracle, rows)
    table = lakecore.load_catalog(str(warehouse)).load_table(TABLE)
    with SerializedQuery(table) as query, KvQueryServer(query) as server:
        query.refresh()
        service_manager(table).reset_service([server.start()])
        ours = series(table, rows, seconds)
    with java_service(str(warehouse / "d.db" / "lookup"), 1):
        theirs = series(table, rows, seconds)
    service_manager(table).delete_service()
    return {"lakecore": ours, "java": theirs}


def series(table: Table, rows: int, seconds: float) -> dict[str, Any]:
    """Figures for each number of clients. All keys are asked for once before."""
    addresses = service_manager(table).service()
    assert addresses is not None
    with RemoteTableQuery(table) as remote:
        for first in range(0, rows, 50_000):
            remote.lookup_in_bucket((), 0, pa.table({"k": pa.array(range(first, min(rows, first + 50_000)))}))
    found = {}
    for clients in CLIENTS:
        command = [sys.executable, "-m", "tests.bench.query_service", "--ask", str(addresses[0])]
        command += ["--clients", str(clients), "--seconds", str(seconds), "--rows", str(rows)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[f"{clients} clients"] = json.loads(done.stdout)
    return found


async def ask(host: str, port: int, options: argparse.Namespace) -> dict[str, Any]:
    """Ask over so many connections, and return the figures."""
    requests = _requests(options.rows)
    latencies: list[float] = []
    end = time.perf_counter() + options.seconds
    started = time.perf_counter()
    await asyncio.gather(
        *(_client(host, port, random.Random(n), requests, end, latencies) for n in range(options.clients))
    )
    took = time.perf_counter() - started
    latencies.sort()
    return {
        "requests_per_second": round(len(latencies) / took),
        "p50_ms": round(1000 * latencies[len(latencies) // 2], 3),
        "p99_ms": round(1000 * latencies[len(latencies) * 99 // 100], 3),
    }


def _requests(rows: int) -> list[bytes]:
    """Bodies of requests for some keys at random."""
    keys = [
        struct.pack(">i", 1) + bytes(8) + struct.pack("<q", one)
        for one in random.Random(3).sample(range(rows), 5000)
    ]
    partition = struct.pack(">i", 0) + bytes(8)
    return [encode_request(LookupRequest(partition, 0, (one,))) for one in keys]


async def _client(
    host: str, port: int, order: random.Random, requests: list[bytes], end: float, latencies: list[float]
) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    number = 0
    while (begin := time.perf_counter()) < end:
        number += 1
        writer.write(encode_frame(Frame(FrameType.REQUEST, number, order.choice(requests))))
        (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        answer = await reader.readexactly(size)
        if answer[4:8] != b"\0\0\0\1":
            raise RuntimeError(f"the server failed: {answer[:200]!r}")
        latencies.append(time.perf_counter() - begin)
    writer.close()


if __name__ == "__main__":
    main()
