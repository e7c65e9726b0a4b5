"""Rows that expire when they are compacted: which rows, which files, and what is proven."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lakecore.compact.kinds.primary_key.expiry import Expiry
from lakecore.errors import InvalidOptionError
from lakecore.jobs import compact
from lakecore.metadata.options import TableOptions
from lakecore.row.json_rows import json_to_batch
from lakecore.table import Table
from lakecore.types.arrow import arrow_schema
from lakecore.verify.digest.shape import ProofMode
from tests.support.builders import table_schema
from tests.support.lake import memory_catalog

HOUR = 3600
NOW = 1_700_000_000
TIMES = {"old": NOW - HOUR - 1, "edge": NOW - HOUR, "new": NOW, "future": NOW + 9, "none": None}
EXPIRES = {"record-level.expire-time": "1 h", "record-level.time-field": "t"}


KINDS = [
    ("INT", 1), ("BIGINT", 1), ("BIGINT", 1000), ("TIMESTAMP(0)", 1000), ("TIMESTAMP(3)", 1000), ("TIMESTAMP(6)", 10**6),
    ("TIMESTAMP(9)", 10**9), ("TIMESTAMP(3) WITH LOCAL TIME ZONE", 1000),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "factor"), KINDS)
def test_only_rows_past_their_time_expire(kind: str, factor: int) -> None:
    schema = table_schema(f"k INT NOT NULL, t {kind}", options=EXPIRES)
    expiry = Expiry.of(schema, TableOptions.from_schema(schema))
    assert expiry is not None
    target = arrow_schema(schema.row_type).field("t").type
    values = [None if time is None else time * factor for time in TIMES.values()]
    plain = pa.array(values, pa.int32() if kind == "INT" else pa.int64())
    batch = pa.record_batch({"t": plain if plain.type == target else plain.view(target)})
    assert expiry.expired(batch, NOW * 1000 + 999).tolist() == [True, False, False, False, False]
    assert expiry.expired(batch, (NOW + 1) * 1000).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("field", ["", "x", "v"])
def test_a_time_field_that_is_none_is_named(field: str) -> None:
    schema = table_schema("k INT NOT NULL, v STRING", options=EXPIRES | {"record-level.time-field": field})
    with pytest.raises(InvalidOptionError, match=r"record-level\.time-field"):
        Expiry.of(schema, TableOptions.from_schema(schema))


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
@pytest.mark.parametrize("proof", list(ProofMode))
@pytest.mark.parametrize("buffer", ["1 mb", "64 b"])
def test_a_compaction_leaves_out_what_expired(engine: str, proof: ProofMode, buffer: str) -> None:
    """First from several runs, an hour later from the one that is left; then there is nothing to do."""
    catalog = memory_catalog()
    raw = {"bucket": "1", "merge-engine": engine, "fields.v.aggregate-function": "sum", **EXPIRES}
    columns = ["k INT", "t BIGINT", "v INT"]
    catalog.create_table("d.t", {"columns": columns, "primaryKeys": ["k"], "options": raw})
    table = catalog.load_table("d.t", {"write-buffer-size": buffer})
    clock: Any = catalog.clock
    now = clock.now_ms() // 1000

    def write(rows: list[tuple[int, int | None, int]]) -> None:
        lines = [json.dumps({"k": k, "t": t, "v": v}) for k, t, v in rows]
        table.write(json_to_batch(lines, table.schema.row_type))

    def full() -> compact.Report:
        job = compact.Job(table="d.t", strategy=compact.Strategy.FULL, proof=proof)
        report = compact.run(job, catalog, clock=clock)
        assert report.error is None
        return report

    write([(1, now - 2 * HOUR, 1), (2, now, 2), (3, None, 3)])
    write([(1, now, 10), (2, now - 2 * HOUR, 20), (4, now - 2 * HOUR, 4)])
    assert rows(table) == [
        (1, 11 if engine == "aggregation" else 10),
        (2, 22 if engine == "aggregation" else 20),
        (3, 3),
        (4, 4),
    ]
    full()
    assert rows(table) == [(1, 10), (2, 2), (3, 3)]
    assert full().nothing_to_do
    clock.sleep(2 * HOUR)
    assert full().picks_done == 1
    assert rows(table) == [(3, 3)]
    assert full().nothing_to_do


def rows(table: Table) -> list[tuple[int, int]]:
    return sorted((row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist())
