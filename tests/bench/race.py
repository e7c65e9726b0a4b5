"""Race: Java Paimon and lakecore commit to one table on a local disk as fast as they can, and each row is accounted for.

    python -m tests.bench.race --minutes 10 [--settle 0 --settle default] [--old CHECKOUT --old-minutes 3]

Two Java writers (1.4.2 and 2.0.0, a JVM each), two lakecore writers and a compaction in a loop. A commit is one row that
names its writer and number. A commit was acknowledged when its writer was told that it landed; it is lost when it was
acknowledged and its row is not in the table at the end. Figures: `docs/figures/race.json`.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all settle times together")
    parser.add_argument("--settle", action="append", help="a duration, or 'default'; can be repeated")
    parser.add_argument("--old", type=Path, help="a checkout of an older lakecore, to compare with")
    parser.add_argument("--old-minutes", type=float, default=3)
    parser.add_argument("--writers", type=int, default=2, help="processes of lakecore")
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions(JAVA)
    settles = arguments.settle or ["default"]
    cases = []
    if arguments.old is not None:
        cases.append(race(arguments.old, None, arguments.old_minutes * 60, arguments.writers))
    for settle in settles:
        seconds = arguments.minutes * 60 / len(settles)
        cases.append(race(ROOT, None if settle == "default" else settle, seconds, arguments.writers))
    print(write_figures("race", measured, {"cases": cases}, arguments.folder))


def race(checkout: Path, settle: str | None, seconds: float, writers: int) -> dict[str, Any]:
    """One table, raced for so long by the lakecore of `checkout`; what became of all commits."""
    with tempfile.TemporaryDirectory(prefix="race-") as folder:
        options = {"bucket": "-1", "write-only": "true"}
        if settle is not None:
            options["lakecore.commit.settle-time"] = settle
        load_catalog(folder).create_table(TABLE, {"columns": COLUMNS, "options": options})
        logs = {f"lakecore-{n}": Path(folder, f"lakecore-{n}.log") for n in range(writers)}
        javas = [JavaWriter(folder, version) for version in JAVA]
        for java in javas:
            java.start()
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        arguments = [[name, str(seconds), str(log)] for name, log in logs.items()]
        arguments.append(["compaction", str(seconds), f"{folder}/compaction.log", "--compact"])
        processes = [
            subprocess.Popen([sys.executable, str(WRITER), folder, TABLE, *more], env=environment)
            for more in arguments
        ]
        exits = [process.wait() for process in processes]
        for java in javas:
            java.stop()
        if any(exits):
            raise RuntimeError(f"a writer of lakecore ended with {exits}")
        case = {"checkout": _head(checkout), "settle": settle or "default", "seconds": seconds}
        figures = case | _account(folder, javas, {name: _lines(log) for name, log in logs.items()})
        figures["compactions"] = _compactions(_lines(Path(folder, "compaction.log")))
    print(json.dumps(figures, indent=2), flush=True)
    return figures


class JavaWriter(threading.Thread):
    """Commits rows with Java Paimon until it is stopped. `acknowledged`: numbers that Java said had landed."""

    def __init__(self, warehouse: str, version: str) -> None:
        super().__init__(daemon=True)
        self.version = version
        self.writer = f"java-{version}"
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._warehouse = warehouse
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
                except OracleError as err:
                    self.errors.append(str(err)[:300])

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
        "snapshots": table.snapshots.latest_id(),
        "java": {
            "acknowledged": len(theirs),
            "errors": sum(len(java.errors) for java in javas),
            "lost": sum(commit not in rows for commit in theirs),
            "lost_by_writer": Counter(name for name, number in theirs if (name, number) not in rows),
        },
        "lakecore": {
            "acknowledged": len(ours),
            "errors": Counter(line["error"] for found in logs.values() for line in found if "error" in line),
            "replaced_and_committed_again": sum(line["replaced"] for line in lines),
            "lost": sum(commit not in rows for commit in ours),
            "median_ms": round(1000 * median(line["seconds"] for line in lines), 1),
            "replaced_after_ms": _delays(table, done),
        },
        "rows_twice": sum(count > 1 for count in rows.values()),
        "rows_of_nobody": sum(name not in logs and not name.startswith("java-") for name, _ in rows),
    }


def _delays(table: Any, done: dict[str, list[dict[str, Any]]]) -> list[float]:
    """Milliseconds from our link to the rename over it, of snapshots that are another's at the end."""
    found = []
    for name, lines in done.items():
        for line in lines:
            path = table.paths.snapshot(line["snapshot"])
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
