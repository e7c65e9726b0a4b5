"""Full caches of every golden table, followed from its first snapshot to its last: after each of Java's
commits a join by the cache equals a join of the merged read that pyarrow computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import UnsupportedError
from lakecore.lookup.tables.follower import Follower, LoadNeeded
from lakecore.lookup.tables.full_cache import FullCache
from lakecore.lookup.tables.lookup_table import KEY_ROW, LookupTable
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.row.json_rows import batch_to_json
from lakecore.scan.filters import ScanFilter
from lakecore.scan.stream_policy import StreamPolicy
from lakecore.table import Table
from lakecore.types.datatypes import AtomicType
from tests.support.golden import GoldenTable, golden_tables

TABLES = golden_tables()
State = tuple[Snapshot, LookupTable, bool]


@dataclass(frozen=True)
class Merged:
    """The rows of one snapshot, and each of them as a line."""

    rows: pa.Table
    lines: list[str]


def merged(table: Table, snapshot: Snapshot, columns: list[str]) -> Merged:
    """The merged read of what a stream has shown by then: with a changelog, what compactions have covered."""
    levels = StreamPolicy.from_schema(table.schema, table.options).first_filter
    if follows_compactions(table):
        levels = ScanFilter(levels=(1, 99))
    source = SnapshotRows(table._scanner, table._read_context(), snapshot, where=levels, with_level_0=True)
    rows = lakecore.Scan.of(source, None, columns, None).to_arrow()
    return Merged(rows, lines(table, rows))


def lines(table: Table, rows: pa.Table) -> list[str]:
    kind = table.schema.row_type.select(rows.column_names)
    return [line for batch in rows.to_batches() for line in batch_to_json(batch, kind)]


def joined_rows(table: Table, keys: list[str], state: Merged, on: list[str]) -> Counter[str]:
    """The join as a multiset of lines: a nested loop over texts, which shares nothing with the index."""
    by_key: dict[str, list[str]] = {}
    for key, line, whole in zip(
        lines(table, state.rows.select(on)), state.lines, complete(state.rows, on), strict=True
    ):
        if whole:
            by_key.setdefault(key, []).append(line)
    return Counter(f"{number} {line}" for number, key in enumerate(keys) for line in by_key.get(key, []))


def complete(rows: pa.Table, on: list[str]) -> list[bool]:
    if not rows.num_rows:
        return []
    return [
        all(value is not None for value in row)
        for row in zip(*(rows.column(n).to_pylist() for n in on), strict=True)
    ]


def found_rows(table: Table, lookup: LookupTable, keys: pa.Table) -> Counter[str]:
    found = lookup.lookup(keys)
    rows = lines(table, found.drop_columns([KEY_ROW]))
    return Counter(f"{n} {line}" for n, line in zip(found.column(KEY_ROW).to_pylist(), rows, strict=True))


def followed(
    table: Table, on: list[str], columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[State]:
    """The lookup table after each snapshot that is left, and whether the snapshot was loaded as a whole."""
    snapshots = sorted(table.snapshots(), key=lambda one: one.id)
    at = {"snapshot": snapshots[0]}

    def start(follower: Follower) -> Snapshot:
        follower.advance(at["snapshot"])
        return at["snapshot"]

    monkeypatch.setattr(Follower, "start", start)
    options = {"lookup.cache": "full", "continuous.discovery-interval": "365 d"}
    with table.new_lookup(on, columns=columns, options=options) as lookup:
        cache = lookup._cache
        assert isinstance(cache, FullCache)
        yield snapshots[0], lookup, True
        for snapshot in snapshots[1:]:
            at["snapshot"] = snapshot
            try:
                while (lookup.snapshot_id or 0) < snapshot.id and cache._step():
                    pass
                loaded = False
            except LoadNeeded:
                cache.load()
                loaded = True
            yield snapshot, lookup, loaded


def flat_columns(table: Table) -> list[str]:
    return [field.name for field in table.schema.fields if isinstance(field.type, AtomicType)]


def joins_of(table: Table) -> list[list[str]]:
    """By the primary key, and by another column."""
    keys = list(table.schema.primary_keys)
    other = [name for name in flat_columns(table) if name not in keys]
    return [on for on in (keys, other[:1], keys[:1] + other[1:2]) if on]


def refused(table: Table) -> bool:
    """Whether a full cache cannot follow the table: its changes do not tell its rows."""
    raw = table.schema.options
    if not table.schema.primary_keys:
        return False
    exact = raw.get("changelog-producer") in ("lookup", "full-compaction")
    merges = raw.get("merge-engine", "deduplicate") != "deduplicate"
    return (merges and not exact and not follows_compactions(table)) or "record-level.expire-time" in raw


def follows_compactions(table: Table) -> bool:
    """Whether compactions tell the changes: engines that merge, where compactions look rows up and write no changelog."""
    raw = table.schema.options
    looks_up = "true" in (raw.get("deletion-vectors.enabled"), raw.get("force-lookup"))
    merges = raw.get("merge-engine") in ("partial-update", "aggregation")
    return merges and looks_up and raw.get("changelog-producer", "none") == "none"


@pytest.mark.parametrize("golden", TABLES, ids=lambda table: table.name)
def test_joins_equal_the_merged_read_after_each_commit(
    golden: GoldenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
    columns = list(table.schema.row_type.names)
    if refused(table):
        with pytest.raises(UnsupportedError, match=r"changelog-producer|record-level.expire-time"):
            table.new_lookup(joins_of(table)[0], options={"lookup.cache": "full"})
        return
    rows = {snapshot.id: merged(table, snapshot, columns) for snapshot in table.snapshots()}
    for on in joins_of(table) if rows else ():
        for state in followed(table, on, columns, monkeypatch):
            check(table, on, rows[state[0].id], rows[max(rows)], state)


def check(table: Table, on: list[str], right: Merged, latest: Merged, state: State) -> None:
    snapshot, lookup, _ = state
    keys = pa.concat_tables([latest.rows.select(on), right.rows.select(on)])
    expected = joined_rows(table, lines(table, keys), right, on)
    assert found_rows(table, lookup, keys) == expected, f"{table.name} {on} at {snapshot.id}"
