"""Rolling files: when a new one starts, what the manifest is told, what `abort` leaves."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import InvalidInputError, InvalidOptionError
from lakecore.format.data_reader import open_reader
from lakecore.fs.memory import MemoryFileIO, MemoryOutput
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EMPTY_STATS, FileSource
from lakecore.row.binary_row import decode_row
from lakecore.write.files.rolling import FileSpec, RollingWriter, check_file_options
from tests.support.builders import table_schema

NOW = 1_700_000_000_000


@pytest.fixture
def storage() -> MemoryFileIO:
    memory = MemoryFileIO("rolling")
    memory.clear()
    return memory


def spec(*, keyed: bool = True, options: Mapping[str, str] | None = None, **changes: Any) -> FileSpec:
    schema = table_schema(primary_keys=("k",) if keyed else (), options=options)
    given = {
        "schema": schema,
        "directory": "/t/bucket-0",
        "name_prefix": "data-u",
        "source": FileSource.APPEND,
        "target_size": 1 << 20,
    }
    return FileSpec(keyed=keyed, options=schema.options, **(given | changes))


def rows(keys: list[int], *, kinds: list[int] | None = None, first_sequence: int = 0) -> pa.RecordBatch:
    """Rows in key-value layout without key columns."""
    count = len(keys)
    return pa.RecordBatch.from_pydict(
        {
            "_SEQUENCE_NUMBER": pa.array(range(first_sequence, first_sequence + count), pa.int64()),
            "_VALUE_KIND": pa.array(kinds or [0] * count, pa.int8()),
            "k": pa.array(keys, pa.int64()),
            "v": pa.array([key * 10 for key in keys], pa.int32()),
        }
    )


def content(storage: MemoryFileIO, name: str) -> pa.Table:
    reader = open_reader(storage, f"/t/bucket-0/{name}")
    try:
        return pa.Table.from_batches(list(reader.batches()))
    finally:
        reader.close()


def names(storage: MemoryFileIO) -> list[str]:
    return [status.name for status in storage.list("/t/bucket-0")]


def test_a_key_value_file_is_described(storage: MemoryFileIO) -> None:
    writer = RollingWriter(storage, spec(), lambda: NOW)
    writer.write(rows([1, 2], first_sequence=7))
    writer.write(rows([5], kinds=[3], first_sequence=3))
    (file,) = writer.close()

    key_type = table_schema().key_type
    assert file.file_name == "data-u-0.parquet"
    assert (file.row_count, file.delete_row_count, file.level, file.schema_id) == (3, 1, 0, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (3, 8)
    assert decode_row(file.min_key, key_type) == (1,)
    assert decode_row(file.max_key, key_type) == (5,)
    assert file.key_stats.min_values == file.min_key
    assert file.value_stats.null_counts == (0, 0)
    assert file.file_source is FileSource.APPEND
    table = content(storage, file.file_name)
    assert table.column_names == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]
    assert table.column("_KEY_k").to_pylist() == [1, 2, 5]
    assert file.file_size == storage.stat(f"/t/bucket-0/{file.file_name}").size


def test_an_append_file_counts_its_sequence_itself(storage: MemoryFileIO) -> None:
    writer = RollingWriter(storage, spec(keyed=False, first_sequence=40), lambda: NOW)
    writer.write(
        pa.RecordBatch.from_pydict({"k": pa.array([3, 1], pa.int64()), "v": pa.array([1, None], pa.int32())})
    )
    (file,) = writer.close()

    assert (file.min_sequence_number, file.max_sequence_number) == (40, 41)
    assert (file.min_key, file.max_key, file.key_stats) == (EMPTY_ROW, EMPTY_ROW, EMPTY_STATS)
    assert file.delete_row_count == 0
    assert content(storage, file.file_name).column_names == ["k", "v"]


def test_thin_files_have_no_key_columns(storage: MemoryFileIO) -> None:
    writer = RollingWriter(storage, spec(options={"data-file.thin-mode": "true"}), lambda: NOW)
    writer.write(rows([1, 9]))
    (file,) = writer.close()

    assert content(storage, file.file_name).column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]
    assert decode_row(file.max_key, table_schema().key_type) == (9,)
    assert file.key_stats.null_counts == (0,)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(("keyed", "place"), [(True, r"the row of key \{'k': 5\}"), (False, "a row")])
def test_a_null_in_a_column_that_has_none_is_refused_by_every_format(
    keyed: bool, place: str, file_format: str, storage: MemoryFileIO
) -> None:
    schema = table_schema("k BIGINT NOT NULL, v INT NOT NULL", primary_keys=("k",) if keyed else ())
    described = spec(keyed=keyed, schema=schema, options={"file.format": file_format})
    writer = RollingWriter(storage, described, lambda: NOW)
    writer.write(rows([1, 2]))
    values = pa.array([1, None, None], pa.int32())
    with pytest.raises(InvalidInputError, match=f"column v is NOT NULL, but {place} has no value there"):
        writer.write(rows([3, 5, 6]).set_column(3, "v", values))
    writer.abort()
    assert names(storage) == []


def test_a_large_file_ends_and_the_next_begins(storage: MemoryFileIO) -> None:
    writer = RollingWriter(storage, spec(target_size=30_000, first_index=4), lambda: NOW)
    for start in range(0, 60_000, 20_000):
        writer.write(rows(list(range(start, start + 20_000)), first_sequence=start))
    files = writer.close()

    assert len(files) > 2
    assert [file.file_name for file in files] == [f"data-u-{4 + i}.parquet" for i in range(len(files))]
    assert sum(file.row_count for file in files) == 60_000
    bounds = [(file.min_sequence_number, file.max_sequence_number) for file in files]
    assert [low for low, _ in bounds[1:]] == [high + 1 for _, high in bounds[:-1]]
    assert writer.files_started == len(files)


def test_nothing_written_is_no_file(storage: MemoryFileIO) -> None:
    writer = RollingWriter(storage, spec(), lambda: NOW)
    writer.write(rows([]))

    assert writer.close() == ()
    assert names(storage) == []


@pytest.mark.parametrize("closed", [True, False])
def test_abort_removes_what_was_made(storage: MemoryFileIO, closed: bool) -> None:
    writer = RollingWriter(storage, spec(target_size=10_000), lambda: NOW)
    writer.write(rows(list(range(20_000))))
    if closed:
        writer.close()

    writer.abort()
    writer.abort()

    assert names(storage) == []


def test_abort_gives_up_the_file_that_is_open(storage: MemoryFileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an object store an upload that is neither finished nor given up stays, though no path shows it."""
    outputs: list[MemoryOutput] = []
    open_output = storage.open_output

    def recorded(path: str) -> MemoryOutput:
        outputs.append(open_output(path))
        return outputs[-1]

    monkeypatch.setattr(storage, "open_output", recorded)
    writer = RollingWriter(storage, spec(), lambda: NOW)
    writer.write(rows(list(range(10))))
    assert [output.closed for output in outputs] == [False]

    writer.abort()

    assert [output.closed for output in outputs] == [True]


@pytest.mark.parametrize(
    ("options", "level", "changelog", "name"),
    [
        ({}, 0, False, "data-u-0.parquet"),
        ({"file.format": "ORC"}, 0, False, "data-u-0.orc"),
        ({"file.format.per.level": "0:avro,5:orc"}, 5, False, "data-u-0.orc"),
        ({"file.format.per.level": "0:avro,5:orc"}, 4, False, "data-u-0.parquet"),
        ({"changelog-file.format": "avro"}, 0, True, "data-u-0.avro"),
        ({"changelog-file.format": "avro"}, 0, False, "data-u-0.parquet"),
        ({"file.suffix.include.compression": "true"}, 0, False, "data-u-0.zstd.parquet"),
        (
            {"file.compression.per.level": "1:snappy", "file.suffix.include.compression": "true"},
            1,
            False,
            "data-u-0.snappy.parquet",
        ),
    ],
)
def test_options_choose_format_and_name(
    storage: MemoryFileIO, options: dict[str, str], level: int, changelog: bool, name: str
) -> None:
    writer = RollingWriter(storage, spec(options=options, level=level, changelog=changelog), lambda: NOW)
    writer.write(rows([1]))

    (file,) = writer.close()

    assert file.file_name == name
    assert content(storage, name).num_rows == 1


def test_statistics_by_level(storage: MemoryFileIO) -> None:
    options = {"metadata.stats-mode.per.level": "0:none"}
    files = []
    for level in (0, 1):
        writer = RollingWriter(
            storage, spec(options=options, level=level, name_prefix=f"d{level}"), lambda: NOW
        )
        writer.write(rows([1]))
        files += writer.close()

    assert [file.value_stats_cols for file in files] == [(), None]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("file.format", "lance"),
        ("file.format.per.level", "5=orc"),
        ("metadata.stats-mode", "some"),
        ("file.compression.per.level", "x:zstd"),
    ],
)
def test_bad_options_name_key_and_value(storage: MemoryFileIO, key: str, value: str) -> None:
    writer = RollingWriter(storage, spec(options={key: value}), lambda: NOW)

    def write() -> None:
        writer.write(rows([1]))
        writer.close()

    with pytest.raises(InvalidOptionError, match=value):
        write()
    with pytest.raises(InvalidOptionError, match=value):
        check_file_options(table_schema(options={key: value}))
    writer.abort()
    assert names(storage) == []


def test_specs_travel() -> None:
    assert pickle.loads(pickle.dumps(spec())) == spec()
