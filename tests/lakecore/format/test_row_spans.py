"""Some consecutive rows of parquet files: of many small row groups those that have them are read, without a look at
pages.
"""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.errors import CorruptDataError
from lakecore.format import row_spans
from lakecore.format.parquet.pages import FilePages
from lakecore.format.parquet.reader import ParquetReader
from lakecore.format.row_spans import open_rows
from lakecore.fs.memory import MemoryFileIO

ROWS = 23
TABLE = pa.table({"k": list(range(ROWS)), "v": [None if n % 5 == 0 else f"text {n}" for n in range(ROWS)]})


def stored(group_rows: int) -> MemoryFileIO:
    memory = MemoryFileIO("spans")
    memory.clear()
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, row_group_size=group_rows, write_page_index=True)
    memory.write_new("/f.parquet", sink.getvalue().to_pybytes())
    return memory


def rows_of(memory: MemoryFileIO, start: int, stop: int) -> list[dict[str, object]]:
    reader = open_rows(memory, "/f.parquet", None, (start, stop))
    try:
        return [row for batch in reader.batches(["v", "k"]) for row in batch.to_pylist()]
    finally:
        reader.close()


@pytest.mark.parametrize("group_rows", [1, 4, 7, ROWS])
def test_every_span_has_its_rows(group_rows: int) -> None:
    memory, rows = stored(group_rows), TABLE.to_pylist()
    for start, stop in itertools.combinations(range(ROWS + 1), 2):
        assert rows_of(memory, start, stop) == rows[start:stop]


def test_small_row_groups_are_read_without_their_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has at most as many rows on average as a page has; the others are not read."""
    opened: list[str] = []

    def pages(reader: ParquetReader) -> None:
        opened.append(reader.path)

    monkeypatch.setattr(FilePages, "of", pages)
    for most, by_pages in ((4, 0), (3, 1)):
        monkeypatch.setattr(row_spans, "_FEW_ROWS", most)
        opened.clear()
        assert len(rows_of(stored(4), 5, 9)) == 4
        assert len(opened) == by_pages
    opened.clear()
    assert len(rows_of(stored(ROWS), 5, 9)) == 4
    assert len(opened) == 1, "a single row group"


@pytest.mark.parametrize("group_rows", [4, ROWS])
@pytest.mark.parametrize("few_rows", [3, 20_000])
def test_a_file_is_opened_once(monkeypatch: pytest.MonkeyPatch, group_rows: int, few_rows: int) -> None:
    opened: list[str] = []
    real = MemoryFileIO.open_input

    def open_input(self: MemoryFileIO, path: str) -> Any:
        opened.append(path)
        return real(self, path)

    monkeypatch.setattr(MemoryFileIO, "open_input", open_input)
    monkeypatch.setattr(row_spans, "_FEW_ROWS", few_rows)
    assert rows_of(stored(group_rows), 5, 9) == TABLE.to_pylist()[5:9]
    assert len(opened) == 1


def test_row_groups_beside_the_span_are_not_decoded() -> None:
    memory = stored(4)
    meta = pq.read_metadata(pa.BufferReader(memory.read("/f.parquet")))
    data = bytearray(memory.read("/f.parquet"))
    for column in range(2):
        data[meta.row_group(3).column(column).data_page_offset] ^= 0xFF
    memory.overwrite("/f.parquet", bytes(data))
    assert rows_of(memory, 8, 12) == TABLE.to_pylist()[8:12]
    assert rows_of(memory, 16, 23) == TABLE.to_pylist()[16:]
    with pytest.raises(CorruptDataError, match="/f"):
        rows_of(memory, 11, 13)
