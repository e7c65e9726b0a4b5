"""Every decoder of bytes that lakecore has, with valid bytes that Java Paimon wrote to start from."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from backports import zstd
from hypothesis import HealthCheck, Phase, find, settings
from pyroaring import BitMap

from lakecore.errors import LakeError
from lakecore.format.avro.container import open_container
from lakecore.format.canonical import canonical
from lakecore.format.data_reader import open_reader
from lakecore.format.data_writer import WriterOptions, open_shredding_writer, open_writer
from lakecore.format.manifest.columns import decode_columns
from lakecore.format.manifest.index_manifests import decode_index_manifest
from lakecore.format.manifest.manifests import decode_manifest, decode_manifest_list
from lakecore.format.manifest.records import entry_from_record
from lakecore.format.parquet.pages import FilePages
from lakecore.format.row.reader import FOOTER, MAGIC, VERSION
from lakecore.format.shredders import shredder_for
from lakecore.format.variant.assemble import assemble_variants
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.index.container import decode_head
from lakecore.index.deletion_vectors import VectorLayout, decode_vectors, encode_vectors
from lakecore.index.search import FileIndex, matching_rows
from lakecore.merge.engines.set_unions import union32
from lakecore.merge.engines.sketches import union_hll, union_theta
from lakecore.metadata.consumer import Consumer
from lakecore.metadata.manifest.entry_request import WHOLE
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.metadata.tag import Tag
from lakecore.predicate.parse import parse_where
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.row.json_rows import json_to_batch
from lakecore.row.roaring.bitmap64 import union64
from lakecore.row.variant import parse_variant, variant_text
from lakecore.types.arrow import arrow_schema, arrow_type
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot, parse_type
from lakecore.verify.digest.array_hash import hash_array
from tests.support.golden import golden_tables
from tests.support.lake import memory_catalog
from tests.support.serialized_sets import pool
from tests.support.typed_values import row_types, rows_of

__all__ = ["TARGETS", "Sample", "samples"]

_LARGEST = 60_000
_PER_TARGET = 24


@dataclass(frozen=True)
class Sample:
    """Valid bytes and what decodes them. `sealed`: a checksum covers them, so damage must be refused or harmless."""

    name: str
    data: bytes
    decode: Callable[[bytes], Any]
    sealed: bool = False


def samples(target: str) -> list[Sample]:
    """Samples of a target, always the same ones."""
    found = list(itertools.islice(TARGETS[target](), _PER_TARGET))
    assert found, f"no sample of {target}"
    return found


@functools.cache
def _files() -> tuple[Path, ...]:
    """Files of the golden tables that are small, in a mixed order that does not change."""
    paths = [
        path
        for table in golden_tables()
        for path in sorted(table.path.rglob("*"))
        if path.is_file() and 0 < path.stat().st_size <= _LARGEST
    ]
    random.Random(1).shuffle(paths)
    return tuple(paths)


def _golden(match: Callable[[Path], bool], decode: Callable[[bytes], Any]) -> Iterator[Sample]:
    """Each sample of another table, as far as there are."""
    seen: dict[str, int] = {}
    chosen = [path for path in _files() if match(path)]
    for path in chosen:
        table = next(part for part in path.parents if part.parent.name.endswith(".db")).name
        seen[table] = seen.get(table, 0) + 1
        if seen[table] <= 2:
            yield Sample(f"{table}/{path.name}", path.read_bytes(), decode)


def _in(folder: str, prefix: str) -> Callable[[Path], bool]:
    return lambda path: path.parent.name == folder and path.name.startswith(prefix)


def _snapshots() -> Iterator[Sample]:
    def decode(data: bytes) -> Any:
        return Snapshot.from_json(data, "s")

    yield from itertools.islice(_golden(_in("snapshot", "snapshot-"), decode), 12)
    yield from itertools.islice(_golden(_in("changelog", "changelog-"), decode), 6)
    yield from itertools.islice(_golden(_in("tag", "tag-"), decode), 6)


def _consumers() -> Iterator[Sample]:
    yield from _golden(_in("consumer", ""), lambda data: Consumer.from_json(data, "c", consumer_id="c"))


def _schemas() -> Iterator[Sample]:
    yield from _golden(_in("schema", "schema-"), lambda data: TableSchema.from_json(data, "s"))


def _entries(data: bytes) -> Any:
    entries = decode_manifest(data, "m")
    return entries.names(), list(entries.files())


def _is_manifest(path: Path) -> bool:
    return _in("manifest", "manifest-")(path) and not path.name.startswith("manifest-list-")


def _manifests() -> Iterator[Sample]:
    for magic in (b"Obj\x01", b"PAR1", b"ORC"):
        of_kind = _golden(lambda path, m=magic: _is_manifest(path) and _starts(path, m), _entries)
        yield from itertools.islice(of_kind, 8)


def _vectorized() -> Iterator[Sample]:
    """Manifests in small blocks that are not compressed, so that damage reaches the records."""
    for sample in itertools.islice(_manifests(), 8):
        reader = fastavro.reader(io.BytesIO(sample.data))
        out = io.BytesIO()
        schema = fastavro.parse_schema(json.loads(reader.metadata["avro.schema"]))
        fastavro.writer(out, schema, list(reader), codec="null", sync_interval=1000)
        yield Sample(sample.name, out.getvalue(), _agreed)


def _agreed(data: bytes) -> Any:
    """Both decoders of avro manifests give the same rows, or both refuse."""
    try:
        rows = [entry_from_record(record, "m") for record in open_container(data, "m").all_records()]
    except LakeError:
        with contextlib.suppress(LakeError):
            found = decode_columns([open_container(data, "m")], frozenset(), WHOLE).rows()
            raise AssertionError(f"only one of two decoders refused; the other found {found}") from None
        raise
    assert decode_columns([open_container(data, "m")], frozenset(), WHOLE).rows() == rows
    return rows


def _starts(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _manifest_lists() -> Iterator[Sample]:
    def decode(data: bytes) -> Any:
        return decode_manifest_list(data, "l")

    for magic in (b"Obj\x01", b"PAR1", b"ORC"):
        of_kind = _golden(
            lambda path, m=magic: _in("manifest", "manifest-list-")(path) and _starts(path, m), decode
        )
        yield from itertools.islice(of_kind, 8)


def _index_manifests() -> Iterator[Sample]:
    yield from _golden(_in("manifest", "index-manifest-"), lambda data: decode_index_manifest(data, "i"))


def _binary_rows() -> Iterator[Sample]:
    quiet = settings(
        database=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    for number in range(_PER_TARGET):
        kind = find(row_types(max_size=6), lambda kind: True, settings=quiet, random=random.Random(number))
        row = find(rows_of(kind), lambda row: True, settings=quiet, random=random.Random(number))
        yield Sample(f"row {number}", encode_row(row, kind), lambda data, kind=kind: decode_row(data, kind))


def _vectors() -> Iterator[Sample]:
    dice = random.Random(3)
    shapes = (
        [0],
        range(0, 5000, 3),
        range(10_000),
        [1, 70_000, 1 << 31 - 1],
        dice.sample(range(1 << 20), 900),
    )
    for layout, shape in itertools.product(VectorLayout, shapes):
        vectors = {"a": BitMap(shape), "b": BitMap([7, 9])}
        data, ranges = encode_vectors(vectors, layout)
        places = {place.data_file: place for place in ranges}

        def decode(data: bytes, places: Any = places) -> Any:
            return decode_vectors(data, places, "v")

        yield Sample(f"{layout.name} {len(shape)}", data, decode, sealed=True)


def _file_indexes() -> Iterator[Sample]:
    for path in (path for path in _files() if path.name.endswith(".index")):
        schemas = sorted((next(p for p in path.parents if (p / "schema").is_dir()) / "schema").iterdir())
        schema = TableSchema.from_json(schemas[-1].read_bytes(), "s")
        reader = open_reader(LocalFileIO(), str(path).removesuffix(".index"))
        rows = reader.num_rows
        reader.close()
        yield Sample(path.name, path.read_bytes(), functools.partial(_search, schema.row_type, rows))


def _search(kind: RowType, rows: int, data: bytes) -> Any:
    head = decode_head(data, len(data), "i")
    index = FileIndex(head, lambda blob: data[blob.start : blob.start + blob.length], rows, "i")
    columns = {field.name: field for field in kind.fields}
    found = []
    for name in head:
        field = columns.get(name)
        if field is None or not isinstance(field.type, AtomicType):
            continue
        literal = _LITERALS.get(field.type.root, "5")
        for test in (
            f"= {literal}",
            f"< {literal}",
            f">= {literal}",
            f"IN ({literal})",
            "IS NULL",
            "IS NOT NULL",
        ):
            if field.type.root is TypeRoot.BOOLEAN and test[0] in "<>":
                continue
            found.append(matching_rows(parse_where(f"`{name}` {test}", kind), columns, index))
    return found


_LITERALS = {
    TypeRoot.CHAR: "'b'",
    TypeRoot.VARCHAR: "'b'",
    TypeRoot.BOOLEAN: "TRUE",
    TypeRoot.DATE: "DATE '2024-01-02'",
    TypeRoot.TIME: "'10:00:00'",
    TypeRoot.TIMESTAMP: "TIMESTAMP '2024-01-02 00:00:00'",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP '2024-01-02 00:00:00'",
}


def _data_files(kind: str) -> Iterator[Sample]:
    def decode(data: bytes) -> Any:
        return _hashes(f"memory://fuzz/x.{kind}", data)

    yield from _golden(lambda path: path.name.endswith(f".{kind}"), decode)


def _hashes(path: str, data: bytes) -> Any:
    file_io = MemoryFileIO("fuzz")
    file_io.overwrite(path, data)
    reader = open_reader(file_io, path)
    try:
        batches = list(reader.batches())
        return [[int(hash_array(column, 3).sum()) for column in batch.columns] for batch in batches]
    finally:
        reader.close()


def _pages() -> Iterator[Sample]:
    """Parquet files read by pages: footers, page indexes and page headers are decoded by lakecore itself."""

    def decode(data: bytes) -> Any:
        file_io = MemoryFileIO("fuzz")
        file_io.overwrite("memory://fuzz/p.parquet", data)
        pages = FilePages.open(file_io, "memory://fuzz/p.parquet")
        if pages is None:
            return None
        try:
            names = pages.schema.names[:3]
            pages.key_pages(names[:1])
            return [batch.num_rows for batch in pages.batches(names, 1, pages.num_rows, 1000)]
        finally:
            pages.close()

    yield from _golden(lambda path: path.name.endswith(".parquet"), decode)


def _variants() -> Iterator[Sample]:
    for text in (
        '{"a": [1, 2.5, null, true, "x"], "b": {"c": "long text ' + "y" * 70 + '"}}',
        "[1]",
        '"s"',
        "17",
    ):
        value, metadata = parse_variant(text)

        def decode(data: bytes, size: int = len(value)) -> Any:
            return variant_text(data[:size], data[size:])

        yield Sample(text[:20], value + metadata, decode)


def _sets() -> Iterator[Sample]:
    """Values of aggregate functions, united with a valid one: from either side, for sketches look at their order."""
    unions = {"rbm32": union32, "rbm64": union64, "hll_sketch": union_hll, "theta_sketch": union_theta}
    for number in range(6):
        for name, unite in unions.items():
            values = [bytes.fromhex(digits[2:]) for digits in pool(name, 300)]

            def decode(data: bytes, unite: Any = unite, valid: bytes = values[-1 - number]) -> Any:
                return unite(data, valid, "s"), unite(valid, data, "s")

            yield Sample(f"{name} {number}", values[number], decode)


def _shaped(kind: str, options: Mapping[str, str], rows: Mapping[str, Any]) -> Iterator[Sample]:
    """Files whose columns are stored in another shape, of one column of type `kind`."""
    row_type = RowType((DataField(0, "c", parse_type(json.loads(kind))),))
    shredder = shredder_for(row_type, options, "parquet", "none")
    assert shredder is not None
    for name, values in rows.items():
        file_io, path = MemoryFileIO("fuzz"), "memory://fuzz/s.parquet"
        file_io.delete(path)
        writer = open_shredding_writer(file_io, path, "parquet", shredder, WriterOptions(compression="none"))
        writer.write(json_to_batch([json.dumps({"c": value}) for value in values], row_type))
        writer.close()

        def decode(data: bytes, path: str = path) -> Any:
            file_io = MemoryFileIO("fuzz")
            file_io.overwrite(path, data)
            reader = open_reader(file_io, path)
            try:
                columns = [batch.column(0) for batch in reader.batches()]
                return [
                    int(hash_array(canonical(c, row_type.fields[0].type, path), 3).sum()) for c in columns
                ]
            finally:
                reader.close()

        yield Sample(name, file_io.read(path), decode)


def _shredded_maps() -> Iterator[Sample]:
    value = {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "STRING"}]}
    maps = [[[f"k{i}", None if i % 3 else {"x": f"text {i}"}] for i in range(n % 5)] for n in range(40)]
    prefix = "fields.c.map."
    options = {prefix + "storage-layout": "shared-shredding", prefix + "shared-shredding.max-columns": "2"}
    kind = json.dumps({"type": "MAP", "key": "STRING NOT NULL", "value": value})
    yield from _shaped(kind, options, {"some": maps, "few": [None, *maps[:3]], "empty": [[], None]})


def _shredded_variants() -> Iterator[Sample]:
    objects = [f'{{"a":{n},"b":["x",{n}.25],"c":{{"d":"t{n}"}},"e{n % 3}":null}}' for n in range(30)]
    rows = {
        "objects": [*objects, None, "5"],
        "lists": ["[1,2]", '["x"]', "[]"],
        "numbers": ["1", "-300", "7"],
    }
    for name, values in rows.items():
        yield from _shaped('"VARIANT"', {"variant.inferShreddingSchema": "true"}, {name: values})


def _row_files() -> Iterator[Sample]:
    columns = ["k INT NOT NULL", "s STRING", "d DECIMAL(30, 2)", "t TIMESTAMP(9)", "a ARRAY<STRING>", "b ARRAY<INT>",
        "m MAP<STRING, BIGINT>", "r ROW<x INT, y ROW<z STRING>>", "v VARIANT", "e VECTOR<FLOAT, 2>"]  # fmt: skip
    table = memory_catalog("fuzz-rows").create_table("d.r", {"columns": columns})
    full = {"s": "é" * 40, "d": "-12345678901234567890.12", "t": "1969-12-31 23:59:59.999999999", "a": ["", None, "x"],
        "b": [1, None, 3], "m": [["p", 1]], "r": {"x": 1, "y": {"z": None}}, "v": '{"a":1}', "e": [1, 2]}  # fmt: skip
    for count, block in ((1, 1 << 16), (60, 1 << 10), (60, 1 << 16)):
        rows = [
            {"k": k} | {name: value for i, (name, value) in enumerate(full.items()) if (k + i) % 4}
            for k in range(count)
        ]
        file_io, path = MemoryFileIO("fuzz"), "memory://fuzz/r.row"
        file_io.delete(path)
        row_type = table.schema.row_type
        writer = open_writer(file_io, path, "row", arrow_schema(row_type), WriterOptions(block_size=block))
        writer.write(json_to_batch(map(json.dumps, rows), row_type))
        writer.close()

        def decode(data: bytes, path: str = path) -> Any:
            file_io = MemoryFileIO("fuzz")
            file_io.overwrite(path, data)
            reader = open_reader(file_io, path, schema=table.schema)
            try:
                batches = list(reader.batches())
                return [[int(hash_array(column, 3).sum()) for column in batch.columns] for batch in batches]
            finally:
                reader.close()

        whole = file_io.read(path)
        yield Sample(f"{count} rows in blocks of {block}", whole, decode)
        first = zstd.ZstdDecompressor().decompress(whole)
        yield Sample(f"a block of {count}", first, lambda data, decode=decode: decode(_row_file(data)))


def _row_file(block: bytes) -> bytes:
    """A file of one block, whatever is in it: its checksum is right."""
    packed = zstd.compress(block)
    index = b"".join(
        bytes([len(number)]) + number for number in (_zigzag(len(packed)), _zigzag(len(block)), b"\0")
    )
    rows = int.from_bytes(block[-4:], "little", signed=True)
    return packed + index + FOOTER.pack(rows, 1, len(packed), len(index), VERSION, MAGIC)


def _zigzag(number: int) -> bytes:
    groups = [number << 1 >> shift & 127 for shift in range(0, 35, 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def _variant_groups() -> Iterator[Sample]:
    """What a file has beside the typed columns of its variants, damaged as no checksum would tell."""
    kind = pa.struct([("a", pa.struct([("value", pa.binary()), ("typed_value", pa.int64())]))])
    value, metadata = parse_variant('{"b":[1,"x",{"c":2.5}],"long":"' + "y" * 70 + '","d":null}')
    target = arrow_type(parse_type("VARIANT"))
    for text in ('{"z":[1,2]}', "[5]", '"s"'):
        part, _ = parse_variant(text)

        def decode(data: bytes, part: bytes = part) -> Any:
            typed = [{"a": {"value": data[: len(part)], "typed_value": None}}]
            columns = [
                pa.array([data[len(part) + len(value) :]]),
                pa.array([data[len(part) : len(part) + len(value)]]),
            ]
            group = pa.StructArray.from_arrays(
                [*columns, pa.array(typed, kind)], names=["metadata", "value", "typed_value"]
            )
            (row,) = assemble_variants(group, target, "v").to_pylist()
            return variant_text(row["value"], row["metadata"])

        yield Sample(text, part + value + metadata, decode)


def _tags() -> Iterator[Sample]:
    def decode(data: bytes) -> Tag:
        tag = Tag.from_json(data, "t", "t")
        assert Tag.from_json(tag.to_json(), "t", "t") == tag
        return tag

    yield from itertools.islice(_golden(_in("tag", "tag-"), decode), 12)


TARGETS: dict[str, Callable[[], Iterator[Sample]]] = {
    "snapshot": _snapshots,
    "schema": _schemas,
    "consumer": _consumers,
    "tag": _tags,
    "manifest": _manifests,
    "manifest-vectorized": _vectorized,
    "manifest-list": _manifest_lists,
    "index-manifest": _index_manifests,
    "binary-row": _binary_rows,
    "deletion-vector": _vectors,
    "file-index": _file_indexes,
    "variant": _variants,
    "aggregated-set": _sets,
    "shredded-map": _shredded_maps,
    "shredded-variant": _shredded_variants,
    "variant-group": _variant_groups,
    "row-file": _row_files,
    "parquet": functools.partial(_data_files, "parquet"),
    "parquet-pages": _pages,
    "orc": functools.partial(_data_files, "orc"),
    "avro": functools.partial(_data_files, "avro"),
}
"""Name of a target -> its samples; `samples` takes the first of them."""
