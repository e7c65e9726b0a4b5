"""A writer continues while its compaction runs in a thread, and waits for it where runs pile up."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import LakeError
from lakecore.jobs.concurrent_services import ConcurrentServices
from lakecore.jobs.table_services import TableServices
from lakecore.table import Table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put, rows_of

WAIT = 30.0
LATER = {"changelog_producer__lookup_wait": "false"}
KINDS: dict[str, dict[str, str]] = {
    "fixed": {},
    "dynamic": {"bucket": "-1"},
    "vectors": {"deletion_vectors__enabled": "true", **LATER},
    "first-row": {"merge_engine": "first-row", **LATER},
    "lookup": {"changelog_producer": "lookup", **LATER},
    "dynamic vectors": {"bucket": "-1", "deletion_vectors__enabled": "true", **LATER},
}
OPTIONS = {
    "write_only": "false",
    "num_sorted_run__compaction_trigger": "2",
    "num_sorted_run__stop_trigger": "4",
}


class Paused(FaultyFileIO):
    """Storage on which no snapshot is published before `go` is set."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.begun, self.go = threading.Event(), threading.Event()

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if name == "publish" and "/snapshot/" in path:
            self.begun.set()
            assert self.go.wait(WAIT)
        return super().operation(name, path, effect, torn)


def on(table: Table, storage: Any) -> Table:
    return replace(table, _stores=replace(table._stores, file_io=storage))


def commit(table: Table, services: ConcurrentServices, number: int) -> tuple[str, ...]:
    write = table.new_stream_write("job").with_services(services.after)
    write.write(pa.table({"k": pa.array([number], pa.int32()), "v": [f"{number}"]}))
    return write.commit(number, [write.prepare_commit(number)]).notes


def kinds(table: Table) -> list[str]:
    return [one.commit_kind.value for one in reversed(list(table.snapshots()))]


def expected(numbers: Iterable[int]) -> list[tuple[int, str]]:
    return sorted(((number, f"{number}") for number in numbers), key=repr)


@pytest.fixture(params=KINDS)
def paused(request: pytest.FixtureRequest) -> Iterator[tuple[Table, Paused, ConcurrentServices]]:
    table = key_table(memory_catalog(), **OPTIONS, **KINDS[request.param])
    storage = Paused(table._stores.file_io)
    services = ConcurrentServices(on(table, storage))
    yield table, storage, services
    storage.go.set()
    services.close()


def test_commits_go_on_up_to_the_trigger(paused: tuple[Table, Paused, ConcurrentServices]) -> None:
    table, storage, services = paused
    commit(table, services, 0)
    commit(table, services, 1)
    assert storage.begun.wait(WAIT)
    last = 2
    while "COMPACT" not in kinds(table) and services._behind < 2:
        commit(table, services, last)
        last += 1
    assert kinds(table) == ["APPEND"] * last
    waiting = threading.Thread(target=commit, args=(table, services, last))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive(), "two more runs than start a compaction: the writer waits"
    table._stores.clock.sleep(0.25)
    storage.go.set()
    waiting.join(WAIT)
    assert not waiting.is_alive()
    services.wait()
    services.close()
    assert "COMPACT" in kinds(table)
    assert rows_of(table) == expected(range(last + 1)), "no row that was committed meanwhile is lost"
    figures = services.figures()
    assert figures.waiting_millis >= 250
    assert 250 <= figures.busy_millis <= figures.total_millis
    assert (figures.behind, figures.failures) == (0, 0)
    assert 1 <= figures.compactions <= min(kinds(table).count("COMPACT"), figures.runs)
    assert min(figures.bytes_in, figures.bytes_out) > 0
    assert figures.level_0_files == sum(file.level == 0 for file in live_files(table))


def test_a_run_that_is_closed_ends_and_loses_nothing(
    paused: tuple[Table, Paused, ConcurrentServices],
) -> None:
    table, storage, services = paused
    for number in range(3):
        commit(table, services, number)
    assert storage.begun.wait(WAIT)
    closing = threading.Thread(target=services.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive(), "it waits for the commit that is being made"
    storage.go.set()
    closing.join(WAIT)
    assert not closing.is_alive()
    assert commit(table, services, 3) == ()
    assert kinds(table)[-1] == "APPEND", "no run begins any more"
    put(table, [{"k": 9, "v": "9"}])
    TableServices(table).run(table._stores.snapshots.latest_id() or 0, ends_input=False)
    assert rows_of(table) == expected([0, 1, 2, 3, 9])


@pytest.mark.parametrize("kind", [name for name in KINDS if "lookup_wait" in str(KINDS[name])])
def test_the_end_makes_every_row_visible(kind: str) -> None:
    table = key_table(memory_catalog(), **OPTIONS, **KINDS[kind])
    with ConcurrentServices(table) as services:
        for number in range(3):
            commit(table, services, number)
    assert rows_of(table) == expected(range(3))
    assert all(file.level > 0 for file in live_files(table))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.DEAD])
def test_storage_fails_in_the_thread(mode: FaultMode, kind: str) -> None:
    """At every seventeenth operation of the services: the rows are there, and the next writer compacts."""
    for fail_at in (*range(1, 5), *range(5, 600, 17 if kind == "fixed" else 41)):
        table = key_table(memory_catalog(), **OPTIONS, **KINDS[kind])
        storage = FaultyFileIO(table._stores.file_io, fail_at, mode)
        services = ConcurrentServices(on(table, storage))
        for number in range(4):
            commit(table, services, number)
        services.close()
        if kind in ("fixed", "dynamic"):
            assert rows_of(table) == expected(range(4))
        result = TableServices(table).run(table._stores.snapshots.latest_id() or 0, ends_input=False)
        assert rows_of(table) == expected(range(4)), result
        if not storage.fired:
            break
    else:
        pytest.fail("it never ran through")


def test_what_failed_is_a_note_of_the_next_commit() -> None:
    table = key_table(memory_catalog(), **OPTIONS)
    storage = FaultyFileIO(table._stores.file_io, 1, FaultMode.DEAD)
    services = ConcurrentServices(on(table, storage))
    commit(table, services, 0)
    thread = services._thread
    if thread is not None:
        thread.join()
    assert any("but compact failed after it" in note for note in commit(table, services, 1))
    services.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"write_only": "true"}, "no services follow its commits"),
        ({"bucket": "-2"}, "buckets in which the next rows are placed"),
        ({"changelog_producer": "full-compaction", **LATER}, "changelog-producer=full-compaction"),
        (
            {"changelog_producer": "lookup"},
            r"changelog-producer=lookup\) and option lookup-wait is not false",
        ),
        ({"deletion_vectors__enabled": "true"}, "visible after a compaction only and option lookup-wait"),
        ({"merge_engine": "first-row"}, "visible after a compaction only and option lookup-wait"),
        ({"merge_engine": "first-row", "lookup_wait": "true"}, "option lookup-wait is not false"),
        ({"full_compaction__delta_commits": "2"}, "full-compaction.delta-commits counts"),
        ({"commit__force_compact": "true"}, "commit.force-compact says so"),
    ],
)
def test_tables_whose_commits_wait_are_refused(options: dict[str, str], reason: str) -> None:
    table = key_table(memory_catalog(), **{"write_only": "false", **options})
    with pytest.raises(LakeError, match=reason):
        ConcurrentServices(table)


def test_tables_without_buckets() -> None:
    table = append_table(memory_catalog(), ("k INT", "v STRING"), compaction__min__file_num="2")
    services = ConcurrentServices(table)
    for number in range(6):
        assert commit(table, services, number) == ()
    services.close()
    assert "COMPACT" in kinds(table)
    assert rows_of(table) == expected(range(6))
