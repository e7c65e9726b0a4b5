"""The vectorised decoder of manifests: good blocks never fall back to one record after the other, damage does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakecore.errors import CorruptDataError
from lakecore.format.avro import container
from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.manifests import decode_manifest, decode_manifests, encode_manifest
from lakecore.format.manifest.schemas import MANIFEST_SCHEMA
from lakecore.metadata.manifest.entries import ManifestEntries
from tests.lakecore.format.manifest.test_manifests import (
    _avro,
    _by_rows,
    _records,
    _schema,
    assert_same,
    entry,
)
from tests.support.golden import golden_tables


@pytest.fixture
def in_lock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a single entry is decoded the way that many are."""
    monkeypatch.setattr(codec, "MANY_ENTRIES", 0)


def uneven_blocks() -> bytes:
    """Blocks with 2 to 6 records each, in no order: as many short last blocks of manifests leave them."""
    schema, blocks = MANIFEST_SCHEMA, []
    encoded = codec._entry_bytes(ManifestEntries.from_rows([entry(number) for number in range(200)]))
    for count in (3, 6, 2, 5, 4) * 10:
        records = [next(encoded) for _ in range(count)]
        blocks.append(container.deflate_block(len(records), b"".join(records)))
    return container.encode_container(schema, blocks)


@pytest.mark.usefixtures("in_lock_step")
@pytest.mark.parametrize("lanes", [1, 32, 1000])
def test_blocks_of_uneven_length_are_no_damage(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.format.avro.vectorized._MIN_LANES", lanes)
    data = uneven_blocks()
    found = decode_manifest(data, "m")
    assert found.slow_entries == 0
    assert_same(found, _by_rows([(data, "m")]))


@pytest.mark.usefixtures("in_lock_step")
def test_no_golden_manifest_is_decoded_record_by_record() -> None:
    """Those of Java 0.8, 0.9, 1.4 and 2.0: alone, and all together."""
    avro = [(data, path) for data, path in all_golden_manifests() if data.startswith(b"Obj\x01")]
    assert len(avro) > 800
    assert decode_manifests(avro).slow_entries == 0
    assert [path for data, path in avro if decode_manifest(data, path).slow_entries] == []
    damaged = avro[0][0][:-17] + bytes([avro[0][0][-17] ^ 1]) + avro[0][0][-16:]
    with pytest.raises(CorruptDataError):
        decode_manifests([*avro[:40], (damaged, "damaged")])


def all_golden_manifests() -> Iterator[tuple[bytes, str]]:
    for table in golden_tables():
        for file in sorted((table.path / "manifest").glob("manifest-*")):
            if not file.name.startswith("manifest-list-"):
                yield file.read_bytes(), str(file)


@pytest.mark.usefixtures("in_lock_step")
@pytest.mark.parametrize("lanes", [1, 1000])
def test_records_that_run_over_their_end_are_refused(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that claims a record too few or too many, among good ones, whatever decodes it."""
    monkeypatch.setattr("lakecore.format.avro.vectorized._MIN_LANES", lanes)
    encoded = list(codec._entry_bytes(ManifestEntries.from_rows([entry(number) for number in range(12)])))
    good = container.deflate_block(4, b"".join(encoded[:4]))
    for records, count in ((encoded[4:8], 3), (encoded[4:8], 5), ([encoded[4][:-3]], 1)):
        bad = container.deflate_block(count, b"".join(records))
        data = container.encode_container(MANIFEST_SCHEMA, [good, bad, good])
        with pytest.raises(CorruptDataError, match="damaged: "):
            decode_manifest(data, "damaged")


@pytest.mark.usefixtures("in_lock_step")
def test_a_schema_without_a_vectorised_form_is_counted() -> None:
    schema, records = _schema(), _records([entry(1), entry(2)])
    schema["fields"].append({"name": "_NOTE", "type": {"type": "map", "values": "double"}})
    data = _avro([{**record, "_NOTE": {"x": 0.5}} for record in records], schema)
    plain = encode_manifest([entry(3)])
    assert decode_manifest(data, "m").slow_entries == 2
    assert decode_manifests([(plain, "p"), (data, "m"), (data, "m")]).slow_entries == 4
