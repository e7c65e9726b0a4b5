"""Rows find partition and bucket, and keep their order there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakecore.metadata.options import TableOptions
from lakecore.row.binary_row import decode_row
from lakecore.row.bucket import assign_buckets
from lakecore.write.buckets.routing import Router, Share
from lakecore.write.rows.incoming import Rows
from tests.support.builders import table_schema

PARTITIONED = table_schema(
    "k BIGINT NOT NULL, p STRING, q INT, v INT",
    primary_keys=("k", "p", "q"),
    partition_keys=("p", "q"),
    options={"bucket": "3"},
)
UNAWARE = table_schema("k BIGINT, v INT", primary_keys=(), options={"bucket": "-1"})


def router(schema: Any) -> Router:
    return Router(schema, TableOptions.from_schema(schema))


def rows(values: list[tuple[int, str | None, int | None]]) -> Rows:
    columns = {
        "k": pa.array([v[0] for v in values], pa.int64()),
        "p": pa.array([v[1] for v in values], pa.string()),
        "q": pa.array([v[2] for v in values], pa.int32()),
        "v": pa.array(range(len(values)), pa.int32()),
    }
    kinds = np.array([v[0] % 4 for v in values], np.int8)
    return Rows(pa.RecordBatch.from_pydict(columns), kinds)


def test_no_rows_no_shares() -> None:
    assert router(PARTITIONED).split(rows([])) == []


def test_unaware_tables_have_one_bucket() -> None:
    given_rows = Rows(pa.RecordBatch.from_pydict({"k": [3, 1], "v": [1, 2]}))
    (share,) = router(UNAWARE).split(given_rows)

    assert (share.bucket, share.values, share.partition) == (0, (), bytes(12))
    assert share.rows.batch is given_rows.batch


names = st.one_of(st.none(), st.sampled_from(["", " ", "a", "b", "ä/ö"]))
values = st.lists(st.tuples(st.integers(0, 50), names, st.one_of(st.none(), st.integers(-2, 2))), max_size=40)


@given(values)
def test_every_row_once_in_its_place_and_in_order(given_values: list[Any]) -> None:
    batch = rows(given_values)
    shares = router(PARTITIONED).split(batch)

    seen: list[tuple[int, ...]] = []
    for share in shares:
        found = share.rows.batch.to_pylist()
        assert {(row["p"], row["q"]) for row in found} == {share.values}
        assert decode_row(share.partition, PARTITIONED.partition_type) == share.values
        assert [row["v"] for row in found] == sorted(row["v"] for row in found)
        assert share.rows.kinds is not None
        assert share.rows.kinds.tolist() == [row["k"] % 4 for row in found]
        seen += [(row["v"], share.bucket) for row in found]
    buckets = assign_buckets(batch.batch, PARTITIONED.key_type, 3, "default")
    assert sorted(seen) == list(enumerate(buckets.tolist()))
    assert len({_place(share) for share in shares}) == len(shares)


def _place(share: Share) -> tuple[bytes, int]:
    return share.partition, share.bucket
