"""Writes that encode with several threads: the same files, rows and order as with one; who uses them."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.table import Table
from lakecore.write import table_write
from lakecore.write.files.key_value_writer import KeyValueWriter
from tests.support.encoding_threads import SHAPES, Work, definition, encoding_threads, rows_of_shape
from tests.support.fake_clock import FakeClock


def new_table(shape: str, **options: str) -> Table:
    MemoryFileIO("encoding").clear()
    catalog = replace(load_catalog("memory://encoding/wh"), clock=FakeClock())
    made = definition(shape)
    made["options"] |= options
    return catalog.create_table("d.t", made)


def parts(rows: pa.Table) -> list[pa.RecordBatch]:
    return rows.to_batches(max_chunksize=40)


def live(table: Table) -> list[tuple[Any, ...]]:
    """Descriptions of the files, in the order of the manifests, but for the sizes."""
    snapshot = table._stores.snapshots.latest()
    assert snapshot is not None
    entries = table._scanner.live_entries(snapshot)
    return [(entry.partition, entry.bucket, *described(entry.file)) for entry in entries]


def described(file: DataFile) -> tuple[Any, ...]:
    name = file.file_name.rsplit("-", 1)[-1]  # the number of the file in its writer
    return (name, len(file.extra_files), replace(file, file_name="", file_size=0, extra_files=()))


def written(shape: str, threads: int) -> tuple[list[tuple[Any, ...]], pa.Table, Work]:
    with encoding_threads(threads) as work:
        table = new_table(shape)
        table.write(parts(rows_of_shape()))
        table.write(parts(rows_of_shape(first=300)))
        return live(table), table.scan().to_arrow(), work


@pytest.mark.parametrize("shape", SHAPES)
def test_files_and_rows_are_those_of_one_thread(shape: str) -> None:
    files, rows, alone = written(shape, 1)
    assert alone.begun == 0
    for threads in (2, 3):
        others, same_rows, work = written(shape, threads)
        assert others == files
        assert same_rows.equals(rows)
        assert work.begun > 8 or shape == "postponed"
        assert work.most_waiting <= threads
    assert not [one for one in threading.enumerate() if one.name == "encode"]


def test_a_table_of_small_files_still_rolls() -> None:
    assert len(written("append-rolling", 2)[0]) == 4
    assert len(written("append", 2)[0]) == 2, "one file a write: threads make none more"


def batch_write(table: Table, rows: pa.Table) -> None:
    write = table.new_batch_write()
    write.write(rows)
    write.commit([write.prepare_commit()])


def stream_write(table: Table, rows: pa.Table) -> None:
    write = table.new_stream_write("stream")
    write.write(rows)
    write.commit(1, [write.prepare_commit(1)])


DOORS: dict[str, tuple[str, Callable[[Table, pa.Table], object]]] = {
    "write": ("append", lambda table, rows: table.write(rows)),
    "append": ("append", lambda table, rows: table.append(rows)),
    "upsert": ("keyed", lambda table, rows: table.upsert(rows)),
    "overwrite": ("append", lambda table, rows: table.overwrite(rows)),
    "batch write": ("keyed-buckets", batch_write),
    "stream write": ("keyed-buckets", stream_write),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_front_door_uses_the_cores(door: str) -> None:
    shape, write = DOORS[door]
    for cores, uses in ((1, False), (2, True), (64, True)):
        with encoding_threads(cores) as work:
            write(new_table(shape), rows_of_shape(3000))
        assert (work.begun > 0) == uses
        assert work.most_waiting <= 4


def test_copies_of_a_write_share_the_cores_with_one_another() -> None:
    with encoding_threads(2) as work:
        table = new_table("append")
        for write in (table.new_batch_write(), table.new_stream_write("s")):
            copy = pickle.loads(pickle.dumps(write))
            copy.write(rows_of_shape(3000))
            copy.abort()
            assert work.begun == 0
            write.write(rows_of_shape(3000))
            write.abort()
            assert work.begun > 0
            work.begun = 0


def test_a_bucket_is_sorted_while_the_last_one_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    begin, close = KeyValueWriter.begin_close, KeyValueWriter.close

    def begun(self: KeyValueWriter) -> None:
        steps.append("sort")
        begin(self)

    def closed(self: KeyValueWriter) -> Any:
        steps.append("close")
        monkeypatch.setattr(KeyValueWriter, "begin_close", begin)
        result = close(self)
        monkeypatch.setattr(KeyValueWriter, "begin_close", begun)
        return result

    monkeypatch.setattr(KeyValueWriter, "begin_close", begun)
    monkeypatch.setattr(KeyValueWriter, "close", closed)
    with encoding_threads(2):
        new_table("keyed-buckets", bucket="4").write(rows_of_shape())
    assert steps == ["sort", "sort", "close", "sort", "close", "sort", "close", "close"]


def test_few_files_of_flushes_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_write, "_MAX_OPEN_FILES", 2)
    opened, most = set[int](), 0
    flush, end = KeyValueWriter._flush, KeyValueWriter._end_flush

    def flushed(self: KeyValueWriter, batches: Any) -> None:
        nonlocal most
        flush(self, batches)
        opened.add(id(self))
        most = max(most, len(opened))

    def ended(self: KeyValueWriter) -> None:
        end(self)
        opened.discard(id(self))

    monkeypatch.setattr(KeyValueWriter, "_flush", flushed)
    monkeypatch.setattr(KeyValueWriter, "_end_flush", ended)
    with encoding_threads(2):
        table = new_table("keyed-flushes", bucket="9")
        table.write(parts(rows_of_shape(2000)))
    assert most == 4, "two are kept, and at the end two of the buckets that are closed"
    assert len(live(table)) > 9
