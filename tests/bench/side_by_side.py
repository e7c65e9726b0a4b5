"""Side by side: Java Paimon writes tables of nine kinds in a loop while lakecore does its chores on them.

    python -m tests.bench.side_by_side --minutes 10 [--seed 1]

Two JVMs (1.4.2 and 2.0.0) write random rows, each to its half of the tables, with a pause after each commit; a model in
plain Python keeps what was written. Meanwhile lakecore compacts (all strategies and modes of the proof), tags, expires,
looks for orphans and runs fsck, by its command line as a user would. At the end both releases of Java read each table:
the rows must be those of the model, the change stream from the earliest snapshot must lead to the same rows, and both
checks of the table must be clean. Figures: `docs/figures/side_by_side.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakecore.catalog.filesystem import load_catalog
from lakecore.cli.main import main as lakecore
from lakecore.verify.digest.shape import ProofMode
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.oracle import Oracle, OracleError, findings

JAVA = ("1.4.2", "2.0.0")
KEYS = 300
BATCH = 25
Row = dict[str, Any]
State = dict[Any, Row]


def newest(state: State, row: Row) -> None:
    """The last row of a key wins; a delete removes it."""
    if row["_kind"] == "-D":
        state.pop(row["k"], None)
    else:
        state[row["k"]] = plain(row)


def merged(state: State, row: Row) -> None:
    """Columns that are not null replace those that are there."""
    before = state.get(row["k"], {"k": row["k"], "v": None, "s": None})
    state[row["k"]] = before | {name: value for name, value in plain(row).items() if value is not None}


def aggregated(state: State, row: Row) -> None:
    """`v` is summed, of `s` the greatest is kept."""
    before = state.get(row["k"])
    if before is None:
        state[row["k"]] = plain(row)
    else:
        state[row["k"]] = {"k": row["k"], "v": before["v"] + row["v"], "s": max(before["s"], row["s"])}


def first(state: State, row: Row) -> None:
    state.setdefault(row["k"], plain(row))


def added(state: State, row: Row) -> None:
    """A bag: the key of the state is a number of its own."""
    state[len(state)] = plain(row)


def plain(row: Row) -> Row:
    return {name: row[name] for name in ("k", "v", "s")}


@dataclass
class Kind:
    """A kind of table and its model. `deletes`: its writers may delete; `nulls`: they leave columns out."""

    name: str
    options: dict[str, str]
    apply: Callable[[State, Row], None] = newest
    keyed: bool = True
    deletes: bool = True
    nulls: bool = False
    streams: bool = False
    state: State = field(default_factory=dict)
    commits: int = 0
    rows: int = 0
    unclear: int = 0
    """Java threw, and its commit was there or not: the history told which."""


WRITE_ONLY = {"write-only": "true"}


def kinds() -> list[Kind]:
    keyed = {"bucket": "2"}
    java_compacts = keyed | {"num-sorted-run.compaction-trigger": "4"}
    return [
        Kind("deduplicate", java_compacts),
        Kind(
            "partial_update",
            java_compacts | {"merge-engine": "partial-update"},
            merged,
            deletes=False,
            nulls=True,
        ),
        Kind(
            "aggregation",
            java_compacts
            | {
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "sum",
                "fields.s.aggregate-function": "max",
            },
            aggregated,
            deletes=False,
        ),
        Kind("first_row", keyed | WRITE_ONLY | {"merge-engine": "first-row"}, first, deletes=False),
        Kind("lookup", keyed | WRITE_ONLY | {"changelog-producer": "lookup"}, streams=True),
        Kind("full_compaction", keyed | WRITE_ONLY | {"changelog-producer": "full-compaction"}, streams=True),
        Kind("deletion_vectors", keyed | WRITE_ONLY | {"deletion-vectors.enabled": "true"}),
        Kind("append", {"bucket": "-1"}, added, keyed=False, deletes=False),
        Kind("dynamic_bucket", WRITE_ONLY | {"bucket": "-1", "dynamic-bucket.target-row-num": "100"}),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds after each commit of Java")
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions(JAVA)
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as warehouse:
        tables = kinds()
        for kind in tables:
            create(warehouse, kind)
        writers = [
            Writer(warehouse, version, tables[half::2], arguments.seed + half, arguments.pause)
            for half, version in enumerate(JAVA)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.began.wait(300)
        chores = Chores(warehouse, [f"db.{kind.name}" for kind in tables])
        chores.run(time.monotonic() + arguments.minutes * 60)
        for writer in writers:
            writer.stop()
        chores.finish()
        found = {kind.name: judge(warehouse, kind) for kind in tables}
    figures = {
        "minutes": arguments.minutes,
        "seed": arguments.seed,
        "tables": found,
        "chores": chores.figures(),
        "wrong": sum(bool(table["wrong"]) for table in found.values()),
    }
    print(json.dumps(figures, indent=2))
    print(write_figures("side_by_side", measured, figures, arguments.folder))
    sys.exit(1 if figures["wrong"] else 0)


def create(warehouse: str, kind: Kind) -> None:
    not_null = " NOT NULL" if kind.keyed else ""
    load_catalog(warehouse).create_table(
        f"db.{kind.name}",
        {
            "columns": [f"k INT{not_null}", "v BIGINT", "s STRING"],
            "primaryKeys": ["k"] if kind.keyed else [],
            "options": kind.options,
        },
    )


class Writer(threading.Thread):
    """Java of one release, which writes to its tables in turn; the model follows what landed."""

    def __init__(self, warehouse: str, version: str, tables: list[Kind], seed: int, pause: float) -> None:
        super().__init__(daemon=True)
        self._warehouse = warehouse
        self._version = version
        self._tables = tables
        self._dice = random.Random(seed)
        self._pause = pause
        self.began = threading.Event()
        """Each of its tables has a snapshot."""
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            with Oracle(self._version) as oracle:
                for number in itertools.count(1):
                    if self._ended.is_set():
                        return
                    self._commit(oracle, self._tables[number % len(self._tables)], number)
                    if all(kind.commits for kind in self._tables):
                        self.began.set()
                    self._ended.wait(self._pause)
        except BaseException as err:
            self._failure = err
            raise

    def stop(self) -> None:
        self._ended.set()
        self.join()
        if self._failure is not None:
            raise self._failure

    def _commit(self, oracle: Oracle, kind: Kind, number: int) -> None:
        rows = self._rows(kind, number)
        try:
            flags = ("--commit-user", "java", "--identifier", number)
            oracle.write(self._warehouse, f"db.{kind.name}", rows, *flags)
        except OracleError:
            kind.unclear += 1
            if not self._landed(kind, number):
                return
        for row in rows:
            kind.apply(kind.state, row)
        kind.commits += 1
        kind.rows += len(rows)

    def _rows(self, kind: Kind, number: int) -> list[Row]:
        dice = self._dice
        keys = dice.sample(range(KEYS), BATCH)
        rows: list[Row] = []
        for key in keys:
            row: Row = {
                "k": key,
                "v": dice.randrange(1000),
                "s": f"{number}-{dice.randrange(100)}",
                "_kind": "+I",
            }
            if kind.deletes and dice.random() < 0.2:
                row["_kind"] = "-D"
            if kind.nulls and dice.random() < 0.5:
                row[dice.choice("vs")] = None
            rows.append(row)
        return rows

    def _landed(self, kind: Kind, number: int) -> bool:
        snapshots = load_catalog(self._warehouse).load_table(f"db.{kind.name}")._stores.snapshots
        found = [snapshots.find(snapshot_id) for snapshot_id in snapshots.list_ids()]
        return any(
            one is not None
            and (one.commit_user, one.commit_identifier) == ("java", number)
            and one.commit_kind.value != "COMPACT"
            for one in found
        )


class Chores:
    """lakecore's commands on all tables, one after the other; counts how each ended."""

    def __init__(self, warehouse: str, tables: list[str]) -> None:
        self._warehouse = warehouse
        self._tables = tables
        self._ended: dict[str, Counter[str]] = {}
        self._replaced = 0
        self._errors: list[str] = []

    def run(self, until: float) -> None:
        proofs = [mode.value for mode in ProofMode]
        for turn in itertools.count(1):
            for number, table in enumerate(self._tables):
                if time.monotonic() > until:
                    return
                strategy = ("universal", "full")[(turn + number) % 2]
                proof = proofs[(turn + number) % len(proofs)]
                self._do("compact", table, "--strategy", strategy, "--proof", proof, "--engine", "local")
                self._do("create-tag", table, "--tag", f"t{turn}")
                if turn > 3:
                    self._do("delete-tag", table, "--tag", f"t{turn - 3}", "--no-quarantine")
                self._do("expire-snapshots", table, "--retain-max", "20", "--retain-min", "5", *QUICK)
                if turn % 3 == 0:
                    self._do("remove-orphan-files", table, *QUICK)
                    self._do("fsck", table)

    def finish(self) -> None:
        """Everything compacted: tables with vectors or first-row show their newest rows then."""
        for table in self._tables:
            self._do("compact", table, "--strategy", "full", "--engine", "local")

    def figures(self) -> dict[str, Any]:
        return {
            "ended": {name: dict(codes) for name, codes in self._ended.items()},
            "snapshots_replaced_by_java": self._replaced,
            "errors": self._errors[:50],
        }

    def _do(self, command: str, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = lakecore(["--warehouse", self._warehouse, command, *arguments])
        self._ended.setdefault(command, Counter())[f"exit {code}"] += 1
        self._replaced += (out.getvalue() + err.getvalue()).count("was replaced by commit")
        if code:
            text = " ".join((err.getvalue() or out.getvalue()).replace("\u2500", " ").split())[-300:]
            self._errors.append(f"{command} {' '.join(arguments)}: {text}")


QUICK = ("--engine", "local", "--no-quarantine")


def judge(warehouse: str, kind: Kind) -> dict[str, Any]:
    """What Java and lakecore read at the end, next to the model."""
    name = f"db.{kind.name}"
    wanted = sorted(json.dumps(row, sort_keys=True) for row in kind.state.values())
    wrong = []
    table = load_catalog(warehouse).load_table(name)
    if sorted(json.dumps(row, sort_keys=True) for row in table.scan().to_arrow().to_pylist()) != wanted:
        wrong.append("lakecore reads other rows")
    for version in JAVA:
        with Oracle(version) as oracle:
            rows = [
                json.dumps(plain(json.loads(line)), sort_keys=True) for line in oracle.read(warehouse, name)
            ]
            if sorted(rows) != wanted:
                wrong.append(f"Java {version} reads other rows: {len(rows)}, not {len(wanted)}")
            if kind.streams:
                wrong += [
                    f"Java {version}: {text}" for text in stream_faults(oracle, warehouse, table, wanted)
                ]
            for tag in table._stores.tags.list():
                oracle.read(warehouse, name, tag=tag)
            wrong += sorted(f"Java {version}: {text}" for text in errors(oracle, warehouse, table))
    snapshots = table._stores.snapshots.latest_id()
    return {
        "java_commits": kind.commits,
        "java_rows": kind.rows,
        "java_errors": kind.unclear,
        "rows_at_the_end": len(wanted),
        "snapshots": snapshots,
        "wrong": wrong,
    }


def errors(oracle: Oracle, warehouse: str, table: Any) -> set[str]:
    """What Java's check calls an error. Orphans are none: young files may be those of a commit under way.

    Nor is the changelog of a snapshot that expired and that a tag still names: it goes with the snapshot, also when
    Java expires it.
    """
    snapshots = table._stores.snapshots.list_ids()
    gone = set()
    for tag in table._stores.tags.list():
        kept = table._stores.tags.load(tag)
        if kept.id not in snapshots and kept.changelog_manifest_list is not None:
            gone.add(f"error: main: tag {tag}: missing manifest list {kept.changelog_manifest_list}")
    return {text for text in findings(oracle.fsck(warehouse, table.name)) if text.startswith("error")} - gone


def stream_faults(oracle: Oracle, warehouse: str, table: Any, wanted: list[str]) -> list[str]:
    """The rows of an early snapshot, changed by the stream after it, must be those of the latest."""
    earliest = settled_snapshot(table)
    if earliest is None:
        return ["no snapshot that the stream can be compared from"]
    state: State = {}
    for line in oracle.read(warehouse, table.name, snapshot=earliest):
        row = plain(json.loads(line))
        state[row["k"]] = row
    faults = []
    for plan in oracle.call("stream", warehouse, table.name, "--from-snapshot", earliest + 1):
        for row in plan["rows"]:
            change, kind = plain(row), row["_kind"]
            if kind in ("-U", "-D") and state.pop(change["k"], None) != change:
                faults.append(f"the stream takes back {change}, which was not there")
            elif kind in ("+I", "+U"):
                state[change["k"]] = change
    if sorted(json.dumps(row, sort_keys=True) for row in state.values()) != wanted:
        faults.append("the stream leads to other rows")
    return faults[:5]


def settled_snapshot(table: Any) -> int | None:
    """The first snapshot whose rows the change stream has told completely: the producer has seen all of its files."""
    lowest = 5 if table.schema.options["changelog-producer"] == "full-compaction" else 1
    for snapshot_id in table._stores.snapshots.list_ids():
        entries = table._scanner.live_entries(table._stores.snapshots.load(snapshot_id))
        if len(entries) and int(entries.level.min()) >= lowest:
            return int(snapshot_id)
    return None


if __name__ == "__main__":
    main()
