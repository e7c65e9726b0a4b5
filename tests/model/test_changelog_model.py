"""A change stream made by compaction, replayed: every old row is the one that was told before, and the rows told of last
are the rows of the table.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from lakecore.compact.kinds.primary_key import inputs
from lakecore.compact.kinds.primary_key.lookup import run as level_run
from lakecore.jobs import compact
from lakecore.merge import passes
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.lake import key_table, memory_catalog, rows_of

SCHEMA = pa.schema([("k", pa.int32()), ("s", pa.int32()), ("v", pa.string()), ("_kind", pa.string())])
TABLES = (
    {"changelog_producer": "lookup"},
    {"changelog_producer": "lookup", "sequence__field": "s", "file__format": "avro"},
    {
        "changelog_producer": "lookup",
        "changelog_producer__row_deduplicate": "true",
        "changelog_producer__row_deduplicate_ignore_fields": "s",
    },
    {"changelog_producer": "lookup", "ignore_delete": "true", "target_file_size": "1 b"},
    {"changelog_producer": "lookup", "deletion_vectors__enabled": "true", "num_levels": "4"},
    {"changelog_producer": "full-compaction", "sequence__field": "s", "file__format": "orc"},
    {"changelog_producer": "full-compaction", "changelog_producer__row_deduplicate": "true"},
)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels above are always searched by page; at most three runs are open at once."""
    monkeypatch.setattr(level_run, "_MANY_KEYS_BYTES", 0)
    monkeypatch.setattr(inputs, "_FEW_RUNS", 1)
    monkeypatch.setattr(inputs, "_SMALL_FILE", 0)
    monkeypatch.setattr(passes, "_FEWEST_RUNS", 3)
    monkeypatch.setattr(passes, "_PAGES_BUDGET", 0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", TABLES, ids=lambda options: "-".join(options.values()))
def test_the_change_stream_replays_to_the_table(options: Mapping[str, str], seed: int) -> None:
    dice = random.Random(f"{seed} {options}")
    catalog = memory_catalog("changelog-model")
    table = key_table(catalog, ("k INT", "s INT", "v STRING"), **options)
    told: dict[int, Any] = {}
    position = 1
    always_full = options["changelog_producer"] == "full-compaction"
    for _ in range(5):
        for _ in range(dice.randint(1, 4)):
            table.write(pa.Table.from_pylist([_row(dice) for _ in range(dice.randint(1, 8))], SCHEMA))
        strategy = dice.choice(list(compact.Strategy)[-1:] if always_full else list(compact.Strategy))
        job = compact.Job(table=table.name, strategy=strategy, proof=dice.choice(list(compact.ProofMode)))
        before = rows_of(table.with_options({"deletion-vectors.merge-on-read": "true"}))
        assert compact.run(job, catalog).error is None
        assert rows_of(table) == before
        for line in _lines(table, position):
            _replay(told, line, options)
        position = (table._stores.snapshots.latest_id() or 0) + 1
        assert {_counted(row, options) for row in told.values()} == {_counted(row, options) for row in before}
    assert (
        fsck(table._stores.file_io, table._stores.paths, read_data=True, deep=True, now_ms=0).findings == ()
    )


def _row(dice: random.Random) -> dict[str, Any]:
    return {
        "k": dice.randint(0, 12),
        "s": dice.choice([None, 0, 1, 2, 3]),
        "v": dice.choice(["a", "b", None]),
        "_kind": dice.choice(["+I", "+I", "+U", "-U", "-D"]),
    }


def _lines(table: Table, position: int) -> list[tuple[str, Any]]:
    kinds = ("+I", "-U", "+U", "-D")
    found = []
    for changes in table.stream(snapshot=position):
        for batch in changes.to_batches():
            for row in batch.to_pylist():
                kind = kinds[row.pop("_VALUE_KIND")]
                found.append((kind, tuple(row.values())))
    return found


def _replay(told: dict[int, Any], line: tuple[str, Any], options: Mapping[str, str]) -> None:
    kind, row = line
    if kind in ("-U", "-D"):
        assert _counted(told[row[0]], options) == _counted(row, options)
        if kind == "-D":
            del told[row[0]]
        return
    assert (kind == "+I") == (row[0] not in told)
    if kind == "+U" and "changelog_producer__row_deduplicate" in options:
        assert _counted(told[row[0]], options) != _counted(row, options)
    told[row[0]] = row


def _counted(row: tuple[Any, ...], options: Mapping[str, str]) -> tuple[Any, ...]:
    """The columns whose change is told."""
    return row[::2] if "changelog_producer__row_deduplicate_ignore_fields" in options else row
