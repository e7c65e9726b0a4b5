"""Reading rows by pages equals slicing the whole file, whatever the page layout."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.errors import CorruptDataError
from lakecore.format.data_reader import open_reader
from lakecore.format.data_writer import WriterOptions, open_writer
from lakecore.format.parquet.pages import FilePages
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO

ROWS = 7000
PATH = "memory://p/x.parquet"


def table() -> pa.Table:
    rng = random.Random(1)
    return pa.table(
        {
            "a": pa.array([i // 2500 for i in range(ROWS)], pa.int32()),
            "b": pa.array([i * 3 for i in range(ROWS)], pa.int64()),
            "s": pa.array(["x" * rng.randrange(200) + str(i) for i in range(ROWS)]),
            "n": pa.array([None if i % 3 else [i, None] for i in range(ROWS)], pa.list_(pa.int32())),
            "d": pa.array([str(i % 7) for i in range(ROWS)]),
            "t": pa.array([i * 1_000_003 - 5 for i in range(ROWS)], pa.timestamp("ns")),
        }
    )


LAYOUTS: dict[str, dict[str, Any]] = {
    "aligned": {"max_rows_per_page": 512},
    "unaligned": {"data_page_size": 3000, "write_batch_size": 64},
    "groups": {"row_group_size": 1900, "max_rows_per_page": 300},
    "v2": {
        "data_page_version": "2.0",
        "data_page_size": 2000,
        "row_group_size": 3000,
        "write_batch_size": 100,
    },
    "int96": {"use_deprecated_int96_timestamps": True, "max_rows_per_page": 400},
}


def stored(**layout: Any) -> MemoryFileIO:
    fs = MemoryFileIO("pages")
    fs.clear()
    out = pa.BufferOutputStream()
    pq.write_table(table(), out, **({"write_page_index": True} | layout))
    fs.write_new(PATH, out.getvalue().to_pybytes())
    return fs


def opened(fs: MemoryFileIO) -> FilePages:
    pages = FilePages.open(fs, PATH)
    assert pages is not None
    return pages


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_rows_of_any_columns(layout: str) -> None:
    pages, whole = opened(stored(**LAYOUTS[layout])), table()
    rng = random.Random(layout)
    ranges = [(0, ROWS), (0, 1), (ROWS - 1, ROWS), (5, 5)]
    ranges += [tuple(sorted(rng.sample(range(ROWS + 1), 2))) for _ in range(12)]
    for start, stop in ranges:
        names = rng.sample(whole.schema.names, rng.randint(1, len(whole.schema.names)))
        size = rng.choice((700, 5000))
        batches = list(pages.batches(names, start, stop, size))
        found = pa.Table.from_batches(batches, pa.schema([pages.schema.field(name) for name in names]))
        assert found.equals(whole.select(names).slice(start, stop - start)), (start, stop, names)
        assert max((batch.num_rows for batch in batches), default=0) <= size


def test_pages_of_our_own_files() -> None:
    fs = MemoryFileIO("pages")
    fs.clear()
    whole = table()
    writer = open_writer(fs, PATH, "parquet", whole.schema, WriterOptions(block_size=400_000))
    for batch in whole.to_batches(max_chunksize=1000):
        writer.write(batch)
    writer.close()
    pages = opened(fs)
    assert pages.num_rows == ROWS
    found = pa.Table.from_batches(pages.batches(whole.schema.names, 1234, 6000, 65536))
    assert found.equals(whole.slice(1234, 6000 - 1234))


def test_bounds_of_key_pages() -> None:
    found = opened(stored(max_rows_per_page=500)).key_pages(["a", "b"])
    assert found is not None
    assert [page.first_row for page in found] == list(range(0, ROWS, 500))
    assert found[0].low == (0, 0)
    assert found[0].high == (0, 499 * 3)
    assert found[4].low == (0, 2000 * 3)
    straddling = opened(stored(max_rows_per_page=400)).key_pages(["a", "b"])
    assert straddling is not None
    assert (straddling[6].low, straddling[6].high) == ((0,), (1,))


def test_no_index_no_pages() -> None:
    assert FilePages.open(stored(write_page_index=False), PATH) is None
    assert opened(stored()).key_pages(["n"]) is None


def test_damage() -> None:
    fs = stored(max_rows_per_page=512)
    good = fs.read(PATH)
    size = int.from_bytes(good[-8:-4], "little")
    index = len(good) - 8 - size - 400
    for at in (10_000, index):
        fs.overwrite(PATH, good[:at] + b"\xff" * 60 + good[at + 60 :])
        with pytest.raises(CorruptDataError, match=PATH):
            list(opened(fs).batches(table().schema.names, 0, ROWS, 4096))
    fs.overwrite(PATH, good[:-20])
    with pytest.raises(CorruptDataError):
        FilePages.open(fs, PATH)


def test_from_any_row_at_which_all_columns_begin_a_page_on() -> None:
    fs = MemoryFileIO("pages")
    fs.clear()
    whole = table()
    writer = open_writer(fs, PATH, "parquet", whole.schema, WriterOptions(block_size=400_000))
    for batch in whole.to_batches(max_chunksize=1000):
        writer.write(batch)
    writer.close()
    pages = opened(fs)
    starts = [start for number in range(pages.group_count) for start in pages.page_starts(number)]
    assert starts[0] == 0
    assert len(starts) > 2
    assert starts == sorted(set(starts))
    for start in starts:
        found = pq.ParquetFile(pages.file_from(start)).read()
        assert found.num_rows > 0
        assert found.equals(whole.slice(start, found.num_rows))


def test_pages_that_do_not_begin_with_a_row_are_not_used(tmp_path: Path) -> None:
    """pyarrow begins pages within the list of a row, and gives them the first row of the page before."""
    rows = pa.table({"l": [[number, None, 7] for number in range(50)]})
    pq.write_table(rows, tmp_path / "f.parquet", write_page_index=True, write_batch_size=1, data_page_size=1)
    path = str(tmp_path / "f.parquet")
    assert FilePages.open(LocalFileIO(sync=False), path) is None
    found = open_reader(LocalFileIO(sync=False), path).batches(["l"])
    assert pa.Table.from_batches(found).equals(rows)
