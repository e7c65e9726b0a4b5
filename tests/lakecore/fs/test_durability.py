"""What is made durable, and in which order: the system calls of `LocalFileIO`, recorded."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import UnavailableError
from lakecore.fs.local import LocalFileIO

Calls = list[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calls:
    """`fsync NAME`, `link NAME`, `replace NAME`, `unlink NAME`, `mkdir NAME`; temporary files are `temporary`."""
    found: Calls = []

    def path_of(name: str, within: int | None) -> str:
        return name if within is None else os.path.join(os.readlink(f"/proc/self/fd/{within}"), name)

    def name_of(path: str) -> str:
        name = os.path.relpath(path, tmp_path)
        return "temporary" if name.endswith(".tmp") else name

    def recorded(name: str, of: Callable[..., str], within: str = "dir_fd") -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **more: Any) -> Any:
            path = path_of(of(*arguments), more.get(within))
            if path.startswith(str(tmp_path)):
                found.append(f"{name} {name_of(path)}")
            return real(*arguments, **more)

        monkeypatch.setattr(os, name, call)

    recorded("fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
    recorded("link", lambda _, target: str(target), "dst_dir_fd")
    recorded("replace", lambda _, target: str(target), "dst_dir_fd")
    recorded("unlink", lambda path: str(path))
    recorded("mkdir", lambda path, *_: str(path))
    return found


@pytest.fixture(params=["free", "below-a-root"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> LocalFileIO:
    """With and without the directory below which no link is followed."""
    return LocalFileIO(roots=() if request.param == "free" else (str(tmp_path),))


def test_a_published_file_and_its_name_are_durable(
    calls: Calls, storage: LocalFileIO, tmp_path: Path
) -> None:
    """The bytes before the name can be seen, the name before the commit counts as done."""
    assert storage.publish(f"{tmp_path}/snapshot-1", b"x")
    assert calls == ["fsync temporary", "link snapshot-1", "fsync .", "unlink temporary"]


def test_a_data_file_and_its_name_are_durable_when_it_is_closed(
    calls: Calls, storage: LocalFileIO, tmp_path: Path
) -> None:
    with storage.open_output(f"{tmp_path}/data") as output:
        output.write(b"x" * 1_000_000)
        assert calls == []
    assert calls == ["fsync data", "fsync ."]


def test_a_large_file_is_made_durable_while_it_is_written(
    calls: Calls, storage: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread makes the first bytes durable, and the close those that were written after them."""
    monkeypatch.setattr("lakecore.fs.local._EARLY_BYTES", 1_000)
    with storage.open_output(f"{tmp_path}/data") as output:
        output.write(b"x" * 999)
        assert calls == []
        output.write(b"x")
        output._early._thread.join()  # type: ignore[attr-defined]
        assert calls == ["fsync data"]
        output.write(b"x")
    assert calls == ["fsync data", "fsync data", "fsync ."]
    assert (tmp_path / "data").stat().st_size == 1_001


@pytest.mark.parametrize("writes", [1, 2])
def test_an_error_of_the_disk_before_the_close_is_not_forgotten(
    storage: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The kernel reports it once: a later `fsync` succeeds, although bytes are lost."""
    monkeypatch.setattr("lakecore.fs.local._EARLY_BYTES", 1_000)
    real, failures = os.fsync, [OSError(errno.EIO, "Input/output error")]

    def fail_once(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    output = storage.open_output(f"{tmp_path}/data")

    def finish() -> None:
        for _ in range(writes):
            output.write(b"x" * 1_000)
            output._early._thread.join()  # type: ignore[attr-defined]
        output.close()

    with pytest.raises(UnavailableError, match="data: the disk reported an input/output error"):
        finish()
    output.abort()
    assert not (tmp_path / "data").exists()


def test_a_close_waits_for_the_thread_that_makes_bytes_durable(
    storage: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.fs.local._EARLY_BYTES", 1_000)
    real, ended = os.fsync, list[int]()

    def slow(descriptor: int) -> None:
        time.sleep(0.2)
        real(descriptor)
        ended.append(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    output = storage.open_output(f"{tmp_path}/data")
    for _ in range(3):  # one thread at a time
        output.write(b"x" * 1_000)
    own = output._file.fileno()  # type: ignore[attr-defined]
    output.close()
    assert len(ended) == 3, "the thread, the file and its directory"
    assert ended[0] != own
    assert ended[1] == own


def test_an_overwritten_file_is_durable_before_it_replaces_the_old_one(
    calls: Calls, storage: LocalFileIO, tmp_path: Path
) -> None:
    storage.overwrite(f"{tmp_path}/LATEST", b"1")
    assert calls == ["fsync temporary", "replace LATEST", "fsync ."]


def test_a_moved_file_has_its_new_name_durably_before_it_loses_the_old_one(
    calls: Calls, storage: LocalFileIO, tmp_path: Path
) -> None:
    storage.write_new(f"{tmp_path}/old", b"x")
    calls.clear()
    storage.move(f"{tmp_path}/old", f"{tmp_path}/kept/new")
    assert calls == ["mkdir kept", "fsync .", "link kept/new", "fsync kept", "unlink old"]


def test_a_new_directory_is_durable_in_its_parent(calls: Calls, storage: LocalFileIO, tmp_path: Path) -> None:
    storage.write_new(f"{tmp_path}/a/b/file", b"x")
    assert calls == ["mkdir a", "fsync .", "mkdir a/b", "fsync a", "fsync a/b/file", "fsync a/b"]


def test_without_sync_nothing_waits_for_the_disk(calls: Calls, storage: LocalFileIO, tmp_path: Path) -> None:
    storage = replace(storage, sync=False)
    storage.publish(f"{tmp_path}/a/snapshot-1", b"x")
    storage.write_new(f"{tmp_path}/a/data", b"x")
    storage.overwrite(f"{tmp_path}/a/LATEST", b"x")
    assert not [call for call in calls if call.startswith("fsync")]
