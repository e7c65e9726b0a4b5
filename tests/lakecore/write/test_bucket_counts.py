"""Other commits may give a partition another number of buckets while rows are placed: a key in two buckets would be
two rows. Java reads such tables in tests/interop/test_bucket_counts_oracle.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitConflictError
from lakecore.jobs import compact, rescale
from lakecore.metadata.schema_change import SetOption
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.lake import key_table, memory_catalog, put, rows_of

Rows = list[dict[str, Any]]
Rival = Callable[[Table, FilesystemCatalog], None]


def rows(value: str, partition: str = "x") -> Rows:
    return [{"k": k, "p": partition, "v": value} for k in range(20)]


def table_of(catalog: FilesystemCatalog, **options: str) -> Table:
    return key_table(catalog, ("k INT", "p STRING", "v STRING"), ("k", "p"), ("p",), **options)


def postponed(catalog: FilesystemCatalog) -> Table:
    """Two buckets in each partition that a batch write begins, four in one of `rows` that a compaction begins."""
    counts = {"postpone__default_bucket_num": "2", "postpone__target_row_num_per_bucket": "5"}
    return table_of(catalog, bucket="-2", **counts)


def rescaled(table: Table, catalog: FilesystemCatalog) -> None:
    rescale.run(rescale.Job(table=table.name, bucket_num=3), catalog, clock=catalog.clock)


def waiting(table: Table, catalog: FilesystemCatalog) -> None:
    put(table.with_options({"postpone.batch-write-fixed-bucket": "false"}), rows("old"))


def assigned(table: Table, catalog: FilesystemCatalog) -> None:
    waiting(table, catalog)
    compact.run(compact.Job(table=table.name, strategy=compact.Strategy.FULL), catalog, clock=catalog.clock)


def written(table: Table, catalog: FilesystemCatalog) -> None:
    put(table.with_options({"postpone.default-bucket-num": "5"}), rows("old"))


def check(table: Table, catalog: FilesystemCatalog) -> None:
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True)
    assert report.findings == ()


@pytest.mark.parametrize(
    ("before", "rival"),
    [(rows("old"), rescaled), ([], assigned), ([], written)],
    ids=["rescaled", "assigned", "written"],
)
def test_a_partition_of_postponed_buckets_has_another_count_meanwhile(before: Rows, rival: Rival) -> None:
    catalog = memory_catalog("counts")
    table = postponed(catalog)
    put(table, rows("old", "y"), *([before] if before else []))
    late = table.new_batch_write()
    late.write(pa.RecordBatch.from_pylist(rows("new")))
    prepared = late.prepare_commit()
    rival(table, catalog)
    with pytest.raises(
        CommitConflictError, match=r"the partition has \d buckets, but the commit was made for 2"
    ):
        late.commit([prepared])
    put(table, rows("new"))
    assert [row for row in rows_of(table) if row[1] == "x"] == sorted(
        ((k, "x", "new") for k in range(20)), key=repr
    )
    check(table, catalog)


def test_a_partition_of_postponed_buckets_has_the_same_count_meanwhile() -> None:
    catalog = memory_catalog("same-counts")
    table = postponed(catalog)
    late = table.new_batch_write()
    late.write(pa.RecordBatch.from_pylist(rows("new")))
    prepared = late.prepare_commit()
    waiting(table, catalog)
    put(table, rows("old")[:5], rows("old", "y"))
    late.commit([prepared])
    assert len(rows_of(table)) == 40
    check(table, catalog)


def test_a_partition_of_fixed_buckets_is_rescaled_before_other_commits() -> None:
    catalog = memory_catalog("fixed-counts")
    table = table_of(catalog, bucket="2")
    put(table, rows("old"))
    late = table.new_batch_write()
    late.write(pa.RecordBatch.from_pylist(rows("new")))
    prepared = late.prepare_commit()
    rescaled(table, catalog)
    put(table, rows("old", "y"))
    with pytest.raises(
        CommitConflictError, match="the partition has 3 buckets, but the commit was made for 2"
    ):
        late.commit([prepared])


@pytest.mark.parametrize("first", ["before", "after"])
def test_the_option_changes_before_a_partition_has_its_first_rows(first: str) -> None:
    """The count is that of the option when they are committed: writers that know the old one conflict."""
    catalog = memory_catalog("altered")
    table = table_of(catalog, bucket="2")
    put(table, rows("old", "y"))
    writes = {"before": table.new_batch_write()}
    catalog.alter_table(table.name, [SetOption("bucket", "4")])
    writes["after"] = catalog.load_table(table.name).new_batch_write()
    prepared = {}
    for name, write in writes.items():
        write.write(pa.RecordBatch.from_pylist(rows(name)))
        prepared[name] = write.prepare_commit()
    for name in sorted(writes, key=lambda name: name != first):
        if name == "after":
            writes[name].commit([prepared[name]])
            continue
        with pytest.raises(
            CommitConflictError, match="the partition has 4 buckets, but the commit was made for 2"
        ):
            writes[name].commit([prepared[name]])
    more = table.new_batch_write()
    more.write(pa.RecordBatch.from_pylist(rows("more", "y")))
    more.commit([more.prepare_commit()])  # this partition has the old count
    values = [(row[1], row[2]) for row in rows_of(catalog.load_table(table.name))]
    assert sorted(values) == [("x", "after")] * 20 + [("y", "more")] * 20
    check(table, catalog)


@pytest.mark.parametrize("overwrites", [False, True])
def test_rows_that_wait_for_a_bucket_when_the_table_gets_fixed_buckets(overwrites: bool) -> None:
    catalog = memory_catalog(f"waiting-{overwrites}")
    table = table_of(catalog, bucket="-2", postpone__batch_write_fixed_bucket="false")
    late = table.new_batch_write(overwrite=overwrites)
    late.write(pa.RecordBatch.from_pylist(rows("late")))
    prepared = late.prepare_commit()
    catalog.alter_table(table.name, [SetOption("bucket", "2")])
    fixed = catalog.load_table(table.name)
    put(fixed, rows("new"))
    with pytest.raises(
        CommitConflictError, match="its rows wait for a bucket, but the table has fixed buckets now"
    ):
        late.commit([prepared])
    assert {row[2] for row in rows_of(fixed)} == {"new"}
    check(fixed, catalog)
