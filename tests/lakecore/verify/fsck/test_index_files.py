"""fsck of index files: each lie about deleted rows and hashes is found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.table import Table
from lakecore.verify.fsck.check import Finding, FindingKind
from tests.support.fsck_ways import check_both_ways
from tests.support.lake import append_table, live_files, memory_catalog

Files = tuple[IndexFile, ...]


@pytest.fixture
def table() -> Table:
    """Two files of five rows; of each one row is deleted."""
    made = append_table(memory_catalog("fsck-index"), deletion_vectors__enabled="true")
    for start in (0, 5):
        made.append(pa.table({"v": pa.array(range(start, start + 5), pa.int32())}))
    made.delete("v = 1 or v = 6")
    return made


def found(table: Table) -> list[Finding]:
    report = check_both_ways(table._stores.file_io, table._stores.paths, now_ms=0)
    return [finding for finding in report.findings if finding.kind is FindingKind.INDEX_FILE]


def rewrite(table: Table, change: Callable[[Files], Files]) -> None:
    """The index manifest of the latest snapshot, with other index files."""
    snapshot = table._stores.snapshots.latest()
    assert snapshot is not None
    name = table._stores.manifests.write_index(change(table._scanner.index_files(snapshot)))
    changed = replace(snapshot, index_manifest=name)
    table._stores.file_io.overwrite(table._stores.paths.snapshot(snapshot.id), changed.to_json().encode())


def new_vectors(table: Table, vectors: dict[str, BitMap], bucket: int = 0) -> Callable[[Files], Files]:
    return lambda _: (table._stores.indexes.write_vectors(EMPTY_ROW, bucket, vectors),)


def test_a_sound_index(table: Table) -> None:
    assert found(table) == []


def test_changed_bytes(table: Table) -> None:
    (status,) = table._stores.file_io.list(table._stores.paths.index_dir)
    data = bytearray(table._stores.file_io.read(status.path))
    data[12] ^= 1
    table._stores.file_io.overwrite(status.path, bytes(data))
    (finding,) = found(table)
    assert finding.path == status.path
    assert "checksum" in finding.problem


def test_lies(table: Table) -> None:
    name = live_files(table)[0].file_name
    sound = table._scanner.index_files(table._stores.snapshots.load(3))
    lies: dict[str, Callable[[Files], Files]] = {
        f"deletes row 5 of {name}, which has 5": new_vectors(table, {name: BitMap([2, 5])}),
        "deletes rows of gone, which is not in its bucket": new_vectors(table, {"gone": BitMap([0])}),
        f"deletes rows of {name}, which is not in its bucket": new_vectors(
            table, {name: BitMap([0])}, bucket=1
        ),
        f"two deletion vectors of {name}": lambda files: (
            *files,
            *new_vectors(table, {name: BitMap([1])})(()),
        ),
        "it holds 2 hashes or deletion vectors instead of 7": lambda files: tuple(
            replace(file, file_name=copy(table, file), row_count=7) for file in files
        ),
        "with 1 rows, but the index manifest records 3": lambda files: tuple(
            replace(
                file,
                file_name=copy(table, file),
                deletions=tuple(replace(vector, cardinality=3) for vector in file.deletions),
            )
            for file in files
        ),
        "it holds 3 hashes or deletion vectors instead of 4": lambda files: (
            *files,
            replace(table._stores.indexes.write_hashes(EMPTY_ROW, 0, np.arange(3)), row_count=4),
        ),
    }
    for problem, change in lies.items():
        rewrite(table, change)
        assert any(problem in finding.problem for finding in found(table)), problem
        rewrite(table, lambda _, sound=sound: sound)


def copy(table: Table, file: IndexFile) -> str:
    """Another index file with the same bytes: each is looked at once."""
    name = f"index-{table._stores.clock.fresh_id()}-0"
    table._stores.file_io.write_new(
        table._stores.paths.index_file(name), table._stores.file_io.read(table._stores.indexes.path(file))
    )
    return name
