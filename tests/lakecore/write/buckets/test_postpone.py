"""Where rows go at once: by the number of buckets that their own partition has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakecore.metadata.options import TableOptions
from lakecore.row.binary_row import encode_row
from lakecore.row.bucket import assign_buckets
from lakecore.write.buckets.postpone import PartitionBuckets
from tests.support.builders import table_schema

SCHEMA = table_schema(
    "p INT NOT NULL, k INT NOT NULL",
    primary_keys=("p", "k"),
    partition_keys=("p",),
    options={"bucket": "-2", "postpone.default-bucket-num": "3"},
)


def test_each_partition_has_its_own_number_of_buckets() -> None:
    first, second, new = (encode_row((value,), SCHEMA.partition_type) for value in (1, 2, 3))
    function = TableOptions.from_schema(SCHEMA).bucket_function.value
    buckets = PartitionBuckets(SCHEMA, function, {first: 2, second: 7}.get)
    assert [buckets.total(partition) for partition in (first, second, new)] == [2, 7, 3]
    codes = np.arange(300) % 3
    batch = pa.RecordBatch.from_pydict(
        {"p": pa.array(codes + 1, pa.int32()), "k": pa.array(np.arange(300) // 3, pa.int32())}
    )
    found = buckets.place(batch, codes, [first, second, new])
    key = SCHEMA.row_type.select(("k",))
    for code, total in enumerate((2, 7, 3)):
        part = batch.filter(pa.array(codes == code))
        assert found[codes == code].tolist() == assign_buckets(part, key, total, function).tolist()
        assert set(found[codes == code].tolist()) == set(range(total))
