"""The parts of a full cache: blocks, the index of hashes, rows in blocks."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakecore.errors import UnavailableError
from lakecore.lookup.tables import hash_index
from lakecore.lookup.tables.blocks import BlockCache, BlockStore, DamagedBlockError
from lakecore.lookup.tables.hash_index import HashIndexBuilder
from lakecore.lookup.tables.row_store import RowStoreBuilder


def damage(store: BlockStore) -> None:
    """Change one byte of the file, as a bad disk would."""
    assert store._file is not None
    first = os.pread(store._file.fileno(), 1, 0)
    os.pwrite(store._file.fileno(), bytes([first[0] ^ 1]), 0)


@pytest.mark.parametrize("in_memory", [True, False])
def test_blocks_come_back(tmp_path: Path, in_memory: bool) -> None:
    store = BlockStore(None if in_memory else str(tmp_path))
    blocks = [os.urandom(size) for size in (10, 0, 100_000)]
    assert [store.append(block) for block in blocks] == [0, 1, 2]
    assert [store.read(number).to_pybytes() for number in (2, 0, 1)] == [blocks[2], blocks[0], blocks[1]]
    assert store.size == 100_010
    assert list(tmp_path.iterdir()) == []  # the file has no name


def test_a_damaged_or_cut_block_is_an_error(tmp_path: Path) -> None:
    store = BlockStore(str(tmp_path))
    store.append(b"x" * 100)
    damage(store)
    with pytest.raises(DamagedBlockError, match="other bytes than were written"):
        store.read(0)
    assert store._file is not None
    os.ftruncate(store._file.fileno(), 50)
    with pytest.raises(DamagedBlockError):
        store.read(0)


def test_a_full_disk_is_unavailable(tmp_path: Path) -> None:
    store = BlockStore(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UnavailableError, match="free some space there, or name another directory"):
            store.append(b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_directory_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="name another directory"):
        BlockStore("/no/such/directory")


def test_the_cache_keeps_its_bound_and_the_blocks_used_last() -> None:
    store, cache = BlockStore(None), BlockCache[str](100)
    for number in range(10):
        store.append(b"x")
        assert cache.get(store, number, lambda number=number: (str(number), 30)) == str(number)
        cache.get(store, 0, lambda: ("0", 30))
    assert cache.size <= 100
    assert cache.get(store, 0, lambda: ("loaded again", 30)) == "0"
    assert cache.get(store, 5, lambda: ("loaded again", 30)) == "loaded again"
    cache.drop(store)
    assert cache.size == 0


@pytest.mark.parametrize("buffer", [100, 1 << 22])
def test_the_index_finds_every_place_of_a_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer: int
) -> None:
    """Also hashes that fill several blocks, the lowest and the highest."""
    monkeypatch.setattr(hash_index, "_BUFFER", buffer)
    monkeypatch.setattr(hash_index, "_PER_BLOCK", 16)
    random = np.random.default_rng(7)
    known = random.integers(0, 1 << 63, 50, dtype=np.uint64) * np.uint64(2)
    known[:2] = [0, (1 << 64) - 1]
    rows = known[random.integers(0, 50, 1000)]
    rows[200:300] = known[3]
    builder = HashIndexBuilder(str(tmp_path), BlockCache(1 << 20))
    for low in range(0, 1000, 70):
        part = rows[low : low + 70]
        builder.add(part, np.arange(low, low + len(part)))
    index = builder.finish()
    wanted = np.concatenate([random.permutation(known), known[:3], known + np.uint64(1)])
    numbers, places = index.find(wanted)
    found = sorted(zip(numbers.tolist(), places.tolist(), strict=True))
    assert found == [(n, p) for n, one in enumerate(wanted) for p in np.flatnonzero(rows == one).tolist()]


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    index = HashIndexBuilder(str(tmp_path), BlockCache(1)).finish()
    assert [len(part) for part in index.find(np.array([0, 5], np.uint64))] == [0, 0]


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_rows_are_taken_in_the_order_of_their_places(tmp_path: Path, codec: str | None) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    builder = RowStoreBuilder(schema, str(tmp_path), codec, BlockCache(1 << 20))
    rows = pa.table(
        {"a": range(10_000), "b": [[str(i), None] if i % 3 else None for i in range(10_000)]}, schema
    )
    firsts = [builder.add(batch) for batch in rows.to_batches(max_chunksize=777)]
    assert firsts == list(range(0, 10_000, 777))
    store = builder.finish()
    assert pa.Table.from_batches(store.batches()).equals(rows)
    places = np.random.default_rng(3).integers(0, 10_000, 500)
    assert store.take(places).combine_chunks().equals(rows.take(pa.array(places)).combine_chunks())
    assert store.take(np.zeros(0, np.int64)).equals(schema.empty_table())
