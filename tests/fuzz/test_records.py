"""JSON records with values of other types, out of range, nested deep or very long: damage, never a crash."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakecore.clock import SystemClock
from lakecore.errors import CorruptDataError, LakeError, UnsupportedError
from lakecore.format.manifest.manifests import decode_manifest, decode_manifest_list
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.engines.session_starts import SessionStarts
from lakecore.jobs.watching.new_snapshots import PositionStore
from lakecore.maintain.deletion.runs import RunRecord, RunStore
from lakecore.maintain.forecast.history import HistoryStore
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.lease import holder
from lakecore.maintain.sort_marks import SortMarkStore
from lakecore.metadata.consumer import Consumer
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.metadata.tag import Tag
from lakecore.store.paths import TablePaths
from lakecore.store.snapshots import SnapshotStore
from tests.support.builders import snapshot, table_schema

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63) - 1, 10**400, "", "x", "../x", "\0", "٣", "9" * 6000, [], [[]], ["x"],
    {}, {"x": 1}, [None], "NaN", 1e300,
]  # fmt: skip
ROOT = "memory://records/wh"
RUN = {
    "id": "r1", "table": "d.t", "job": "expire-snapshots", "state": "planned", "keeps": True, "started_ms": 5, "finished_ms": None,
    "parameters": {"a": 1}, "estimate": {"files": 1}, "outcome": {"files": 1},
}  # fmt: skip
LINE = {
    "table": "d.t", "job": "compact", "started_ms": 1, "engine": "local", "work": {"files": 1}, "estimate": {"seconds": 1.0},
    "outcome": {"seconds": 1.0, "memory": 5, "lost": False}, "run": None,
}  # fmt: skip


def _storage(path: str, data: bytes) -> MemoryFileIO:
    storage = MemoryFileIO("records")
    storage.clear()
    storage.write_new(f"{ROOT}/{path}", data)
    return storage


def _stored(path: str, use: Callable[[MemoryFileIO], Any]) -> Callable[[bytes], Any]:
    return lambda data: use(_storage(path, data))


def _schema(data: bytes) -> Any:
    schema = TableSchema.from_json(data, "x")
    assert TableSchema.from_json(schema.to_json(), "x") == schema
    return TableOptions.from_schema(schema)


def _tag_json() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(snapshot(3).to_json())
    return raw | {"tagCreateTime": [2026, 1, 31, 9, 30, 1, 5], "tagTimeRetained": 86400.5}


RECORDS: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
    "snapshot": (
        json.loads(
            snapshot(3, watermark=5, statistics="stat-1", properties={"a": "b"}, next_row_id=4).to_json()
        ),
        lambda data: Snapshot.from_json(Snapshot.from_json(data, "x").to_json(), "x"),
    ),
    "tag": (_tag_json(), lambda data: Tag.from_json(Tag.from_json(data, "x", "t").to_json(), "x", "t")),
    "schema": (json.loads(table_schema("k BIGINT NOT NULL, v INT").to_json()), _schema),
    "consumer": ({"nextSnapshot": 3}, lambda data: Consumer.from_json(data, "x", consumer_id="c")),
    "run": (RUN, lambda data: RunRecord.from_json(data, "w/.lakecore/runs/d.t/r1/run.json")),
    "runs": (
        RUN,
        _stored(".lakecore/runs/d.t/r1/run.json", lambda s: RunStore(s, ROOT, SystemClock()).list()),
    ),
    "lease": (
        {"owner": "a b", "until_ms": 5, "process": {"host": "h", "boot": "b", "pid": 1, "started": "1"}},
        _stored(".lakecore/leases/d.t/3", lambda s: holder(s, ROOT, "d.t", 1)),
    ),
    "history": (
        [LINE],
        _stored(
            ".lakecore/history/d.t/compact.json",
            lambda s: HistoryStore(s, ROOT).past("d.t", "compact", "local"),
        ),
    ),
    "session starts": (
        [6.5, 7.25],
        _stored(
            ".lakecore/session-starts/local%5B%2A%5D.json",
            lambda s: SessionStarts(s, ROOT).seconds("local[*]"),
        ),
    ),
    "position": (
        {"run": "r", "after": 1, "last": 2},
        _stored(".lakecore/positions/c@d.t.json", lambda s: PositionStore(s, ROOT).load("c", "d.t")),
    ),
    "marks": (
        {"00": ["a", "b"]},
        _stored(".lakecore/clustered/d.t.json", lambda s: SortMarkStore(s, ROOT).load("d.t")),
    ),
    "hold": (
        {"cause": "x", "since_ms": 1},
        _stored(".lakecore/holds/d.t/h.json", lambda s: HoldStore(s, ROOT, SystemClock()).of("d.t")),
    ),
}


def _variants(raw: Any, put: Callable[[Any], Any]) -> Iterator[Any]:
    """The record with one value, at any depth, replaced by each strange one; and without one key."""
    for value in STRANGE:
        yield put(value)
    items = (
        list(raw.items()) if isinstance(raw, dict) else list(enumerate(raw)) if isinstance(raw, list) else []
    )
    for key, inner in items:

        def put_inner(value: Any, key: Any = key) -> Any:
            copy = dict(raw) if isinstance(raw, dict) else list(raw)
            copy[key] = value
            return put(copy)

        yield from _variants(inner, put_inner)
        if isinstance(raw, dict):
            yield put({k: v for k, v in raw.items() if k != key})


def _whole() -> Iterator[bytes]:
    yield from (
        b"",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 6000,
        b"NaN",
        b"1e999",
        b"null",
        b'"x"',
    )
    yield b'{"id": ' + b"9" * 6000 + b"}"


@pytest.mark.parametrize("name", RECORDS)
def test_a_strange_value_is_damage_or_harmless(name: str) -> None:
    valid, decode = RECORDS[name]
    if name not in ("hold",):
        decode(json.dumps(valid).encode())
    texts = [json.dumps(one).encode() for one in _variants(valid, lambda value: value)]
    refused = 0
    for text in [*texts, *_whole()]:
        try:
            decode(text)
        except (CorruptDataError, UnsupportedError):
            refused += 1
        except LakeError as err:
            if name != "schema":  # there of options: they name option and value
                pytest.fail(f"{text[:300]!r}: {err!r}")
        except Exception as err:  # noqa: BLE001 - this is what is looked for
            pytest.fail(f"{text[:300]!r}: {err!r}")
    assert refused > 10 or name in ("runs", "lease", "history", "session starts", "marks", "hold"), refused


@pytest.mark.parametrize(
    "text", [b"9" * 6000, b"-5", "٣".encode(), b"1e3", b"", b"\xff\xfe", b"9" * 19, b"5 5"]
)
def test_hints_that_are_no_numbers_are_passed_over(text: bytes) -> None:
    paths = TablePaths(f"{ROOT}/d.db/t")
    storage = MemoryFileIO("records")
    storage.clear()
    storage.write_new(paths.snapshot(3), snapshot(3).to_json().encode())
    for name in ("snapshot-" + "9" * 200, "snapshot-٣", "snapshot-003", "snapshot-99999999999999999999"):
        storage.write_new(f"{paths.snapshot_dir}/{name}", b"{}")
    for hint in (paths.latest_hint, paths.earliest_hint):
        storage.overwrite(hint, text)
    store = SnapshotStore(storage, paths)
    assert store.list_ids() == (3,)
    assert (store.latest_id(), getattr(store.earliest(), "id", None)) == (3, 3)
    store.catch_up_latest()


@pytest.mark.parametrize(
    "lines",
    [
        b"[1, \"a\", 1, \"w\"]\n" + b" " * (200 << 20),
        b"[" * (100 << 20),
        b"{}\n", b"[2, \"a\", 1, \"w\"]", b"[true, \"a\", 1, \"w\"]", b"[1, 5, 1, \"w\"]", b"[1, \"a\", -1, \"w\"]", b"[1, \"a\", 1.5, \"w\"]",
        b"[1, \"a\", 1]", b"x", b"[1, \"a\", 1e400, \"w\"]", b"null",
    ],
    ids=range(12),
)  # fmt: skip
def test_a_list_of_files_is_read_line_by_line(lines: bytes) -> None:
    record = RunRecord.from_json(json.dumps(RUN).encode(), ".lakecore/runs/d.t/r1/run.json")
    packed = gzip.compress(lines, 1)
    del lines
    runs = RunStore(_storage(".lakecore/runs/d.t/r1/files.jsonl.gz", packed), ROOT, SystemClock())
    tracemalloc.start()
    with pytest.raises(CorruptDataError, match="not a list of files"):
        runs.removal(record)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def _bomb(codec: bytes, block: bytes, schema: str) -> bytes:
    """An avro file of one block."""
    from lakecore.format.avro.values import write_long

    out = bytearray(b"Obj\x01")
    write_long(out, 2)
    for part in (b"avro.schema", schema.encode(), b"avro.codec", codec):
        write_long(out, len(part))
        out += part
    out += b"\0" + b"s" * 16
    write_long(out, 1)
    write_long(out, len(block))
    return bytes(out + block + b"s" * 16)


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "xz", "bzip2"])
def test_a_block_that_grows_without_bound_is_damage(codec: str) -> None:
    import bz2
    import lzma
    import zlib

    from backports import zstd

    from lakecore.format.manifest.schemas import MANIFEST_LIST_SCHEMA

    machine = {
        "deflate": zlib.compressobj(1, wbits=-15), "zstandard": zstd.ZstdCompressor(1), "xz": lzma.LZMACompressor(preset=0),
        "bzip2": bz2.BZ2Compressor(9),
    }[codec]  # fmt: skip
    piece = bytes(16 << 20)
    block = b"".join(machine.compress(piece) for _ in range(20)) + machine.flush()
    for decode in (decode_manifest_list, decode_manifest):
        with pytest.raises(CorruptDataError):
            decode(_bomb(codec.encode(), block, MANIFEST_LIST_SCHEMA), "x")


def test_a_schema_of_avro_that_is_nested_deep_is_damage() -> None:
    deep = '{"type":"array","items":' * 50_000 + '"int"' + "}" * 50_000
    with pytest.raises(CorruptDataError):
        decode_manifest_list(_bomb(b"null", b"x", deep), "x")
