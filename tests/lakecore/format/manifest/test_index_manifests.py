"""Index manifests: what Java wrote comes back byte for byte, in every container."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakecore.errors import CorruptDataError
from lakecore.format.avro.container import open_container
from lakecore.format.manifest.index_manifests import decode_index_manifest, encode_index_manifest
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.metadata.manifest.index_file import (
    DELETION_VECTORS,
    HASH_INDEX,
    DeletionRange,
    GlobalIndex,
    IndexFile,
)
from tests.support.golden import golden_tables


def index_file(name: str, kind: str, **fields: object) -> IndexFile:
    return IndexFile(
        **{  # type: ignore[arg-type]
            "partition": EMPTY_ROW,
            "bucket": 3,
            "index_type": kind,
            "file_name": name,
            "file_size": 40,
            "row_count": 2,
            **fields,
        }
    )


FILES = (
    index_file(
        "index-1", DELETION_VECTORS, deletions=(DeletionRange("a", 1, 24, 2), DeletionRange("b", 33, 9))
    ),
    index_file("index-2", DELETION_VECTORS, row_count=0),
    index_file("index-3", HASH_INDEX, external_path="s3://other/index-3"),
    index_file(
        "global-1",
        "btree",
        global_index=GlobalIndex(
            first=0, last=99, field_id=4, extra_field_ids=(5, 6), meta=b"m", source_meta=b"s"
        ),
    ),
    index_file("global-2", "btree", global_index=GlobalIndex(first=7, last=7, field_id=1)),
)


@pytest.mark.parametrize("kind", ["avro", "parquet", "orc"])
@pytest.mark.parametrize("files", [FILES, ()])
def test_files_come_back(kind: str, files: tuple[IndexFile, ...]) -> None:
    assert decode_index_manifest(encode_index_manifest(files, kind), "x") == files


def test_the_records_of_java_are_written_the_same() -> None:
    seen = 0
    for table in golden_tables():
        for path in (table.path / "manifest").glob("index-manifest-*"):
            data = path.read_bytes()
            files = decode_index_manifest(data, str(path))
            assert not any(file.has_unknown_columns for file in files)
            ours = open_container(encode_index_manifest(files), "ours")
            if open_container(data, str(path)).schema == ours.schema:  # release 2.0
                assert blocks(data, path) == blocks(encode_index_manifest(files), path)
                seen += 1
    assert seen >= 30


def blocks(data: bytes, path: Path) -> list[dict[str, object]]:
    return list(open_container(data, str(path)).all_records())


def test_damage() -> None:
    data = encode_index_manifest(FILES)
    for end in range(0, len(data), 97):
        with pytest.raises(CorruptDataError):
            decode_index_manifest(data[:end], "x")
