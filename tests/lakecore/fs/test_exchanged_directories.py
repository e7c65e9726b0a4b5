"""Somebody exchanges a directory for a symbolic link while a file below it is changed: before each system call."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import LakeError
from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.confined import ConfinedFileIO
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO

_CALLS = ("open", "unlink", "link", "replace", "rename", "mkdir", "rmdir", "stat", "lstat", "fsync", "close")


def _close(storage: FileIO, path: str) -> None:
    with storage.open_output(f"{path}-new") as output:
        output.write(b"x")


def _abort(storage: FileIO, path: str) -> None:
    output = storage.open_output(f"{path}-new")
    output.write(b"x")
    output.abort()


CHANGES: dict[str, Callable[[FileIO, str], Any]] = {
    "close": _close,
    "abort": _abort,
    "write-new": lambda storage, path: storage.write_new(f"{path}-new", b"x"),
    "publish": lambda storage, path: storage.publish(f"{path}-new", b"x"),
    "overwrite": lambda storage, path: storage.overwrite(path, b"x"),
    "delete": lambda storage, path: storage.delete(path),
    "delete-directory": lambda storage, path: storage.delete(f"{os.path.dirname(path)}/empty"),
    "move": lambda storage, path: storage.move(path, f"{os.path.dirname(path)}/other"),
}


@contextmanager
def _exchanging(
    monkeypatch: pytest.MonkeyPatch, number: int, exchange: Callable[[], None]
) -> Iterator[list[str]]:
    """Before system call `number` (from 1) `exchange` happens. Gives the calls that were made."""
    calls: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*arguments: Any, **more: Any) -> Any:
            calls.append(name)
            if len(calls) == number:
                exchange()
            return real(*arguments, **more)

        return call

    with monkeypatch.context() as patch:
        for name in _CALLS:
            patch.setattr(os, name, watched(name))
        yield calls


def _make(root: Path) -> None:
    for top in ("wh", "outside"):
        sub = root / top / "d.db" / "t" / "sub"
        (sub / "empty").mkdir(parents=True)
        for name in ("a", "other-of-outside" if top == "outside" else "b"):
            (sub / name).write_text(f"{top} {name}")


def _state(directory: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(directory)): path.read_text() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def _exchange(victim: Path, outside: Path, aside: Path) -> None:
    victim.rename(aside)
    victim.symlink_to(outside)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_outside_changes(
    change: str, depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in itertools.count(1):
        root = tmp_path / str(number)
        _make(root)
        own = f"{root}/wh/d.db/t"
        storage = ConfinedFileIO(LocalFileIO(), AllowedPaths(warehouse=f"{root}/wh", own=own))
        if _exchanged_and_seen(CHANGES[change], storage, root, depth, number, monkeypatch) < number:
            break
        shutil.rmtree(root)
    assert number > 5


def _exchanged_and_seen(
    change: Callable[[FileIO, str], Any],
    storage: FileIO,
    root: Path,
    depth: int,
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> int:
    """How many system calls the change made, which left everything outside as it was."""
    parts = ("d.db", "t", "sub")[:depth]
    victim, outside = root.joinpath("wh", *parts), root.joinpath("outside", *parts)
    before = _state(root / "outside")
    exchange = partial(_exchange, victim, outside, root / "aside")
    with _exchanging(monkeypatch, number, exchange) as calls, suppress(LakeError):
        change(storage, f"{root}/wh/d.db/t/sub/a")
    assert _state(root / "outside") == before, (number, calls)
    return len(calls)


def test_without_roots_the_exchange_changes_what_is_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above sees it."""
    _make(tmp_path)
    with pytest.raises(AssertionError):
        _exchanged_and_seen(CHANGES["delete"], LocalFileIO(), tmp_path, 3, 1, monkeypatch)


@pytest.mark.parametrize("name", CHANGES)
def test_changes_below_a_root_do_what_they_do_elsewhere(name: str, tmp_path: Path) -> None:
    _make(tmp_path / "1")
    _make(tmp_path / "2")
    for root, roots in ((tmp_path / "1", ()), (tmp_path / "2", (f"{tmp_path}/2/wh",))):
        CHANGES[name](LocalFileIO(roots=roots), f"{root}/wh/d.db/t/sub/a")
    assert _state(tmp_path / "1") == _state(tmp_path / "2")


def test_a_copy_to_another_disk_keeps_time_and_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def linked(source: str, target: str, **more: Any) -> None:
        if more["src_dir_fd"] != more["dst_dir_fd"]:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target, **more)

    monkeypatch.setattr(os, "link", linked)
    _make(tmp_path)
    file, target = tmp_path / "wh/d.db/t/sub/a", tmp_path / "wh/.lakecore/kept/a"
    file.chmod(0o640)
    os.utime(file, ns=(1_000_000_000, 2_000_000_000))
    LocalFileIO(roots=(f"{tmp_path}/wh",)).move(str(file), str(target))
    assert not file.exists()
    found = target.stat()
    assert (target.read_text(), stat.S_IMODE(found.st_mode), found.st_mtime_ns) == ("wh a", 0o640, 2 * 10**9)
    assert os.listdir(target.parent) == ["a"]
