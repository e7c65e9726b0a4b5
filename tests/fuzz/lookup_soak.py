"""Lookups of every kind while Java Paimon writes, compacts and expires, and servers are killed.

    python -m tests.fuzz.lookup_soak --minutes 10 [--seed 1]

Two JVMs (1.4.2 and 2.0.0) write random rows to tables of five kinds, each table by one of them, compact and expire them at
random, let lakecore compact them, and add columns. Meanwhile local queries, lookup tables (full, partial, and those that ask the service), clients of lakecore and
Java's client look keys up; the services of three tables, which are processes, are killed at random and started again. An
answer is right if it was current at some moment between the question and the answer; of a service, at some moment since
`LAG` seconds before the question, for it follows the table at an interval. An error that a user would see is a failure; one
of Java's client is none where the service was restarted meanwhile. Figures: `docs/figures/lookup_soak.json`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.lookup.query.key_reader import KeyReader
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.service.connection import ClientOptions
from lakecore.service.remote_query import RemoteTableQuery
from lakecore.service.wire.row_codec import RowCodec
from lakecore.table import Table
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.fuzz.killed_services import KilledService
from tests.support.kv_service import java_answers
from tests.support.oracle import Oracle

JAVA = ("1.4.2", "2.0.0")
KEYS = 60
BATCH = 8
LAG = 10.0
MOST_COLUMNS = 8
ALWAYS = {"continuous.discovery-interval": "0 s"}
PATIENT = ClientOptions(answer_seconds=30, first_wait=0.05, longest_wait=0.2, tries=900)
KIND = pa.schema([("k", pa.int32())])
Value = int | None
Found = list[tuple[int, Value]]


@dataclass
class _State:
    value: Value
    begun: float
    done: float


@dataclass
class SoakTable:
    """One table and the values that its keys had. `has_service`: a service runs for it."""

    name: str
    options: dict[str, str]
    sums: bool = False
    deletes: bool = False
    has_service: bool = False
    added: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    states: list[list[_State]] = field(
        default_factory=lambda: [[_State(None, -1e9, -1e9)] for _ in range(KEYS)]
    )

    def begin(self, values: dict[int, Value]) -> list[_State]:
        with self.lock:
            fresh = []
            for key, value in values.items():
                last = self.states[key][-1].value
                total = (last or 0) + value if self.sums and value is not None else value
                fresh.append(_State(total, time.monotonic(), float("inf")))
                self.states[key].append(fresh[-1])
            return fresh

    def staleness(self, key: int, value: Value, asked: float, answered: float) -> float:
        """How many seconds before the question the value was replaced; 0 if it was not, infinite if it never was current."""
        with self.lock:
            states = list(self.states[key])
        ends = [*(one.done for one in states[1:]), float("inf")]
        ages = (
            max(0.0, asked - end)
            for one, end in zip(states, ends, strict=True)
            if one.value == value and one.begun <= answered
        )
        return min(ages, default=float("inf"))


def soak_tables() -> list[SoakTable]:
    lookup = {"bucket": "2", "changelog-producer": "lookup"}
    return [
        SoakTable("plain", {"bucket": "2", "num-sorted-run.compaction-trigger": "3"}, deletes=True, has_service=True),
        SoakTable("remote", lookup | {"lookup.remote-file.enabled": "true"}, deletes=True, has_service=True),
        SoakTable("vectors", {"bucket": "1", "deletion-vectors.enabled": "true"}, deletes=True),
        SoakTable("partial", lookup | {"merge-engine": "partial-update"}, has_service=True),
        SoakTable(
            "sums", lookup | {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, sums=True
        ),
    ]  # fmt: skip


class Soak:
    """What went on: counts, failures, and the answers that were the oldest."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.counts: Counter[str] = Counter()
        self.stalest: dict[str, float] = {}
        self.failures: list[str] = []
        self._lock = threading.Lock()

    def fail(self, text: str) -> None:
        with self._lock:
            self.failures.append(text)
        self.ended.set()

    def count(self, name: str, number: int = 1) -> None:
        with self._lock:
            self.counts[name] += number

    def judge(self, who: str, table: SoakTable, found: Found, asked: float, allowed: float) -> None:
        answered = time.monotonic()
        for key, value in found:
            age = table.staleness(key, value, asked, answered)
            if age > allowed:
                self.fail(
                    f"{who} of {table.name}: key {key} has {value}, {age:.1f} s too old; {table.states[key][-4:]}"
                )
            with self._lock:
                self.stalest[who] = max(self.stalest.get(who, 0.0), age)
        self.count(who, len(found))


def write(
    soak: Soak, oracle: Oracle, warehouse: str, table: SoakTable, dice: random.Random, number: int
) -> None:
    """One commit, and sometimes a compaction and an expiry."""
    values: dict[int, Value] = {
        key: None if table.deletes and dice.random() < 0.2 else number
        for key in dice.sample(range(KEYS), BATCH)
    }
    rows = [
        {"k": key, "_kind": "-D"} if value is None else {"k": key, "v": value}
        for key, value in values.items()
    ]
    fresh = table.begin(values)
    oracle.write(warehouse, f"d.{table.name}", rows)
    now = time.monotonic()
    for one in fresh:
        one.done = now
    soak.count("commits")
    if dice.random() < 0.2:
        oracle.compact(warehouse, f"d.{table.name}", full=True)
        soak.count("compactions")
    elif dice.random() < 0.1:
        job = compact.Job(table=f"d.{table.name}", strategy=compact.Strategy.FULL)
        compact.run(job, load_catalog(warehouse))
        soak.count("compactions of lakecore")
    if table.added < MOST_COLUMNS and dice.random() < 0.03:
        table.added += 1
        column = {"op": "add", "name": f"c{table.added}", "type": "STRING"}
        oracle.call("alter", warehouse, f"d.{table.name}", json.dumps([column]))
        soak.count("schema changes")
    if dice.random() < 0.15:
        oracle.call("expire-snapshots", warehouse, f"d.{table.name}", "--retain-max", 2, "--retain-min", 1)
        soak.count("expiries")


class Asker:
    """One way to look keys up in one table; `open` returns a function that does it, and is called again now and then."""

    def __init__(self, soak: Soak, who: str, table: SoakTable, lag: float, seed: int) -> None:
        self.soak, self.who, self.table, self.lag = soak, who, table, lag
        self.dice = random.Random(seed)

    def run(self, open_: Callable[[ExitStack], Callable[[pa.Table], list[Value]]]) -> None:
        try:
            while not self.soak.ended.is_set():
                with ExitStack() as stack:
                    ask = open_(stack)
                    while not self.soak.ended.is_set() and self.dice.random() > 0.01:
                        keys = self.dice.sample(range(KEYS), 6)
                        asked = time.monotonic()
                        values = ask(pa.table({"k": keys}, KIND))
                        self.soak.judge(
                            self.who, self.table, list(zip(keys, values, strict=True)), asked, self.lag
                        )
                        self.soak.ended.wait(0.02)
        except Exception as err:
            self.soak.fail(f"{self.who} of {self.table.name}: {type(err).__name__}: {err}")
            raise


def by_query(table: Table, cache: LookupCache) -> Callable[[ExitStack], Callable[[pa.Table], list[Value]]]:
    def opened(stack: ExitStack) -> Callable[[pa.Table], list[Value]]:
        query = stack.enter_context(table.new_query(cache=cache))

        def ask(keys: pa.Table) -> list[Value]:
            query.refresh()
            values: list[Value] = query.lookup_table(keys).rows.column("v").to_pylist()
            return values

        return ask

    return opened


def by_table(table: Table, cache: str) -> Callable[[ExitStack], Callable[[pa.Table], list[Value]]]:
    def opened(stack: ExitStack) -> Callable[[pa.Table], list[Value]]:
        lookup = stack.enter_context(table.new_lookup(["k"], options=ALWAYS | {"lookup.cache": cache}))

        def ask(keys: pa.Table) -> list[Value]:
            found = {row["k"]: row["v"] for row in lookup.lookup(keys).to_pylist()}
            return [found.get(key) for key in keys.column("k").to_pylist()]

        return ask

    return opened


def by_client(table: Table) -> Callable[[ExitStack], Callable[[pa.Table], list[Value]]]:
    def opened(stack: ExitStack) -> Callable[[pa.Table], list[Value]]:
        remote = stack.enter_context(RemoteTableQuery(table, PATIENT))
        return lambda keys: remote.lookup_table(keys).rows.column("v").to_pylist()

    return opened


def ask_by_java(soak: Soak, table: Table, model: SoakTable, service: KilledService, seed: int) -> None:
    """Java's client; a failure is its own if the service was restarted since its last answer, or is restarted now."""
    dice, codec, reader = (
        random.Random(seed),
        RowCodec(table.schema),
        KeyReader(table.name, table.schema, table.options),
    )
    restarts = service.restarts
    try:
        while not soak.ended.wait(0.2):
            keys = dice.sample(range(KEYS), 6)
            columns = pa.table({"k": keys}, KIND)
            shares = reader.fixed_shares(columns, table.options.bucket)
            asked, failed = time.monotonic(), False
            before = service.restarts
            lines = java_answers(
                table.path,
                [
                    (place[0], place[1], codec.keys_bytes(columns.take(pa.array(rows))))
                    for place, rows in shares
                ],
                keep=True,
            )
            found: Found = []
            for (_, rows), line in zip(shares, lines, strict=True):
                if line.startswith("!"):
                    soak.count("failures of Java's client at a restart")
                    failed = True
                    if service.restarts == restarts and restarts % 2 == 0:
                        soak.fail(f"Java's client: {line[:300]}")
                    continue
                answer = codec.found_rows(
                    [None if part == "-" else bytes.fromhex(part) for part in line.split(",")]
                )
                found += zip(
                    [keys[row] for row in rows.tolist()], answer.rows.column("v").to_pylist(), strict=True
                )
            soak.judge("Java's client", model, found, asked, LAG)
            restarts = restarts if failed else before
    except Exception as err:
        soak.fail(f"Java's client of {table.name}: {type(err).__name__}: {err}")
        raise


def run(minutes: float, seed: int) -> Soak:
    """Run for so long, or until something fails; at the end all keys have their last values."""
    soak, tables = Soak(), soak_tables()
    with tempfile.TemporaryDirectory(prefix="lookup-soak-") as folder, ExitStack() as stack:
        oracles = [stack.enter_context(Oracle(version)) for version in JAVA]
        schema = {"columns": ["k INT NOT NULL", "v BIGINT"], "primaryKeys": ["k"]}
        for number, table in enumerate(tables):
            oracle = oracles[number % 2]
            oracle.create(folder, f"d.{table.name}", schema | {"options": table.options})
            write(soak, oracle, folder, table, random.Random(seed), 1)
        loaded = {table.name: load_catalog(folder).load_table(f"d.{table.name}") for table in tables}
        services = {
            table.name: stack.enter_context(KilledService(folder, f"d.{table.name}"))
            for table in tables
            if table.has_service
        }
        cache = LookupCache()
        threads = [
            *_writers(soak, oracles, folder, tables, seed),
            *_askers(soak, tables, loaded, cache, seed),
        ]
        threads += [
            threading.Thread(
                target=ask_by_java, args=(soak, loaded[table.name], table, services[table.name], seed)
            )
            for table in tables
            if table.has_service
        ]
        for thread in threads:
            thread.start()
        _kill(soak, list(services.values()), random.Random(seed), time.monotonic() + 60 * minutes)
        soak.ended.set()
        for thread in threads:
            thread.join()
        soak.counts["services killed"] = sum(one.kills for one in services.values())
        for table in tables:
            _check_end(soak, table, loaded[table.name])
    return soak


def _writers(
    soak: Soak, oracles: Sequence[Oracle], folder: str, tables: list[SoakTable], seed: int
) -> list[threading.Thread]:
    def write_on(half: int) -> None:
        dice, number, own = random.Random(seed + half), 1, tables[half::2]
        try:
            while not soak.ended.wait(0.05):
                number += 1
                write(soak, oracles[half], folder, dice.choice(own), dice, number)
        except Exception as err:
            soak.fail(f"Java {JAVA[half]} cannot write: {err}")
            raise

    return [threading.Thread(target=write_on, args=(half,)) for half in range(len(JAVA))]


def _askers(
    soak: Soak, tables: list[SoakTable], loaded: dict[str, Table], cache: LookupCache, seed: int
) -> list[threading.Thread]:
    out = []
    for table in tables:
        ways = [("local query", by_query(loaded[table.name], cache), 0.0)]
        if table.name != "vectors":
            ways.append(("full lookup table", by_table(loaded[table.name], "full"), 0.0))
        if table.has_service:
            ways.append(("client", by_client(loaded[table.name]), LAG))
        lag = LAG if table.has_service else 0.0
        ways.append(
            (
                "lookup table of a service" if lag else "partial lookup table",
                by_table(loaded[table.name], "auto"),
                lag,
            )
        )
        out += [
            threading.Thread(target=Asker(soak, who, table, lag, seed).run, args=(way,))
            for who, way, lag in ways
        ]
    return out


def _kill(soak: Soak, services: list[KilledService], dice: random.Random, end: float) -> None:
    """Kill services at random until the end."""
    while time.monotonic() < end and not soak.ended.wait(
        min(dice.uniform(2, 8), max(0.1, end - time.monotonic()))
    ):
        dice.choice(services).restart(gently=dice.random() < 0.5)


def _check_end(soak: Soak, table: SoakTable, loaded: Table) -> None:
    keys = pa.table({"k": list(range(KEYS))}, KIND)
    with loaded.new_query() as query:
        query.refresh()
        values = query.lookup_table(keys).rows.column("v").to_pylist()
    merged = {row["k"]: row["v"] for row in loaded.scan().to_arrow().to_pylist()}
    last = [states[-1].value for states in table.states]
    if values != last or [merged.get(key) for key in range(KEYS)] != last:
        soak.fail(f"{table.name} at the end: {values}, merged {merged}, written {last}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions(JAVA)
    soak = run(arguments.minutes, arguments.seed)
    figures = {
        "minutes": arguments.minutes,
        "seed": arguments.seed,
        "counts": dict(sorted(soak.counts.items())),
        "stalest_seconds": {who: round(age, 3) for who, age in sorted(soak.stalest.items())},
        "failures": soak.failures,
    }
    print(json.dumps(figures, indent=2))
    print(write_figures("lookup_soak", measured, figures, arguments.folder))
    sys.exit(1 if soak.failures else 0)


if __name__ == "__main__":
    main()
