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
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

from lakecore.errors import CorruptDataError, InvalidOptionError, LakeError, UnsupportedError
from lakecore.format.data_writer import WriterOptions, open_shredding_writer
from lakecore.format.orc.reader import OrcReader
from lakecore.format.parquet.pages import FilePages
from lakecore.format.parquet.reader import ParquetReader
from lakecore.format.shared_map.assemble import ShreddedMaps
from lakecore.format.shared_map.placement import Placement, placer
from lakecore.format.shared_map.shred import MapShredder
from lakecore.fs.local import LocalFileIO
from lakecore.types.datatypes import DataField, MapType, RowType, parse_type

NAMES = {f"k{i}é": i for i in range(6)}
ROW = RowType((DataField(0, "m", MapType(parse_type("STRING NOT NULL"), parse_type("BIGINT"))),))
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


@pytest.mark.parametrize("placement", Placement)
def test_keys_take_columns_by_the_rule(placement: Placement) -> None:
    """Against the rule spelled out for one row after another; what is once too much overflows."""
    dice = random.Random(5)
    for columns, names, batches in ((1, 2, 3), (3, 3, 4), (4, 9, 5), (2, 5, 40)):
        place, used, resident, clock = placer(placement, columns), [0] * columns, [-1] * columns, 0
        met: list[int] = []
        for _ in range(batches):
            rows = []
            for _ in range(dice.randrange(1, 30)):
                met += [len(met)] if len(met) < names and dice.random() < 0.4 else []
                rows.append(dice.sample(met, dice.randrange(len(met) + 1)))
            numbers = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
            found = place(numbers, np.array([n for row in rows for n in row], np.int64)).tolist()
            wanted: list[int] = []
            for row in rows:
                places = {n: at for at, n in enumerate(row if placement is Placement.PLAIN else sorted(row))}
                if placement is Placement.LRU:
                    places = {n: resident.index(n) for n in row if n in resident}
                    for number in sorted(set(row) - set(places)):
                        free = [c for c in range(columns) if c not in places.values()]
                        column = min(free, key=lambda c: (resident[c] >= 0, used[c], c), default=columns)
                        places[number] = column
                        resident[column : column + 1] = [number] if column < columns else []
                    clock += 1
                    used = [clock if c in places.values() else at for c, at in enumerate(used)]
                wanted += [places[n] if places[n] < columns else -1 for n in row]
            assert found == wanted


@pytest.mark.parametrize(
    ("widths", "columns"),
    [([], 8), ([3], 3), ([0], 1), ([30], 8), ([2] * 18 + [6, 7], 2), ([2] * 9 + [7], 2), ([2] * 9 + [6], 6)],
)
def test_files_have_the_columns_that_recent_ones_needed(widths: list[int], columns: int) -> None:
    shredder = MapShredder.of(ROW, {"fields.m.map.storage-layout": "shared-shredding",
        "fields.m.map.shared-shredding.max-columns": "8"}, "parquet", "zstd")  # fmt: skip
    assert shredder is not None
    for width in widths:
        shape = shredder.shape(())
        keys = [(f"k{i}", i) for i in range(width)]
        list(shape.stored(pa.record_batch([pa.array([keys], pa.map_(pa.string(), pa.int64()))], ["m"])))
        shredder.finished(shape)
    assert shredder.shape(()).schema.field("m").type.num_fields == columns + 2


def test_a_key_that_a_row_has_twice_is_kept(tmp_path: Path) -> None:
    options = {
        "fields.m.map.storage-layout": "SHARED_SHREDDING",
        "fields.m.map.shared-shredding.max-columns": "2",
    }
    shredder = MapShredder.of(ROW, options, "orc", "none")
    assert shredder is not None
    path = str(tmp_path / "f.orc")
    writer = open_shredding_writer(LocalFileIO(), path, "orc", shredder, WriterOptions(compression="none"))
    maps = [[("a", 1), ("a", 2), ("b", 3)], None, [], [("b", None)]]
    writer.write(pa.record_batch([pa.array(maps, pa.map_(pa.string(), pa.int64()))], ["m"]))
    writer.close()
    found = [batch.column(0).to_pylist() for batch in OrcReader(LocalFileIO(), path).batches()]
    assert found == [[[("a", 1), ("b", 3), ("a", 2)], None, [], [("b", None)]]]


OPTIONS = {
    "storage-layout": ("other", "default or shared-shredding"), "shared-shredding.max-columns": ("0", "above 0"),
    "shared-shredding.column-placement-policy": ("random", "plain, sequential, lru")}  # fmt: skip


@pytest.mark.parametrize("key", OPTIONS)
def test_options_that_make_no_sense(key: str) -> None:
    value, told = OPTIONS[key]
    raw = {"fields.m.map.storage-layout": "shared-shredding", f"fields.m.map.{key}": value}
    with pytest.raises(InvalidOptionError, match=rf"fields\.m\.map\.{key}='{value}'.*{told}"):
        MapShredder.of(ROW, raw, "parquet", "zstd")
    assert MapShredder.of(ROW, raw, "avro", "zstd") is MapShredder.of(ROW, raw, "parquet", "snappy") is None


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
    "more columns than there are": ({"num-columns": "3"}, {"__field_mapping": [1, 2, 3]}, CorruptDataError, "does not have the 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_groups_that_break_the_rule(case: str, tmp_path: Path) -> None:
    metadata, change, error, told = DAMAGE[case]
    path = str(tmp_path / "f.parquet")
    named = {f"paimon.map.shared-shredding.{key}": value for key, value in metadata.items()}
    pq.write_table(stored([{"k1é": 1}], packed("zstd", NAMES) | named, **change), path)
    with pytest.raises(error, match=told):
        list(ParquetReader(LocalFileIO(), path).batches())
