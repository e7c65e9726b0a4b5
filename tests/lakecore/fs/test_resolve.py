from __future__ import annotations

import os

import pytest

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.fs.stores.s3 import S3FileIO


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/tmp/lake", "/tmp/lake"),
        ("/tmp/lake/", "/tmp/lake"),
        ("/tmp//a/../lake", "/tmp/lake"),
        ("file:/tmp/lake", "/tmp/lake"),
        ("file:///tmp/lake/dt=a%2Fb", "/tmp/lake/dt=a%2Fb"),
        ("lake", os.path.abspath("lake")),
        ("s3://bucket/a/", "s3://bucket/a"),
        ("s3a://bucket//a", "s3://bucket/a"),
        ("S3N://bucket", "s3://bucket"),
        ("memory://x/y", "memory://x/y"),
    ],
)
def test_plain_path(location: str, path: str) -> None:
    assert plain_path(location) == path
    assert plain_path(path) == path


def test_storage_follows_the_scheme() -> None:
    assert file_io_for("/tmp", {}) == LocalFileIO()
    assert file_io_for("file:/tmp", {"local.fsync": "false"}) == LocalFileIO(sync=False)
    assert isinstance(file_io_for("memory://x", {}), MemoryFileIO)
    assert isinstance(file_io_for("s3://bucket", {}), S3FileIO)


@pytest.mark.parametrize("location", ["", "  ", "/a\0b"])
def test_no_location(location: str) -> None:
    with pytest.raises(InvalidInputError):
        plain_path(location)


def test_unknown_schemes_are_named() -> None:
    with pytest.raises(UnsupportedError, match="viewfs://"):
        file_io_for("viewfs://host/lake", {})
