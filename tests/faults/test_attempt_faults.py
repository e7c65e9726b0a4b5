"""Storage fails at operation 1, 2, 3, … of the ledger's own files: the job does not notice, and no record is
lost that was whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import LakeError
from lakecore.jobs import compact
from lakecore.jobs.attempts import AttemptFilter, attempts_of
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.maintain.attempts.record import DAY_MS, Attempt, AttemptState
from lakecore.maintain.attempts.store import AttemptStore
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put, rows_of

LEDGER = "/.lakecore/ledger"


class LedgerFails(FaultyFileIO):
    """Only operations on the ledger fail, all of them."""

    def operation(self, kind: str, path: str, act: Callable[[], Any], **rest: Any) -> Any:
        if LEDGER in path:
            raise OSError(f"{kind} {path}: no space left on device")
        return act()


def made() -> FilesystemCatalog:
    catalog = memory_catalog()
    table = key_table(catalog)
    for number in range(6):
        put(table, [{"k": number, "v": f"v{number}"}])
    return catalog


def through(catalog: FilesystemCatalog, storage: Any) -> FilesystemCatalog:
    return FilesystemCatalog(storage, catalog.warehouse, catalog.clock)


def test_jobs_do_not_notice_a_ledger_that_cannot_be_written() -> None:
    catalog = made()
    name = f"{catalog.list_databases()[0]}.{catalog.list_tables(catalog.list_databases()[0])[0]}"
    before = sorted(rows_of(catalog.load_table(name)))
    failing = through(catalog, LedgerFails(catalog.file_io))
    report = compact.run(
        compact.Job(table=name, strategy=compact.Strategy.FULL), failing, clock=catalog.clock
    )
    assert report.error is None
    assert report.files_in == 6
    assert run_chore(CreateTag(table=name, tag="t"), failing, clock=catalog.clock).error is None
    assert sorted(rows_of(catalog.load_table(name))) == before
    assert attempts_of(catalog, AttemptFilter(), catalog.clock).attempts == ()


def attempt(number: int, started_ms: int, state: AttemptState = AttemptState.DONE) -> Attempt:
    return Attempt(id=f"a{number}", table="d.t", job="compact", state=state, started_ms=started_ms)


@pytest.mark.parametrize("mode", list(FaultMode), ids=lambda mode: mode.value)
def test_every_operation_of_tidying_fails_once(mode: FaultMode) -> None:
    for fail_at in itertools.count(1):
        catalog = memory_catalog(f"tidy-{mode.value}-{fail_at}")
        clock = catalog.clock
        begin = clock.now_ms()
        plain = AttemptStore(catalog.file_io, catalog.warehouse)
        for number in range(4):
            plain.save(attempt(number, begin + number))
        plain.save(attempt(9, begin + 9, AttemptState.RUNNING))
        clock.sleep(3 * DAY_MS / 1000)
        storage = FaultyFileIO(catalog.file_io, fail_at=fail_at, mode=mode)
        with suppress(LakeError, KeyboardInterrupt):
            AttemptStore(storage, catalog.warehouse).tidy(clock)
        found = plain.read(begin, clock.now_ms())
        states = [(one.id, one.state.value) for one in found.attempts]
        assert states == [*((f"a{number}", "done") for number in range(4)), ("a9", "killed")], fail_at
        plain.tidy(clock)
        again = plain.read(begin, clock.now_ms())
        assert again.attempts == found.attempts
        assert again.damaged == 0
        if not storage.fired:
            break
    assert fail_at > 10
