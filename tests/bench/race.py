"""Race: Java Paimon and lakecore commit to one table on a local disk, and each commit is accounted for at the end.

    python -m tests.bench.race --minutes 10 [--old CHECKOUT]

A commit is one row that names its writer and number. It was acknowledged when its writer was told that it landed; it is
lost when it was acknowledged and its row is not in the table at the end. Each case has its own table, its JVMs, two writers
of lakecore and a compaction in a loop. Figures: `docs/figures/race.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lakecore.catalog.filesystem import load_catalog
from tests.bench.figures import FIGURES, ROOT, conditions, write_figures
from tests.support.oracle import Oracle, OracleError

WRITER = Path(__file__).with_name("race_writer.py")
JAVA = ("1.4.2", "2.0.0")
TABLE = "db.race"
COLUMNS = ["writer STRING", "number INT"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Who takes part. `java`: a JVM each, and how long it pauses after a commit. `settle`: None is the default."""

    name: str
    java: tuple[str, ...]
    pause_ms: int = 0
    writers: int = 2
    settle: str | None = None
    old: bool = False


CASES = (
    Case(name="one JVM 1.4.2 with pauses", java=JAVA[:1], pause_ms=200),
    Case(name="one JVM 2.0.0 with pauses", java=JAVA[1:], pause_ms=200),
    Case(name="one JVM, no pause", java=JAVA[1:]),
    Case(name="two JVMs, no pause", java=JAVA),
    Case(name="two JVMs, settle time 20 ms", java=JAVA, settle="20 ms"),
    Case(name="two JVMs, settle time 0", java=JAVA, settle="0"),
    Case(name="two JVMs without lakecore", java=JAVA, writers=0),
    Case(name="two JVMs, lakecore before the guard", java=JAVA, old=True),
    Case(name="one JVM, lakecore before the guard", java=JAVA[1:], old=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all cases together")
    parser.add_argument(
        "--old", type=Path, help="a checkout of an older lakecore, for the cases that compare with it"
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions(JAVA)
    chosen = [
        case for case in CASES if arguments.only in case.name and not (case.old and arguments.old is None)
    ]
    seconds = arguments.minutes * 60 / len(chosen)
    figures = [race(case, arguments.old if case.old else ROOT, seconds) for case in chosen]
    print(write_figures("race", measured, {"seconds_per_case": seconds, "cases": figures}, arguments.folder))


def race(case: Case, checkout: Path, seconds: float) -> dict[str, Any]:
    """One table, raced for so long by the lakecore of `checkout`; what became of all commits."""
    with tempfile.TemporaryDirectory(prefix="race-") as folder:
        options = {"bucket": "-1", "write-only": "true"}
        if case.settle is not None:
            options["lakecore.commit.settle-time"] = case.settle
        load_catalog(folder).create_table(TABLE, {"columns": COLUMNS, "options": options})
        logs = {f"lakecore-{n}": Path(folder, f"lakecore-{n}.log") for n in range(case.writers)}
        javas = [JavaWriter(folder, version, case.pause_ms) for version in case.java]
        for java in javas:
            java.start()
        for java in javas:
            java.first.wait(120)
        _run_lakecore(folder, checkout, seconds, logs)
        for java in javas:
            java.stop()
        figures = asdict(case) | {"checkout": _head(checkout)}
        figures |= _account(folder, javas, {name: _lines(log) for name, log in logs.items()})
        if logs:
            figures["compactions"] = _compactions(_lines(Path(folder, "compaction.log")))
    print(json.dumps(figures, indent=2), flush=True)
    return figures


def _run_lakecore(folder: str, checkout: Path, seconds: float, logs: dict[str, Path]) -> None:
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    arguments = [[name, str(seconds), str(log)] for name, log in logs.items()]
    if arguments:
        arguments.append(["compaction", str(seconds), f"{folder}/compaction.log", "--compact"])
    processes = [
        subprocess.Popen(
            [sys.executable, str(WRITER), folder, TABLE, *more], env=environment, stderr=subprocess.DEVNULL
        )
        for more in arguments
    ]
    if not processes:
        time.sleep(seconds)
    exits = [process.wait() for process in processes]
    if any(exits):
        raise RuntimeError(f"a process of lakecore ended with {exits}")


class JavaWriter(threading.Thread):
    """Commits rows with Java Paimon until it is stopped. `acknowledged`: numbers that Java said had landed."""

    def __init__(self, warehouse: str, version: str, pause_ms: int) -> None:
        super().__init__(daemon=True)
        self.version = version
        self.writer = f"java-{version}"
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._warehouse = warehouse
        self._pause = pause_ms / 1000
        self.first = threading.Event()
        self._ended = threading.Event()

    def run(self) -> None:
        number = 0
        with Oracle(self.version) as oracle:
            while not self._ended.is_set():
                number += 1
                row = {"writer": self.writer, "number": number}
                flags = ("--commit-user", self.writer, "--identifier", number)
                try:
                    oracle.write(self._warehouse, TABLE, [row], *flags)
                    self.acknowledged.append(number)
                    self.first.set()
                except OracleError as err:
                    self.errors.append(str(err)[:300])
                self._ended.wait(self._pause)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _account(folder: str, javas: list[JavaWriter], logs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    table = load_catalog(folder).load_table(TABLE)
    rows = Counter((row["writer"], row["number"]) for row in table.scan().to_arrow().to_pylist())
    done = {name: [line for line in lines if "snapshot" in line] for name, lines in logs.items()}
    ours = {(name, line["number"]) for name, lines in done.items() for line in lines}
    theirs = {(java.writer, number) for java in javas for number in java.acknowledged}
    lines = [line for found in done.values() for line in found]
    return {
        "snapshots": table._stores.snapshots.latest_id(),
        "java_commits": {
            "acknowledged": len(theirs),
            "errors": sum(len(java.errors) for java in javas),
            "lost": sum(commit not in rows for commit in theirs),
            "lost_by_writer": Counter(name for name, number in theirs if (name, number) not in rows),
        },
        "lakecore_commits": {
            "acknowledged": len(ours),
            "errors": Counter(line["error"] for found in logs.values() for line in found if "error" in line),
            "replaced_and_committed_again": sum(line["replaced"] for line in lines),
            "lost": sum(commit not in rows for commit in ours),
            "median_ms": round(1000 * median(line["seconds"] for line in lines), 1) if lines else None,
            "replaced_after_ms": {
                "noticed": sorted(
                    round(1000 * delay, 1) for line in lines for delay in line["replaced_after"]
                ),
                "lost": _delays(table, done),
            },
        },
        "rows_twice": sum(count > 1 for count in rows.values()),
        "rows_of_nobody": sum(name not in logs and not name.startswith("java-") for name, _ in rows),
    }


def _delays(table: Any, done: dict[str, list[dict[str, Any]]]) -> list[float]:
    """Milliseconds from our link to the rename over it, of snapshots that are another's at the end."""
    found = []
    for name, lines in done.items():
        for line in lines:
            path = table._stores.paths.snapshot(line["snapshot"])
            raw = json.loads(Path(path).read_text())
            if raw["commitUser"] != name and line["linked"] is not None and not line["duplicate"]:
                found.append(round(1000 * (os.stat(path).st_ctime - line["linked"]), 3))
    return sorted(found)


def _compactions(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "runs": len(lines),
        "snapshots": sum(len(line.get("snapshots", ())) for line in lines),
        "errors": Counter(line["error"] for line in lines if line.get("error")),
    }


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def _head(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    started = time.time()
    main()
    print(f"{time.time() - started:.0f} s")
