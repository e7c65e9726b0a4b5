"""The records of renames: one that cannot be read hides none of the others."""

from __future__ import annotations

import logging

import pytest

from lakecore.fs.file_io import FileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.maintain.interrupted_renames import InterruptedRenames, Rename
from tests.support.meddling_fs import Meddling

WAREHOUSE = "memory://renames/wh"
RENAMES = [Rename(f"d.{old}", f"d.{new}", f"{WAREHOUSE}/d.db/{old}") for old, new in ("ab", "cd", "ef")]


def recorded(name: str) -> tuple[FileIO, list[str]]:
    """Three renames, and the paths of their records in order."""
    storage = MemoryFileIO(name)
    renames = InterruptedRenames(storage, WAREHOUSE)
    for rename in RENAMES:
        renames.begin(rename)
    return storage, sorted(status.path for status in storage.list(renames.root))


def test_a_rename_is_found_by_both_names_until_it_ends() -> None:
    storage, paths = recorded("found")
    renames = InterruptedRenames(storage, WAREHOUSE)
    assert len(paths) == 3
    for rename in RENAMES:
        assert renames.of_name(rename.table) == renames.of_name(rename.new) == rename
    assert renames.of_name("d.x") is None
    renames.end(RENAMES[0])
    assert renames.of_name("d.b") is None
    assert renames.of_name("d.c") == RENAMES[1]


@pytest.mark.parametrize("place", range(3))
def test_a_damaged_record_is_logged_and_left_out(place: int, caplog: pytest.LogCaptureFixture) -> None:
    storage, paths = recorded(f"damaged-{place}")
    storage.overwrite(paths[place], b"{")
    with caplog.at_level(logging.WARNING):
        found = [InterruptedRenames(storage, WAREHOUSE).of_name(rename.table) for rename in RENAMES]
    assert found == [None if number == place else rename for number, rename in enumerate(RENAMES)]
    assert f"{paths[place]} is ignored" in caplog.text


@pytest.mark.parametrize("place", range(3))
def test_a_rename_that_ends_meanwhile_is_left_out(place: int) -> None:
    storage, paths = recorded(f"ended-{place}")
    for number, rename in enumerate(RENAMES):
        storage.overwrite(paths[place], RENAMES[place].encoded())
        meddling = Meddling(storage, "read", paths[place], lambda: storage.delete(paths[place]))
        found = InterruptedRenames(meddling, WAREHOUSE).of_name(rename.new)
        assert found == (None if number == place else rename)
