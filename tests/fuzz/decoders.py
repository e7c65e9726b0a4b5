"""Every decoder of bytes that lakecore has, with valid bytes that Java Paimon wrote to start from."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from pyroaring import BitMap

from lakecore.format.data_reader import open_reader
from lakecore.format.index_manifest import decode_index_manifest
from lakecore.format.manifest import decode_manifest, decode_manifest_list
from lakecore.format.pages import FilePages
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.index.container import decode_head
from lakecore.index.deletion_vectors import VectorLayout, decode_vectors, encode_vectors
from lakecore.index.search import FileIndex, matching_rows
from lakecore.merge.engines.set_unions import united32
from lakecore.merge.engines.sketches import united_hll, united_theta
from lakecore.metadata.consumer import Consumer
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.metadata.tag import Tag
from lakecore.predicate.parse import parse_where
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.row.roaring64 import united64
from lakecore.row.variant import parse_variant, variant_text
from lakecore.types.datatypes import AtomicType, RowType, TypeRoot
from lakecore.verify.array_hash import hash_array
from tests.support.golden import golden_tables
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
    unions = {"rbm32": united32, "rbm64": united64, "hll_sketch": united_hll, "theta_sketch": united_theta}
    for number in range(6):
        for name, unite in unions.items():
            values = [bytes.fromhex(digits[2:]) for digits in pool(name, 300)]

            def decode(data: bytes, unite: Any = unite, valid: bytes = values[-1 - number]) -> Any:
                return unite(data, valid, "s"), unite(valid, data, "s")

            yield Sample(f"{name} {number}", values[number], decode)


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
    "manifest-list": _manifest_lists,
    "index-manifest": _index_manifests,
    "binary-row": _binary_rows,
    "deletion-vector": _vectors,
    "file-index": _file_indexes,
    "variant": _variants,
    "aggregated-set": _sets,
    "parquet": functools.partial(_data_files, "parquet"),
    "parquet-pages": _pages,
    "orc": functools.partial(_data_files, "orc"),
    "avro": functools.partial(_data_files, "avro"),
}
"""Name of a target -> its samples; `samples` takes the first of them."""
