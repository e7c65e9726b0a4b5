"""The loop of the random walks: one walk a seed until the time is over, each with both versions of Java."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.support.oracle import Oracle

__all__ = ["Walk", "changelog_lists", "main"]

_LAST_STEPS = 12
_WIDTH = 400


class Walk(Protocol):
    """One table, and random steps on it."""

    log: list[str]
    """The steps so far."""

    def __init__(self, seed: int, oracles: Mapping[str, Oracle], root: Path) -> None: ...

    def walk(self, length: int) -> None:
        """Do so many steps. Raises AssertionError for what is not as it should be."""

    def tally(self) -> Counter[str]:
        """Return how often each thing happened."""
        ...


def changelog_lists(warehouse: Path) -> set[str]:
    """The lists of changelog manifests that snapshots and tags name: those of tags may have expired."""
    files = (path for kind in ("snapshot", "tag") for path in warehouse.rglob(f"{kind}-*"))
    texts = (json.loads(path.read_text()) for path in files if path.is_file())
    return {name for text in texts if (name := text.get("changelogManifestList"))}


def main(kind: type[Walk], about: str | None, length: int) -> None:
    """Walk as the command line says, print what failed and the tally of all walks."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--length", type=int, default=length, help="steps of a walk")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    end, seed, failed = time.monotonic() + args.minutes * 60, args.seed, 0
    tally: Counter[str] = Counter()
    with Oracle("1.4.2") as old, Oracle("2.0.0") as new:
        while time.monotonic() < end:
            root = Path(tempfile.mkdtemp(prefix="walk-"))
            walk = kind(seed, {"old": old, "new": new}, root)
            try:
                walk.walk(args.length)
            except Exception as err:  # noqa: BLE001 - the next seed is walked, too
                failed += 1
                _print_failure(seed, err, walk.log)
            tally.update(walk.tally())
            shutil.rmtree(root)
            seed += 1
    for what, count in tally.most_common():
        print(f"{count:6} {what}")
    print(f"{seed - args.seed} walks, {failed} failed")


def _print_failure(seed: int, err: Exception, log: list[str]) -> None:
    print(f"seed {seed}: {type(err).__name__}: {str(err)[:1500]}", flush=True)
    for step in (*log[:1], *log[1:][-_LAST_STEPS:]):
        print("   ", step[:_WIDTH], flush=True)
    if not isinstance(err, AssertionError):
        traceback.print_exception(err, limit=-4)
