"""A writer, expiry, tags and the removal of orphans on one table at once, without leases; Java judges the end.

Other engines know no leases, so chores have to be right without them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import AlreadyExistsError, NotFoundError, UnavailableError
from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import tags
from lakecore.verify.fsck.check import fsck
from tests.support.chores import tidy
from tests.support.golden import canonical
from tests.support.lake import key_table, put
from tests.support.oracle import Oracle, findings

ROUNDS, KEYS, KEPT = 40, 7, 3
ALONE = Safety(lease_ms=0, quarantine=False)
EXPECTED = (UnavailableError, NotFoundError, AlreadyExistsError)
"""Something moved while it was looked at: nothing was removed, and the next run goes on."""

Rows = list[dict[str, Any]]


class Lake:
    """The table, and what its snapshots and tags have to read."""

    def __init__(self, catalog: FilesystemCatalog) -> None:
        self.catalog = catalog
        self.table = key_table(catalog, changelog_producer="input")
        self.rows: dict[int, Rows] = {}
        self.tags: dict[str, int] = {}
        self.done = threading.Event()
        self.worked = dict.fromkeys(("expire", "tag", "clean"), 0)

    def write(self) -> None:
        """One writer: its snapshot is the latest one, as nobody else commits.

        It goes on until each chore has worked some times, however slow the machine is.
        """
        model: dict[int, str] = {}
        end = time.monotonic() + 120
        try:
            for number in count():
                if number >= ROUNDS and (min(self.worked.values()) > 3 or time.monotonic() > end):
                    return
                rows = [{"k": (number + i) % KEYS, "v": f"{number}"} for i in range(3)]
                put(self.table, rows)
                model |= {row["k"]: row["v"] for row in rows}
                self._note(model)
                if number % 4 == 3:
                    job = compact.Job(table="d.k", strategy=compact.Strategy.FULL, commit_identifier=number)
                    compact.run(job, self.catalog)
                    self._note(model)
        finally:
            self.done.set()

    def _note(self, model: dict[int, str]) -> None:
        latest = self.table._stores.snapshots.latest()
        assert latest is not None
        self.rows[latest.id] = [{"k": key, "v": value} for key, value in sorted(model.items())]

    def changelog(self, tag: str) -> str | None:
        return self.table._stores.tags.load(tag).changelog_manifest_list

    def expire(self) -> None:
        job = expire_snapshots.Job(table="d.k", retain_max=KEPT, retain_min=1, safety=ALONE)
        self.worked["expire"] += len(expire_snapshots.run(job, self.catalog).snapshots)

    def tag(self) -> None:
        """A new one; the oldest go."""
        name = f"t{len(self.tags)}"
        made = tags.run(tags.CreateTag(table="d.k", tag=name, safety=ALONE), self.catalog)
        self.tags[name] = made.snapshot or 0
        self.worked["tag"] += 1
        for old in list(self.tags)[:-KEPT]:
            if old in self.table._stores.tags.list():
                tags.run(tags.DeleteTag(table="d.k", tags=(old,), safety=ALONE), self.catalog)

    def clean(self) -> None:
        """What somebody left there long ago."""
        self.worked["clean"] += 1
        stray = Path(self.table.path) / "bucket-0" / f"data-stray-{self.worked['clean']}.parquet"
        stray.write_bytes(b"x")
        os.utime(stray, (10, 10))
        remove_orphan_files.run(remove_orphan_files.Job(table="d.k", safety=ALONE), self.catalog)

    def keep_on(self, chore: Callable[[], None]) -> None:
        while not self.done.is_set():
            try:
                chore()
            except EXPECTED:
                continue


@pytest.mark.slow
def test_chores_and_a_writer_at_once(tmp_path: Path, oracle: Oracle) -> None:
    lake = Lake(load_catalog(str(tmp_path), **{"local.fsync": "false"}))
    put(lake.table, [{"k": 0, "v": "first"}])
    chores = (lake.expire, lake.tag, lake.clean)
    with ThreadPoolExecutor(1 + len(chores)) as pool:
        work = [pool.submit(lake.write), *(pool.submit(lake.keep_on, chore) for chore in chores)]
        for one in work:
            one.result()
    assert min(lake.worked.values()) > 3
    lake.expire()
    tidy(lake.catalog)  # a tag that lost to expiry may leave the lists that were spared for it
    ids, names = lake.table._stores.snapshots.list_ids(), lake.table._stores.tags.list()
    assert len(ids) == KEPT
    assert len(names) >= 1
    for number in ids:
        assert oracle.read(tmp_path, "d.k", snapshot=number) == canonical(lake.rows[number])
    for name in names:
        assert oracle.read(tmp_path, "d.k", tag=name) == canonical(lake.rows[lake.tags[name]])
    lost = {f"error: main: tag {name}: missing manifest list {lake.changelog(name)}" for name in names}
    assert findings(oracle.fsck(tmp_path, "d.k")) <= lost  # rule of the format: it goes with the snapshot
    report = fsck(
        lake.table._stores.file_io,
        lake.table._stores.paths,
        now_ms=lake.table._stores.clock.now_ms(),
        deep=True,
    )
    assert report.findings == ()
