"""A micro-batch that Spark runs again is committed once, also when all snapshots of its query have expired."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError
from lakecore.jobs import compact, expire_snapshots
from lakecore.jobs.versions import rollback
from lakecore.metadata.schema_change import AddColumn, RenameColumn
from lakecore.spark.data_source.batch_commits import commit_batch
from lakecore.table import Table
from lakecore.types.datatypes import AtomicType, TypeRoot

USER = "spark-0b5e"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    options = {"bucket": "1", "write-only": "true", "merge-engine": "aggregation"}
    options["fields.v.aggregate-function"] = "sum"
    return catalog.create_table(
        "d.t", {"columns": ["k INT", "v BIGINT"], "primaryKeys": ["k"], "options": options}
    )


def prepare(table: Table, number: int) -> list[bytes]:
    """What the task of a micro-batch prepares, each time in new files."""
    write = table.new_stream_write(USER)
    write.write(pa.RecordBatch.from_pydict({"k": pa.array([1], pa.int32()), "v": [10**number]}))
    return [write.prepare_commit(number)]


def expire_all(table: Table, *, compacted: bool = False) -> None:
    """Others commit, and the snapshots of the query expire."""
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    table.write(pa.Table.from_pydict({"k": pa.array([2], pa.int32()), "v": [1]}))
    if compacted:
        compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
        table.write(pa.Table.from_pydict({"k": pa.array([2], pa.int32()), "v": [1]}))
    report = expire_snapshots.run(
        expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1, older_than_ms=1 << 60), lake
    )
    assert report.error is None
    assert len(list(table.snapshots())) == 1


def value(table: Table) -> int:
    (row,) = table.scan(where="k = 1").to_arrow().to_pylist()
    return int(row["v"])


def test_a_batch_is_known_after_its_snapshots_expired(table: Table) -> None:
    for number in (0, 1):
        assert commit_batch(table, number, prepare(table, number)).snapshot_ids
    expire_all(table)
    files = len(list(Path(table.path).glob("bucket-0/*")))
    assert commit_batch(table, 1, prepare(table, 1)).duplicate
    assert value(table) == 11
    assert len(list(Path(table.path).glob("bucket-0/*"))) == files, "the files of the second try are removed"
    assert commit_batch(table, 2, prepare(table, 2)).snapshot_ids
    assert value(table) == 111


def test_a_batch_that_was_not_committed_is_committed_once(table: Table) -> None:
    """Killed after the intent was stored: it is not in the table, and its files are there."""
    commit_batch(table, 0, prepare(table, 0))
    killed = prepare(table, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecore.write.stream_write.StreamWrite.commit", _kill)
        with pytest.raises(KeyboardInterrupt):
            commit_batch(table, 1, killed)
    expire_all(table)
    assert commit_batch(table, 1, prepare(table, 1)).snapshot_ids
    assert value(table) == 11
    assert commit_batch(table, 1, prepare(table, 1)).duplicate


def _kill(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_batch_that_was_skipped_is_still_known_after_its_snapshots_expired(table: Table) -> None:
    """Spark was killed after the commit, and again after the query that was started next had skipped it. What the
    second try prepared was prepared after the snapshot of the first, and says nothing about the first.
    """
    commit_batch(table, 0, prepare(table, 0))
    table.write(pa.Table.from_pydict({"k": pa.array([2], pa.int32()), "v": [1]}))
    assert commit_batch(table, 0, prepare(table, 0)).duplicate
    expire_all(table)
    assert commit_batch(table, 0, prepare(table, 0)).duplicate
    assert value(table) == 1


def test_a_driver_that_fails_leaves_what_another_one_stored(table: Table) -> None:
    """Two queries with one checkpoint run the same micro-batch; one fails while the other commits."""
    slow, fast = prepare(table, 0), prepare(table, 0)

    def commit_of_the_other(*_: object) -> None:
        with pytest.MonkeyPatch.context() as undone:
            undone.setattr("lakecore.write.stream_write.check_one_writer", lambda *_: None)
            assert commit_batch(table, 0, fast).snapshot_ids
        raise NotFoundError("on purpose")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecore.write.stream_write.check_one_writer", commit_of_the_other)
        with pytest.raises(NotFoundError, match="on purpose"):
            commit_batch(table, 0, slow)
    expire_all(table)
    assert commit_batch(table, 0, prepare(table, 0)).duplicate
    assert value(table) == 1


def _commit_all(warehouse: str, together: Barrier) -> None:
    table = lakecore.load_catalog(warehouse).load_table("d.t")
    for number in range(6):
        prepared = prepare(table, number)
        together.wait(60)
        commit_batch(table, number, prepared)


def test_two_processes_that_run_the_same_batches_at_once(table: Table) -> None:
    """Two drivers with one checkpoint do so. One of them commits each batch, and the other removes its files."""
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(2)
    lake = str(Path(table.path).parents[1])
    drivers = [spawn.Process(target=_commit_all, args=(lake, together)) for _ in range(2)]
    for one in drivers:
        one.start()
    for one in drivers:
        one.join(120)
    assert [one.exitcode for one in drivers] == [0, 0]
    assert [one.commit_identifier for one in table.snapshots()] == [5, 4, 3, 2, 1, 0]
    assert value(table) == 111_111
    assert len(list(Path(table.path).glob("bucket-0/*"))) == 6


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "others"])
def test_a_table_that_was_rolled_back_behind_a_batch_is_an_error(table: Table, others: int) -> None:
    """Spark believes that the batch is in the table, and goes on with the next one."""
    for number in (0, 1, 2):
        commit_batch(table, number, prepare(table, number))
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    rollback.run(rollback.RollbackTo(table="d.t", snapshot=2), lake)
    for _ in range(others):
        table.write(pa.Table.from_pydict({"k": pa.array([2], pa.int32()), "v": [1]}))
    files = sorted(Path(table.path).glob("bucket-0/*"))
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="rolled back behind micro-batch 2 of this query"):
            commit_batch(table, 3, prepare(table, 3))
    assert sorted(Path(table.path).glob("bucket-0/*")) == files
    assert commit_batch(table, 2, prepare(table, 2)).snapshot_ids, "with the checkpoint of that moment"
    assert commit_batch(table, 3, prepare(table, 3)).snapshot_ids
    assert value(table) == 1111


def other_row(table: Table) -> None:
    table.write(pa.Table.from_pydict({"k": pa.array([2], pa.int32()), "v": [1]}))


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "others"])
def test_a_table_that_was_rolled_back_behind_all_batches_is_an_error(table: Table, others: int) -> None:
    """No snapshot of the query is there, nor has one expired since the batch was prepared."""
    for _ in range(3):
        other_row(table)
    for number in (0, 1):
        commit_batch(table, number, prepare(table, number))
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    rollback.run(rollback.RollbackTo(table="d.t", snapshot=2), lake)
    for _ in range(others):
        other_row(table)
    with pytest.raises(InvalidInputError, match="rolled back behind micro-batch 1 of this query"):
        commit_batch(table, 2, prepare(table, 2))
    assert commit_batch(table, 0, prepare(table, 0)).snapshot_ids, "with the checkpoint of that moment"
    assert value(table) == 1


def test_a_rollback_to_snapshots_that_are_newer_than_a_batch_is_none(table: Table) -> None:
    """The snapshot of the batch expired before; its rows are in the table."""
    commit_batch(table, 0, prepare(table, 0))
    expire_all(table)
    other_row(table)
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    rollback.run(rollback.RollbackTo(table="d.t", snapshot=2), lake)
    assert commit_batch(table, 1, prepare(table, 1)).snapshot_ids
    assert value(table) == 11


def test_a_batch_without_rows_is_not_taken_for_one_that_was_rolled_back(table: Table) -> None:
    commit_batch(table, 0, prepare(table, 0))
    commit_batch(table, 1, [table.new_stream_write(USER).prepare_commit(1)])
    assert commit_batch(table, 2, prepare(table, 2)).snapshot_ids
    assert value(table) == 101


def test_what_cannot_be_known_is_an_error(table: Table) -> None:
    """Its files were compacted, and removed with the snapshots: nothing is committed, now or later."""
    commit_batch(table, 0, prepare(table, 0))
    expire_all(table, compacted=True)
    for _ in range(2):
        with pytest.raises(NotFoundError, match="of a commit that is repeated"):
            commit_batch(table, 0, prepare(table, 0))
    assert value(table) == 1


def test_a_failed_batch_is_tried_again(table: Table) -> None:
    """Its files are removed, and so is what was stored of it."""
    commit_batch(table, 0, prepare(table, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecore.write.stream_write.check_one_writer", _fail)
        with pytest.raises(NotFoundError, match="on purpose"):
            commit_batch(table, 1, prepare(table, 1))
    expire_all(table)
    assert commit_batch(table, 1, prepare(table, 1)).snapshot_ids
    assert value(table) == 11


def _fail(*_: object) -> None:
    raise NotFoundError("on purpose")


def test_a_damaged_intent_names_its_file(table: Table) -> None:
    commit_batch(table, 0, prepare(table, 0))
    (path,) = (Path(table.path).parents[1] / ".lakecore/streams").iterdir()
    path.write_text("{}")
    with pytest.raises(CorruptDataError, match=r"streams/spark-0b5e@d\.t\.json"):
        commit_batch(table, 1, prepare(table, 1))


def test_a_table_that_was_created_again_beneath_a_query(table: Table) -> None:
    """The batch ends with an error and leaves no file; the query that is started again writes it to the new table."""
    commit_batch(table, 0, prepare(table, 0))
    catalog = lakecore.load_catalog(Path(table.path).parents[1])
    time.sleep(0.01)  # a table is told from a later one of its name by the time of its schema
    catalog.drop_table("d.t")
    options = {key: value for key, value in table.schema.options.items() if key != "bucket"}
    shape = {"columns": ["k INT", "v BIGINT"], "primaryKeys": ["k"], "options": {**options, "bucket": "2"}}
    again = catalog.create_table("d.t", shape)
    with pytest.raises(NotFoundError, match="dropped and created again"):
        commit_batch(table, 1, prepare(table, 1))
    assert list(Path(table.path).rglob("data-*")) == []
    assert again.latest_snapshot() is None
    assert commit_batch(again, 1, prepare(again, 1)).snapshot_ids == (1,)
    assert value(again) == 10


@pytest.mark.parametrize("number", [0, 1], ids=["repeated", "next"])
@pytest.mark.parametrize("columns", [0, 1], ids=["same", "altered"])
def test_a_table_that_was_created_again_between_batches_is_an_error_once(
    table: Table, columns: int, number: int
) -> None:
    """The format loads the table for each batch: the rows of the batches before are not in the new one."""
    catalog = lakecore.load_catalog(Path(table.path).parents[1])
    for name in "ab"[:columns]:
        table = catalog.alter_table("d.t", AddColumn(path=(name,), type=AtomicType(TypeRoot.INT)))
    commit_batch(table, 0, prepare(table, 0))
    time.sleep(0.01)  # a table is told from a later one of its name by the time of its schema
    catalog.drop_table("d.t")
    shape = {"columns": ["k INT", "v BIGINT"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    again = catalog.create_table("d.t", shape)
    with pytest.raises(NotFoundError, match="created again after micro-batch 0 of this query was prepared"):
        commit_batch(again, number, prepare(again, number))
    assert list(Path(again.path).rglob("data-*")) == []
    assert commit_batch(again, number, prepare(again, number)).snapshot_ids == (1,)
    assert commit_batch(again, number + 1, prepare(again, number + 1)).snapshot_ids == (2,)


def test_columns_that_change_beneath_a_query(table: Table) -> None:
    """The query goes on with the columns that it knows; the values follow their columns by id."""
    catalog = lakecore.load_catalog(Path(table.path).parents[1])
    catalog.alter_table("d.t", AddColumn(path=("w",), type=AtomicType(TypeRoot.INT)))
    commit_batch(table, 0, prepare(table, 0))
    prepared = prepare(table, 1)
    changed = catalog.alter_table("d.t", RenameColumn(("v",), "x"))
    commit_batch(table, 1, prepared)
    assert changed.scan().to_arrow().to_pylist() == [{"k": 1, "x": 11, "w": None}]


def test_a_table_that_is_loaded_with_a_new_column_is_the_same(table: Table) -> None:
    """The format loads the table for each batch."""
    commit_batch(table, 0, prepare(table, 0))
    catalog = lakecore.load_catalog(Path(table.path).parents[1])
    changed = catalog.alter_table("d.t", AddColumn(path=("w",), type=AtomicType(TypeRoot.INT)))
    assert commit_batch(changed, 1, prepare(changed, 1)).snapshot_ids == (2,)
    assert value(changed) == 11


def test_a_table_that_was_dropped_beneath_a_query(table: Table) -> None:
    commit_batch(table, 0, prepare(table, 0))
    prepared = prepare(table, 1)
    lakecore.load_catalog(Path(table.path).parents[1]).drop_table("d.t")
    with pytest.raises(NotFoundError, match="has no schema any more"):
        commit_batch(table, 1, prepared)
    assert list(Path(table.path).rglob("data-*")) == []
