"""Write the demo's lake with Java Paimon, through the oracle, and pack it: `make_demo_lake.py ORACLE OUT.tar.xz`.

Run by hand when the lake should change; the archive is kept in the repository, so that the demo needs no Java
Paimon. Tables rot as they do in life: write-only writers, small commits, updates and deletes, no compaction.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_CITIES = ("Berlin", "Lisbon", "Nairobi", "Osaka", "Quito", "Tromsø")
_STATES = ("created", "paid", "packed", "shipped", "returned")


def _table(columns: list[str], keys: list[str], partitions: list[str], **options: str) -> str:
    spec = {"columns": columns, "primaryKeys": keys, "partitionKeys": partitions}
    options = {"write-only": "true"} | {key.replace("_", "-"): value for key, value in options.items()}
    return json.dumps(spec | {"options": options})


def _orders(rng: random.Random) -> Iterator[list[Row]]:
    for commit in range(14):
        ids = rng.sample(range(60_000), 9_000 if commit < 4 else 1_500)
        yield [
            {
                "order_id": i,
                "customer": f"c-{i % 7919:05d}",
                "state": rng.choice(_STATES),
                "amount": f"{rng.randrange(100, 99_999) / 100:.2f}",
                "updated_at": f"2026-11-{commit + 1:02d} {rng.randrange(24):02d}:{rng.randrange(60):02d}:00.000",
                "_kind": "-D" if commit > 4 and rng.random() < 0.05 else "+U",
            }
            for i in ids
        ]


def _customers(rng: random.Random) -> Iterator[list[Row]]:
    for commit in range(9):
        ids = rng.sample(range(7919), 3_000 if commit < 3 else 400)
        yield [
            {
                "customer": f"c-{i:05d}",
                "city": rng.choice(_CITIES),
                "points": rng.randrange(10_000),
                "version": commit,
            }
            for i in ids
        ]


def _events(rng: random.Random) -> Iterator[list[Row]]:
    for commit in range(36):
        yield [
            {
                "dt": f"2026-11-{18 + commit % 3:02d}",
                "event_id": commit * 1_000 + i,
                "kind": rng.choice(("view", "click", "buy")),
                "payload": f"{rng.getrandbits(64):016x}",
            }
            for i in range(rng.randrange(100, 400))
        ]


def _totals(rng: random.Random) -> Iterator[list[Row]]:
    for _ in range(6):
        yield [{"city": city, "total": rng.randrange(1_000)} for city in _CITIES]


_TABLES = (
    (
        "shop.orders",
        _table(
            ["order_id BIGINT NOT NULL", "customer STRING", "state STRING", "amount DECIMAL(12, 2)", "updated_at TIMESTAMP(3)"],
            ["order_id"], [], bucket="2",
        ),
        _orders,
    ),
    (
        "shop.customers",
        _table(
            ["customer STRING NOT NULL", "city STRING", "points INT", "version INT"],
            ["customer"], [], bucket="1", **{"sequence.field": "version"},
        ),
        _customers,
    ),
    (
        "shop.events",
        _table(["dt STRING NOT NULL", "event_id BIGINT NOT NULL", "kind STRING", "payload STRING"], [], ["dt"]),
        _events,
    ),
    (
        "shop.daily_totals",
        _table(
            ["city STRING NOT NULL", "total BIGINT"], ["city"], [], bucket="1",
            **{"merge-engine": "aggregation", "fields.total.aggregate-function": "sum"},
        ),
        _totals,
    ),
)  # fmt: skip


class _Oracle:
    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            [command, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, *args: str) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(args) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if not answer.get("ok"):
            raise SystemExit(f"{args[:3]}: {answer}")
        return answer.get("result")


def main(oracle_command: str, out: str) -> None:
    rng = random.Random(20261121)
    with tempfile.TemporaryDirectory() as scratch:
        lake, rows_file = Path(scratch, "lake"), Path(scratch, "rows.jsonl")
        oracle = _Oracle(oracle_command)
        for name, schema, commits in _TABLES:
            oracle.call("create", str(lake), name, schema)
            for rows in commits(rng):
                rows_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
                oracle.call("write", str(lake), name, str(rows_file))
        with tarfile.open(out, "w:xz", preset=9) as archive:
            archive.add(lake, "lake")


if __name__ == "__main__":
    main(*sys.argv[1:])
