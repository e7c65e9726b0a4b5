"""Benchmark: requests per second and their latency at a query service, next to Java Paimon's server, on the same files.

    .venv/bin/python -m tests.bench.query_service [--rows 1000000] [--seconds 10] [--figures DIRECTORY]

The table is that of the bench of lookups. A process of its own asks for one key at a time over 1, 8 and 64 connections: each sends its
next request when the answer to the last one is there. The keys are warm: the server has read the data files before the clock
starts. The process that asks is one loop over plain sockets, because with asyncio it took as long for a request as the servers
do, and half of what was measured was its own; it still takes a good part of the second core, for both servers.

Then a process with lakecore's client asks either server for all keys once, in a random order, 50,000 at a time: the client sends at most
4096 keys in a request, and decodes the rows of the answers as columns.
"""

from __future__ import annotations

import argparse
import json
import random
import select
import socket
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
_RESULT = struct.pack(">ii", 1, FrameType.RESULT)
"""What an answer begins with, behind its length: the version and the kind; the number of the request follows."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each number of clients asks")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--ask", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--warehouse", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--clients", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.warehouse:
        print(json.dumps(ask_many(options.warehouse, options.rows)))
        return
    if options.ask:
        host, _, port = options.ask.rpartition(":")
        print(json.dumps(ask(host, int(port), options)))
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
        ours = {**series(table, rows, seconds), "many_keys": many(warehouse, rows)}
    with java_service(str(warehouse / "d.db" / "lookup"), 1):
        theirs = {**series(table, rows, seconds), "many_keys": many(warehouse, rows)}
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


def many(warehouse: Path, rows: int) -> dict[str, Any]:
    """Figures of a process that asks for all keys."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.query_service",
        "--warehouse",
        str(warehouse),
        "--rows",
        str(rows),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def ask_many(warehouse: Path, rows: int) -> dict[str, Any]:
    """Ask for all keys once, and return the figures."""
    keys = random.Random(3).sample(range(rows), rows)
    parts = [pa.table({"k": pa.array(keys[at : at + 50_000])}) for at in range(0, rows, 50_000)]
    found = 0
    with RemoteTableQuery(lakecore.load_catalog(str(warehouse)).load_table(TABLE)) as remote:
        remote.lookup((), 0, (keys[0],))
        started, cpu = time.perf_counter(), time.process_time()
        for part in parts:
            found += pc.sum(remote.lookup_in_bucket((), 0, part).matches).as_py()
        took, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {
        "keys_per_second": round(rows / took),
        "found": found,
        "client_cpu_seconds": round(cpu, 2),
        "seconds": round(took, 2),
    }


def ask(host: str, port: int, options: argparse.Namespace) -> dict[str, Any]:
    """Ask over so many connections, and return the figures."""
    requests, latencies = _requests(options.rows), array("d")
    poll = select.epoll()
    clients = [_Client(host, port, requests, n) for n in range(options.clients)]
    by_number = {one.socket.fileno(): one for one in clients}
    started = time.perf_counter()
    end = started + options.seconds
    for number, client in by_number.items():
        poll.register(number, select.EPOLLIN)
        client.send()
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            if (latency := by_number[number].receive()) is not None:
                latencies.append(latency)
                by_number[number].send()
    took = time.perf_counter() - started
    ordered = sorted(latencies)
    return {
        "requests_per_second": round(len(ordered) / took),
        "p50_ms": round(1000 * ordered[len(ordered) // 2], 3),
        "p99_ms": round(1000 * ordered[len(ordered) * 99 // 100], 3),
    }


def _requests(rows: int) -> list[bytes]:
    """Frames of requests for some keys at random; the number of each is its place."""
    keys = [
        struct.pack(">i", 1) + bytes(8) + struct.pack("<q", one)
        for one in random.Random(3).sample(range(rows), 5000)
    ]
    partition = struct.pack(">i", 0) + bytes(8)
    bodies = [encode_request(LookupRequest(partition, 0, (one,))) for one in keys]
    return [encode_frame(Frame(FrameType.REQUEST, number, body)) for number, body in enumerate(bodies)]


class _Client:
    """One connection, with one request at a time. It takes as little time as it can, for it is measured, too."""

    def __init__(self, host: str, port: int, requests: list[bytes], seed: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = requests
        self._at = seed * 997
        self._begun = 0.0
        self._head = b""
        self._buffer = b""

    def send(self) -> None:
        self._at += 1
        request = self._requests[self._at % len(self._requests)]
        self._head = _RESULT + request[12:20]
        self._begun = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> float | None:
        """The seconds that the answer took; None until it is complete."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise RuntimeError("the server closed a connection")
        answer = self._buffer = self._buffer + data
        if len(answer) < LENGTH.size or len(answer) < LENGTH.size + LENGTH.unpack_from(answer)[0]:
            return None
        took = time.perf_counter() - self._begun
        if answer[4:20] != self._head:
            raise RuntimeError(f"the server failed: {answer[:200]!r}")
        self._buffer = b""
        return took


if __name__ == "__main__":
    main()
