"""Java's HiveCatalog and lakecore's on one real Hive metastore in turns: after each step both show the same.

LAKECORE_HIVE_SEQUENCES: how many random sequences, from the number LAKECORE_HIVE_FIRST on.
LAKECORE_HIVE_VERSION (conftest.py): which Java Paimon.
LAKECORE_HIVE_STRIDE=1: the connection is lost at every request, not at each fifth.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import Commit
from lakecore.catalog.hive.connection import MetastoreConnection, thrift_types
from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.hive.lock import HiveLock
from lakecore.catalog.names import TableName
from lakecore.catalog.registry import load_catalog
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    CorruptDataError,
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.jobs.migration import repair_catalog
from tests.support.catalog_steps import Both, step
from tests.support.cut_proxy import CutProxy, cut_proxy
from tests.support.fake_clock import FakeClock
from tests.support.hive_metastore import HiveServer, emptied, opened
from tests.support.lake import rows_of
from tests.support.meddling_fs import Meddling
from tests.support.oracle import findings

pytestmark = pytest.mark.slow

SEQUENCES = int(os.environ.get("LAKECORE_HIVE_SEQUENCES", "3"))
FIRST = int(os.environ.get("LAKECORE_HIVE_FIRST", "0"))
STEPS = 12
STRIDE = int(os.environ.get("LAKECORE_HIVE_STRIDE", "5"))  # 1: the connection is lost at every request
KEYED = {
    "columns": [
        "k INT NOT NULL",
        {"name": "v", "type": "STRING", "comment": "what it is"},
        "p STRING NOT NULL",
    ],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
    "options": {"bucket": "2", "file.format": "orc", "hive.a": "b"},
    "comment": "of tests",
}
EVERY_TYPE = [
    "a BOOLEAN", "b TINYINT", "c SMALLINT", "d INT", "e BIGINT", "f FLOAT", "g DOUBLE", "h DECIMAL(12, 3)", "i CHAR(7)",
    "j CHAR(300)", "k VARCHAR(9)", "l VARCHAR(70000)", "m STRING", "n BINARY(4)", "o BYTES", "p DATE", "q TIME(3)",
    "r TIMESTAMP(6)", "s TIMESTAMP_LTZ(3)", "t ARRAY<INT>", "u MAP<STRING, DECIMAL(5, 2)>", "v ROW<x INT, y ARRAY<STRING>>",
    "w MULTISET<STRING>", "x VARIANT",
]  # fmt: skip


def entry(catalog: HiveCatalog, name: str) -> dict[str, Any]:
    """The metastore's record, without times, statistics and what depends on the name."""
    record = catalog._metastore.table(TableName.parse(name))
    assert record is not None
    own = ("totalSize", "numFiles", "transient_lastDdlTime", "numFilesErasureCoded")
    record.parameters = {key: value for key, value in sorted(record.parameters.items()) if key not in own}
    directory = f"{name.partition('.')[0]}.db"
    return {
        key: str(value).replace(directory, "DB")
        for key, value in vars(record).items()
        if not key.endswith("Time") and key not in ("dbName", "tableName")
    }


@pytest.fixture(autouse=True)
def empty_metastore(hive: HiveServer) -> None:
    """Tests run in any order on one server, and each begins without what another one left."""
    catalog = opened(hive)
    emptied(catalog)
    catalog.close()


def test_both_see_the_same_after_each_step(hive: HiveServer) -> None:
    total = Counter[str]()
    for number in range(FIRST, FIRST + SEQUENCES):
        chance = random.Random(f"hive {number}")
        both = Both(
            hive.oracle, hive.warehouse, {**hive.options, "lock.enabled": chance.choice(("true", "false"))}
        )
        assert isinstance(both.catalog, HiveCatalog)
        done = []
        for _ in range(STEPS):
            done.append(step(both, chance))
            try:
                both.check()
            except AssertionError as err:
                raise AssertionError(f"sequence {number} after {done}: {err}") from err
        total += both.done
        emptied(both.catalog)
        both.catalog.close()
    succeeded = dict(sorted(total.items()))
    print(f"{SEQUENCES} sequences from {FIRST} on of {STEPS} operations, of which succeeded: {succeeded}")
    assert sum(total.values()) > SEQUENCES


@pytest.mark.parametrize(
    "options",
    [{}, {"location_in_properties": "true"}, {"sync_all_properties": "false"}, {"table.type": "external"}],
    ids=["default", "properties", "unsynced", "external"],
)
def test_the_entries_are_those_of_java(hive: HiveServer, options: dict[str, str]) -> None:
    """The same operations by either leave the same rows in the metastore."""
    java, ours = hive.java(**options), opened(hive, **options)
    change: list[dict[str, str]] = [
        {"op": "set", "key": "snapshot.time-retained", "value": "5 h"},
        {"op": "add", "name": "n", "type": "BIGINT", "comment": "new"},
    ]
    if "sync_all_properties" not in options:  # else Java leaves the copy of it under the name `a`
        change.append({"op": "unset", "key": "hive.a"})
    hive.oracle.call("catalog", java, "create-database", "aj", '{"note": "x", "comment": "c"}')
    ours.create_database("al", properties={"note": "x", "comment": "c"})
    every = {"columns": EVERY_TYPE}
    hive.oracle.call("catalog", java, "create", "aj.e", json.dumps(every))
    ours.create_table("al.e", every)
    assert entry(ours, "al.e") == entry(ours, "aj.e")
    hive.oracle.call("catalog", java, "create", "aj.t", json.dumps(KEYED))
    ours.create_table("al.t", KEYED)
    assert entry(ours, "al.t") == entry(ours, "aj.t")
    hive.oracle.call("catalog", java, "alter", "aj.t", json.dumps(change))
    ours.alter_table("al.t", change)
    assert entry(ours, "al.t") == entry(ours, "aj.t")
    ours.rename_table("al.t", "al.u")
    if "location_in_properties" in options:
        ours.rename_table(
            "aj.t", "aj.u"
        )  # Java's rename loses the files here: the property keeps the old place
    else:
        hive.oracle.call("catalog", java, "rename", "aj.t", "aj.u")
    assert entry(ours, "al.u") == entry(ours, "aj.u")
    for name in ("aj", "al"):
        ours.load_table(f"{name}.u").upsert(pa.table({"k": [1], "v": ["a"], "p": ["x"], "n": [2]}))
        assert len(hive.oracle.read(java, f"{name}.u")) == 1
        assert findings(hive.oracle.fsck(java, f"{name}.u")) == set()
    emptied(ours)
    ours.close()
    for name in ("aj", "al"):
        shutil.rmtree(hive.warehouse / f"{name}.db", ignore_errors=True)  # the files of external tables


def test_no_commit_under_the_lock_is_lost(hive: HiveServer) -> None:
    """Both append at once, without the settle time that lakecore needs beside Java where there is no lock."""
    rounds = int(os.environ.get("LAKECORE_LOCK_ROUNDS", "12"))
    lock = {"lock.enabled": "true", "lock-check-max-sleep": "100 ms"}
    catalog, java = opened(hive, **lock), hive.java(**lock)
    catalog.create_database("d")
    options = {
        "lakecore.commit.settle-time": "0 ms",
        "bucket": "-1",
        "write-only": "true",
        "commit.max-retries": "200",
    }
    catalog.create_table("d.t", {"columns": ["v INT", "who STRING"], "options": options})
    failures: list[BaseException] = []

    def write() -> None:
        try:
            table = catalog.load_table("d.t")
            for number in range(rounds):
                table.append(pa.table({"v": pa.array([number], pa.int32()), "who": ["lakecore"]}))
        except BaseException as err:  # noqa: BLE001 - of a thread
            failures.append(err)

    writer = threading.Thread(target=write)
    writer.start()
    for number in range(rounds):
        hive.oracle.write(java, "d.t", [{"v": number, "who": "java"}])
    writer.join()
    assert failures == []
    table = catalog.load_table("d.t")
    expected = sorted((number, who) for number in range(rounds) for who in ("java", "lakecore"))
    assert sorted(rows_of(table)) == expected
    found = findings(hive.oracle.fsck(java, "d.t"))
    assert {one for one in found if not one.startswith("orphan: manifest")} == set()
    assert len(list(table.snapshots())) == 2 * rounds
    emptied(catalog)
    catalog.close()


@pytest.fixture(scope="module")
def proxy(hive: HiveServer) -> Iterator[CutProxy]:
    with cut_proxy(hive.port) as found:
        yield found


SMALL = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
OPERATIONS: dict[str, Callable[[HiveCatalog], object]] = {
    "create": lambda one: one.create_table("x.new", SMALL),
    "alter": lambda one: one.alter_table("x.t", [{"op": "add", "name": "n", "type": "INT"}]),
    "rename": lambda one: one.rename_table("x.t", "x.u"),
    "drop": lambda one: one.drop_table("x.t"),
    "database": lambda one: one.create_database("y"),
    "drop-database": lambda one: one.drop_database("z"),
}


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_metastore_that_fails_at_each_call_leaves_what_a_repetition_completes(
    hive: HiveServer, proxy: CutProxy, operation: str, after_effect: bool
) -> None:
    """The connection is lost at request 1, 2, 3, …: the operation succeeds, or it fails and can be repeated."""
    direct, call = opened(hive), OPERATIONS[operation]
    through = load_catalog(
        hive.warehouse,
        metastore="hive",
        uri=f"thrift://127.0.0.1:{proxy.port}",
        **{
            "lock.enabled": "true",
            "hive.metastore.client.socket.timeout": "20",
            "lock-acquire-timeout": "5 s",
        },
    )
    assert isinstance(through, HiveCatalog)
    catalog = replace(through, connection=replace(through.connection, clock=FakeClock()))
    for number in range(1 + list(OPERATIONS).index(operation) % STRIDE, 90, STRIDE):
        direct.create_database("x")
        direct.create_database("z")
        direct.create_table("x.t", SMALL)
        proxy.arm(number, after_effect=after_effect)
        failed = False
        try:
            call(catalog)
        except LakeError:
            failed = True
        fired = proxy.fired
        proxy.arm(0, after_effect=False)
        if failed:
            repeat(catalog, call)
        java = hive.oracle.call("catalog", hive.java(), "show")
        tables = {"create": {"new", "t"}, "rename": {"u"}, "drop": set[str]()}.get(operation, {"t"})
        assert set(java["x"]["tables"]) == tables, f"{operation} cut at request {number}"
        assert ("y" in java, "z" in java) == (operation == "database", operation != "drop-database")
        if operation == "alter":
            record = direct._metastore.table(TableName("x", "t"))
            assert record is not None
            assert [one.name for one in record.sd.cols] == ["k", "v", "n"]
            assert [one["name"] for one in java["x"]["tables"]["t"]["fields"]] == ["k", "v", "n"]
        emptied(direct)
        if not fired:
            break
    assert number > STRIDE or STRIDE > 1
    through.close()


def repeat(catalog: HiveCatalog, call: Callable[[HiveCatalog], object]) -> None:
    """Do what the messages say: repair what is out of step, and repeat the operation unless it was done."""
    for name in ("x.new", "x.t"):
        with contextlib.suppress(NotFoundError):
            catalog.repair_table(name)
    with contextlib.suppress(AlreadyExistsError, NotFoundError):
        call(catalog)


def test_repair_enters_what_has_files_only_and_corrects_what_is_out_of_step(hive: HiveServer) -> None:
    catalog = opened(hive)
    files = load_catalog(hive.warehouse)
    files.create_table("r.t", KEYED)
    files.create_table("r.u", SMALL)
    report = repair_catalog.run(repair_catalog.Job(target="r"), catalog)
    assert report.names == ("r.t", "r.u")
    files.alter_table("r.t", [{"op": "add", "name": "n", "type": "INT"}])
    before = catalog._metastore.table(TableName("r", "t"))
    repair_catalog.run(repair_catalog.Job(target="r.t"), catalog)
    after = catalog._metastore.table(TableName("r", "t"))
    assert before is not None
    assert after is not None
    assert [one.name for one in after.sd.cols] == [*(one.name for one in before.sd.cols), "n"]
    hive.oracle.call("catalog", hive.java(), "create-database", "rj", "{}")
    hive.oracle.call(
        "catalog",
        hive.java(),
        "create",
        "rj.t",
        json.dumps({**KEYED, "columns": [*KEYED["columns"], "n INT"]}),
    )
    assert entry(catalog, "r.t") == entry(catalog, "rj.t")
    assert set(hive.oracle.call("catalog", hive.java(), "show")["r"]["tables"]) == {"t", "u"}
    emptied(catalog)


def test_other_tables_views_and_hostile_entries(hive: HiveServer, tmp_path: Path) -> None:
    """Names of Hive's own tables count, and a location that somebody entered leads nowhere else."""
    catalog, types = opened(hive), thrift_types()
    catalog.create_database("h")
    catalog.create_table("h.t", SMALL)
    descriptor = types.StorageDescriptor(
        cols=[types.FieldSchema("a", "int")], inputFormat="x", outputFormat="y", serdeInfo=types.SerDeInfo()
    )
    for name, kind in (("plain", "EXTERNAL_TABLE"), ("seen", "VIRTUAL_VIEW")):
        catalog._metastore.create_table(
            types.Table(
                tableName=name, dbName="h", tableType=kind, sd=descriptor, partitionKeys=[], parameters={}
            )
        )
        with pytest.raises(AlreadyExistsError, match="a view, or a table that is not Paimon's"):
            catalog.create_table(f"h.{name}", SMALL)
        with pytest.raises(NotFoundError, match=f"h.{name}"):
            catalog.load_table(f"h.{name}")
        with pytest.raises(AlreadyExistsError):
            catalog.rename_table("h.t", f"h.{name}")
    assert catalog.list_tables("h") == ["t"]
    with pytest.raises(InvalidInputError, match=r"holds 1 materialized views and tables .* such as 'plain'"):
        catalog.drop_database("h", cascade=True)
    assert catalog.list_tables("h") == ["t"]
    assert catalog.views.list("h") == ["seen"]
    with pytest.raises(UnsupportedError, match=r"view 'h\.seen': its entry in the metastore has no query"):
        catalog.views.get("h.seen")
    for name in ("T", "a b", "é", "x" * 129, "a-b"):
        with pytest.raises(InvalidInputError, match="a Hive metastore"):
            catalog.create_table(f"h.{name}", SMALL)
        with pytest.raises(InvalidInputError, match="a Hive metastore"):
            catalog.create_database(name)
        assert not (hive.warehouse / "h.db" / name).exists()
    assert not catalog.table_exists("h.T")
    with pytest.raises(InvalidInputError, match="'a' and 'A': a Hive metastore stores one name for both"):
        catalog.create_table("h.twins", {"columns": ["a INT", "A INT"]})
    hostile: list[tuple[str, type[LakeError], str]] = [
        (f"file:{tmp_path}", InvalidOptionError, "external-roots"),
        (f"file:{hive.warehouse}/../x", InvalidOptionError, "external-roots"),
        (f"file:{hive.warehouse}/.lakecore/dropped", CorruptDataError, "lakecore's own"),
        (f"file:{hive.warehouse}", CorruptDataError, "a root"),
        ("s3://bucket/t", UnsupportedError, "another storage"),
        ("hdfs://host/t", UnsupportedError, "hdfs"),
    ]
    for location, error, text in hostile:
        record = catalog._metastore.table(TableName("h", "t"))
        assert record is not None
        record.sd.location = location
        with pytest.raises(error, match=text):
            catalog._place_of(record, TableName("h", "t"))
    for name in ("plain", "seen"):
        catalog._metastore.drop_table(TableName("h", name))
    emptied(catalog)


def test_an_external_table_keeps_its_files(hive: HiveServer, tmp_path: Path) -> None:
    catalog = opened(hive, **{"table.type": "external", "external-roots": str(tmp_path)})
    catalog.create_database("ext", properties={"location": str(tmp_path / "ext")})
    table = catalog.create_table("ext.t", SMALL)
    table.upsert(pa.table({"k": [1], "v": ["a"]}))
    assert table.path == str(tmp_path / "ext" / "t")
    with pytest.raises(InvalidOptionError, match="external-roots"):
        opened(hive).load_table("ext.t")
    with pytest.raises(UnsupportedError, match="external"):
        catalog.drop_table("ext.t", purge=True)
    assert len(hive.oracle.read(hive.java(), "ext.t")) == 1
    assert catalog.drop_table("ext.t") is None
    assert (tmp_path / "ext" / "t" / "schema" / "schema-0").exists()
    assert "t" not in hive.oracle.call("catalog", hive.java(), "show")["ext"]["tables"]
    catalog.repair_table("ext.t")
    assert rows_of(catalog.load_table("ext.t")) == [(1, "a")]
    catalog.drop_table("ext.t")
    hive.oracle.call("catalog", hive.java(), "drop-database", "ext", "cascade")


def test_a_table_is_loaded_with_one_call(hive: HiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = opened(hive)
    emptied(ours)
    ours.create_database("d")
    ours.create_table("d.t", KEYED)
    calls, read = list[str](), MetastoreConnection.read

    def counted(self: MetastoreConnection, what: str, call: str, *arguments: Any) -> Any:
        calls.append(call)
        return read(self, what, call, *arguments)

    monkeypatch.setattr(MetastoreConnection, "read", counted)
    assert ours.load_table("d.t").latest_snapshot() is None
    assert calls == ["get_table"]
    ours.close()


def test_a_lock_that_the_metastore_ends_in_a_commit_makes_it_uncertain(hive: HiveServer) -> None:
    """As after `hive.txn.timeout`: nothing is deleted, and the same commit again finds itself."""
    catalog = opened(hive, **{"lock.enabled": "true"})
    emptied(catalog)
    catalog.create_database("x")
    catalog.create_table("x.t", {**SMALL, "options": {"bucket": "1", "lakecore.commit.settle-time": "0"}})

    def end() -> None:
        types = thrift_types()
        ask = types.ShowLocksRequest(dbname="x", tablename="t")
        (lock,) = catalog.connection.read("look", "show_locks", ask).locks
        catalog.connection.read("end", "unlock", types.UnlockRequest(lockid=lock.lockid))

    storage = Meddling(catalog.file_io, "publish", "snapshot-1", end)
    row, commit = pa.table({"k": pa.array([1], pa.int32()), "v": ["x"]}), Commit(user="me", identifier=1)
    with pytest.raises(CommitUncertainError, match=r"hive\.txn\.timeout.*delete nothing"):
        replace(catalog, file_io=storage).load_table("x.t").upsert(row, commit)
    table = catalog.load_table("x.t")
    assert table.upsert(row, commit).duplicate
    assert rows_of(table) == [(1, "x")]
    catalog.close()


def test_a_lock_whose_owner_died_is_named_and_nothing_changes(hive: HiveServer) -> None:
    """Until the metastore ends it by `hive.txn.timeout`, as this test does with `unlock`."""
    catalog = opened(hive, **{"lock.enabled": "true", "lock-acquire-timeout": "200 ms"})
    emptied(catalog)
    catalog.create_database("x")
    table = catalog.create_table("x.t", SMALL)
    row = pa.table({"k": pa.array([1], pa.int32()), "v": ["x"]})
    dead = HiveLock(catalog.connection, TableName("x", "t"), 1000, 100, catalog.clock)
    lock_id = dead._acquire()
    for change in (
        lambda: table.upsert(row),
        lambda: catalog.alter_table("x.t", [{"op": "add", "name": "n", "type": "INT"}]),
        lambda: catalog.rename_table("x.t", "x.u"),
        lambda: catalog.drop_table("x.t"),
    ):
        with pytest.raises(UnavailableError, match=r"lock of x\.t: another writer held it .*SHOW LOCKS"):
            change()
    assert catalog.list_tables("x") == ["t"]
    assert (list(table.snapshots()), catalog.load_table("x.t").schema.id) == ([], 0)
    dead._release(lock_id)
    table.upsert(row)
    assert rows_of(catalog.load_table("x.t")) == [(1, "x")]
    catalog.close()


def test_options_of_a_lock_that_is_off_are_refused(hive: HiveServer) -> None:
    with pytest.raises(InvalidOptionError, match=r"lock-acquire-timeout=1 s: .* set lock\.enabled=true"):
        opened(hive, **{"lock-acquire-timeout": "1 s"})


def test_an_entry_without_files_keeps_its_name(hive: HiveServer, tmp_path: Path) -> None:
    catalog = opened(hive)
    emptied(catalog)
    catalog.create_database("x")
    place = Path(catalog.create_table("x.t", SMALL).path)
    place.rename(tmp_path / "away")
    with pytest.raises(
        NotFoundError, match=r"'x\.t' is in the catalog, but has no files at .*drop-table x\.t"
    ):
        catalog.rename_table("x.t", "x.u")
    assert catalog.list_tables("x") == ["t"]
    (tmp_path / "away").rename(place)
    hive.oracle.call("catalog", hive.java(), "rename", "x.t", "x.u")
    assert rows_of(catalog.load_table("x.u")) == []
    catalog.close()
