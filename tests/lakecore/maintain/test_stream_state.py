"""The snapshot of a commit of a stream is found among those of others, of empty commits, and of tags."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import LakeError, NotFoundError
from lakecore.jobs import expire_snapshots
from lakecore.jobs.versions import tags
from lakecore.maintain.tags.stream_state import state_after_commit
from lakecore.maintain.target import Target
from lakecore.table import Table
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put
from tests.support.maintained import OWNER, History

USER = "spark-query"


def commit(table: Table, number: int, *keys: int, user: str = USER) -> None:
    write = table.new_stream_write(user)
    if keys:
        write.write(pa.Table.from_pylist([{"k": key, "v": f"{number}"} for key in keys]))
    write.commit(number, [write.prepare_commit(number)])


def state_of(catalog: FilesystemCatalog, table: Table, number: int, user: str = USER) -> int:
    return state_after_commit(Target(table.name, catalog.warehouse, table._stores), user, number).id


def test_commits_of_others_and_empty_ones() -> None:
    catalog = memory_catalog()
    table = key_table(catalog)
    with pytest.raises(NotFoundError, match="no snapshot of spark-query up to its commit 0"):
        state_of(catalog, table, 0)
    commit(table, 0, 1)
    put(table, [{"k": 9, "v": "x"}])
    commit(table, 1)
    commit(table, 2, 2)
    commit(table, 5, 5, user="spark-other")
    commit(table, 3, 3)
    assert [state_of(catalog, table, number) for number in range(5)] == [1, 1, 3, 5, 5]
    assert state_of(catalog, table, 9, "spark-other") == 4


def test_after_expiry_a_tag_tells_its_own_number_only() -> None:
    catalog = memory_catalog()
    table = key_table(catalog)
    for number in range(4):
        commit(table, number, number)
    job = tags.CreateTag(table=table.name, tag="savepoint-1", snapshot=state_of(catalog, table, 1))
    tags.run(job, catalog, clock=catalog.clock)
    expiry = expire_snapshots.Job(table=table.name, retain_max=1, retain_min=1, safety=OWNER)
    expire_snapshots.run(expiry, catalog, clock=catalog.clock)
    assert state_of(catalog, table, 3) == 4
    assert state_of(catalog, table, 1) == 2
    with pytest.raises(NotFoundError, match="it has expired"):
        state_of(catalog, table, 2)


def test_storage_fails_at_each_operation() -> None:
    """Each try leaves the tag, or none; the next one has it."""
    catalog = memory_catalog()
    table = key_table(catalog)
    for number in range(3):
        commit(table, number, number)
    made = History.of(catalog, table)
    for fail_at in range(1, 60):
        faulty = FaultyFileIO(catalog.file_io, fail_at)
        lake = made.through(faulty)
        with suppress(LakeError):
            create(lake, lake.load_table(table.name))
        assert tagged(table) in ({}, {"savepoint-1": 2})
        create(catalog, table)
        assert tagged(table) == {"savepoint-1": 2}
        if not faulty.fired:
            break
        made.reset()
    else:
        pytest.fail("it never ran through")


def create(lake: FilesystemCatalog, table: Table) -> None:
    job = tags.CreateTag(table=table.name, tag="savepoint-1", snapshot=state_of(lake, table, 1))
    tags.run(job, lake, clock=lake.clock)


def tagged(table: Table) -> dict[str, int]:
    return {name: one.id for name, one in table.tags().items()}
