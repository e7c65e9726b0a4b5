"""Data files that hold less than their table: what a table taken over from Hive has."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore.jobs import compact
from lakecore.metadata.data_file import EMPTY_ROW, EMPTY_STATS
from lakecore.row.binary_row import encode_row
from tests.support.builders import commit_message
from tests.support.lake import live_files, rows_of
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow


def test_partition_columns_that_files_lack(oracle: Oracle, tmp_path: Path) -> None:
    """They are those of the partition: in reads, conditions, streams, deletes, and after a compaction."""
    lake = lakecore.load_catalog(str(tmp_path))
    lake.create_table("d.bare", {"columns": ["k INT", "v STRING"], "options": {"bucket": "-1"}})
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    columns = ["k INT", "v STRING", "p INT", "q STRING NOT NULL"]
    lake.create_table("d.t", {"columns": columns, "partitionKeys": ["p", "q"], "options": options})
    for number, place in enumerate([(1, "a"), (1, "a"), (None, "b")]):
        lake.load_table("d.bare").overwrite(pa.table({"k": pa.array([number], pa.int32()), "v": ["x"]}))
        bare, table = lake.load_table("d.bare"), lake.load_table("d.t")
        (file,) = live_files(bare)
        partition = encode_row(place, table.schema.partition_type)
        target = Path(table.read_context().data_path(partition, 0, file).removeprefix("file://"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bare.read_context().data_path(EMPTY_ROW, 0, file).removeprefix("file://"), target)
        adopted = replace(file, value_stats=EMPTY_STATS, value_stats_cols=())
        table.committer().commit(
            [commit_message(adopted, partition=partition)], commit_user="hive", identifier=number
        )
    table = lake.load_table("d.t")
    assert rows_of(table) == [(0, "x", 1, "a"), (1, "x", 1, "a"), (2, "x", None, "b")]
    assert rows_of(table, where="p is null or k = 0", columns=["q", "k"]) == [("a", 0), ("b", 2)]
    told = [
        row
        for changes in table.stream(snapshot=2)
        for batch in changes.to_batches()
        for row in batch.to_pylist()
    ]
    assert [(row["k"], row["p"], row["q"]) for row in told] == [(1, 1, "a"), (2, None, "b")]
    assert table.delete("p is null and k < 2").rows == 0
    before = oracle.read(tmp_path, "d.t")
    job = compact.Job(table="d.t", strategy=compact.Strategy.FULL, proof=compact.ProofMode.FULL)
    assert compact.run(job, lake).snapshot is not None
    assert oracle.read(tmp_path, "d.t") == before
    assert oracle.fsck(tmp_path, "d.t")["errors"] == []
