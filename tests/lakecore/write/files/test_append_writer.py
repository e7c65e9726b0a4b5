"""Append files: order, sequence over several files, few open files, little memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import FileSource
from lakecore.write import table_write
from lakecore.write.files import append_writer
from lakecore.write.files.append_writer import AppendWriter
from lakecore.write.files.rolling import FileSpec
from lakecore.write.rows.incoming import Rows
from tests.support.builders import table_schema
from tests.support.fault_fs import FaultyFileIO
from tests.support.handles import with_stores


def storage() -> MemoryFileIO:
    memory = MemoryFileIO("append-writer")
    memory.clear()
    return memory


def writer(memory: MemoryFileIO) -> AppendWriter:
    schema = table_schema("k BIGINT", primary_keys=(), options={"bucket": "-1"})
    spec = FileSpec(
        directory="/t/bucket-0",
        name_prefix="data-u",
        schema=schema,
        keyed=False,
        source=FileSource.APPEND,
        target_size=1 << 20,
        options=schema.options,
        first_sequence=10,
    )
    return AppendWriter(memory, spec, lambda: 0)


def rows(*values: int) -> Rows:
    return Rows(pa.RecordBatch.from_pydict({"k": pa.array(values, pa.int64())}))


def test_parked_files_follow_one_another() -> None:
    memory = storage()
    append = writer(memory)
    append.write(rows(3, 1))
    assert (append.buffered, append.holds_file) == (16, False)
    append.empty_buffer()
    assert (append.buffered, append.holds_file) == (0, True)
    append.write(rows(2))
    append.empty_buffer()
    append.close_open_files()
    append.write(rows(9))
    files, changelog = append.close()

    assert changelog == ()
    assert [file.file_name for file in files] == ["data-u-0.parquet", "data-u-1.parquet"]
    assert [(f.min_sequence_number, f.max_sequence_number) for f in files] == [(10, 12), (13, 13)]


def test_a_full_buffer_goes_to_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_writer, "_BUFFER_BYTES", 16)
    append = writer(storage())
    append.write(rows(1, 2))

    assert (append.buffered, append.holds_file) == (0, True)


def test_abort_forgets_everything() -> None:
    memory = storage()
    append = writer(memory)
    append.write(rows(1))
    append.empty_buffer()
    append.close_open_files()
    append.write(rows(2))
    append.empty_buffer()
    append.abort()

    assert memory.list("/t/bucket-0") == []


def test_few_files_are_open_and_few_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 40 partitions in random order: one file each while the buffer holds them, few open at once."""
    monkeypatch.setattr(table_write, "_MAX_OPEN_FILES", 4)
    MemoryFileIO("append-many").clear()
    table = load_catalog("memory://append-many/wh").create_table(
        "d.t", {"columns": ["k INT", "p INT"], "partitionKeys": ["p"]}
    )
    counted = FaultyFileIO(table._stores.file_io)
    table = with_stores(table, file_io=counted)

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(5):
            values = pa.array([k * 7 + i for k in range(200)], pa.int32())
            yield pa.RecordBatch.from_pydict(
                {"k": values, "p": pa.array([v.as_py() % 40 for v in values], pa.int32())}
            )

    table.append(batches())
    assert sum(op.startswith("open_output") for op in counted.log) == 40
    counted.log.clear()
    table.with_options({"write-buffer-size": "1 kb"}).append(batches())

    assert _most_open(counted.log) <= 5
    assert table.scan().to_arrow().num_rows == 2000
    assert table.scan(where="p = 3").to_arrow().num_rows == 50


def _most_open(log: list[str]) -> int:
    changes: list[Any] = [op.split(" ")[0] for op in log if "/bucket-0/" in op]
    steps = ({"open_output": 1, "close": -1}.get(name, 0) for name in changes)
    return max(itertools.accumulate(steps))
