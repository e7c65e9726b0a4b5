"""Text that is read as codes is the text that was written, wherever codes are chosen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.errors import CorruptDataError
from lakecore.format.parquet.dictionary_strings import (
    LEAST_ROWS,
    LEAST_ROWS_OF_FILE,
    dictionary_string_columns,
)
from lakecore.format.parquet.reader import ParquetReader
from lakecore.fs.memory import MemoryFileIO

ROWS = LEAST_ROWS_OF_FILE
PATH = "memory://coded/x.parquet"
COLUMNS: dict[str, tuple[Callable[[int], Any], pa.DataType, bool]] = {
    "few": (lambda i: f"v{i % 7}", pa.string(), True),
    "nulls": (lambda i: None if i % 3 else f"v{i % 5}", pa.string(), True),
    "only nulls": (lambda _: None, pa.string(), True),
    "empty": (lambda _: "", pa.string(), True),
    "many": (str, pa.string(), False),
    "late": (lambda i: "v" if i < ROWS // 2 else "x" * 9 + str(i), pa.string(), False),
    "dot.ted": (lambda i: f"v{i % 7}", pa.string(), False),
    "bytes": (lambda i: b"v%d" % (i % 7), pa.binary(), False),
    "nested": (lambda i: {"few": f"v{i % 7}"}, pa.struct({"few": pa.string()}), False),
    "list": (lambda i: [f"v{i % 7}"], pa.list_(pa.string()), False),
    "number": (lambda i: i % 7, pa.int32(), False),
}


@cache
def values(name: str) -> pa.Array:
    value, kind, _ = COLUMNS[name]
    return pa.array(map(value, range(ROWS)), kind)


def stored(names: list[str], rows: int = ROWS, **layout: Any) -> tuple[pa.Table, ParquetReader, MemoryFileIO]:
    whole = pa.table({name: values(name)[:rows] for name in names})
    fs = MemoryFileIO("coded")
    fs.clear()
    out = pa.BufferOutputStream()
    pq.write_table(whole, out, dictionary_pagesize_limit=5000, store_schema=False, **layout)
    fs.write_new(PATH, out.getvalue().to_pybytes())
    return whole, ParquetReader(fs, PATH), fs


@pytest.mark.parametrize("layout", [{}, {"row_group_size": 5000}, {"use_dictionary": False}])
def test_text_is_read_as_it_was_written(layout: dict[str, Any]) -> None:
    undotted = [name for name in COLUMNS if "." not in name]
    for names in (undotted, list(COLUMNS), ["few"], ["number"]):
        whole, reader, _ = stored(names, **layout)
        for size in (LEAST_ROWS - 1, LEAST_ROWS, 50_000):
            for columns in (None, names[::-1]):
                found = pa.Table.from_batches(reader.batches(columns, size))
                assert found.equals(whole if columns is None else whole.select(columns)), (names, size)


def test_columns_of_few_values_are_read_as_codes() -> None:
    _, reader, _ = stored(list(COLUMNS))
    assert dictionary_string_columns(reader.metadata) == tuple(
        name for name, (_, _, coded) in COLUMNS.items() if coded
    )
    _, plain, _ = stored(list(COLUMNS), use_dictionary=False)
    assert dictionary_string_columns(plain.metadata) == ()
    _, small, _ = stored(list(COLUMNS), rows=ROWS - 1)
    assert dictionary_string_columns(small.metadata) == ()


def test_damaged_codes_are_refused() -> None:
    _, reader, fs = stored(["few"], compression="none", write_page_checksum=True)
    data = bytearray(fs.read(PATH))
    data[reader.metadata.row_group(0).column(0).data_page_offset + 60] ^= 0xFF
    fs.overwrite(PATH, bytes(data))
    with pytest.raises(CorruptDataError, match=r"x\.parquet"):
        list(ParquetReader(fs, PATH).batches())
