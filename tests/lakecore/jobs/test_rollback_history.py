"""A tag may be of a snapshot that a rollback removed: its number says nothing about the history of today."""

from __future__ import annotations

import pytest

from lakecore.errors import InvalidInputError
from lakecore.jobs import quarantine
from lakecore.jobs.definitions.repair import Undo
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import rollback, tags
from tests.support.lake import append_table, memory_catalog, put, rows_of

OWNER = Safety(owner="test")


@pytest.mark.parametrize("later", [0, 1, 2, 3])
def test_a_tag_of_another_history_is_no_state_to_go_back_to(later: int) -> None:
    """Snapshot 3 has the tag; the table went back to 1 and on, before the tag was restored: with two and more
    commits there is another snapshot 3.
    """
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}], [{"v": 3}])
    tags.run(tags.CreateTag(table=table.name, tag="good"), catalog, clock=clock)
    deleted = tags.run(tags.DeleteTag(table=table.name, tags=("good",), safety=OWNER), catalog, clock=clock)
    assert deleted.run is not None
    rollback.run(rollback.RollbackTo(table=table.name, snapshot=1, safety=OWNER), catalog, clock=clock)
    put(table, *([{"v": 10 + number}] for number in range(later)))
    quarantine.run(Undo(run_id=deleted.run, safety=OWNER), catalog, clock=clock)
    before = rows_of(table)
    job = rollback.RollbackTo(table=table.name, tag="good", safety=OWNER)
    with pytest.raises(InvalidInputError, match="rollback-to-as-latest --tag good"):
        rollback.run(job, catalog, clock=clock)
    assert rows_of(table) == before
    assert table._stores.snapshots.list_ids() == tuple(range(1, later + 2))
    again = rollback.RollbackToAsLatest(table=table.name, tag="good", safety=OWNER)
    rollback.run(again, catalog, clock=clock)
    assert rows_of(table) == [(1,), (2,), (3,)]


def test_a_tag_of_the_latest_snapshot_is_a_state() -> None:
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}])
    tags.run(tags.CreateTag(table=table.name, tag="good"), catalog, clock=clock)
    job = rollback.RollbackTo(table=table.name, tag="good", safety=OWNER)
    assert rollback.run(job, catalog, clock=clock).nothing_to_do
