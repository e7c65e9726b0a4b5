"""Row ids by position, whatever is left out; stored ones where a compaction kept them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyroaring import BitMap

from lakecore.errors import ProofError, UnsupportedError
from lakecore.predicate.parse import parse_where
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.proof.row_ids import prove_row_ids
from tests.support.builders import table_schema

TRACKED = table_schema(
    "k BIGINT, v STRING", primary_keys=(), options={"row-tracking.enabled": "true", "bucket": "-1"}
)
ROWS = [(i, f"v{i}") for i in range(300)]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_positions_count_whatever_is_left_out(small_table: Any, kind: str) -> None:
    table = small_table(TRACKED, kind, block_size=1000)
    file = replace(table.write(ROWS, chunk=50), first_row_id=1000, max_sequence_number=7)
    for where, deleted in (
        (None, []),
        ("k >= 120 and k < 180", [130]),
        ("k = 299", []),
        (None, range(40, 260)),
    ):
        predicate = parse_where(where, TRACKED.row_type) if where else None
        rows = [
            row
            for columns in (["k", "_ROW_ID", "_SEQUENCE_NUMBER"], ["_ROW_ID"])
            for batch in read_file(
                table.context,
                table.bucket_dir,
                file,
                columns,
                FileRows(predicate=predicate, deletions=BitMap(deleted)),
            )
            for row in batch.to_pylist()
        ]
        seen = [row for row in rows if "k" in row]
        assert [row["_ROW_ID"] - 1000 for row in seen] == [row["k"] for row in seen]
        assert {row["_SEQUENCE_NUMBER"] for row in seen} == {7}
        assert [row["_ROW_ID"] for row in rows if "k" not in row] == [row["_ROW_ID"] for row in seen]
        assert not {row["k"] for row in seen} & set(deleted)


def test_rows_without_ids_are_refused_where_ids_are_asked_for(small_table: Any) -> None:
    table = small_table(TRACKED)
    file = table.write(ROWS)
    with pytest.raises(UnsupportedError, match=r"rows have no row ids.*overwrite"):
        list(read_file(table.context, table.bucket_dir, file, ["_ROW_ID"]))


def test_lost_and_exchanged_ids_are_noticed(small_table: Any) -> None:
    table = small_table(TRACKED)
    file = replace(table.write(ROWS), first_row_id=5)
    path = f"{table.bucket_dir}/{file.file_name}"
    stored = StoredFile(path, file)
    prove_row_ids(table.file_io, "u", [(stored, None)], [stored])
    for wrong in (
        replace(file, first_row_id=6),
        replace(file, max_sequence_number=file.max_sequence_number + 1),
    ):
        with pytest.raises(ProofError, match="the row ids of its inputs"):
            prove_row_ids(table.file_io, "u", [(stored, None)], [StoredFile(path, wrong)])
    with pytest.raises(ProofError, match="the row ids of its inputs"):
        prove_row_ids(table.file_io, "u", [(stored, BitMap([4]))], [stored])
