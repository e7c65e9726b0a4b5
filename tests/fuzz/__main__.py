"""The differential fuzzer: random histories of lakecore and Java Paimon on one table.

`python -m tests.fuzz [--seed N] [--minutes M | --count C] [--keep DIR]`: seeds from N on; a failing one is made
smaller and printed as JSON. `--history FILE` plays such a file again. With `--through spark` a session of Spark writes and
reads what lakecore does, in turns by the format and by `lakecore.spark.write` and `Scan.to_spark`.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.failures import Failed, TwinBrokenError
from tests.fuzz.generate import generate
from tests.fuzz.history import NEW, OLD, History
from tests.fuzz.play import play
from tests.fuzz.shrink import shrink
from tests.fuzz.tally import Tally, run_conditions
from tests.fuzz.ways import IN_PROCESS, Way
from tests.support.oracle import Oracle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--count", type=int)
    parser.add_argument(
        "--like", default="", help="only tables whose definition has this text, such as lookup"
    )
    parser.add_argument("--history", type=Path)
    parser.add_argument("--keep", type=Path, help="directory for failing histories")
    parser.add_argument("--tries", type=int, default=60, help="plays that make a failing history smaller")
    parser.add_argument("--result", type=Path, help="file for the counts of this run (see tests.fuzz.tally)")
    parser.add_argument("--through", choices=("spark",), help="writes and reads of lakecore go through it")
    parser.add_argument("--go-on", action="store_true", help="after a failure too")
    wanted = parser.parse_args()
    logging.disable(logging.WARNING)
    with Oracle(OLD) as old, Oracle(NEW) as new, _way(wanted.through) as way:
        oracles = {OLD: old, NEW: new}
        if wanted.history:
            sys.exit(_again(History.from_json(wanted.history.read_text()), oracles, way))
        sys.exit(_run(wanted, oracles, way))


@contextmanager
def _way(through: str | None) -> Iterator[Way]:
    """How lakecore writes and reads."""
    if through is None:
        yield IN_PROCESS
        return
    from tests.fuzz.through_spark import ThroughSpark, session

    with session() as opened:
        yield ThroughSpark(opened)


def _again(history: History, oracles: Mapping[str, Oracle], way: Way) -> int:
    for step in history.steps:
        print(step)
    try:
        played = play(history, oracles, way)
    except (Failed, TwinBrokenError) as err:
        print(err)
        return 1
    print(f"clean: {dict(played.done)}, refused {dict(played.refused)}, left out {dict(played.left_out)}")
    return 0


def _run(wanted: argparse.Namespace, oracles: Mapping[str, Oracle], way: Way) -> int:
    tally, seed = Tally(wanted.seed), wanted.seed
    measured = run_conditions() if wanted.result else {}
    begin = time.monotonic()
    while time.monotonic() - begin < wanted.minutes * 60 and seed - wanted.seed != wanted.count:
        history = generate(seed)
        seed += 1
        if wanted.like not in json.dumps(history.table):
            continue
        err = _play(history, oracles, tally, way)
        if err is not None:
            _report(history, err, oracles, wanted, way)
            if not wanted.go_on:
                break
    seconds = time.monotonic() - begin
    print(tally.report(seed, seconds))
    if wanted.result:
        wanted.result.write_text(json.dumps(tally.as_run(seed, seconds, measured), indent=1))
    return 1 if tally.failed else 0


def _play(history: History, oracles: Mapping[str, Oracle], tally: Tally, way: Way) -> Failed | None:
    """Play it and count what came of it; the failure if there is one."""
    try:
        played = play(history, oracles, way)
    except TwinBrokenError as err:
        tally.without_judge[history.judge] += 1
        tally.left_out[f"the twin broke: {str(err)[:80]}"] += 1
        return None
    except Failed as err:
        tally.failed[err.kind] += 1
        return err
    judged = bool(played.done)  # else Java would not create the table
    (tally.clean if judged else tally.without_judge)[history.judge] += 1
    for name in ("done", "refused", "left_out"):
        getattr(tally, name).update(getattr(played, name))
    return None


def _report(
    history: History, err: Failed, oracles: Mapping[str, Oracle], wanted: argparse.Namespace, way: Way
) -> None:
    print(f"seed {history.seed}: {str(err)[:1500]}", flush=True)
    small, last = shrink(history, err, oracles, wanted.tries, way)
    text = small.to_json()
    if wanted.keep:
        wanted.keep.mkdir(parents=True, exist_ok=True)
        (wanted.keep / f"{history.seed}.json").write_text(text)
    print(f"smallest: {str(last)[:1500]}\n{text}", flush=True)


if __name__ == "__main__":
    main()
