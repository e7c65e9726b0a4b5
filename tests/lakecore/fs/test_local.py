"""What is special about local disks: links, durability, and errors with a remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.local import LocalFileIO


def failing(code: int) -> object:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_publish_leaves_no_temporary_file(tmp_path: Path) -> None:
    storage = LocalFileIO()
    assert storage.publish(f"{tmp_path}/s/snapshot-1", b"1")
    assert not storage.publish(f"{tmp_path}/s/snapshot-1", b"2")
    assert os.listdir(tmp_path / "s") == ["snapshot-1"]


def test_publish_is_durable_before_it_is_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    link, fsync = os.link, os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(os, "link", lambda *a, **m: (steps.append("link"), link(*a, **m))[1])
    LocalFileIO().publish(f"{tmp_path}/snapshot-1", b"1")
    assert steps.index("fsync") < steps.index("link")
    assert steps[-1] == "fsync"


def test_without_sync_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    storage = LocalFileIO(sync=False)
    assert storage.publish(f"{tmp_path}/a/snapshot-1", b"1")
    storage.write_new(f"{tmp_path}/b/file", b"1")


def test_a_repeated_link_request_that_had_landed_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def landed_but_reports_taken(source: str, target: str, **more: Any) -> None:
        link(source, target, **more)
        raise FileExistsError(errno.EEXIST, "exists")

    monkeypatch.setattr(os, "link", landed_but_reports_taken)
    assert LocalFileIO().publish(f"{tmp_path}/snapshot-1", b"1")


def test_a_failed_sync_after_the_link_is_uncertain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def link_then_break(source: str, target: str, **more: Any) -> None:
        link(source, target, **more)
        monkeypatch.setattr(os, "fsync", failing(errno.EIO))

    monkeypatch.setattr(os, "link", link_then_break)
    with pytest.raises(CommitUncertainError, match="snapshot-1"):
        LocalFileIO().publish(f"{tmp_path}/snapshot-1", b"1")


def test_file_systems_without_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(UnsupportedError, match="no hard links"):
        LocalFileIO().publish(f"{tmp_path}/snapshot-1", b"1")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "permission is denied"),
        (errno.EROFS, "read-only"),
    ],
)
def test_refusals_name_path_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    monkeypatch.setattr("lakecore.fs.local.os.fsync", failing(code))
    with pytest.raises(UnavailableError, match=f"cannot write {tmp_path}/file: .*{remedy}"):
        LocalFileIO().write_new(f"{tmp_path}/file", b"x")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_midway_leaves_nothing(tmp_path: Path) -> None:
    full = Path("/dev/full")
    target = tmp_path / "out"
    output = LocalFileIO().open_output(str(target))
    os.dup2(os.open(full, os.O_WRONLY), output._file.fileno())
    output.write(b"x" * 100)
    with pytest.raises(UnavailableError, match="disk is full"):
        output.close()
    assert not target.exists()


def test_an_unwritable_directory_is_named(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o500)
    user = os.geteuid()
    if user == 0:  # root may write anywhere
        os.seteuid(65534)
    try:
        with pytest.raises(UnavailableError, match="permission is denied"):
            LocalFileIO().write_new(f"{tmp_path}/d/file", b"x")
    finally:
        os.seteuid(user)


def test_a_file_in_the_place_of_a_directory(tmp_path: Path) -> None:
    storage = LocalFileIO()
    storage.write_new(f"{tmp_path}/f", b"x")
    with pytest.raises(UnavailableError, match="not a directory"):
        storage.write_new(f"{tmp_path}/f/g", b"x")
    assert storage.stat(f"{tmp_path}/f/g") is None
    with pytest.raises(NotFoundError):
        storage.open_input(f"{tmp_path}/absent")
    with pytest.raises(UnavailableError, match="directory"):
        storage.read(str(tmp_path))


def test_delete_takes_empty_directories_only(tmp_path: Path) -> None:
    storage = LocalFileIO()
    storage.write_new(f"{tmp_path}/d/f", b"x")
    with pytest.raises(UnavailableError, match="not empty"):
        storage.delete(f"{tmp_path}/d")
    storage.delete(f"{tmp_path}/d/f")
    storage.delete(f"{tmp_path}/d")
    assert os.listdir(tmp_path) == []


def test_names_with_nul_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="NUL"):
        LocalFileIO().read(f"{tmp_path}/a\0b")


def test_a_move_without_hard_links_takes_the_place_of_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalFileIO(sync=False)
    for name in ("old", "taken"):
        storage.write_new(f"{tmp_path}/{name}", name.encode())
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(AlreadyExistsError):
        storage.move(f"{tmp_path}/old", f"{tmp_path}/taken")
    assert {name: storage.read(f"{tmp_path}/{name}") for name in ("old", "taken")} == {
        "old": b"old",
        "taken": b"taken",
    }
    storage.move(f"{tmp_path}/old", f"{tmp_path}/new")
    assert storage.read(f"{tmp_path}/new") == b"old"
    assert storage.stat(f"{tmp_path}/old") is None
