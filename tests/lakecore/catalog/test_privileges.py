"""Users and privileges: what each door asks for, and what changes of names and failing storage leave of them."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.catalog.privileges.grants import Privilege, Securable
from lakecore.catalog.privileges.manager import Privileges
from lakecore.catalog.privileges.records import PrivilegeRecords
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError, NotFoundError, PrivilegeError
from lakecore.fs.file_io import FileIO
from lakecore.jobs.analyze import Job as Analyze
from lakecore.jobs.analyze import run as analyze
from lakecore.jobs.compact import Job as Compact
from lakecore.jobs.compact import run as compact
from lakecore.jobs.holds import HoldTable
from lakecore.jobs.holds import run as hold
from lakecore.jobs.rewrite_file_index import Job as IndexJob
from lakecore.jobs.rewrite_file_index import run as index
from lakecore.jobs.versions.branches import CreateBranch
from lakecore.jobs.versions.branches import run as change_branch
from lakecore.table import Table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import memory_catalog

ROWS = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]})
KEYED = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
TABLE = Securable("d", "t")


def opened(catalog: FilesystemCatalog, user: str, password: str | None = None) -> FilesystemCatalog:
    options = {"user": user, "password": f"of-{user}" if password is None else password}
    found = Privileges.open(catalog.file_io, catalog.warehouse, catalog.clock, options)
    return replace(catalog, privileges=found)


def started(catalog: FilesystemCatalog) -> None:
    Privileges.open(catalog.file_io, catalog.warehouse, catalog.clock, {}).init("of-root")


def records(catalog: FilesystemCatalog) -> PrivilegeRecords:
    return PrivilegeRecords.of(catalog.file_io, catalog.warehouse, catalog.clock)


def manager(catalog: FilesystemCatalog, user: str = "root") -> Privileges:
    found = opened(catalog, user).privileges
    assert found is not None
    return found


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> FilesystemCatalog:
    """A warehouse with the table d.t, root and the user ann without privileges."""
    catalog = memory_catalog(request.node.name)
    catalog.create_table("d.t", KEYED).upsert(ROWS)
    started(catalog)
    manager(catalog).create_user("ann", "of-ann")
    return catalog


READS: dict[str, Callable[[Table], object]] = {
    "scan": lambda t: t.scan(),
    "stream": lambda t: t.stream(),
    "query": lambda t: t.new_query(),
    "lookup": lambda t: t.new_lookup(["k"]),
}
WRITES: dict[str, Callable[[Table], object]] = {
    "upsert": lambda t: t.upsert(ROWS),
    "overwrite": lambda t: t.overwrite(ROWS),
    "batch": lambda t: t.new_batch_write(),
    "stream": lambda t: t.new_stream_write("u"),
    "tag": lambda t: t._stores.file_io.write_new(f"{t.path}/tag/tag-x", b"{}"),
    "snapshot": lambda t: t._stores.file_io.delete(f"{t.path}/snapshot/snapshot-1"),
}


@pytest.mark.parametrize("door", READS)
def test_rows_need_select(lake: FilesystemCatalog, door: str) -> None:
    manager(lake).grant("ann", Privilege.INSERT, TABLE)
    with pytest.raises(PrivilegeError, match=r"ann does not have the privilege SELECT on table d.t"):
        READS[door](opened(lake, "ann").load_table("d.t"))
    manager(lake).grant("ann", Privilege.SELECT, TABLE)
    READS[door](opened(lake, "ann").load_table("d.t"))


@pytest.mark.parametrize("door", WRITES)
def test_changes_need_insert(lake: FilesystemCatalog, door: str) -> None:
    manager(lake).grant("ann", Privilege.SELECT, TABLE)
    with pytest.raises(PrivilegeError, match=r"ann does not have the privilege INSERT on table d.t"):
        WRITES[door](opened(lake, "ann").load_table("d.t"))
    manager(lake).grant("ann", Privilege.INSERT, TABLE)
    WRITES[door](opened(lake, "ann").load_table("d.t"))


def test_deletes_by_condition_need_both(lake: FilesystemCatalog) -> None:
    for privilege in (Privilege.SELECT, Privilege.INSERT):
        with pytest.raises(PrivilegeError):
            opened(lake, "ann").load_table("d.t").delete("k = 1")
        manager(lake).grant("ann", privilege, TABLE)
    assert opened(lake, "ann").load_table("d.t").delete("k = 1").rows == 1


def test_chores_and_holds_need_insert(lake: FilesystemCatalog) -> None:
    manager(lake).grant("ann", Privilege.SELECT, TABLE)
    ann = opened(lake, "ann")
    with pytest.raises(PrivilegeError):
        analyze(Analyze(table="d.t"), ann)
    with pytest.raises(PrivilegeError):
        hold(HoldTable(table="d.t", reason="because"), ann)
    with pytest.raises(PrivilegeError):
        compact(Compact(table="d.t"), ann)
    with pytest.raises(PrivilegeError):
        index(IndexJob(table="d.t", options={"file-index.bloom-filter.columns": "k"}), ann)
    manager(lake).grant("ann", Privilege.INSERT, Securable("d"))
    compact(Compact(table="d.t"), opened(lake, "ann"))


def test_a_reader_stores_the_position_of_its_consumer_and_nothing_else(lake: FilesystemCatalog) -> None:
    manager(lake).grant("ann", Privilege.SELECT, TABLE)
    table = opened(lake, "ann").load_table("d.t")
    stream = table.stream(consumer="c")
    stream.poll()
    stream.acknowledge()
    assert [one.id for one in table._stores.consumers.list()] == ["c"]
    with pytest.raises(PrivilegeError):
        table._stores.file_io.write_new(f"{table.path}/consumer/a/b", b"")


def test_schemas_and_names_are_open_to_every_user(lake: FilesystemCatalog) -> None:
    ann = opened(lake, "ann")
    assert ann.list_tables("d") == ["t"]
    table = ann.load_table("d.t")
    assert table.schema.primary_keys == ("k",)
    for read in (table.latest_snapshot, table.tags, lambda: ann.load_table("d.t$files")):
        with pytest.raises(PrivilegeError):
            read()
    assert ann.load_table("sys.tables").scan().to_arrow()["table_name"].to_pylist() == ["t"]
    assert ann.load_table("sys.partitions").scan().to_arrow().num_rows == 0


DDL: dict[Privilege, Callable[[FilesystemCatalog], object]] = {
    Privilege.CREATE_TABLE: lambda c: c.create_table("d.u", KEYED),
    Privilege.ALTER_TABLE: lambda c: c.alter_table(
        "d.t", [{"op": "set", "key": "snapshot.num-retained.max", "value": "20"}]
    ),
    Privilege.DROP_TABLE: lambda c: c.drop_table("d.t"),
    Privilege.DROP_DATABASE: lambda c: c.drop_database("d", cascade=True),
    Privilege.CREATE_DATABASE: lambda c: c.create_database("e"),
}


@pytest.mark.parametrize("privilege", DDL)
def test_changes_of_names_need_their_privilege(lake: FilesystemCatalog, privilege: Privilege) -> None:
    for other in Privilege:
        if other not in (privilege, Privilege.ADMIN):
            manager(lake).grant("ann", other, Securable())
    with pytest.raises(PrivilegeError, match=f"privilege {privilege} on"):
        DDL[privilege](opened(lake, "ann"))
    manager(lake).grant("ann", privilege, Securable())
    DDL[privilege](opened(lake, "ann"))


def test_a_rename_takes_privileges_along_and_a_drop_ends_them(lake: FilesystemCatalog) -> None:
    root, users = opened(lake, "root"), manager(lake)
    root.create_table("d.t2", KEYED)
    for on in (TABLE, Securable("d", "t2")):
        users.grant("ann", Privilege.SELECT, on)
    root.rename_table("d.t", "d.new")
    assert {one.identifier for one in users.list()} == {"d.new", "d.t2"}
    root.drop_table("d.new")
    assert {one.identifier for one in users.list()} == {"d.t2"}, "d.t2 is no part of d.new"
    root.restore_table("d.new")
    with pytest.raises(PrivilegeError):
        opened(lake, "ann").load_table("d.new").scan()
    root.drop_database("d", cascade=True)
    assert users.list() == ()


def test_a_privilege_on_a_table_holds_for_its_branches(lake: FilesystemCatalog) -> None:
    change_branch(CreateBranch(table="d.t", branch="b"), opened(lake, "root"))
    manager(lake).grant("ann", Privilege.SELECT, TABLE)
    ann = opened(lake, "ann")
    ann.load_table("d.t$branch_b").scan().to_arrow()
    ann.load_table("d.t").scan(branch="b").to_arrow()
    manager(lake).revoke("ann", Privilege.SELECT, TABLE)
    manager(lake).grant("ann", Privilege.SELECT, Securable("d", "t$branch_b"))
    opened(lake, "ann").load_table("d.t$branch_b").scan().to_arrow()
    with pytest.raises(PrivilegeError):
        opened(lake, "ann").load_table("d.t").scan()


def test_an_open_catalog_obeys_what_is_granted_and_revoked_later(lake: FilesystemCatalog) -> None:
    ann = opened(lake, "ann")
    manager(lake).grant("ann", Privilege.SELECT, TABLE)
    ann.load_table("d.t").scan().to_arrow()
    again: FilesystemCatalog = pickle.loads(pickle.dumps(ann))
    manager(lake).revoke("ann", Privilege.SELECT, Securable())
    for catalog in (ann, again):
        with pytest.raises(PrivilegeError):
            catalog.load_table("d.t").scan()
    manager(lake).drop_user("ann")
    with pytest.raises(PrivilegeError, match="is not known"):
        ann.load_table("d.t")


def test_only_an_administrator_changes_users(lake: FilesystemCatalog) -> None:
    ann = manager(lake, "ann")
    for call in (
        lambda: ann.create_user("x", "y"),
        lambda: ann.drop_user("ann"),
        lambda: ann.grant("ann", Privilege.ADMIN, Securable()),
        lambda: ann.revoke("ann", Privilege.SELECT, TABLE),
        ann.users,
    ):
        with pytest.raises(PrivilegeError, match="ADMIN"):
            call()
    manager(lake).grant("ann", Privilege.ADMIN, Securable())
    ann.create_user("x", "y")
    assert ann.users() == ("ann", "anonymous", "root", "x")


def test_what_cannot_be_granted_is_refused(lake: FilesystemCatalog) -> None:
    root = manager(lake)
    cases: tuple[tuple[type[LakeError], Callable[[], object]], ...] = (
        (InvalidInputError, lambda: root.grant("ann", Privilege.CREATE_TABLE, TABLE)),
        (InvalidInputError, lambda: root.grant("ann", Privilege.ADMIN, Securable("d"))),
        (InvalidInputError, lambda: root.grant("root", Privilege.SELECT, TABLE)),
        (InvalidInputError, lambda: root.drop_user("anonymous")),
        (InvalidInputError, lambda: root.create_user(" x", "y")),
        (InvalidInputError, lambda: root.create_user("x", "")),
        (InvalidInputError, lambda: Privilege.parse("OWN")),
        (NotFoundError, lambda: root.grant("nobody", Privilege.SELECT, TABLE)),
        (NotFoundError, lambda: root.revoke("ann", Privilege.SELECT, TABLE)),
        (AlreadyExistsError, lambda: root.create_user("ann", "other")),
        (AlreadyExistsError, lambda: root.init("other")),
    )
    for error, call in cases:
        with pytest.raises(error):
            call()
    assert root.list() == ()


def test_options_of_users_are_refused_where_there_are_none() -> None:
    catalog = memory_catalog("no-users")
    for key in ("user", "password"):
        with pytest.raises(
            InvalidInputError, match=f"catalog option {key}: this warehouse has no users"
        ) as refused:
            Privileges.open(catalog.file_io, catalog.warehouse, catalog.clock, {key: "geheim"})
        assert "geheim" not in str(refused.value)


def test_passwords_are_in_no_text(lake: FilesystemCatalog) -> None:
    ann = opened(lake, "ann")
    texts = repr((ann, ann.privileges, ann.load_table("d.t"), ann.load_table("d.t")._stores))
    assert "of-ann" not in texts
    assert repr(sha256(b"of-ann").digest()) not in texts


MODES = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_start_that_fails_anywhere_lets_no_stranger_in_and_is_completed(mode: FaultMode) -> None:
    def init(file_io: FileIO, catalog: FilesystemCatalog) -> None:
        Privileges.open(file_io, catalog.warehouse, catalog.clock, {}).init("of-root")

    for number in itertools.count(1 + MODES.index(mode), len(MODES)):  # the others fail in another mode
        catalog = memory_catalog(f"start-{mode.value}-{number}")
        storage = FaultyFileIO(catalog.file_io, number, mode)
        try:
            init(storage, catalog)
        except (LakeError, KeyboardInterrupt):
            assert storage.fired
        state = records(catalog).state()
        if not all(state):
            if any(state):
                with pytest.raises(PrivilegeError, match="was interrupted"):
                    Privileges.open(catalog.file_io, catalog.warehouse, catalog.clock, {})
            Privileges(records(catalog), "", b"").init("of-root")
        assert manager(catalog).users() == ("anonymous", "root")
        if not storage.fired:
            break


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_user_whose_drop_fails_leaves_nothing_to_the_next_of_that_name(mode: FaultMode) -> None:
    for number in itertools.count(1 + MODES.index(mode), len(MODES)):  # the others fail in another mode
        catalog = memory_catalog(f"drop-{mode.value}-{number}")
        started(catalog)
        manager(catalog).create_user("ann", "of-ann")
        manager(catalog).grant("ann", Privilege.SELECT, Securable())
        storage = FaultyFileIO(catalog.file_io, number, mode)
        try:
            manager(replace(catalog, file_io=storage)).drop_user("ann")
        except (LakeError, KeyboardInterrupt):
            assert storage.fired
        root = manager(catalog)
        if "ann" not in root.users():
            assert root.list() == ()
        if not storage.fired:
            break
