"""A table that is renamed or dropped beneath a commit or a change of its schema: no success is reported for what is not
in the table, and nothing is left where it was. LAKECORE_DROPS_STRIDE=1: a commit at each step of a drop on an object store.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import Commit
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog
from lakecore.catalog.jdbc.lock import JdbcLock
from lakecore.catalog.registry import load_catalog
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    LakeError,
    NotFoundError,
    UnavailableError,
)
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs import compact
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import rows_of
from tests.support.meddling_fs import Meddling

KEYED = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
STRIDE = int(os.environ.get("LAKECORE_DROPS_STRIDE", "9"))
SET = [{"op": "set", "key": "snapshot.time-retained", "value": "5 h"}]


class Afterwards(FaultyFileIO):
    """Calls `meddle` once, when a snapshot has been published."""

    def __init__(self, inner: Any, meddle: Callable[[], object]) -> None:
        super().__init__(inner)
        self._meddle: Callable[[], object] | None = meddle

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        result = super().operation(name, path, effect, torn)
        if self._meddle is not None and name == "publish" and "/snapshot/" in path:
            meddle, self._meddle = self._meddle, None
            meddle()
        return result


def row(number: int) -> pa.Table:
    return pa.table({"k": pa.array([number], pa.int32()), "v": ["x"]})


def made(tmp_path: Path, commits: int) -> FilesystemCatalog:
    catalog = load_catalog(tmp_path)
    assert isinstance(catalog, FilesystemCatalog)
    table = catalog.create_table("d.t", KEYED)
    for number in range(commits):
        table.upsert(row(number))
    return catalog


def commit_to(catalog: FilesystemCatalog, commits: int) -> object:
    """Add a row to a table of less than two commits, or compact it."""
    if commits < 2:
        return catalog.load_table("d.t").upsert(row(commits))
    return compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)


@pytest.mark.parametrize("action", ["rename", "drop"])
@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_commit_that_is_not_in_the_table_is_no_success(tmp_path: Path, commits: int, action: str) -> None:
    catalog = made(tmp_path, commits)

    def meddle() -> object:
        return catalog.rename_table("d.t", "d.u") if action == "rename" else catalog.drop_table("d.t")

    far = replace(catalog, file_io=Meddling(catalog.file_io, "publish", f"snapshot-{commits + 1}", meddle))
    with pytest.raises(CommitUncertainError, match=r"is not part of it; load the table by the name.*again"):
        commit_to(far, commits)
    assert not (tmp_path / "d.db" / "t").exists()
    if action == "drop":
        catalog.restore_table("d.t")
        catalog.rename_table("d.t", "d.u")
    assert rows_of(catalog.load_table("d.u")) == [(number, "x") for number in range(commits)]
    catalog.load_table("d.u").upsert(row(7))
    assert (7, "x") in rows_of(catalog.load_table("d.u"))
    assert rows_of(catalog.create_table("d.t", KEYED)) == []


def test_a_commit_that_may_be_in_the_table_is_found_there(tmp_path: Path) -> None:
    catalog, commit = made(tmp_path, 1), Commit(user="me", identifier=1)
    storage = Afterwards(catalog.file_io, lambda: catalog.rename_table("d.t", "d.u"))
    with pytest.raises(
        CommitUncertainError, match=r"which may be part of it; .* the same user and identifier"
    ):
        replace(catalog, file_io=storage).load_table("d.t").upsert(row(1), commit)
    assert not (tmp_path / "d.db" / "t").exists()
    table = catalog.load_table("d.u")
    assert table.upsert(row(1), commit).duplicate
    assert rows_of(table) == [(0, "x"), (1, "x")]


def test_a_change_of_a_schema_leaves_none_where_the_table_was(tmp_path: Path) -> None:
    catalog = made(tmp_path, 1)
    storage = Meddling(catalog.file_io, "publish", "schema-1", lambda: catalog.rename_table("d.t", "d.u"))
    with pytest.raises(NotFoundError, match=r"'d\.t': it was renamed or dropped during the change"):
        replace(catalog, file_io=storage).alter_table("d.t", SET)
    assert not (tmp_path / "d.db" / "t").exists()
    assert catalog.list_tables("d") == ["u"]
    assert catalog.alter_table("d.u", SET).schema.id == 1


def test_storage_that_cannot_tell_makes_a_commit_uncertain(tmp_path: Path) -> None:
    catalog = made(tmp_path, 1)
    storage = FaultyFileIO(catalog.file_io)
    storage.mode = FaultMode.DEAD
    armed = Afterwards(storage, lambda: setattr(storage, "fail_at", storage.count + 1))
    with pytest.raises(CommitUncertainError, match="could not tell whether the table is still there"):
        replace(catalog, file_io=armed).load_table("d.t").upsert(row(1))
    assert rows_of(catalog.load_table("d.t")) == [(0, "x"), (1, "x")]


def test_a_commit_that_waits_for_the_lock_of_a_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit has looked at the table already, and gets the lock when the directory has moved."""
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "lock.enabled": "true"}
    catalog = load_catalog(tmp_path / "wh", create_warehouse=True, **options)
    assert isinstance(catalog, JdbcCatalog)
    catalog.create_database("d")
    catalog.create_table("d.t", KEYED).upsert(row(0))
    table = load_catalog(tmp_path / "wh", **options).load_table("d.t")
    waits, outcome, acquire = threading.Event(), list[BaseException | None](), JdbcLock.acquire

    @contextmanager
    def telling(lock: JdbcLock) -> Iterator[None]:
        if threading.current_thread() is writer:
            waits.set()
        with acquire(lock):
            yield

    def write() -> None:
        try:
            table.upsert(row(1))
            outcome.append(None)
        except LakeError as err:
            outcome.append(err)

    def begin() -> None:
        writer.start()
        assert waits.wait(60)

    writer = threading.Thread(target=write)
    monkeypatch.setattr(JdbcLock, "acquire", telling)
    storage = Meddling(catalog.file_io, "move_directory", "d.db/t", begin)
    replace(catalog, file_io=storage).rename_table("d.t", "d.u")
    writer.join(60)
    assert isinstance(outcome[0], CommitUncertainError)
    assert not (tmp_path / "wh" / "d.db" / "t").exists()
    assert rows_of(catalog.load_table("d.u")) == [(0, "x")]
    catalog.close()


def test_a_table_without_files_keeps_its_name(tmp_path: Path) -> None:
    catalog = load_catalog(
        tmp_path / "wh", create_warehouse=True, metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/names.db"
    )
    catalog.create_database("d")
    place = Path(catalog.create_table("d.t", KEYED).path)
    place.rename(tmp_path / "away")
    with pytest.raises(
        NotFoundError, match=r"has no files at \S+/d\.db/t; bring them back, or drop the entry"
    ):
        catalog.rename_table("d.t", "d.u")
    assert catalog.list_tables("d") == ["t"]
    (tmp_path / "away").rename(place)
    catalog.rename_table("d.t", "d.u")
    assert rows_of(catalog.load_table("d.u")) == []
    catalog.close()


def test_no_table_is_created_over_snapshots_without_a_schema(tmp_path: Path) -> None:
    catalog = made(tmp_path, 1)
    place = tmp_path / "d.db" / "t"
    (place / "schema").rename(tmp_path / "schema")
    before = sorted(place.rglob("*"))
    with pytest.raises(AlreadyExistsError, match=r"snapshots of a table without schemas.*move"):
        catalog.create_table("d.t", KEYED)
    assert sorted(place.rglob("*")) == before


class ByFile(FaultyFileIO):
    """An object store, which moves files one by one. `meddle` is called once, before operation `number`."""

    def __init__(self, inner: Any, number: int, meddle: Callable[[], object]) -> None:
        super().__init__(inner)
        self._number, self._meddle = number, meddle

    def move_directory(self, path: str, target: str) -> bool:
        return False

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if self.count + 1 == self._number:
            self._meddle()
        return super().operation(name, path, effect, torn)


def test_a_commit_at_each_step_of_a_drop_on_an_object_store() -> None:
    """Nothing is lost, whether the commit reports success or not, and the same commit on the restored table is there once."""
    commit, outcomes = Commit(user="me", identifier=1), list[str]()
    for number in itertools.count(1, STRIDE):
        MemoryFileIO("beneath").clear()
        whole = replace(load_catalog("memory://beneath/wh"), clock=FakeClock())
        assert isinstance(whole, FilesystemCatalog)
        whole.create_table("d.t", KEYED).upsert(row(0))
        table = whole.load_table("d.t")

        def write(table: Table = table) -> None:
            try:
                table.upsert(row(1), commit)
                outcomes.append("success")
            except LakeError as err:
                outcomes.append(type(err).__name__)

        replace(whole, file_io=ByFile(whole.file_io, number, write)).drop_table("d.t")
        if len(outcomes) * STRIDE < number:
            break
        assert not whole.table_exists("d.t"), number
        assert rows_of(whole.create_table("d.t", KEYED)) == []
        whole.drop_table("d.t", purge=True)
        restored = rows_of(whole.restore_table("d.t"))
        assert (1, "x") in restored or outcomes[-1] != "success", (number, outcomes[-1])
        whole.load_table("d.t").upsert(row(1), commit)
        assert rows_of(whole.load_table("d.t")) == [(0, "x"), (1, "x")], (number, outcomes[-1])
    assert {"success", "NotFoundError"} == set(outcomes)


class Stopped(ByFile):
    """An object store whose drop stops when the schemas have moved and the other files are listed."""

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if name == "move" and "/schema/" not in path:
            raise UnavailableError("stopped")
        return super().operation(name, path, effect, torn)


def test_a_commit_that_a_drop_did_not_list_is_no_success() -> None:
    """Its base lies where it was, and still waits to be moved."""
    MemoryFileIO("beneath").clear()
    whole = replace(load_catalog("memory://beneath/wh"), clock=FakeClock())
    assert isinstance(whole, FilesystemCatalog)
    whole.create_table("d.t", KEYED).upsert(row(0))

    def drop() -> None:
        with pytest.raises(UnavailableError, match="stopped"):
            replace(whole, file_io=Stopped(whole.file_io, 0, lambda: None)).drop_table("d.t")

    far = replace(whole, file_io=Meddling(whole.file_io, "publish", "snapshot-2", drop))
    with pytest.raises(CommitUncertainError, match="is not part of it"):
        far.load_table("d.t").upsert(row(1))
    replace(whole, file_io=ByFile(whole.file_io, 0, lambda: None)).drop_table("d.t")
    whole.restore_table("d.t")
    assert rows_of(whole.load_table("d.t")) == [(0, "x")]
