"""A rollback names the consumers that have read what it removes: they would leave out the commits after it."""

from __future__ import annotations

import pytest

from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import consumers, rollback
from tests.support.lake import append_table, memory_catalog, put, rows_of

OWNER = Safety(owner="test")


@pytest.mark.parametrize("dry_run", [True, False])
def test_consumers_ahead_of_the_state_are_named(dry_run: bool) -> None:
    catalog = memory_catalog()
    table = append_table(catalog, ("v INT",))
    put(table, *([{"v": number}] for number in range(1, 5)))
    for name, position in (("past", 5), ("next", 3), ("behind", 1)):
        table._stores.consumers.write(name, position)
    job = rollback.RollbackTo(table=table.name, snapshot=2, dry_run=dry_run, safety=OWNER)
    report = rollback.run(job, catalog, clock=catalog.clock)
    [note] = report.notes
    assert "consumer past waits for snapshot 5: " in note
    assert "reset-consumer with --next-snapshot 3" in note
    if dry_run:
        assert len(rows_of(table)) == 4
        return
    reset = consumers.ResetConsumer(table=table.name, consumer="past", next_snapshot=3, safety=OWNER)
    consumers.run(reset, catalog, clock=catalog.clock)
    put(table, [{"v": 7}])
    changes = table.stream(consumer="past").poll()
    assert changes is not None
    assert [row["v"] for batch in changes.to_batches() for row in batch.to_pylist()] == [7]


def test_a_damaged_consumer_is_named_and_the_table_is_rolled_back() -> None:
    catalog = memory_catalog()
    table = append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}])
    table._stores.file_io.overwrite(table._stores.paths.consumer("torn"), b"{")
    job = rollback.RollbackTo(table=table.name, snapshot=1, safety=OWNER)
    [note] = rollback.run(job, catalog, clock=catalog.clock).notes
    assert "consumers were not compared with the state: " in note
    assert "consumer-torn" in note
    assert len(rows_of(table)) == 1
