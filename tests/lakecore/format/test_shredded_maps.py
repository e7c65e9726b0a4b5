"""Maps in the layout shared-shredding: by files, by pages, by slices, and groups that break the rule.

That Java's own files read the same is judged in `tests/interop/test_shredded_maps.py`.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

from lakecore.errors import CorruptDataError, LakeError, UnsupportedError
from lakecore.format.pages import FilePages
from lakecore.format.parquet_reader import ParquetReader
from lakecore.format.shredded_maps import ShreddedMaps
from lakecore.fs.local import LocalFileIO

NAMES = {f"k{i}é": i for i in range(6)}
Maps = list[dict[str, int | None] | None]


def packed(codec: str, names: dict[str, int]) -> dict[str, str]:
    raw = json.dumps(names, ensure_ascii=False).encode()
    data = {
        "none": lambda: raw,
        "zstd": lambda: zstd.compress(raw),
        "lz4": lambda: (
            (body := bytes(cramjam.lz4.compress_block(raw, store_size=False)))
            and struct.pack("<ii", len(body), len(raw)) + body
        ),
    }[codec]()
    prefix = "paimon.map.shared-shredding."
    told = {"version": "1", "field-dict": data.decode("latin-1"), "field-dict-compression": codec}
    told |= {"field-dict-original-size": str(len(raw)), "num-columns": "2"}
    return {"paimon.map.storage-layout": "shared-shredding"} | {prefix + key: v for key, v in told.items()}


def stored(maps: Maps, metadata: dict[str, str], **change: Any) -> pa.Table:
    groups = []
    for entries in maps:
        if entries is None:
            groups.append(None)
            continue
        items = [(NAMES[name], value) for name, value in entries.items()]
        placed = [*items[:2], *[(-1, None)] * 2][:2]
        groups.append({"__field_mapping": [number for number, _ in placed], "__overflow": items[2:] or None}
            | {f"__col_{i}": value for i, (_, value) in enumerate(placed)} | change)  # fmt: skip
    kind = pa.struct(
        [("__field_mapping", pa.list_(pa.int32())), ("__col_0", pa.int64()), ("__col_1", pa.int64()),
            ("__overflow", pa.map_(pa.int32(), pa.int64()))]
    )  # fmt: skip
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("m", kind, metadata=metadata)])
    return pa.table([pa.array(range(len(maps)), pa.int64()), pa.array(groups, kind)], schema=schema)


def random_maps(rows: int) -> Maps:
    rng = random.Random(7)
    return [
        None if rng.random() < 0.1
        else {name: rng.choice([None, rng.randrange(99)]) for name in rng.sample(list(NAMES), rng.randrange(6))}
        for _ in range(rows)
    ]  # fmt: skip


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_maps_come_back(codec: str, tmp_path: Path) -> None:
    maps = random_maps(2000)
    path = str(tmp_path / "f.parquet")
    pq.write_table(stored(maps, packed(codec, NAMES)), path, data_page_size=512, write_page_index=True,
        write_batch_size=64, row_group_size=1500)  # fmt: skip
    wanted = [None if entries is None else list(entries.items()) for entries in maps]
    reader = ParquetReader(LocalFileIO(), path)
    batches = list(reader.batches(["m"], 300))
    assert {batch.schema.field("m").type for batch in batches} == {reader.schema.field("m").type}
    assert [found for batch in batches for found in batch.column(0).to_pylist()] == wanted
    pages = FilePages.open(LocalFileIO(), path)
    assert pages is not None
    batches = list(pages.batches(["m", "n"], 700, 1900, 256))
    assert [found for batch in batches for found in batch.column(0).to_pylist()] == wanted[700:1900]
    maps_of = ShreddedMaps.of(reader.file.schema_arrow, reader.file.metadata.metadata, path)
    part = reader.file.read_row_group(0).to_batches()[0].slice(130, 70)
    assert maps_of.restored(part).column("m").to_pylist() == wanted[130:200]


DAMAGE: dict[str, tuple[dict[str, str], dict[str, Any], type[LakeError], str]] = {
    "a later version": ({"version": "2"}, {}, UnsupportedError, "version 2"),
    "no keys": ({"field-dict-original-size": "3"}, {}, CorruptDataError, "decoded"),
    "keys of any size": ({"field-dict-original-size": str(1 << 40)}, {}, CorruptDataError, "bytes"),
    "an unknown codec": ({"field-dict-compression": "lzo"}, {}, CorruptDataError, "lzo"),
    "too few ids": ({}, {"__field_mapping": [1]}, CorruptDataError, "__field_mapping"),
    "ids that are null": ({}, {"__field_mapping": [1, None]}, CorruptDataError, "__field_mapping"),
    "no mapping": ({}, {"__field_mapping": None}, CorruptDataError, "__field_mapping"),
    "more columns than there are": ({"num-columns": "3"}, {"__field_mapping": [1, 2, 3]}, CorruptDataError, "has not the 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_groups_that_break_the_rule(case: str, tmp_path: Path) -> None:
    metadata, change, error, told = DAMAGE[case]
    path = str(tmp_path / "f.parquet")
    named = {f"paimon.map.shared-shredding.{key}": value for key, value in metadata.items()}
    pq.write_table(stored([{"k1é": 1}], packed("zstd", NAMES) | named, **change), path)
    with pytest.raises(error, match=told):
        list(ParquetReader(LocalFileIO(), path).batches())
