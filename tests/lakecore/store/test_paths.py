from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import InvalidInputError
from lakecore.metadata.options import TableOptions
from lakecore.store.paths import TablePaths
from tests.support.builders import data_file, table_schema


def test_branch_metadata_is_apart_data_is_shared() -> None:
    branch = TablePaths("/w/t").with_branch("b")
    assert branch.snapshot(3) == "/w/t/branch/branch-b/snapshot/snapshot-3"
    assert branch.schema(0) == "/w/t/branch/branch-b/schema/schema-0"
    assert branch.tag("2026-11-21 08") == "/w/t/branch/branch-b/tag/tag-2026-11-21 08"
    assert branch.manifest("m") == "/w/t/manifest/m"
    assert branch.statistics("s") == "/w/t/statistics/s"


@pytest.mark.parametrize(
    ("options", "partition", "bucket", "path"),
    [
        ({}, "dt=1", 0, "/w/t/dt=1/bucket-0"),
        ({}, "", 3, "/w/t/bucket-3"),
        ({}, "", -2, "/w/t/bucket-postpone"),
        ({"data-file.path-directory": "data"}, "dt=1", 0, "/w/t/data/dt=1/bucket-0"),
    ],
)
def test_bucket_directories(options: dict[str, str], partition: str, bucket: int, path: str) -> None:
    typed = TableOptions.from_schema(table_schema(options=options))
    assert TablePaths("/w/t").bucket_dir(partition, bucket, typed) == path


def test_external_files_win_and_take_their_extra_files_along() -> None:
    paths = TablePaths("/w/t")
    file = replace(data_file("f.parquet"), extra_files=("f.index",))
    assert paths.data_file("/w/t/bucket-0", file) == "/w/t/bucket-0/f.parquet"
    assert paths.extra_files("/w/t/bucket-0", file) == ("/w/t/bucket-0/f.index",)
    outside = replace(file, external_path="file:/x/dt=a%2Fb/f.parquet")
    assert paths.data_file("/w/t/bucket-0", outside) == "/x/dt=a%2Fb/f.parquet"
    assert paths.extra_files("/w/t/bucket-0", outside) == ("/x/dt=a%2Fb/f.index",)


@pytest.mark.parametrize("name", ["", " ", "..", "a/b", "a\\b", "a\0"])
def test_names_that_climb_out_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="tag name"):
        TablePaths("/w/t").tag(name)
    with pytest.raises(InvalidInputError, match="branch name"):
        TablePaths("/w/t", name).snapshot(1)
