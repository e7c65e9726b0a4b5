"""Maintenance of tables at random while other engines write to them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.clock import SystemClock
from lakecore.errors import BusyError, CommitConflictError, LakeError
from lakecore.jobs import compact, expire_snapshots, fsck, remove_orphan_files

__all__ = ["NightShift"]

KEPT_SNAPSHOTS = 6


@dataclass
class NightShift:
    """It maintains `tables` in a thread, between `with` and its end. `done` counts what each step came to,
    `damage` has what checks found, `errors` what no user should see. A writer that was faster is no error.
    """

    lake: FilesystemCatalog
    tables: list[str]
    seed: int
    pause: float = 0.2
    done: Counter[str] = field(default_factory=Counter)
    damage: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, name="night shift")

    def __enter__(self) -> NightShift:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def remove_all_orphans(self) -> None:
        """Remove orphans of any age from all tables; nobody may write any more."""
        now_ms = SystemClock().now_ms()
        time.sleep(0.01)
        for table in self.tables:
            job = remove_orphan_files.Job(table=table, older_than_ms=now_ms, max_share=1)
            removed = remove_orphan_files.run(job, self.lake).files
            self.done[f"remove_all_orphans: {_outcome(removed)}"] += 1

    def _work(self) -> None:
        dice = random.Random(self.seed)
        steps = (
            self._compact,
            self._compact,
            self._compact_in_full,
            self._expire,
            self._remove_orphans,
            self._check,
        )
        while not self._ends.wait(self.pause):
            step, table = dice.choice(steps), dice.choice(self.tables)
            name = step.__name__.strip("_")
            if self.lake.load_table(table).latest_snapshot() is None:
                continue  # nothing was committed yet
            try:
                self.done[f"{name}: {step(table)}"] += 1
            except (CommitConflictError, BusyError):
                self.done[f"{name}: another writer was faster"] += 1
            except Exception as err:
                self.errors.append(f"{name} of {table}: {type(err).__name__}: {err}")
                if not isinstance(err, LakeError):
                    raise

    def _compact(self, table: str) -> str:
        return _outcome(compact.run(compact.Job(table=table), self.lake).snapshots)

    def _compact_in_full(self, table: str) -> str:
        job = compact.Job(table=table, strategy=compact.Strategy.FULL)
        return _outcome(compact.run(job, self.lake).snapshots)

    def _expire(self, table: str) -> str:
        job = expire_snapshots.Job(table=table, retain_max=KEPT_SNAPSHOTS, retain_min=2)
        return _outcome(expire_snapshots.run(job, self.lake).files)

    def _remove_orphans(self, table: str) -> str:
        return _outcome(remove_orphan_files.run(remove_orphan_files.Job(table=table), self.lake).files)

    def _check(self, table: str) -> str:
        found = fsck.run(fsck.Job(table=table), self.lake).report.damage
        self.damage += [str(finding) for finding in found]
        return _outcome(len(found))


def _outcome(changes: object) -> str:
    return "changed something" if changes else "found nothing"
