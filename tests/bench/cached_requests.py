"""Benchmark: the requests to S3 that a catalog sends for plans and lists of partitions, with its cache and without.

    .venv/bin/python -m tests.bench.cached_requests

The server is moto. The table has a partition a day; each commit adds a file to each of some. One step after the other is counted:
a load of the table and a first plan, both again, a plan after a commit of another process, and partitions twice.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakecore import load_catalog
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.s3_server import S3Server, s3_server

MANIFESTS = {"cache-enabled": "true"}
ALL = {**MANIFESTS, "cache.snapshot.max-num-per-table": "20", "cache.partition.max-num": "1000"}
CATALOGS: dict[str, dict[str, str]] = {
    "without": {},
    "with the cache": MANIFESTS,
    "with what may be stale": ALL,
}
DEFINITION = {
    "columns": ["k INT", "p STRING"],
    "partitionKeys": ["p"],
    "options": {"bucket": "-1", "write-only": "true"},
}


class Requests:
    """An application before moto that counts requests: GET, HEAD, LIST, PUT, …"""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application, self.seen = application, Counter[str]()

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        listed = "list-type=" in environ.get("QUERY_STRING", "")
        self.seen["LIST" if listed else environ["REQUEST_METHOD"]] += 1
        return self.application(environ, start_response)

    def take(self) -> dict[str, int]:
        taken, self.seen = dict(sorted(self.seen.items())), Counter()
        return {**taken, "all": sum(taken.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    counters: list[Requests] = []

    def counted(application: Callable[..., Iterable[bytes]]) -> Requests:
        counters.append(Requests(application))
        return counters[-1]

    with s3_server(counted) as server:
        measured = conditions([])
        figures: dict[str, Any] = {"commits": options.commits}
        writer = load_catalog(f"{server.root}/wh", create_warehouse=True, **server.options)
        for name, own in CATALOGS.items():
            table = writer.create_table(f"d.t{len(figures)}", DEFINITION)
            for number in range(options.commits):
                append(table, number)
            figures[name] = steps(server, table, own, counters[0])
    write_figures("cached_requests", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


def append(table: Any, number: int) -> None:
    days = [f"d{(number * 3 + one) % 20}" for one in range(3)]
    table.append(pa.table({"k": pa.array([number] * 3, pa.int32()), "p": days}))


def steps(server: S3Server, written: Any, own: dict[str, str], counter: Requests) -> dict[str, Any]:
    """Count the requests of each step, and see that the plans are never stale."""
    options: dict[str, Any] = {**server.options, **own}
    catalog = load_catalog(f"{server.root}/wh", **options)
    counter.take()
    figures, table = {}, catalog.load_table(written.name)
    figures["load the table"] = counter.take()
    files = len(table.scan().plan())
    figures["first plan"] = counter.take()
    table = catalog.load_table(written.name)
    figures["load the table again"] = counter.take()
    assert len(table.scan().plan()) == files
    figures["the same plan again"] = counter.take()
    append(written, 1)
    counter.take()
    assert len(table.scan().plan()) > 0
    figures["a plan after a commit by another"] = counter.take()
    rows = table.scan().count()
    assert rows == written.scan().count()
    counter.take()
    parts = catalog.partitions.list(written.name)
    figures["list of partitions"] = counter.take()
    assert catalog.partitions.list(written.name) == parts
    figures["the same list again"] = counter.take()
    assert sum(one.record_count for one in parts) == rows
    return figures


if __name__ == "__main__":
    main()
