"""Local copies: limits, retention, damage, full disks, directories of processes that ended."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.errors import InvalidOptionError, UnavailableError
from lakecore.lookup.query.local_disk import LocalDisk
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, memory_catalog, put


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("lakecore-lookup-*/*.lookup"))


def table_of(files: int, rows: int = 2000, **options: str) -> Table:
    """Level-0 files with keys of their own."""
    table = key_table(memory_catalog(), **options)
    for number in range(files):
        put(table, [{"k": number * rows + at, "v": f"{number}-{at:06d}"} for at in range(rows)])
    return table


def everything(rows: int) -> pa.Table:
    return pa.table({"k": pa.array(range(rows), pa.int32())})


def test_a_copy_is_made_once_and_removed_at_the_end(tmp_path: Path) -> None:
    table, cache = table_of(2), LookupCache([str(tmp_path)])
    with table.new_query(cache=cache) as query:
        query.refresh()
        assert files_of(tmp_path) == []
        assert query.lookup((), 0, (5,)) == {"k": 5, "v": "0-000005"}
        first = files_of(tmp_path)
        assert len(first) == 1
        assert cache.disk_size == first[0].stat().st_size
        assert query.lookup((), 0, (6,)) == {"k": 6, "v": "0-000006"}
        assert files_of(tmp_path) == first
    assert list(tmp_path.iterdir()) == []
    assert (cache.disk_size, cache.memory_size) == (0, 0)


def test_queries_share_copies(tmp_path: Path) -> None:
    table, cache = table_of(1), LookupCache([str(tmp_path)])
    with table.new_query(cache=cache) as one:
        with table.new_query(cache=cache) as other:
            for query in (one, other):
                query.refresh()
                assert query.lookup((), 0, (5,)) is not None
            assert len(files_of(tmp_path)) == 1
        assert len(files_of(tmp_path)) == 1
        with table.new_query(["v"], cache=cache) as narrow:
            narrow.refresh()
            assert narrow.lookup((), 0, (5,)) == {"v": "0-000005"}
            assert len(files_of(tmp_path)) == 2


def test_copies_of_dropped_files_are_removed(tmp_path: Path) -> None:
    table = table_of(1)
    with table.new_query(cache=LookupCache([str(tmp_path)])) as query:
        query.refresh()
        assert query.lookup((), 0, (5,)) is not None
        assert len(files_of(tmp_path)) == 1
        table.overwrite(pa.table({"k": pa.array([5], pa.int32()), "v": ["new"]}))
        query.refresh()
        assert files_of(tmp_path) == []
        assert query.lookup((), 0, (5,)) == {"k": 5, "v": "new"}
        assert query.lookup((), 0, (6,)) is None


def test_the_smallest_limit_on_disk_holds(tmp_path: Path) -> None:
    table, cache = table_of(6), LookupCache([str(tmp_path)])
    limited = table.with_options({"lookup.cache-max-disk-size": "20 kb"})
    with table.new_query(cache=cache) as free, limited.new_query(cache=cache) as query:
        free.refresh()
        query.refresh()
        for number in range(3):
            found = query.lookup_table(everything(12000))
            assert found.matches.to_pylist() == [True] * 12000
            assert found.rows.column("v").to_pylist()[:2] == ["0-000000", "0-000001"]
            assert cache.disk_size == sum(path.stat().st_size for path in files_of(tmp_path))
            assert 0 < cache.disk_size <= 20 << 10, number
        assert len(files_of(tmp_path)) < 6


def test_blocks_beyond_the_limit_in_memory_are_read_again() -> None:
    table = table_of(2, 9000).with_options({"lookup.cache-max-memory-size": "300 kb"})
    cache = LookupCache()
    with table.new_query(cache=cache) as query:
        query.refresh()
        for _ in range(2):
            found = query.lookup_table(everything(18000))
            assert found.rows.column("v").to_pylist()[9001] == "1-000001"
            assert 0 < cache.memory_size <= 300 << 10


def test_unused_copies_are_removed_after_the_retention(tmp_path: Path) -> None:
    table = table_of(2).with_options({"lookup.cache-file-retention": "1 min"})
    clock = FakeClock()
    with table.new_query(cache=LookupCache([str(tmp_path)], clock=clock)) as query:
        query.refresh()
        assert query.lookup((), 0, (5,)) is not None
        clock.sleep(50)
        assert query.lookup((), 0, (2005,)) is not None
        assert len(files_of(tmp_path)) == 2
        clock.sleep(20)
        assert query.lookup((), 0, (2005,)) is not None
        assert len(files_of(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_copy_is_made_again(damage: str, tmp_path: Path) -> None:
    table = table_of(1, 9000).with_options({"lookup.cache-max-memory-size": "1 kb"})
    with table.new_query(cache=LookupCache([str(tmp_path)])) as query:
        query.refresh()
        assert query.lookup((), 0, (5,)) == {"k": 5, "v": "0-000005"}
        (path,) = files_of(tmp_path)
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 50):
            data[at] ^= 0x10
        with path.open("r+b") as file:  # the same file: the query has it open
            file.truncate(0)
            file.write({"flip": data, "cut": data[: len(data) // 2], "empty": b""}[damage])
        assert query.lookup((), 0, (8500,)) == {"k": 8500, "v": "0-008500"}
        found = query.lookup_table(everything(9000))
        assert found.rows.column("v").to_pylist() == [f"0-{at:06d}" for at in range(9000)]
        (other,) = files_of(tmp_path)
        assert other != path


def test_a_copy_that_somebody_removed_stays_readable(tmp_path: Path) -> None:
    table = table_of(1).with_options({"lookup.cache-max-memory-size": "1 kb"})
    with table.new_query(cache=LookupCache([str(tmp_path)])) as query:
        query.refresh()
        assert query.lookup((), 0, (5,)) is not None
        for path in tmp_path.iterdir():
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
        assert query.lookup((), 0, (6,)) == {"k": 6, "v": "0-000006"}
        put(table, [{"k": 6, "v": "new"}])
        query.refresh()
        assert query.lookup((), 0, (6,)) == {"k": 6, "v": "new"}


class FullDisk:
    """Stands for `LocalDisk._write`: each folder has room for so many bytes."""

    def __init__(self, room: dict[str, int]) -> None:
        self.room = room

    def write(self, disk: LocalDisk, path: str, parts: Iterable[bytes]) -> int:
        size, parent = 0, str(Path(path).parent.parent)
        used = sum(file.stat().st_size for file in files_of(Path(parent)))
        with open(path, "xb") as out:
            for part in parts:
                if used + size + len(part) > self.room[parent]:
                    raise OSError(28, "No space left on device")
                size += out.write(part)
        return size


def test_copies_go_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    full = FullDisk({str(folders[0]): 0, str(folders[1]): 1 << 30})
    monkeypatch.setattr(LocalDisk, "_write", lambda disk, path, parts: full.write(disk, path, parts))
    with table_of(4).new_query(cache=LookupCache([str(folder) for folder in folders])) as query:
        query.refresh()
        assert query.lookup_table(everything(8000)).matches.to_pylist() == [True] * 8000
        assert [len(files_of(folder)) for folder in folders] == [0, 4]


def test_a_full_disk_lets_other_copies_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = FullDisk({str(tmp_path): 25 << 10})
    monkeypatch.setattr(LocalDisk, "_write", lambda disk, path, parts: full.write(disk, path, parts))
    with table_of(6).new_query(cache=LookupCache([str(tmp_path)])) as query:
        query.refresh()
        for _ in range(2):
            assert query.lookup_table(everything(12000)).matches.to_pylist() == [True] * 12000
        assert 0 < len(files_of(tmp_path)) < 6


def test_a_disk_without_room_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = FullDisk({str(tmp_path): 10})
    monkeypatch.setattr(LocalDisk, "_write", lambda disk, path, parts: full.write(disk, path, parts))
    with table_of(1).new_query(cache=LookupCache([str(tmp_path)])) as query:
        query.refresh()
        with pytest.raises(UnavailableError, match=r"No space left.*free some space"):
            query.lookup((), 0, (5,))
        assert files_of(tmp_path) == []
        full.room[str(tmp_path)] = 1 << 30
        assert query.lookup((), 0, (5,)) is not None


@pytest.mark.parametrize("seed", range(4))
def test_damage_and_a_full_disk_while_copies_exceed_the_limits(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies exceed the limits on disk and in memory, some are damaged, and now and then the disk is full: an answer is
    right, or it is an error that says that there is no space.
    """
    order, room = random.Random(seed), {str(tmp_path): 1 << 30}
    full = FullDisk(room)
    monkeypatch.setattr(LocalDisk, "_write", lambda disk, path, parts: full.write(disk, path, parts))
    options = {"lookup.cache-max-disk-size": "20 kb", "lookup.cache-max-memory-size": "1 kb"}
    errors = []
    with table_of(6).with_options(options).new_query(cache=LookupCache([str(tmp_path)])) as query:
        query.refresh()
        for _ in range(25):
            room[str(tmp_path)] = order.choice([0, 12 << 10, 1 << 30])
            for path in files_of(tmp_path):
                if order.random() < 0.3:
                    with path.open("r+b") as file:
                        file.seek(path.stat().st_size // 2)
                        file.write(b"damage")
            try:
                assert query.lookup_table(everything(12000)).matches.to_pylist() == [True] * 12000
                assert sum(path.stat().st_size for path in files_of(tmp_path)) <= 20 << 10
            except UnavailableError as err:
                errors.append(str(err))
        room[str(tmp_path)] = 1 << 30
        assert query.lookup_table(everything(12000)).matches.to_pylist() == [True] * 12000
        assert 0 < len(errors) < 25
        assert all("No space left" in text for text in errors)
    assert files_of(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with table_of(1).new_query(cache=LookupCache([str(tmp_path / "file")])) as query:
        query.refresh()
        with pytest.raises(UnavailableError, match="cannot be written"):
            query.lookup((), 0, (5,))


def test_directories_of_ended_processes_are_removed(tmp_path: Path) -> None:
    script = (
        "import os, sys; from lakecore.lookup.query.local_disk import LocalDisk;"
        "disk = LocalDisk([sys.argv[1]]); disk.write(lambda: [b'x']); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, env={**os.environ})
    assert len(files_of(tmp_path)) == 1
    mine = LocalDisk([str(tmp_path)])
    assert files_of(tmp_path) == []
    kept = mine.write(lambda: [b"abc"])
    other = LocalDisk([str(tmp_path)])
    assert [str(path) for path in files_of(tmp_path)] == [kept.path]
    other.close()
    mine.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("lookup.cache-spill-compression", "lzo", "none, lz4, zstd"),
        ("lookup.cache.bloom.filter.fpp", "1.5", "between 0 and 1"),
        ("lookup.cache-max-disk-size", "much", "this is not a size"),
    ],
    ids=["codec", "fpp", "size"],
)
def test_wrong_options_are_named(key: str, value: str, message: str) -> None:
    table = table_of(1, 10).with_options({key: value})
    with pytest.raises(InvalidOptionError, match=f"{key}.*{message}"):
        table.new_query()


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("bloom", ["true", "false"])
def test_answers_do_not_depend_on_options(codec: str, bloom: str) -> None:
    options = {"lookup.cache-spill-compression": codec, "lookup.cache.bloom.filter.enabled": bloom}
    with table_of(3).with_options(options).new_query(cache=LookupCache()) as query:
        query.refresh()
        found = query.lookup_table(everything(7000))
        assert found.matches.to_pylist() == [at < 6000 for at in range(7000)]
        assert query.lookup((), 0, (6500,)) is None
        assert query.lookup((), 0, (5999,)) == {"k": 5999, "v": "2-001999"}
