"""Files of format `row` of many blocks, damaged ones, and tables in which they are refused.

That Java's files read the same, and Java reads ours, is judged in `tests/interop/test_row_format.py`.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from backports import zstd

from lakecore.errors import LakeError, UnsupportedError
from lakecore.format.data_writer import WriterOptions, open_writer
from lakecore.format.row import writer as row_writer
from lakecore.format.row.layout import check_row_files, row_columns
from lakecore.format.row.reader import RowReader
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.schema import TableSchema
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, RowType, parse_type

PATH = "memory://rows/x.row"
ARRAY = {"type": "ARRAY", "element": "STRING"}
TYPES = RowType(tuple(DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(
    [("i", "BIGINT"), ("s", "STRING"), ("a", ARRAY), ("m", {"type": "MAP", "key": "STRING", "value": "INT"})]
)))  # fmt: skip


def table(rows: int) -> pa.Table:
    rng = random.Random(5)

    def text() -> str:
        return "é" * rng.choice([0, 1, 40, 90])

    columns = {
        "i": [rng.choice([None, rng.randrange(-(2**60), 2**60)]) for _ in range(rows)],
        "s": [rng.choice([None, text(), "x" * 9000 * (n % 97 == 0)]) for n in range(rows)],
        "a": [rng.choice([None, [rng.choice([None, text()]) for _ in range(n % 12)]]) for n in range(rows)],
        "m": [
            rng.choice([None, [(f"k{i}", rng.choice([None, i])) for i in range(n % 5)]]) for n in range(rows)
        ],
    }
    return pa.table(columns, schema=arrow_schema(TYPES))


def stored(data: pa.Table, batch_size: int = 333) -> MemoryFileIO:
    fs = MemoryFileIO("rows")
    fs.clear()
    writer = open_writer(fs, PATH, "row", data.schema, WriterOptions(block_size=4000))
    for batch in data.to_batches(batch_size):
        writer.write(batch)
    writer.close()
    return fs


def test_rows_of_many_blocks() -> None:
    data = table(3000)
    reader = RowReader(stored(data), PATH, TYPES)
    for columns in (["m", "i"], ["s"], ["a", "s", "m", "i"]):
        batches = list(reader.batches(columns, 700))
        assert max(batch.num_rows for batch in batches) <= 700
        found = pa.Table.from_batches(batches)
        assert found.to_pylist() == data.select(columns).to_pylist()


def test_damage_is_an_error_or_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block has a checksum in files of ours only, so damage inside it may read as rows, never as a crash."""
    data, rng, refused, compress = table(40), random.Random(8), 0, zstd.compress

    def damaged(block: bytes, **options: object) -> bytes:
        bad = bytearray(block)
        bad[rng.randrange(len(bad))] = rng.choice([0, 127, 128, 255])
        return compress(bytes(bad))

    for number in range(120):
        with monkeypatch.context() as patch:
            if number % 2:
                patch.setattr(row_writer.zstd, "compress", damaged)
            fs = stored(data)
        whole = bytearray(fs.read(PATH))
        whole[-rng.randrange(1, 60)] ^= (number % 2 == 0) * rng.randrange(1, 256)
        fs.overwrite(PATH, bytes(whole))
        try:
            assert sum(batch.num_rows for batch in RowReader(fs, PATH, TYPES).batches()) == 40
        except LakeError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize(
    ("keys", "options", "unread", "unwritten"),
    [
        ((), {}, None, None),
        (("i",), {}, None, "primary key"),
        (("i",), {"data-file.thin-mode": "true"}, "thin-mode", "primary key"),
        ((), {"row-tracking.enabled": "true"}, "row-tracking", "row-tracking"),
    ],
)
def test_where_they_are_refused(
    keys: tuple[str, ...], options: dict[str, str], unread: str | None, unwritten: str | None
) -> None:
    schema = TableSchema(id=0, fields=TYPES.fields, highest_field_id=9, primary_keys=keys, options=options)
    for told, refusal in (
        (unread, lambda: row_columns(schema, PATH)),
        (unwritten, lambda: check_row_files(schema)),
    ):
        if told is None:
            refusal()
        else:
            with pytest.raises(UnsupportedError, match=f"{told}.*file.format=parquet"):
                refusal()
