"""Files whose row groups are encoded by several threads: those of one thread, whichever thread is faster."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from lakecore.format.data_writer import DataFileWriter, WriterOptions, open_writer
from lakecore.format.encoders import Encoders
from lakecore.format.parquet import group_encoder
from lakecore.format.parquet.writer import ParquetWriter
from lakecore.format.writer_options import WrittenFile
from lakecore.fs.memory import MemoryFileIO
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from tests.support.typed_values import row_types, rows_of

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("d", pa.float64())])


def batches(count: int, rows: int) -> list[pa.RecordBatch]:
    chance = random.Random(count)
    return [
        pa.RecordBatch.from_pydict(
            {
                "k": [number * rows + i for i in range(rows)],
                "v": [None if i % 7 == 0 else f"text {chance.randrange(50)}" for i in range(rows)],
                "d": [chance.choice([0.0, -0.0, float("nan"), 1.5]) for _ in range(rows)],
            },
            schema=SCHEMA,
        )
        for number in range(count)
    ]


def write(
    parts: Sequence[pa.RecordBatch], schema: pa.Schema, encoders: Encoders | None, block: int = 4096
) -> tuple[bytes, WrittenFile, list[int]]:
    """The file, its description, and the sizes that the writer gave after each batch."""
    memory = MemoryFileIO("groups")
    memory.clear()
    writer = open_writer(memory, "/f", "parquet", schema, WriterOptions(block_size=block), encoders)
    sizes = []
    for part in parts:
        writer.write(part)
        sizes.append(writer.size_estimate)
    written = writer.close()
    return memory.read("/f"), written, sizes


def facts(data: bytes) -> list[Any]:
    """Return what the footer says of row groups, without their places."""
    meta = pq.read_metadata(io.BytesIO(data))
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    of_columns = [
        (
            bounds(column.statistics),
            *(column.num_values, column.encodings, column.compression),
            *(column.total_compressed_size, column.total_uncompressed_size),
            *(column.has_offset_index, column.has_column_index),
        )
        for group in groups
        for column in map(group.column, range(group.num_columns))
    ]
    return [meta.num_rows, meta.schema.to_arrow_schema(), [g.num_rows for g in groups], str(of_columns)]


def bounds(stats: Any) -> Any:
    if stats is None or not stats.has_min_max:
        return stats and stats.null_count
    return stats.null_count, stats.min_raw, stats.max_raw


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_file_has_the_row_groups_of_one_thread(threads: int) -> None:
    parts = [*batches(9, 300), *batches(1, 20)]  # the last row group is small, and comes last all the same
    alone, described, _ = write(parts, SCHEMA, None)
    data, written, _ = write(parts, SCHEMA, Encoders(threads))
    assert pq.read_metadata(io.BytesIO(data)).num_row_groups == 10
    assert facts(data) == facts(alone)
    assert str(pq.read_table(io.BytesIO(data)).to_pylist()) == str(pa.Table.from_batches(parts).to_pylist())
    assert (written.size, written.rows) == (len(data), described.rows)
    assert str(written.column_bounds) == str(described.column_bounds)


@pytest.mark.parametrize("rows", [0, 5, 200])
def test_one_row_group_has_the_bytes_of_one_thread(rows: int) -> None:
    parts = batches(1, rows)
    assert write(parts, SCHEMA, Encoders(2), 1 << 20)[0] == write(parts, SCHEMA, None, 1 << 20)[0]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_columns_of_all_types_are_put_together(data: st.DataObject) -> None:
    row_type = data.draw(row_types())
    schema = arrow_schema(row_type)
    rows = st.lists(rows_of(row_type), min_size=1, max_size=3)
    parts = [rows_batch(data.draw(rows), row_type, schema) for _ in range(3)]
    alone, described, _ = write(parts, schema, None, 1)
    together, written, _ = write(parts, schema, Encoders(2), 1)
    assert facts(together) == facts(alone)
    assert str(written.column_bounds) == str(described.column_bounds)


def test_sizes_do_not_depend_on_which_thread_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    chance, encode = random.Random(3), group_encoder._encode

    def uneven(*arguments: Any) -> Any:
        time.sleep(chance.random() / 100)
        return encode(*arguments)

    monkeypatch.setattr(group_encoder, "_encode", uneven)
    parts = batches(12, 100)
    first, *others = [write(parts, SCHEMA, Encoders(3)) for _ in range(3)]
    for other in others:
        assert other[0] == first[0]
        assert other[2] == first[2]


def opened(encoders: Encoders) -> tuple[MemoryFileIO, DataFileWriter]:
    memory = MemoryFileIO("groups")
    memory.clear()
    return memory, open_writer(memory, "/f", "parquet", SCHEMA, WriterOptions(block_size=4096), encoders)


def test_sizes_are_exact_once_the_threads_are_waited_for() -> None:
    _, writer = opened(Encoders(4))
    assert isinstance(writer, ParquetWriter)
    for part in batches(4, 300):
        writer.write(part)
    alone = write(batches(4, 300), SCHEMA, None)[2][-1]
    assert writer.size_estimate != alone
    writer.settle()
    assert abs(writer.size_estimate - alone) <= 4, "the first bytes of a file are no pages"
    writer.abort()


def test_a_large_last_row_group_is_encoded_beside_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    encoders = Encoders(2)
    for worth in (1, 1 << 30):
        monkeypatch.setattr(group_encoder, "_WORTH_BYTES", worth)
        _, writer = opened(encoders)
        assert isinstance(writer, ParquetWriter)
        writer.write(batches(1, 50)[0])
        writer.begin_close()
        writer.begin_close()
        assert bool(encoders._begun) == (worth == 1)
        assert writer.close().rows == 50
        assert not encoders._begun


def test_an_aborted_file_leaves_nothing() -> None:
    encoders = Encoders(2)
    memory, writer = opened(encoders)
    for part in batches(5, 300):
        writer.write(part)
    assert encoders._begun
    writer.abort()
    assert not encoders._begun
    assert not list(memory.list("/"))


def test_a_note_is_refused() -> None:
    _, writer = opened(Encoders(2))
    assert isinstance(writer, ParquetWriter)
    with pytest.raises(ValueError, match="takes no note"):
        writer.note(b"k", b"v")
    writer.abort()


def test_rows_that_are_being_encoded_count_for_the_size() -> None:
    """A file that is full ends before its threads have."""
    first, *_ = write(batches(3, 1000), SCHEMA, Encoders(4))[2]
    assert first > 1000


def test_a_file_of_one_row_group_is_written_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = batches(1, 1000)
    whole = write(parts, SCHEMA, Encoders(2))[0]
    monkeypatch.setattr(group_encoder, "_BLOCK", 100)
    assert write(parts, SCHEMA, Encoders(2))[0] == whole
    assert pq.read_table(io.BytesIO(whole)).num_rows == 1000
