"""One process of the race: commits one row after the other to a table with lakecore, and logs what became of each.

    PYTHONPATH=CHECKOUT python race_writer.py WAREHOUSE TABLE NAME SECONDS LOG [--compact]

Imports only `lakecore`, so that it also runs on an older checkout. Each line of the log is JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import CommitUncertainError, LakeError, UnavailableError
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.table import Commit

_LINKED: dict[str, float] = {}
"""Path of a snapshot file to the time at which this process gave it that name."""


def main(arguments: list[str]) -> None:
    warehouse, table, name, seconds, log = arguments[:5]
    logging.disable(logging.INFO)
    _record_links()
    until = time.time() + float(seconds)
    with Path(log).open("w") as out:
        if "--compact" in arguments:
            _compact(warehouse, table, name, until, out)
        else:
            _write(warehouse, table, name, until, out)


def _record_links() -> None:
    link = os.link

    def recorded(source: str, target: str, **more: Any) -> None:
        link(source, target, **more)
        if "/snapshot/snapshot-" in target:
            _LINKED[target] = time.time()

    os.link = recorded  # type: ignore[assignment]


def _write(warehouse: str, name: str, writer: str, until: float, out: TextIO) -> None:
    table = load_catalog(warehouse).load_table(name)
    number = 0
    while time.time() < until:
        number += 1
        rows = pa.Table.from_pylist([{"writer": writer, "number": number}])
        started = time.perf_counter()
        tries = 0
        while True:
            tries += 1
            try:
                result = table.write(rows, commit=Commit(user=writer, identifier=number))
                break
            except (CommitUncertainError, UnavailableError) as err:
                _say(out, number=number, error=type(err).__name__, message=str(err)[:300])
        path = table._stores.paths.snapshot(result.snapshot_ids[-1])
        linked = _LINKED.get(path)
        _LINKED.pop(path, None)
        delays = [os.stat(lost).st_ctime - at for lost, at in _LINKED.items()]
        _LINKED.clear()
        _say(
            out,
            number=number,
            snapshot=result.snapshot_ids[-1],
            linked=linked,
            replaced_after=delays,
            seconds=time.perf_counter() - started,
            tries=tries,
            duplicate=result.duplicate,
            replaced=len(delays),
        )


def _compact(warehouse: str, table: str, user: str, until: float, out: TextIO) -> None:
    catalog = load_catalog(warehouse)
    while time.time() < until:
        job = Job(table=table, strategy=Strategy.FULL, commit_user=f"{user}-{time.time_ns()}")
        try:
            report = run(job, catalog)
            _say(out, snapshots=report.snapshots, error=report.error, dropped=len(report.dropped))
        except LakeError as err:
            _say(out, error=type(err).__name__, message=str(err)[:300])
        time.sleep(1)


def _say(out: TextIO, **values: object) -> None:
    out.write(json.dumps(values) + "\n")
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
