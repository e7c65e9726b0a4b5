"""The JDBC catalog on SQLite: names, properties, bad input, secrets, and what is half done."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore import Commit
from lakecore.catalog.jdbc.connection import JdbcConnection
from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog
from lakecore.catalog.objects.view import View
from lakecore.catalog.registry import load_catalog
from lakecore.cli.main import main
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
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import rows_of
from tests.support.meddling_fs import Meddling

KEYED = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}


def opened(tmp_path: Path, **options: str) -> JdbcCatalog:
    given = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", **options}
    catalog = load_catalog(tmp_path / "wh", create_warehouse=True, **given)
    assert isinstance(catalog, JdbcCatalog)
    (tmp_path / "wh").mkdir(exist_ok=True)
    return catalog


def rows(tmp_path: Path, table: str) -> list[tuple[str, ...]]:
    return sorted(sqlite3.connect(tmp_path / "names.db").execute(f"SELECT * FROM {table}"))


def test_names_and_properties(tmp_path: Path) -> None:
    catalog = opened(tmp_path, **{"catalog-key": "one"})
    with pytest.raises(NotFoundError, match="database 'd' does not exist"):
        catalog.create_table("d.t", KEYED)
    catalog.create_database("d", properties={"owner": "x"})
    assert catalog.list_databases() == ["d"]
    assert dict(catalog.get_database("d").properties) == {"owner": "x", "location": f"{tmp_path}/wh/d.db"}
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("d")
    catalog.alter_database("d", {"a": "b"}, ["owner", "nothing"])
    assert catalog.get_database("d").properties["a"] == "b"
    catalog.create_table("d.t", KEYED)
    assert rows(tmp_path, "paimon_tables") == [("one", "d", "t")]
    assert opened(tmp_path, **{"catalog-key": "two"}).list_databases() == [], (
        "another catalog of the database"
    )
    catalog.alter_table("d.t", [{"op": "set", "key": "snapshot.num-retained.min", "value": "3"}])
    assert ("one", "d", "t", "snapshot.num-retained.min", "3") in rows(tmp_path, "paimon_table_properties")
    catalog.rename_table("d.t", "d.u")
    assert rows(tmp_path, "paimon_tables") == [("one", "d", "u")]
    catalog.drop_table("d.u")
    assert rows(tmp_path, "paimon_tables") == rows(tmp_path, "paimon_table_properties") == []
    catalog.restore_table("d.u")
    assert catalog.list_tables("d") == ["u"]
    catalog.drop_database("d", cascade=True)
    assert catalog.list_databases() == []
    assert rows(tmp_path, "paimon_database_properties") == []
    catalog.close()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, InvalidOptionError, "uri is missing; write jdbc:sqlite"),
        ({"uri": "sqlite:/x"}, InvalidOptionError, "no JDBC address"),
        ({"uri": "jdbc:oracle://h/d?password=geheim"}, UnsupportedError, "sqlite, postgresql, mysql only"),
        (
            {"uri": "jdbc:mariadb://h/d?password=geheim"},
            UnsupportedError,
            "Java.* no lock .*write jdbc:mysql",
        ),
        ({"uri": "jdbc:mysql:loadbalance://h/d"}, InvalidOptionError, "no host or no database"),
        (
            {"uri": "jdbc:mysql://h/d?nullDatabaseMeansCurrent=false&password=geheim"},
            UnsupportedError,
            "parameter nullDatabaseMeansCurrent would .*nullDatabaseMeansCurrent=true",
        ),
        (
            {"uri": "jdbc:mysql://127.0.0.1:1/d?user=u&password=geheim&nullDatabaseMeansCurrent=true"},
            UnavailableError,
            "mysql 127.0.0.1:1/d refused or did not answer",
        ),
        (
            {"uri": "jdbc:mysql://h/d?useSSL=true&password=geheim"},
            UnsupportedError,
            "parameter useSSL would .*sslMode",
        ),
        ({"uri": "jdbc:mysql://h/d?sslMode=VERIFY"}, InvalidOptionError, "sslMode=VERIFY is not .*VERIFY_CA"),
        (
            {"uri": "jdbc:mysql://h/d?sslMode=REQUIRED&trustCertificateKeyStorePassword=geheim"},
            InvalidOptionError,
            "trustCertificateKeyStorePassword would have no effect",
        ),
        (
            {"uri": "jdbc:mysql://h/d?sslMode=VERIFY_CA&trustCertificateKeyStoreUrl=file:/x"},
            UnsupportedError,
            "type JKS.*PKCS12",
        ),
        (
            {
                "uri": "jdbc:mysql://h/d?sslMode=VERIFY_CA&trustCertificateKeyStoreType=PKCS12"
                "&trustCertificateKeyStoreUrl=https://h/x"
            },
            UnsupportedError,
            "names no local file",
        ),
        ({"uri": "jdbc:sqlite::memory:"}, UnsupportedError, "a database in memory belongs to one process"),
        ({"uri": "jdbc:sqlite:/x?password=geheim"}, UnsupportedError, "specify the path of a file"),
        ({"uri": "jdbc:postgresql://"}, InvalidOptionError, "no host or no database"),
        ({"uri": "jdbc:postgresql://h:x/d"}, InvalidOptionError, "option uri"),
        ({"uri": "jdbc:postgresql://h/d?ssl=true&password=geheim"}, UnsupportedError, "parameter ssl would"),
        ({"uri": "jdbc:sqlite:/x", "catalog-key": ""}, InvalidOptionError, "catalog-key"),
        ({"uri": "jdbc:sqlite:/x", "lock.enabled": "maybe"}, InvalidOptionError, "lock.enabled"),
        (
            {"uri": "jdbc:sqlite:/x", "lock-check-max-sleep": "1 s"},
            InvalidOptionError,
            "lock-check-max-sleep=1 s: it has no effect.*set lock.enabled=true",
        ),
        (
            {"uri": "jdbc:sqlite:/x", "lock.enabled": "false", "lock-acquire-timeout": "1 s"},
            InvalidOptionError,
            "lock-acquire-timeout=1 s: it has no effect",
        ),
        ({"uri": "jdbc:sqlite:/x", "jdbc.ssl": "true"}, InvalidOptionError, "jdbc.ssl"),
        ({"uri": "jdbc:sqlite:/no/such/directory/x"}, UnavailableError, "sqlite /no/such/directory/x"),
        (
            {"uri": "jdbc:postgresql://127.0.0.1:1/d?user=u&password=geheim"},
            UnavailableError,
            "postgresql 127.0.0.1:1/d refused or did not answer",
        ),
    ],
)
def test_bad_options_are_refused_and_tell_no_secret(
    tmp_path: Path, options: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        load_catalog(tmp_path, metastore="jdbc", **options)
    assert "geheim" not in str(caught.value)


def test_a_connection_shows_no_secret_and_is_pickled_without_its_connections(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    line = repr(catalog)
    assert line.startswith(f"<JdbcCatalog {tmp_path}/wh")
    assert f"{tmp_path}/names.db" in line
    made = JdbcConnection.from_options(
        {"uri": "jdbc:postgresql://h/d", "jdbc.user": "u", "jdbc.password": "geheim"}
    )
    assert "geheim" not in repr(made)
    catalog.create_database("d")
    catalog.create_table("d.t", KEYED)
    there = pickle.loads(pickle.dumps(catalog))
    assert there.list_tables("d") == ["t"]


def test_properties_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    for properties in (
        {"location": "/x"},
        {"exists": "false"},
        {"": "x"},
        {"k" * 256: "x"},
        {"k": "x" * 1001},
    ):
        with pytest.raises(InvalidInputError, match="property"):
            catalog.create_database("d", properties=properties)
    assert catalog.list_databases() == []
    catalog.create_database("d")
    with pytest.raises(InvalidInputError, match="property exists"):
        catalog.alter_database("d", {}, ["exists"])


def test_files_without_an_entry_and_entries_without_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = opened(tmp_path)
    catalog.create_database("d")
    load_catalog(tmp_path / "wh").create_table("d.t", KEYED)
    assert catalog.list_tables("d") == []
    with pytest.raises(NotFoundError):
        catalog.load_table("d.t")
    with pytest.raises(AlreadyExistsError, match=r"not entered .*lakecore repair d\.t"):
        catalog.create_table("d.t", KEYED)
    (tmp_path / "lakecore.toml").write_text(
        f'[catalogs.x]\nwarehouse = "{tmp_path}/wh"\nmetastore = "jdbc"\nuri = "jdbc:sqlite:{tmp_path}/names.db"\n'
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LAKECORE_CONFIG", str(tmp_path / "lakecore.toml"))
        assert main(["--catalog", "x", "repair", "d.t"]) == 0
        assert main(["--catalog", "x", "repair-catalog", "d"]) == 0
        assert main(["--catalog", "x", "repair"]) == 0
        assert main(["--catalog", "x", "repair", "d.nothing"]) != 0
    assert main(["--warehouse", str(tmp_path / "wh"), "repair", "d.t"]) != 0
    assert "no list of names" in capsys.readouterr().out
    catalog.load_table("d.t").upsert(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    assert rows_of(catalog.load_table("d.t")) == [(1, "a")]
    load_catalog(tmp_path / "wh").drop_table("d.t")
    with pytest.raises(NotFoundError, match=r"in the catalog, but has no files .*drop-table d\.t"):
        catalog.load_table("d.t")
    assert catalog.drop_table("d.t") is None
    assert catalog.list_tables("d") == []


@pytest.mark.parametrize("action", ["drop", "restore"])
def test_storage_that_fails_at_any_operation_leaves_names_and_files_in_step(
    tmp_path: Path, action: str
) -> None:
    """A repetition completes the action: the entry and the files are both there, or neither."""
    number = 0
    while True:
        number += 1
        place = tmp_path / str(number)
        place.mkdir()
        whole = replace(opened(place, **{"local.fsync": "false"}), clock=FakeClock())
        whole.create_database("d")
        whole.create_table("d.t", KEYED).upsert(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
        if action == "restore":
            whole.drop_table("d.t")
        faulty = FaultyFileIO(whole.file_io, number)
        broken = replace(whole, file_io=faulty)
        call = broken.drop_table if action == "drop" else broken.restore_table
        try:
            call("d.t")
        except LakeError:
            again = whole.drop_table if action == "drop" else whole.restore_table
            whole.clock.sleep(120)  # the lease of the failed process ends
            with suppress(NotFoundError, AlreadyExistsError):
                again("d.t")
        whole.clock.sleep(120)  # or the lease could not be released
        if action == "drop":
            assert whole.list_tables("d") == []
            assert not (place / "wh" / "d.db" / "t").exists()
            assert rows_of(whole.restore_table("d.t")) == [(1, "a")]
        else:
            assert rows_of(whole.load_table("d.t")) == [(1, "a")]
            assert whole.list_tables("d") == ["t"]
        if not faulty.fired:
            break
    assert number > 5


def test_views_of_paimon_keep_their_names(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.create_database("d")
    with sqlite3.connect(tmp_path / "names.db") as database:
        database.execute("CREATE TABLE paimon_views (catalog_key, database_name, view_name, view_schema)")
        database.execute("INSERT INTO paimon_views VALUES ('jdbc', 'd', 'v', '{}'), ('jdbc', 'e', 'w', '{}')")
    assert catalog.list_databases() == ["d", "e"]
    with pytest.raises(AlreadyExistsError, match=r"a view .* has this name"):
        catalog.create_table("d.v", KEYED)
    with pytest.raises(InvalidInputError, match="holds 1 views, such as 'v'"):
        catalog.drop_database("d")
    with pytest.raises(CorruptDataError, match=r"paimon_views, d\.v: not the schema of a view"):
        catalog.views.get("d.v")
    catalog.drop_database("d", cascade=True)
    assert catalog.list_databases() == ["e"]
    assert list((tmp_path / "wh").iterdir()) == []


def test_views_are_created_changed_and_dropped(tmp_path: Path) -> None:
    catalog = opened(tmp_path, **{"lock.enabled": "true"})
    view = View.from_json({"columns": ["k INT"], "query": "select 1"})
    with pytest.raises(NotFoundError, match="database 'd' does not exist"):
        catalog.views.create("d.v", view)
    catalog.create_database("d")
    catalog.create_table("d.t", KEYED)
    assert catalog.views.list("d") == []
    with pytest.raises(NotFoundError, match=r"view 'd\.v' does not exist; views: none"):
        catalog.views.get("d.v")
    catalog.views.create("d.v", view)
    catalog.views.create("d.v", view, if_not_exists=True)
    with pytest.raises(AlreadyExistsError, match="a view of the catalog has this name"):
        catalog.views.create("d.v", view)
    with pytest.raises(AlreadyExistsError, match="a table of the catalog has this name"):
        catalog.views.create("d.t", view, if_not_exists=True)
    with pytest.raises(AlreadyExistsError, match="a table of the catalog has this name"):
        catalog.views.rename("d.v", "d.t")
    with pytest.raises(AlreadyExistsError, match="a view of the catalog has this name"):
        catalog.views.rename("d.v", "d.v")
    with pytest.raises(AlreadyExistsError, match="a view"):
        catalog.rename_table("d.t", "d.v")
    with pytest.raises(NotFoundError, match="database 'e' does not exist"):
        catalog.views.rename("d.v", "e.v")
    change = {"action": "addDialect", "dialect": "spark", "query": "select 2"}
    changed = pickle.loads(pickle.dumps(catalog)).views.alter("d.v", [change])
    assert catalog.views.get("d.v") == changed == replace(view, dialects={"spark": "select 2"})
    catalog.views.rename("d.v", "d.w")
    assert catalog.views.list("d") == ["w"]
    with pytest.raises(NotFoundError, match=r"view 'd\.v' does not exist; views: w"):
        catalog.views.drop("d.v")
    catalog.views.drop("d.v", if_exists=True)
    catalog.views.drop("d.w")
    assert rows(tmp_path, "paimon_views") == rows(tmp_path, "paimon_distributed_locks") == []
    with pytest.raises(NotFoundError, match="database 'e' does not exist"):
        catalog.views.list("e")


THIEF = "2099-01-01 00:00:00"


def taken_over(tmp_path: Path) -> None:
    """Another writer takes the lock of `d.t` over, as it does when its owner seems to be dead."""
    with sqlite3.connect(tmp_path / "names.db") as database:
        assert (
            database.execute("DELETE FROM paimon_distributed_locks WHERE lock_id = 'jdbc.d.t'").rowcount == 1
        )
        database.execute("INSERT INTO paimon_distributed_locks VALUES ('jdbc.d.t', ?, 3600)", (THIEF,))


def of_key(key: int) -> pa.Table:
    return pa.table({"k": pa.array([key], pa.int32()), "v": ["x"]})


def test_a_lock_that_is_stolen_in_a_commit_makes_it_uncertain_and_stays_with_the_thief(
    tmp_path: Path,
) -> None:
    catalog = opened(tmp_path, **{"lock.enabled": "true"})
    catalog.create_database("d")
    catalog.create_table("d.t", {**KEYED, "options": {"bucket": "1", "lakecore.commit.settle-time": "0"}})
    storage = Meddling(catalog.file_io, "publish", "snapshot-1", lambda: taken_over(tmp_path))
    commit = Commit(user="me", identifier=1)
    with pytest.raises(CommitUncertainError, match=r"lock-acquire-timeout=480000 ms.*delete nothing"):
        replace(catalog, file_io=storage).load_table("d.t").upsert(of_key(1), commit)
    assert [row[1] for row in rows(tmp_path, "paimon_distributed_locks")] == [THIEF]
    with sqlite3.connect(tmp_path / "names.db") as database:
        database.execute("DELETE FROM paimon_distributed_locks")
    table = catalog.load_table("d.t")
    assert table.upsert(
        of_key(1), commit
    ).duplicate  # as the message says: nothing was deleted, and it is there
    assert rows_of(table) == [(1, "x")]


def test_a_thief_that_commits_first_loses_nothing(tmp_path: Path) -> None:
    catalog = opened(tmp_path, **{"lock.enabled": "true"})
    catalog.create_database("d")
    catalog.create_table("d.t", {**KEYED, "options": {"bucket": "1", "lakecore.commit.settle-time": "0"}})

    def steal() -> None:
        with sqlite3.connect(tmp_path / "names.db") as database:
            database.execute("DELETE FROM paimon_distributed_locks")
        catalog.load_table("d.t").upsert(of_key(1))

    storage = Meddling(catalog.file_io, "publish", "snapshot-1", steal)
    replace(catalog, file_io=storage).load_table("d.t").upsert(of_key(2))
    assert rows_of(catalog.load_table("d.t")) == [(1, "x"), (2, "x")]
    assert rows(tmp_path, "paimon_distributed_locks") == []


def test_a_lock_that_is_stolen_in_a_change_of_a_schema_is_reported(tmp_path: Path) -> None:
    catalog = opened(tmp_path, **{"lock.enabled": "true"})
    catalog.create_database("d")
    catalog.create_table("d.t", KEYED)
    storage = Meddling(catalog.file_io, "publish", "schema-1", lambda: taken_over(tmp_path))
    add = [{"op": "add", "name": "n", "type": "INT"}]
    with pytest.raises(CommitUncertainError, match="look whether the change is there"):
        replace(catalog, file_io=storage).alter_table("d.t", add)
    assert catalog.load_table("d.t").schema.id == 1
