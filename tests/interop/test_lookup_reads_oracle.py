"""Merged reads of tables that look rows up: a key's row on a lower level stands for those above it."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakecore
from lakecore.row.json_rows import batch_to_json
from tests.support.golden import canonical
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

ENGINES = {
    "sum": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "listagg": {"merge-engine": "aggregation", "fields.s.aggregate-function": "listagg"},
    "group": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "n,s",
        "fields.n.aggregate-function": "first_non_null_value",
    },
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("producer", ["lookup", "force-lookup"])
def test_rows_are_those_that_java_reads(engine: str, producer: str, oracle: Oracle, tmp_path: Path) -> None:
    """Each of Java's writes compacts level 0 and leaves older levels as they are; the last one does not."""
    how = {"force-lookup": "true"} if producer == "force-lookup" else {"changelog-producer": "lookup"}
    columns = ["k INT NOT NULL", "n INT", "s STRING", "g INT"]
    options = {"bucket": "1", **how, **ENGINES[engine]}
    oracle.create(tmp_path, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    for number in range(4):
        if number == 3:
            oracle.call("alter", tmp_path, "d.t", '[{"op": "set", "key": "write-only", "value": "true"}]')
        rows = [{"k": k, "n": 10**number, "s": f"{number}", "g": 5 - number} for k in range(number, 9)]
        oracle.write(tmp_path, "d.t", rows)
        table = lakecore.load_catalog(str(tmp_path)).load_table("d.t")
        ours = canonical(_lines(table))
        assert ours == oracle.read(tmp_path, "d.t")
    latest = table._stores.snapshots.latest()
    assert len({file.level for file in table._scanner.live_entries(latest).files()}) > 2


def _lines(table: lakecore.Table) -> list[str]:
    scan = table.scan()
    return [line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type)]
