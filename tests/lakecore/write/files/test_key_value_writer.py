"""The sort buffer and its spill: what reaches level 0 and the changelog, whatever the buffer's size."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import InvalidOptionError, UnavailableError
from lakecore.format.data_reader import open_reader
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs import compact
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.write.files.key_value_writer import KeyValueSpec, KeyValueWriter
from lakecore.write.files.rolling import FileSpec
from lakecore.write.rows import spill
from lakecore.write.rows.incoming import Rows
from tests.support.builders import table_schema
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, live_files, memory_catalog, rows_of

SCHEMA = table_schema(
    "b BIGINT NOT NULL, a STRING NOT NULL, s INT, v INT",
    primary_keys=("a", "b"),
    options={"sequence.field": "s"},
)
Row = tuple[int, str, int | None, int, int]
"""b, a, s, v, kind"""


def memory(name: str) -> MemoryFileIO:
    storage = MemoryFileIO(name)
    storage.clear()
    return storage


def writer(
    storage: MemoryFileIO,
    local: Any,
    *,
    changelog: bool = False,
    spillable: bool = True,
    descending: bool = False,
    target_size: int = 1 << 20,
) -> KeyValueWriter:
    common: dict[str, Any] = {
        "directory": "/t/bucket-0",
        "schema": SCHEMA,
        "keyed": True,
        "source": FileSource.APPEND,
        "target_size": target_size,
        "options": SCHEMA.options,
    }
    spec = KeyValueSpec(
        files=FileSpec(name_prefix="data-u", **common),
        changelog=FileSpec(name_prefix="changelog-u", changelog=True, **common) if changelog else None,
        sequence_fields=("s",),
        descending=descending,
        first_sequence=100,
        spillable=spillable,
    )
    return KeyValueWriter(storage, local, spec, lambda: 0)


def rows(values: list[Row]) -> Rows:
    columns: Mapping[str, Any] = {
        "b": pa.array([v[0] for v in values], pa.int64()),
        "a": pa.array([v[1] for v in values], pa.string()),
        "s": pa.array([v[2] for v in values], pa.int32()),
        "v": pa.array([v[3] for v in values], pa.int32()),
    }
    return Rows(pa.RecordBatch.from_pydict(columns), np.array([v[4] for v in values], np.int8))


def content(storage: MemoryFileIO, files: tuple[DataFile, ...]) -> list[list[dict[str, Any]]]:
    out = []
    for file in files:
        reader = open_reader(storage, f"/t/bucket-0/{file.file_name}")
        out.append(pa.Table.from_batches(list(reader.batches())).to_pylist())
        reader.close()
    return out


def expected(batches: list[list[Row]], *, descending: bool = False) -> list[tuple[Any, ...]]:
    """(a, b, sequence, v, kind) of the winner of each key: highest s, or lowest; null last of all; then latest."""
    best: dict[tuple[str, int], tuple[Any, ...]] = {}
    for number, (b, a, s, v, kind) in enumerate((row for batch in batches for row in batch), 100):
        order = (s is not None, -(s or 0) if descending else s or 0, number)
        if (a, b) not in best or best[a, b][0] <= order:
            best[a, b] = (order, number, v, kind)
    return [(a, b, *best[a, b][1:]) for a, b in sorted(best)]


row = st.tuples(
    st.integers(0, 4),
    st.sampled_from(["", "a", "b", "ü", "\U0001f600", "\uffff"]),
    st.one_of(st.none(), st.integers(-1, 2)),
    st.integers(0, 9),
    st.integers(0, 3),
)
batches_of_rows = st.lists(st.lists(row, min_size=1, max_size=12), min_size=1, max_size=8)


@given(batches_of_rows, st.sets(st.integers(0, 7)), st.booleans(), st.booleans())
def test_the_latest_row_of_a_key_survives(
    batches: list[list[Row]], spills: set[int], changelog: bool, descending: bool
) -> None:
    storage, local = memory("kv"), memory("kv-spill")
    kv = writer(storage, local, changelog=changelog, descending=descending)
    for i, batch in enumerate(batches):
        kv.write(rows(batch))
        if i in spills:
            kv.empty_buffer()
            assert kv.buffered == 0
    files, changes = kv.close()

    found = [row for part in content(storage, files) for row in part]
    plain = [(r["_KEY_a"], r["_KEY_b"], r["_SEQUENCE_NUMBER"], r["v"], r["_VALUE_KIND"]) for r in found]
    assert plain == [
        (a, b, number, v, kind) for a, b, number, v, kind in expected(batches, descending=descending)
    ]
    assert sum(file.delete_row_count or 0 for file in files) == sum(kind in (1, 3) for *_, kind in plain)
    assert local.list(tempfile.gettempdir()) == []
    raw = [row["_SEQUENCE_NUMBER"] for part in content(storage, changes) for row in part]
    count = sum(map(len, batches))
    assert sorted(raw) == (list(range(100, 100 + count)) if changelog else [])


def test_a_buffer_that_may_not_spill_becomes_files() -> None:
    storage, local = memory("kv"), memory("kv-spill")
    kv = writer(storage, local, spillable=False)
    kv.write(rows([(1, "a", 1, 1, 0)]))
    kv.empty_buffer()
    kv.write(rows([(1, "a", 0, 2, 0)]))
    files, _ = kv.close()

    assert [file.file_name for file in files] == ["data-u-0.parquet", "data-u-1.parquet"]
    assert [[row["v"] for row in part] for part in content(storage, files)] == [[1], [2]]


def test_rows_that_only_snapshots_order_become_one_row_a_key_whatever_the_buffer() -> None:
    catalog = memory_catalog("by-snapshot")
    order = {"sequence__snapshot_ordering": "true", "write_buffer_size": "1 kb"}
    table = key_table(catalog, write_buffer_spillable="false", **order)
    rows = pa.table({"k": [n % 50 for n in range(400)], "v": [f"v{n}" for n in range(400)]})
    for number in (1, 2):
        table.write(pa.Table.from_batches(rows.to_batches(max_chunksize=20)))
        newest = max(live_files(table), key=lambda file: file.max_sequence_number)
        assert len(live_files(table)) == newest.min_sequence_number == newest.max_sequence_number == number
    assert rows_of(table) == sorted(((k, f"v{350 + k}") for k in range(50)), key=repr)
    catalog.drop_table("d.k")
    key_table(catalog)
    for options, words in (
        ({"write_only": "false"}, "needs write-only"),
        ({"sequence__field": "v"}, "sequence"),
    ):
        catalog.drop_table("d.k")
        with pytest.raises(InvalidOptionError, match=words):
            key_table(catalog, **order, **options)
        key_table(catalog)


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
@pytest.mark.parametrize("keys", [1, 90])
def test_an_engine_folds_all_rows_of_a_commit_at_once_whatever_the_buffer(
    monkeypatch: pytest.MonkeyPatch, engine: str, keys: int
) -> None:
    monkeypatch.setattr(spill, "_MAX_RUNS", 3)
    monkeypatch.setattr(spill, "_BATCH_ROWS", 16)
    options = {"sequence__snapshot_ordering": "true", "merge_engine": engine, "bucket": "2"}
    if engine == "partial-update":
        options["partial-update__remove-record-on-delete"] = "true"
    if engine == "aggregation":
        options |= {"fields__v__aggregate_function": "listagg", "fields__n__aggregate_function": "sum"}
    dice, made = random.Random(f"{engine} {keys}"), []
    data = pa.table(
        {
            "k": [f"key-{dice.randrange(keys)}" for _ in range(240)],
            "v": [dice.choice([None, *"abc"]) for _ in range(240)],
            "n": [dice.choice([None, *range(9)]) for _ in range(240)],
            "_kind": [
                dice.choice(["+I", "+I", "-D"] if engine == "partial-update" else ["+I"]) for _ in range(240)
            ],
        }
    )
    for size in ("1 kb", "64 mb"):
        catalog = memory_catalog("all-at-once")
        table = key_table(catalog, ("k STRING", "v STRING", "n INT"), write_buffer_size=size, **options)
        for _ in range(2):
            table.write(pa.Table.from_batches(data.to_batches(max_chunksize=20)))
        assert len(live_files(table)) == 2 * min(keys, 2)
        compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
        made.append(rows_of(table))
        catalog.drop_table("d.k")
    assert made[0] == made[1] != []


def test_many_runs_are_merged_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_MAX_RUNS", 3)
    storage, local = memory("kv"), memory("kv-spill")
    kv = writer(storage, local)
    for i in range(20):
        kv.write(rows([(i % 7, "a", None, i, 0)]))
        kv.empty_buffer()
    files, _ = kv.close()

    assert [row["v"] for row in content(storage, files)[0]] == [14, 15, 16, 17, 18, 19, 13]
    assert local.list(tempfile.gettempdir()) == []


def test_a_flush_of_several_files_is_disjoint() -> None:
    storage, local = memory("kv"), memory("kv-spill")
    kv = writer(storage, local, target_size=20_000)
    kv.write(rows([(i % 20_000, str(i % 3), None, i, 0) for i in range(40_000)]))
    files, _ = kv.close()

    keys = [[(row["_KEY_a"], row["_KEY_b"]) for row in part] for part in content(storage, files)]
    assert len(files) > 2
    assert [key for part in keys for key in part] == sorted({(str(i % 3), i % 20_000) for i in range(40_000)})


@pytest.mark.parametrize("close_first", [True, False])
def test_abort_removes_files_and_spills(close_first: bool) -> None:
    storage, local = memory("kv"), memory("kv-spill")
    kv = writer(storage, local, changelog=True)
    for i in range(3):
        kv.write(rows([(i, "a", 1, 1, 0)]))
        kv.empty_buffer()
    if close_first:
        kv.close()

    kv.abort()

    assert storage.list("/t/bucket-0") == []
    assert local.list(tempfile.gettempdir()) == []


def test_a_full_spill_disk_is_named() -> None:
    storage, local = memory("kv"), memory("kv-spill")
    kv = writer(storage, FaultyFileIO(local, fail_at=2))
    kv.write(rows([(1, "a", 1, 1, 0)]))
    with pytest.raises(UnavailableError, match="lakecore-merge"):
        kv.empty_buffer()
    kv.abort()
    assert local.list(tempfile.gettempdir()) == []
