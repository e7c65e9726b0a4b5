"""Copies that processes share: made once, found again, never taken for others, whoever fails, ends or forges meanwhile."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.lookup.copies import shared_directory
from lakecore.lookup.copies.source import copy_digest
from lakecore.lookup.query import local_disk
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.processes import private_directory
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, memory_catalog, put

ROWS = 9000
DEFINITION = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}


def fill(table: Table, files: int = 1, rows: int = ROWS) -> Table:
    """Level-0 files with keys of their own."""
    for number in range(files):
        put(table, [{"k": number * rows + at, "v": f"{number}-{at:06d}"} for at in range(rows)])
    return table


def table_of(files: int = 1, rows: int = ROWS, **options: str) -> Table:
    return fill(key_table(memory_catalog(), **options), files, rows)


def shared(folder: Path, **more: Any) -> LookupCache:
    return LookupCache([str(folder)], shared=True, **more)


def copies(folder: Path, ending: str = "lookup") -> list[Path]:
    return sorted(folder.glob(f"lakecore-shared-lookup-*/*.{ending}"))


def all_right(table: Table, cache: LookupCache, rows: int = ROWS, files: int = 1) -> None:
    """Look all keys up, and one that is absent."""
    with table.new_query(cache=cache) as query:
        query.refresh()
        found = query.lookup_table(pa.table({"k": pa.array(range(files * rows + 1), pa.int32())}))
        expected = [f"{number}-{at:06d}" for number in range(files) for at in range(rows)]
        assert found.rows.column("v").to_pylist() == [*expected, None]


def ask(table: Table, cache: LookupCache, key: int) -> Any:
    with table.new_query(cache=cache) as query:
        query.refresh()
        return query.lookup((), 0, (key,))


@pytest.mark.parametrize("bloom", ["true", "false"])
@pytest.mark.parametrize("keys", [("INT",), ("STRING",), ("STRING", "DECIMAL(20, 2)"), ("TIMESTAMP(6)",)])
def test_a_copy_is_found_again(keys: tuple[str, ...], bloom: str, tmp_path: Path) -> None:
    names = [f"k{number}" for number in range(len(keys))]
    definition = {
        "columns": [*(f"{name} {kind}" for name, kind in zip(names, keys, strict=True)), "v STRING"],
        "primaryKeys": names,
        "options": {"bucket": "1", "lookup.cache.bloom.filter.enabled": bloom},
    }
    table = memory_catalog().create_table("d.t", definition)
    numbers = pa.array(range(0, 10000, 2))
    kinds = {
        "STRING": pa.string(),
        "DECIMAL(20, 2)": pa.decimal128(21, 2),
        "TIMESTAMP(6)": pa.timestamp("us"),
    }
    columns = [numbers.cast(kinds.get(kind, pa.int32())) for kind in keys]
    rows = pa.table([*columns, numbers.cast(pa.string())], names=[*names, "v"])
    table.write(rows)
    for made in (1, 0):
        cache = shared(tmp_path)
        with table.new_query(cache=cache) as query:
            query.refresh()
            assert (
                query.lookup_table(rows.select(names)).rows.column("v").to_pylist() == rows["v"].to_pylist()
            )
            assert query.lookup((), 0, tuple(column[7].as_py() for column in columns)) is not None
        assert cache.copies_written == made
    assert len(copies(tmp_path)) == 1
    assert copies(tmp_path, "tmp") == []


def test_only_the_same_rows_of_the_same_file_share_a_copy(tmp_path: Path) -> None:
    """Each of these has other rows, or another form of them; all ask for the same key."""
    table, cache = table_of(), shared(tmp_path)
    other = fill(key_table(memory_catalog("other")))
    asked: list[Callable[[], Any]] = [
        lambda: table.new_query(cache=cache),
        lambda: table.new_query(["v"], cache=cache),
        lambda: table.new_query(where="v < '0-000003'", cache=cache),
        lambda: table.new_query(where="v < '0-000009'", cache=cache),
        lambda: table.with_options({"lookup.cache-spill-compression": "none"}).new_query(cache=cache),
        lambda: other.new_query(cache=cache),
        lambda: table.with_options({"ignore-delete": "true"}).new_query(cache=cache),
    ]
    answers = []
    for number, new_query in enumerate(asked, 1):
        for _ in range(2):
            with new_query() as query:
                query.refresh()
                answers.append(query.lookup((), 0, (5,)))
            assert (len(copies(tmp_path)), cache.copies_written) == (number, number)
    whole = {"k": 5, "v": "0-000005"}
    assert answers[::2] == answers[1::2] == [whole, {"v": "0-000005"}, None, whole, whole, whole, whole]


def test_the_name_of_a_copy_depends_on_the_file_and_not_on_its_level() -> None:
    file = DataFile(
        file_name="data-1.parquet",
        file_size=1,
        row_count=2,
        min_sequence_number=1,
        max_sequence_number=2,
        schema_id=0,
    )
    name = copy_digest(b"table", b"partition", 0, file)
    assert name == copy_digest(b"table", b"partition", 0, replace(file, level=5, extra_files=("a.lookup",)))
    others = [
        copy_digest(b"another", b"partition", 0, file),
        copy_digest(b"table", b"another", 0, file),
        copy_digest(b"table", b"partition", 1, file),
        *(
            copy_digest(b"table", b"partition", 0, replace(file, **{part: 7}))
            for part in ("file_size", "row_count", "schema_id")
        ),
        copy_digest(b"table", b"partition", 0, replace(file, file_name="data-2.parquet")),
        copy_digest(b"table", b"partition", 0, replace(file, creation_time=1)),
    ]
    assert len({name, *others}) == 1 + len(others)


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "cut by one", "block", "index", "trailer", "longer", "another copy", "link"]
)
def test_a_copy_that_is_not_what_was_written_is_made_again(damage: str, tmp_path: Path) -> None:
    table = table_of().with_options({"lookup.cache-max-memory-size": "1 kb"})
    all_right(table, shared(tmp_path))
    (path,) = copies(tmp_path)
    data = bytearray(path.read_bytes())
    if damage == "block":
        data[len(data) // 8] ^= 1
    elif damage == "index":
        data[-200] ^= 1
    elif damage == "trailer":
        data[-20] ^= 1
    elif damage == "another copy":
        ask(fill(key_table(memory_catalog("other"))), shared(tmp_path), 1)
        data = bytearray(next(other for other in copies(tmp_path) if other != path).read_bytes())
    size = len(data)
    data = {"empty": data[:0], "cut": data[: size // 2], "cut by one": data[:-1], "longer": data + b"x"}.get(
        damage, data
    )
    path.unlink()
    if damage == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_bytes(data)
    cache = shared(tmp_path)
    all_right(table, cache)
    assert cache.copies_written == 1
    assert not path.is_symlink()
    last = shared(tmp_path)
    all_right(table, last)
    assert last.copies_written == 0


def test_a_reader_goes_on_with_a_copy_that_another_process_removed(tmp_path: Path) -> None:
    table = table_of().with_options({"lookup.cache-max-memory-size": "1 kb"})
    with table.new_query(cache=shared(tmp_path)) as query:
        query.refresh()
        assert query.lookup((), 0, (5,)) is not None
        copies(tmp_path)[0].unlink()
        assert query.lookup((), 0, (8000,)) == {"k": 8000, "v": "0-008000"}


def test_the_limit_on_disk_holds_for_all_processes_and_the_least_recently_used_leave(tmp_path: Path) -> None:
    clock = FakeClock()
    table = table_of(6, 2000)
    limited = table.with_options({"lookup.cache-max-disk-size": "40 kb"})
    one, other = shared(tmp_path, clock=clock), shared(tmp_path, clock=clock)
    with limited.new_query(cache=one) as first, limited.new_query(cache=other) as second:
        first.refresh()
        second.refresh()
        first.lookup((), 0, (1,))
        (oldest,) = copies(tmp_path)
        clock.sleep(1000)
        second.lookup((), 0, (2001,))
        (next_one,) = {*copies(tmp_path)} - {oldest}
        for number in range(2, 6):
            clock.sleep(100)
            first.lookup((), 0, (2,))  # the first file is used again, in the other process
            second.lookup((), 0, (number * 2000 + 1,))
            assert sum(path.stat().st_size for path in copies(tmp_path)) <= 40 << 10
        assert oldest in copies(tmp_path)
        assert next_one not in copies(tmp_path)
        assert first.lookup((), 0, (2001,)) == {"k": 2001, "v": "1-000001"}
        assert first.lookup((), 0, (3,)) == {"k": 3, "v": "0-000003"}
        all_right(limited, one, 2000, 6)
        all_right(limited, other, 2000, 6)
        assert sum(path.stat().st_size for path in copies(tmp_path)) <= 40 << 10


def test_what_another_process_removed_frees_its_bytes_at_the_next_look(tmp_path: Path) -> None:
    clock = FakeClock()
    table = table_of(2, 2000)
    cache = shared(tmp_path, clock=clock)
    with table.new_query(cache=cache) as query:
        query.refresh()
        query.lookup((), 0, (1,))
        query.lookup((), 0, (2001,))
        before = cache.disk_size
        copies(tmp_path)[0].unlink()
        clock.sleep(120)
        for key in (1, 2001, 1, 2001):
            assert query.lookup((), 0, (key,)) is not None
        assert 0 < cache.disk_size <= before
        assert cache.copies_written == 3
        assert len(copies(tmp_path)) == 2


def test_unused_copies_leave_after_the_retention_of_any_process(tmp_path: Path) -> None:
    clock = FakeClock()
    table = table_of(2, 2000, **{"lookup.cache-file-retention": "1 min"})
    ask(table, shared(tmp_path, clock=clock), 1)
    with table.new_query(cache=shared(tmp_path, clock=clock)) as query:
        query.refresh()
        query.lookup((), 0, (2001,))
        assert len(copies(tmp_path)) == 2
        clock.sleep(50)
        query.lookup((), 0, (2001,))
        clock.sleep(50)
        assert len(copies(tmp_path)) == 2
        with table.new_query(cache=shared(tmp_path, clock=clock)):
            assert len(copies(tmp_path)) == 1
    clock.sleep(-100_000)  # the clock was set back: what was used in the future does not stay for ever
    with table.new_query(cache=shared(tmp_path, clock=clock)):
        assert copies(tmp_path) == []


class Failing:
    """Stands for a module: its n-th call fails."""

    def __init__(self, module: Any, calls: list[str], fail_at: int, error: int) -> None:
        self._module, self._calls, self._fail_at, self._error = module, calls, fail_at, error

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if not callable(value) or name in ("getuid", "close", "fspath"):
            return value

        def call(*args: Any, **more: Any) -> Any:
            self._calls.append(name)
            if len(self._calls) == self._fail_at:
                raise OSError(self._error, os.strerror(self._error))
            return value(*args, **more)

        return call


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["io error", "full"])
def test_the_local_disk_fails_at_each_operation(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(1, 500)
    right = {"k": 5, "v": "0-000005"}
    for fail_at in range(1, 100):
        folder = tmp_path / str(fail_at)
        calls: list[str] = []
        with monkeypatch.context() as patch:
            for module in (shared_directory, local_disk):
                patch.setattr(module, "os", Failing(os, calls, fail_at, error))
                patch.setattr(module, "fcntl", Failing(fcntl, calls, fail_at, error))
            patch.setattr(private_directory, "os", Failing(os, calls, fail_at, error))
            assert ask(table, shared(folder), 5) == right, calls
        if len(calls) < fail_at:
            break
        assert ask(table, shared(folder), 5) == right
        last = shared(folder)
        assert ask(table, last, 5) == right
        assert (last.copies_written, len(copies(folder)), copies(folder, "tmp")) == (0, 1, []), calls
    assert 12 < fail_at < 99
    assert {"mkdir", "open", "flock", "ftruncate", "write", "utime", "rename", "scandir"} <= set(calls)


def test_a_full_disk_removes_copies_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(3, 2000)
    write, room = shared_directory._write, 20 << 10

    def limited(handle: int, part: bytes) -> None:
        used = sum(path.stat().st_size for ending in ("lookup", "tmp") for path in copies(tmp_path, ending))
        if used + len(part) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(handle, part)

    monkeypatch.setattr(shared_directory, "_write", limited)
    all_right(table, shared(tmp_path), 2000, 3)
    assert len(copies(tmp_path)) == 1
    room = 0
    cache = shared(tmp_path)
    all_right(table, cache, 2000, 3)  # from copies of its own
    assert copies(tmp_path) == []


@pytest.mark.parametrize("case", ["others may write", "a link", "a file"])
def test_a_directory_that_is_not_of_this_user_alone_is_not_used(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / f"lakecore-shared-lookup-{os.getuid()}"
    if case == "others may write":
        path.mkdir()
        path.chmod(0o777)
    elif case == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text("")
    assert ask(table_of(1, 500), shared(tmp_path), 5) == {"k": 5, "v": "0-000005"}
    assert "cannot share copies there" in caplog.text
    assert list(tmp_path.rglob("*.lookup")) == []


def test_who_waits_for_a_process_that_does_not_go_on_makes_a_copy_of_its_own(tmp_path: Path) -> None:
    table, clock = table_of(1, 500), FakeClock()
    ask(table, shared(tmp_path), 5)
    (path,) = copies(tmp_path)
    left = path.rename(path.with_suffix(".tmp"))
    with left.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert ask(table, shared(tmp_path, clock=clock), 5) == {"k": 5, "v": "0-000005"}
        assert 30 < sum(clock.slept) < 32
        assert (copies(tmp_path), copies(tmp_path, "tmp")) == ([], [left])
    assert ask(table, shared(tmp_path), 5) == {"k": 5, "v": "0-000005"}
    assert (copies(tmp_path), copies(tmp_path, "tmp")) == ([path], [])


SCRIPT = """
import json, os, sys, time
import lakecore
from lakecore.lookup.query.copy_writer import DataFileCopy
from lakecore.lookup.query.lookup_cache import LookupCache
warehouse, folder, how = sys.argv[1:]
table = lakecore.load_catalog(warehouse).load_table("d.t")
plain = DataFileCopy.parts
def parts(self):
    for number, part in enumerate(plain(self)):
        yield part
        if how == "stop":
            open(os.path.join(folder, "stopped"), "w").close()
            time.sleep(600)
DataFileCopy.parts = parts
cache = LookupCache([folder], shared=True)
with table.new_query(cache=cache) as query:
    query.refresh()
    print("ready", flush=True)
    sys.stdin.readline()
    rows = [query.lookup((), 0, (key,)) for key in range(0, 27000, 100)]
    print(json.dumps([cache.copies_written, [row and row["v"] for row in rows]]), flush=True)
"""


@pytest.fixture
def stored(tmp_path: Path) -> Table:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    return fill(catalog.create_table("d.t", DEFINITION), 3)


@pytest.fixture
def start(stored: Table, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def begin(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "lake"), str(tmp_path), how]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        return running[-1]

    yield begin
    for process in running:
        with suppress(OSError):
            process.kill()
        process.communicate()


def test_processes_that_ask_at_once_make_each_copy_once(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path, stored: Table
) -> None:
    processes = [start("go on") for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    expected = [f"{key // ROWS}-{key % ROWS:06d}" for key in range(0, 27000, 100)]
    assert [rows for _, rows in answers] == [expected] * 2
    assert sum(made for made, _ in answers) == 3
    assert (len(copies(tmp_path)), copies(tmp_path, "tmp")) == (3, [])
    again = shared(tmp_path)
    all_right(stored, again, ROWS, 3)
    assert again.copies_written == 0


def test_a_process_is_killed_while_it_makes_a_copy(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path, stored: Table
) -> None:
    process = start("stop")
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    end = time.monotonic() + 20
    while not (tmp_path / "stopped").exists() and time.monotonic() < end:
        time.sleep(0.01)
    (left,) = copies(tmp_path, "tmp")
    assert left.stat().st_size > 0
    with stored.new_query(cache=shared(tmp_path)) as query:
        query.refresh()
        assert left.exists()  # its maker lives
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert query.lookup((), 0, (20000,)) is not None  # another file: what was left is removed
        assert (len(copies(tmp_path)), copies(tmp_path, "tmp")) == (1, [])
    left.write_bytes(b"part of a copy" * 100)
    cache = shared(tmp_path)
    all_right(stored, cache, ROWS, 3)
    assert cache.copies_written == 2
    assert copies(tmp_path, "tmp") == []
