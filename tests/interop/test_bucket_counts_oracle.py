"""Partitions whose number of buckets changes while somebody writes. A writer of Java continues with the old number
after a rescale: fsck finds it, and says what to do. A writer of lakecore is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import CommitConflictError
from lakecore.jobs import compact, fsck, rescale
from lakecore.jobs.versions import rollback
from tests.fuzz.row_lines import read_lines
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError, findings

TABLE = {
    "columns": ["p STRING NOT NULL", "k INT NOT NULL", "v STRING"],
    "primaryKeys": ["p", "k"],
    "partitionKeys": ["p"],
    "options": {"bucket": "2"},
}


@pytest.mark.parametrize("judge", ["oracle", "oracle2"])
def test_rows_in_buckets_of_two_counts_are_damage(
    judge: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Java refuses to write into a bucket that has files of another count, not into one without files."""
    java: Oracle = request.getfixturevalue(judge)
    java.create(tmp_path, "d.t", TABLE)
    java.write(tmp_path, "d.t", [{"p": p, "k": k, "v": "first"} for p in "ab" for k in (1, 4)])
    lake = lakecore.load_catalog(tmp_path)
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    rescale.run(rescale.Job(table="d.t", bucket_num=4, where="p=a"), lake)
    assert fsck.run(fsck.Job(table="d.t"), lake).report.findings == ()
    sound = lake.load_table("d.t").latest_snapshot()
    assert sound is not None
    with suppress(OracleError):
        java.write(tmp_path, "d.t", [{"p": "a", "k": k, "v": "second"} for k in (1, 4, 5)])

    assert len(java.read(tmp_path, "d.t")) > 5, "Java reads rows of a key twice"
    [finding] = fsck.run(fsck.Job(table="d.t"), lake).report.findings
    assert (finding.kind.value, finding.path) == ("buckets", f"{tmp_path}/d.db/t/p=a")

    rollback.run(rollback.RollbackTo(table="d.t", snapshot=sound.id), lake)
    assert fsck.run(fsck.Job(table="d.t"), lake).report.findings == ()
    assert len(read_lines(lake.load_table("d.t").scan())) == 4


@pytest.mark.parametrize("judge", ["oracle", "oracle2"])
def test_a_write_that_began_before_a_partition_got_its_buckets(
    judge: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Rows of Java wait in the partition, and a compaction gives it other buckets than a batch write would: the write
    is refused, and Java reads each key once when it is repeated."""
    java: Oracle = request.getfixturevalue(judge)
    options = {"bucket": "-2", "postpone.target-row-num-per-bucket": "3", "write-only": "true"}
    java.create(tmp_path, "d.t", {**TABLE, "options": options})
    java.write(tmp_path, "d.t", [{"p": "a", "k": k, "v": "first"} for k in range(10)])
    lake = lakecore.load_catalog(tmp_path)
    table = lake.load_table("d.t")
    late = table.new_batch_write()
    rows = pa.table({"p": ["a"] * 5, "k": pa.array(range(5), pa.int32()), "v": ["second"] * 5})
    late.write(rows)
    prepared = late.prepare_commit()
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    with pytest.raises(
        CommitConflictError, match="the partition has 4 buckets, but the commit was made for 1"
    ):
        late.commit([prepared])
    table.write(rows)

    expected = [{"p": "a", "k": k, "v": "second" if k < 5 else "first"} for k in range(10)]
    assert java.read(tmp_path, "d.t") == canonical(expected)
    assert fsck.run(fsck.Job(table="d.t"), lake).report.findings == ()
    assert findings(java.fsck(tmp_path, "d.t")) == set()


@pytest.mark.parametrize("judge", ["oracle", "oracle2"])
def test_rows_that_wait_for_a_bucket_in_a_table_with_fixed_buckets(
    judge: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Java changes option `bucket` although rows wait, and reads them beside other rows of their keys."""
    java: Oracle = request.getfixturevalue(judge)
    java.create(tmp_path, "d.t", {**TABLE, "options": {"bucket": "-2", "write-only": "true"}})
    java.write(tmp_path, "d.t", [{"p": "a", "k": k, "v": "waiting"} for k in range(4)])
    lake = lakecore.load_catalog(tmp_path)
    assert fsck.run(fsck.Job(table="d.t"), lake).report.findings == ()

    java.call("alter", tmp_path, "d.t", json.dumps([{"op": "set", "key": "bucket", "value": "1"}]))
    java.write(tmp_path, "d.t", [{"p": p, "k": k, "v": "second"} for p in "ab" for k in range(4)])
    assert len(java.read(tmp_path, "d.t")) == 12, "Java reads rows of a key twice"
    [finding] = fsck.run(fsck.Job(table="d.t"), lake).report.findings
    assert (finding.kind.value, finding.path) == ("buckets", f"{tmp_path}/d.db/t/p=a/bucket-postpone")

    java.call("alter", tmp_path, "d.t", json.dumps([{"op": "set", "key": "bucket", "value": "-2"}]))
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    values = {"a": "waiting", "b": "second"}
    expected = [{"p": p, "k": k, "v": values[p]} for p in "ab" for k in range(4)]
    assert java.read(tmp_path, "d.t") == canonical(expected)
    assert fsck.run(fsck.Job(table="d.t"), lake).report.findings == ()
    assert findings(java.fsck(tmp_path, "d.t")) == set()
