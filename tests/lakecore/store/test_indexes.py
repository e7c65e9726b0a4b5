"""Index files on storage: rolling, places, damage, nothing left behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyroaring import BitMap

from lakecore.errors import CorruptDataError, UnavailableError
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.row.binary_row import encode_row
from tests.support.builders import table_schema
from tests.support.commit_table import CommitTable
from tests.support.fault_fs import FaultMode, FaultyFileIO

VECTORS = {f"f{number}": BitMap(range(0, 900, number + 2)) for number in range(6)}


def test_rolled_vectors_read_back_by_name() -> None:
    table = CommitTable(table_schema(options={"deletion-vector.index-file.target-size": "500 b"})).created()
    files = table.indexes.roll_vectors(EMPTY_ROW, 0, VECTORS)
    assert len(files) > 1
    assert [place.data_file for file in files for place in file.deletions] == list(VECTORS)
    assert [file.row_count for file in files] == [len(file.deletions) for file in files]
    read = {name: vector for file in files for name, vector in table.indexes.read_vectors(file).items()}
    assert read == VECTORS
    assert table.indexes.read_vectors(files[0], ["f0", "gone"]) == {"f0": VECTORS["f0"]}
    assert table.indexes.roll_vectors(EMPTY_ROW, 0, {}) == ()


def test_an_empty_file_of_vectors_is_a_byte() -> None:
    table = CommitTable().created()
    file = table.indexes.write_vectors(EMPTY_ROW, 0, {})
    assert (file.file_size, file.row_count, table.indexes.read_vectors(file)) == (1, 0, {})


def test_hashes() -> None:
    table = CommitTable().created()
    hashes = np.array([1465514398, -391021801, 0], np.int32)
    file = table.indexes.write_hashes(EMPTY_ROW, 2, hashes)
    assert (file.index_type, file.row_count, file.file_size) == ("HASH", 3, 12)
    assert table.storage.read(table.indexes.path(file))[:4].hex() == "5759f99e"
    assert table.indexes.read_hashes(file).tolist() == hashes.tolist()
    with pytest.raises(CorruptDataError, match="4 hashes"):
        table.indexes.read_hashes(replace(file, row_count=4))


def test_files_beside_the_data() -> None:
    schema = table_schema(
        "dt INT, k BIGINT NOT NULL",
        primary_keys=("dt", "k"),
        partition_keys=("dt",),
        options={"index-file-in-data-file-dir": "true"},
    )
    table = CommitTable(schema).created()
    file = table.indexes.write_vectors(encode_row((7,), schema.partition_type), 1, VECTORS)
    assert table.indexes.path(file) == f"{table.paths.table_path}/dt=7/bucket-1/{file.file_name}"
    assert table.indexes.read_vectors(file) == VECTORS
    moved = replace(file, external_path="memory://elsewhere/x")
    assert table.indexes.path(moved) == "memory://elsewhere/x"


def test_damage_names_the_file() -> None:
    table = CommitTable().created()
    file = table.indexes.write_vectors(EMPTY_ROW, 0, VECTORS)
    with pytest.raises(CorruptDataError, match=f"{file.file_name}.* the index manifest records 5"):
        table.indexes.read_vectors(replace(file, file_size=5))
    doubled = replace(file, deletions=(*file.deletions, file.deletions[0]))
    with pytest.raises(CorruptDataError, match="two deletion vectors"):
        table.indexes.read_vectors(doubled)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_failed_write_leaves_nothing(at: int) -> None:
    table = CommitTable(table_schema(options={"deletion-vector.index-file.target-size": "500 b"})).created()
    broken = table.through(FaultyFileIO(table.storage, at, FaultMode.ERROR))
    with pytest.raises(UnavailableError):
        broken.indexes.roll_vectors(EMPTY_ROW, 0, VECTORS)
    assert table.storage.list(table.paths.index_dir) == []
