"""INT96 timestamps: exact over the whole range of nanoseconds, outside with six digits at most."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import UnsupportedError
from lakecore.format.canonical import canonical
from lakecore.format.data_reader import open_reader
from lakecore.format.data_writer import WriterOptions, open_writer
from lakecore.format.parquet import int96 as parquet_int96
from lakecore.fs.memory import MemoryFileIO
from lakecore.types.datatypes import parse_type

DAY = 86_400_000_000_000
SCHEMA = pa.schema({"t": pa.timestamp("ns")})


def cells(*values: tuple[int, int] | None) -> pa.Array:
    """INT96 of (julian day, nanoseconds of the day)."""
    raw = [None if value is None else struct.pack("<qi", value[1], value[0]) for value in values]
    return pa.array(raw, pa.binary(12))


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1)), max_size=6))
def test_written_values_come_back(values: list[int | None]) -> None:
    fs = MemoryFileIO("int96")
    fs.clear()
    writer = open_writer(fs, "memory://i/x.parquet", "parquet", SCHEMA, WriterOptions())
    writer.write(pa.record_batch([pa.array(values, pa.int64()).view(pa.timestamp("ns"))], schema=SCHEMA))
    writer.close()
    found = [
        v
        for b in open_reader(fs, "memory://i/x.parquet").batches()
        for v in b["t"].view(pa.int64()).to_pylist()
    ]
    assert found == values
    if values:
        plain = (
            pq.read_table(pa.BufferReader(fs.read("memory://i/x.parquet")))["t"].cast(pa.int64()).to_pylist()
        )
        assert plain == values


def test_a_negative_time_of_day_as_other_writers_store_it() -> None:
    found = parquet_int96.timestamps(cells((2440588, -1), (2440587, DAY - 1), None, (2440589, 0)))
    assert found.view(pa.int64()).to_pylist() == [-1, -1, None, DAY]


@pytest.mark.parametrize("day", [2440588 + 106_752, 2440588 - 106_753, 5_373_484, 1_721_426])
def test_what_nanoseconds_cannot_hold_comes_in_microseconds(day: int) -> None:
    found = parquet_int96.timestamps(cells((day, DAY - 1), None, (2440588, 1001)))
    assert found.type == pa.timestamp("us")
    assert found.view(pa.int64()).to_pylist() == [(day - 2440588 + 1) * (DAY // 1000) - 1, None, 1]


@pytest.mark.parametrize(("digits", "taken"), [(3, True), (6, True), (9, False)])
def test_what_a_column_cannot_hold_is_refused(digits: int, taken: bool) -> None:
    fs = MemoryFileIO("int96")
    fs.clear()
    out = pa.BufferOutputStream()
    far = pa.array([253_402_300_799_123_000], pa.timestamp("us"))
    pq.write_table(pa.table({"t": far}), out, use_deprecated_int96_timestamps=True)
    fs.write_new("memory://i/far.parquet", out.getvalue().to_pybytes())
    (batch,) = open_reader(fs, "memory://i/far.parquet").batches()
    kind = parse_type(f"TIMESTAMP({digits})")
    if taken:
        assert canonical(batch["t"], kind, "far.parquet").cast(pa.timestamp("us")).equals(far)
    else:
        with pytest.raises(UnsupportedError, match=r"far\.parquet: .*TIMESTAMP\(6\)"):
            canonical(batch["t"], kind, "far.parquet")
