"""Storage fails at operation 1, 2, 3, … of a write: afterwards the old or the new table, and nothing missing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import LakeError
from lakecore.format.blob.sidecar import REFERENCES_SUFFIX, decode_packs
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.table import Commit, Table
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.fault_turns import failing_operations
from tests.support.handles import with_stores

SETTLED = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT)
"""Only this operation fails: what the write made must be gone again if it is not in the table."""

COMMIT = Commit(user="job", identifier=1)


def fresh_table(name: str, definition: dict[str, Any]) -> Table:
    MemoryFileIO(name).clear()
    catalog = replace(load_catalog(f"memory://{name}/wh"), clock=FakeClock())
    return catalog.create_table("d.t", definition)


def append_table() -> tuple[Table, Callable[[Table], None]]:
    table = fresh_table("fault-append", {"columns": ["k INT", "p STRING"], "partitionKeys": ["p"]})
    table.append(pa.table({"k": [1, 2], "p": ["a", "b"]}))
    return table, lambda t: _run(t.append, {"k": [3, 4, 5], "p": ["a", "b", "c"]})


def key_table() -> tuple[Table, Callable[[Table], None]]:
    options = {"bucket": "2", "changelog-producer": "input", "file.format": "avro"}
    options |= {"file-index.bitmap.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    table = fresh_table(
        "fault-upsert", {"columns": ["k INT", "v INT"], "primaryKeys": ["k"], "options": options}
    )
    table.upsert(pa.table({"k": [1, 2, 3], "v": [1, 1, 1]}))
    return table, lambda t: _run(t.upsert, {"k": [2, 3, 4], "v": [2, 2, 2]})


def overwritten_table() -> tuple[Table, Callable[[Table], None]]:
    table = fresh_table("fault-overwrite", {"columns": ["k INT", "p STRING"], "partitionKeys": ["p"]})
    table.append(pa.table({"k": [1, 2], "p": ["a", "b"]}))
    return table, lambda t: _run(t.overwrite, {"k": [3], "p": ["a"]})


def dynamic_table() -> tuple[Table, Callable[[Table], None]]:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    table = fresh_table(
        "fault-dynamic", {"columns": ["k INT", "v INT"], "primaryKeys": ["k"], "options": options}
    )
    table.upsert(pa.table({"k": [1, 2, 3], "v": [1, 1, 1]}))
    return table, lambda t: _run(t.upsert, {"k": [2, 4, 5, 6], "v": [2, 2, 2, 2]})


def deleted_table() -> tuple[Table, Callable[[Table], None]]:
    options = {"deletion-vectors.enabled": "true", "deletion-vector.index-file.target-size": "1 b"}
    table = fresh_table("fault-delete", {"columns": ["k INT", "p STRING"], "options": options})
    table.append(pa.table({"k": [1, 2, 3, 4], "p": ["a", "b", "c", "d"]}))
    table.append(pa.table({"k": [5, 6, 7, 8], "p": ["a", "b", "c", "d"]}))
    table.delete("k = 1 or k = 5")
    return table, lambda t: _ignore(t.delete("p = 'b' or k = 3", COMMIT))


def evolving_table() -> tuple[Table, Callable[[Table], None]]:
    """Blobs in files of their own."""
    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "blob.target-file-size": "1 b",
    }
    table = fresh_table("fault-evolving", {"columns": ["k INT", "b BLOB"], "options": options})
    return table, lambda t: _run(t.append, {"k": [7, 8], "b": [b"y", None]})


def updated_table() -> tuple[Table, Callable[[Table], None]]:
    table, _ = evolving_table()
    table.append(pa.table({"k": [1, 2, 3]}))
    return table, lambda t: _run(t.update_columns, {"_ROW_ID": [2, 0], "k": [50, 10], "b": [b"x", None]})


def _ignore(_: object) -> None:
    return None


def keyed_blobs_table() -> tuple[Table, Callable[[Table], None]]:
    """Packs of blobs, and files that tell to which their rows refer."""
    options = {"bucket": "1", "blob.target-file-size": "1 b"}
    table = fresh_table(
        "fault-keyed-blobs", {"columns": ["k INT", "b BLOB"], "primaryKeys": ["k"], "options": options}
    )
    table.upsert(pa.table({"k": [1, 2], "b": [b"one", None]}))
    return table, lambda t: _run(t.upsert, {"k": [1, 3], "b": [b"two", b"three"]})


def moving_table() -> tuple[Table, Callable[[Table], None]]:
    """A partition is overwritten, and a key leaves another one for it."""
    raw = {
        "columns": ["k INT", "p INT"],
        "primaryKeys": ["k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1"},
    }
    table = fresh_table("fault-moving", raw)
    table.upsert(pa.table({"k": [1, 2], "p": [1, 1]}))
    return table, lambda t: _run(t.overwrite, {"k": [2, 3], "p": [2, 2]})


def postponing_table() -> tuple[Table, Callable[[Table], None]]:
    """To a real bucket, whose number is not the table's."""
    table = fresh_table(
        "fault-postponing", {"columns": ["k INT"], "primaryKeys": ["k"], "options": {"bucket": "-2"}}
    )
    table.upsert(pa.table({"k": [1]}))
    return table, lambda t: _run(t.upsert, {"k": [2, 3]})


def _run(verb: Any, columns: dict[str, Any]) -> None:
    verb(pa.table(columns), commit=COMMIT)


def rows(table: Table) -> list[str]:
    return sorted(str(row) for row in table.scan().to_arrow().to_pylist())


def stored_files(table: Table) -> set[str]:
    found, folders = set(), [table.path]
    while folders:
        for status in table._stores.file_io.list(folders.pop()):
            if status.is_dir:
                folders.append(status.path)
            elif any(part in status.path for part in ("/bucket-", "/index/", "/manifest/")):
                found.add(status.name)
    return found


def metadata_names(table: Table, snapshot: Snapshot) -> set[str]:
    """Of its manifest lists, their manifests and its index manifest."""
    lists = {snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list}
    held = {
        file.file_name for name in filter(None, lists) for file in table._stores.manifests.read_list(name)
    }
    return {name for name in (*lists, *held, snapshot.index_manifest) if name is not None}


def named_files(table: Table) -> set[str]:
    """What a snapshot names: metadata, data files, live or replaced, changelog and index files."""
    names = set()
    for snapshot_id in table._stores.snapshots.list_ids():
        snapshot = table._stores.snapshots.load(snapshot_id)
        names |= metadata_names(table, snapshot)
        for name in filter(None, (snapshot.delta_manifest_list, snapshot.changelog_manifest_list)):
            entries = table._stores.manifests.read(table._stores.manifests.read_list(name))
            names |= {name for entry in entries for name in entry.file.all_names}
            names |= packs(table, [entry.file for entry in entries])
        names |= {file.file_name for file in table._scanner.index_files(snapshot)}
    return names


def packs(table: Table, files: list[DataFile]) -> set[str]:
    """Packs of blobs to which rows of the files refer."""
    sidecars = [
        f"{table.path}/bucket-0/{name}"
        for file in files
        for name in file.extra_files
        if name.endswith(REFERENCES_SUFFIX)
    ]
    return {pack for path in sidecars for _, pack in decode_packs(table._stores.file_io.read(path), path)}


SCENARIOS = (append_table, key_table, overwritten_table, deleted_table)
PLACED = (
    dynamic_table,
    moving_table,
    postponing_table,
    evolving_table,
    updated_table,
    keyed_blobs_table,
)
FAST = {
    (dynamic_table, FaultMode.ERROR_AFTER_EFFECT),
    (updated_table, FaultMode.ERROR_AFTER_EFFECT),
    (append_table, FaultMode.TORN),
    (deleted_table, FaultMode.ERROR),
    (key_table, FaultMode.ERROR),
    (overwritten_table, FaultMode.DEAD_AFTER_EFFECT),
}
PAIRS = [
    *itertools.product(SCENARIOS, FaultMode),
    *itertools.product(PLACED, (FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD_AFTER_EFFECT)),
]
CASES = [
    pytest.param(
        scenario,
        mode,
        id=f"{scenario.__name__}-{mode.value}",
        marks=[] if (scenario, mode) in FAST else [pytest.mark.slow],
    )
    for scenario, mode in PAIRS
]


@pytest.mark.parametrize(("scenario", "mode"), CASES)
def test_every_operation_fails_once(
    scenario: Callable[[], tuple[Table, Callable[[Table], None]]], mode: FaultMode
) -> None:
    healthy, write = scenario()
    old = rows(healthy)
    write(healthy)
    new = rows(healthy)
    assert old != new

    for number in failing_operations(mode, [one for other, one in PAIRS if other is scenario]):
        table, write = scenario()
        storage = FaultyFileIO(table._stores.file_io, number, mode)
        error = _failure(write, with_stores(table, file_io=storage))
        got = rows(table)
        where = f"operation {number} ({storage.log[number - 1] if storage.fired else 'none'}), {error!r}"
        assert got in (old, new), where
        if error is None:
            assert got == new, where
        stray = stored_files(table) - named_files(table)
        assert named_files(table) <= stored_files(table), where
        if mode in SETTLED and number < storage.count and "abort" not in storage.log[number - 1]:
            assert not {name for name in stray if not storage.log[number - 1].endswith(name)}, where
        write(table)
        assert rows(table) == new, f"{where}: the second try"
        if not storage.fired:
            break
    assert number > 10


def _failure(write: Callable[[Table], None], table: Table) -> BaseException | None:
    try:
        write(table)
    except (LakeError, KeyboardInterrupt) as err:
        return err
    return None
