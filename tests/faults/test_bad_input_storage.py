"""Storage that changes or refuses under a reader and a job: expiry meanwhile, and a warehouse that nobody may write."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.cli.main import main
from lakecore.errors import NotFoundError, UnavailableError
from lakecore.fs.failures import translate
from lakecore.jobs.compact import Job, Strategy, run, run_many
from lakecore.metadata.snapshot import Snapshot
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.fault_fs import FaultyFileIO
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, memory_catalog, paths_of, put, rows_of

COLUMNS = ("k INT", "v STRING")


def job(name: str, user: str = "job", **fields: Any) -> Job:
    return Job(table=name, strategy=Strategy.FULL, commit_user=user, **fields)


def expire(table: Table, *, snapshots: bool = True) -> None:
    """Keep what the latest snapshot needs; `snapshots` False: as far as an expiry has come that deletes those last."""
    *old, latest = (
        table._stores.snapshots.load(snapshot_id) for snapshot_id in table._stores.snapshots.list_ids()
    )
    needless = set().union(*(_named(table, snapshot) for snapshot in old)) - _named(table, latest)
    for path in paths_of(table, "/bucket-") | paths_of(table, "/manifest/"):
        if path.rpartition("/")[2] in needless:
            table._stores.file_io.delete(path)
    for snapshot in old if snapshots else ():
        table._stores.file_io.delete(table._stores.paths.snapshot(snapshot.id))
        table._stores.file_io.overwrite(table._stores.paths.earliest_hint, str(latest.id).encode())


def _named(table: Table, snapshot: Snapshot) -> set[str]:
    manifests = table._stores.manifests.data_manifests(snapshot)
    lists = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
    files = {file.file_name for file in table._scanner.live_entries(snapshot).files()}
    return lists | {manifest.file_name for manifest in manifests} | files


class Meanwhile(FaultyFileIO):
    """Does `action` once, before the first operation on a path that contains `part`."""

    def __init__(self, inner: Any, part: str, action: Callable[[], object]) -> None:
        super().__init__(inner)
        self._waiting = [(part, action)]

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if self._waiting and self._waiting[0][0] in path:
            self._waiting.pop()[1]()
        return super().operation(name, path, effect, torn)


@pytest.fixture(params=["keyed", "append"])
def table(request: pytest.FixtureRequest) -> Table:
    """Four snapshots of a file each."""
    catalog = memory_catalog("storage")
    table = (key_table if request.param == "keyed" else append_table)(catalog, COLUMNS)
    put(table, *([{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 4)] for n in range(4)))
    return table


def catalog_of(table: Table) -> FilesystemCatalog:
    return replace(memory_catalog("other"), file_io=table._stores.file_io, warehouse="memory://storage/wh")


def compacted_and_expired(table: Table, **how: bool) -> Callable[[], None]:
    def action() -> None:
        run(job(table.name, "rival"), catalog_of(table))
        expire(table, **how)

    return action


@pytest.mark.parametrize("part", ["/manifest/manifest-list-", "/manifest/manifest-", "/bucket-0/"])
@pytest.mark.parametrize("snapshots", [True, False], ids=["gone", "going"])
def test_a_snapshot_expired_while_it_is_read(table: Table, part: str, snapshots: bool) -> None:
    before = rows_of(table)
    action = compacted_and_expired(table, snapshots=snapshots)
    scan = with_stores(table, file_io=Meanwhile(table._stores.file_io, part, action)).scan()
    with pytest.raises(NotFoundError) as caught:
        scan.to_arrow()
    assert "expired" in str(caught.value)
    assert "read again" in str(caught.value) or "read a newer snapshot" in str(caught.value)
    assert rows_of(table) == before


@pytest.mark.parametrize("part", ["/manifest/manifest-list-", "/manifest/manifest-", "/bucket-0/"])
def test_inputs_of_a_compaction_expired_meanwhile(table: Table, part: str) -> None:
    """Another compaction was faster, and its inputs, which are ours, are gone."""
    before = rows_of(table)
    storage = Meanwhile(table._stores.file_io, part, compacted_and_expired(table))
    [report] = run_many([job(table.name)], replace(catalog_of(table), file_io=storage))
    assert report.error is not None
    assert "expired" in report.error
    assert report.snapshots == ()
    assert rows_of(table) == before
    check = fsck(
        table._stores.file_io, table._stores.paths, now_ms=table._stores.clock.now_ms(), read_data=True
    )
    assert check.findings == ()
    assert run(job(table.name, "later"), catalog_of(table)).nothing_to_do


def test_a_commit_on_a_snapshot_that_expires_meanwhile(table: Table) -> None:
    """Planning starts over on the newer one."""

    def action() -> None:
        put(table, [{"k": 9, "v": "other"}])
        expire(table)

    expected = sorted([*rows_of(table), (8, "mine"), (9, "other")], key=repr)
    storage = Meanwhile(table._stores.file_io, "/manifest/manifest-list-", lambda: None)
    written: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"k": pa.array([8], pa.int32()), "v": ["mine"]})
        storage._waiting = [("/manifest/manifest-list-", action)]  # the commit begins
        written.append(1)

    with_stores(table, file_io=storage).write(rows())
    assert written
    assert not storage._waiting
    assert rows_of(table) == expected


class ReadOnly(FaultyFileIO):
    """A file system mounted read-only."""

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if name in ("open_output", "write_new", "publish", "overwrite", "delete"):
            raise translate(OSError(errno.EROFS, "Read-only file system"), name, path)
        return effect()


def test_a_read_only_storage(table: Table) -> None:
    before = rows_of(table)
    storage = ReadOnly(table._stores.file_io)
    readable = with_stores(table, file_io=storage)
    assert rows_of(readable) == before
    remedy = "mounted read-only; remount it writable or choose another warehouse"
    with pytest.raises(UnavailableError, match=remedy):
        put(readable, [{"k": 1, "v": "x"}])
    catalog = replace(catalog_of(table), file_io=storage)
    with pytest.raises(UnavailableError, match=remedy):
        run(job(table.name), catalog)
    with pytest.raises(UnavailableError, match=remedy):
        catalog.create_table("d.new", {"columns": ["k INT"]})
    assert run(job(table.name, dry_run=True), catalog).planned
    assert rows_of(table) == before


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that other users may enter, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="lakecore-unwritable-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_a_warehouse_of_another_user(shared: Path) -> None:
    """Run as root the commands give up their rights first; else the directories lose theirs."""
    catalog = load_catalog(str(shared / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(catalog, COLUMNS)
    put(table, *([{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 4)] for n in range(4)))
    before = {str(path) for path in shared.rglob("*")}
    shutil.copytree(shared / "lake", shared / "copy")
    (shared / "rows.jsonl").write_text('{"k": 1, "v": "x"}\n')
    (shared / "answers").mkdir()
    (shared / "answers").chmod(0o777)
    if os.geteuid() != 0:
        for path in (shared / "lake", *(p for p in (shared / "lake").rglob("*") if p.is_dir())):
            path.chmod(0o555)
    process = multiprocessing.get_context("forkserver").Process(target=_as_another_user, args=(str(shared),))
    process.start()
    process.join(120)
    for path in (shared / "lake").rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    assert process.exitcode == 0
    answers = {path.name: path.read_text() for path in (shared / "answers").iterdir()}
    assert answers.pop("read").startswith("0\n")
    assert sorted(answers) == ["compact", "create", "create-database", "write"]
    for name, answer in answers.items():
        code, *lines = answer.splitlines()
        assert (name, code) == (name, "1")
        [line] = [line for line in lines if "error: " in line]
        assert "permission is denied; give this user access to the path" in line
        assert str(shared / "lake") in line
    after = {str(path) for path in shared.rglob("*") if path.is_relative_to(shared / "lake")}
    ours = {
        path for path in after if "/.lakecore" in path
    }  # the attempt of fsck, before the rights were given up
    assert after - ours == before


def _as_another_user(shared: str) -> None:
    import contextlib
    import io

    commands = {
        "read": ["read", "d.k", "--format", "table"],
        "write": ["write", "d.k", f"{shared}/rows.jsonl"],
        "compact": ["compact", "d.k", "--engine", "local", "--strategy", "full"],
        "create": ["create", "d.new", "--schema", '{"columns": ["k INT"]}'],
        "create-database": ["create", "new.t", "--schema", '{"columns": ["k INT"]}'],
    }
    main(["--warehouse", f"{shared}/lake", "fsck", "d.k"])
    for command in commands.values():  # in a copy: this imports what another user may not read
        main(["--warehouse", f"{shared}/copy", *command])
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for name, command in commands.items():
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(["--warehouse", f"{shared}/lake", *command])
        Path(shared, "answers", name).write_text(f"{code}\n{said.getvalue()}")
