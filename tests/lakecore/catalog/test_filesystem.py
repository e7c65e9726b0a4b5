"""A warehouse on a file system: finding, making and dropping tables."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import lakecore
from lakecore.catalog.catalog import Catalog
from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    PrivilegeError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.fs.memory import MemoryFileIO
from tests.support.s3_server import s3_server

KEYED = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}


@pytest.fixture
def catalog() -> FilesystemCatalog:
    MemoryFileIO("catalog").clear()
    return load_catalog("memory://catalog/wh")


def test_tables_are_found(catalog: FilesystemCatalog) -> None:
    for name in ("b.t2", "b.t1", "a.t"):
        catalog.create_table(name, KEYED)
    catalog.file_io.overwrite(f"{catalog.warehouse}/.lakecore/reports/x", b"")
    catalog.file_io.overwrite(f"{catalog.warehouse}/b.db/.tmp/schema/schema-0", b"")
    catalog.file_io.overwrite(f"{catalog.warehouse}/b.db/no_table/file", b"")
    catalog.file_io.overwrite(f"{catalog.warehouse}/other/file", b"")

    assert catalog.list_databases() == ["a", "b"]
    assert catalog.list_tables("b") == ["t1", "t2"]
    table = catalog.load_table("b.t1")
    assert (table.name, table.path) == ("b.t1", f"{catalog.warehouse}/b.db/t1")
    assert table.schema.primary_keys == ("k",)


def pages(catalog: Catalog, database: str, limit: int, **filters: str) -> list[tuple[str, ...]]:
    listed, token = [], None
    while not listed or token is not None:
        page = catalog.list_tables_page(database, limit=limit, token=token, **filters)
        listed.append(page.tables)
        token = page.next_token
    return listed


def test_pages_look_at_their_own_tables_only(catalog: FilesystemCatalog) -> None:
    for number in range(7):
        kind = {"type": "materialized-table"} if number % 3 == 0 else {}
        catalog.create_table(f"d.t{number}", {"columns": ["k INT"], "options": kind})
    assert pages(catalog, "d", 3) == [("t0", "t1", "t2"), ("t3", "t4", "t5"), ("t6",)]
    assert pages(catalog, "d", 7) == [tuple(catalog.list_tables("d"))]
    assert pages(catalog, "d", 2, pattern="t%", table_type="materialized-table") == [("t0", "t3"), ("t6",)]
    assert sum(pages(catalog, "sys", 2), ()) == tuple(catalog.list_tables("sys"))
    first = catalog.list_tables_page("d", limit=2)
    catalog.drop_table("d.t1")
    catalog.create_table("d.t00", KEYED)
    assert catalog.list_tables_page("d", limit=2, token=first.next_token).tables == ("t2", "t3")
    counter = Counter(catalog.file_io)
    assert replace(catalog, file_io=cast("FileIO", counter)).list_tables_page(
        "d", limit=1, token="t2"
    ).tables == ("t3",)
    assert (
        counter.lists == 3
    )  # of the database, of the table, and of one more, which says that the list goes on
    with pytest.raises(InvalidInputError, match="limit 0"):
        catalog.list_tables_page("d", limit=0)
    with pytest.raises(NotFoundError, match="database 'z'"):
        catalog.list_tables_page("z", limit=1)


def test_pages_of_databases_are_cut_from_the_list(catalog: FilesystemCatalog) -> None:
    for name in ("b", "a", "ods_1", "ods_2", "c"):
        catalog.create_database(name)
    page = catalog.list_databases_page(limit=2)
    assert (page.names, page.next_token) == (("a", "b"), "b")
    catalog.drop_database("b")
    page = catalog.list_databases_page(limit=2, token=page.next_token)
    assert (page.names, page.next_token) == (("c", "ods_1"), "ods_1")
    page = catalog.list_databases_page(limit=2, token=page.next_token)
    assert (page.names, page.next_token) == (("ods_2",), None)
    assert catalog.list_databases_page(limit=9, pattern="ods_%").names == ("ods_1", "ods_2")
    with pytest.raises(InvalidInputError, match="limit 0"):
        catalog.list_databases_page(limit=0)


class Counter:
    """Storage that counts its lists."""

    def __init__(self, inner: FileIO) -> None:
        self.inner, self.lists = inner, 0

    def list(self, path: str) -> list[FileStatus]:
        self.lists += 1
        return self.inner.list(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_lists_by_name_and_type(catalog: FilesystemCatalog) -> None:
    """Java's answers are held by tests/interop/test_rest_oracle.py: its other catalogs refuse filters."""
    for name in ("ods_a", "ods_b", "odsX", "dwd", "a%b"):
        catalog.create_table(f"d.{name}", KEYED)
    catalog.create_table("d.view", {"columns": ["k INT"], "options": {"type": "materialized-table"}})
    assert catalog.list_tables("d", pattern="ods_%") == ["ods_a", "ods_b"]
    assert catalog.list_tables("d", pattern="ods%") == ["odsX", "ods_a", "ods_b"]
    assert catalog.list_tables("d", pattern="dwd") == ["dwd"]
    assert catalog.list_tables("d", pattern="a\\%b") == ["a%b"]
    assert catalog.list_tables("d", pattern="x%") == []
    assert len(catalog.list_tables("d", pattern="", table_type="")) == 6
    assert catalog.list_tables("d", pattern="%", table_type="materialized-table") == ["view"]
    assert catalog.list_tables("d", pattern="ods_%", table_type="table") == ["ods_a", "ods_b"]
    assert catalog.list_tables("sys", pattern="all%", table_type="table") == sorted(
        name for name in catalog.list_tables("sys") if name.startswith("all")
    )
    assert catalog.list_tables("sys", table_type="object-table") == []
    for pattern in ("a%b", "%a", "%\\%"):
        with pytest.raises(InvalidInputError, match="only the end of a pattern"):
            catalog.list_tables("d", pattern=pattern)
    with pytest.raises(InvalidInputError, match="'view': use one of table, format-table"):
        catalog.list_tables("d", table_type="view")
    with pytest.raises(NotFoundError, match="database 'z'"):
        catalog.list_tables("z", pattern="a%")


def test_what_is_missing_is_named_with_what_there_is(catalog: FilesystemCatalog) -> None:
    catalog.create_table("a.t", KEYED)
    with pytest.raises(NotFoundError, match=r"table 'a.x' does not exist .*; tables of a: t"):
        catalog.load_table("a.x")
    with pytest.raises(NotFoundError, match=r"table 'z.t' does not exist .*; databases: a"):
        catalog.load_table("z.t")
    with pytest.raises(NotFoundError, match=r"database 'z' does not exist .*; databases: a"):
        catalog.list_tables("z")
    with pytest.raises(NotFoundError, match=r"branch 'x' .* available branches: main"):
        catalog.load_table("a.t$branch_x")


def test_of_many_tables_the_closest_are_named(catalog: FilesystemCatalog) -> None:
    for name in ("orders", "orders_2024", "Orders_2025", "customers", "items", "users"):
        catalog.create_table(f"a.{name}", KEYED)
        catalog.create_table(f"{name}.t", KEYED)
    catalog.file_io.overwrite(f"{catalog.warehouse}/a.db/orders_2026/file", b"")  # no table

    with pytest.raises(
        NotFoundError, match=r"; the closest of 7 tables of a are: Orders_2025, orders_2024, orders$"
    ):
        catalog.load_table("a.orders_2023")
    with pytest.raises(NotFoundError, match=r"; none of 7 tables of a has a similar name$"):
        catalog.load_table("a.xyz")
    with pytest.raises(NotFoundError, match=r"; the closest of 7 databases are: customers, users$"):
        catalog.load_table("Customer.t")


def test_a_table_is_made_once(catalog: FilesystemCatalog) -> None:
    catalog.create_table("a.t", KEYED)
    with pytest.raises(AlreadyExistsError, match=r"table 'a\.t' exists"):
        catalog.create_table("a.t", KEYED)


def test_racing_creators_make_one_table(tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path)
    outcomes: list[str] = []

    def create(number: int) -> None:
        try:
            catalog.create_table("d.t", pa.schema([pa.field(f"c{number}", pa.int32())]))
            outcomes.append("made")
        except AlreadyExistsError:
            outcomes.append("taken")

    threads = [threading.Thread(target=create, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made"] + ["taken"] * 7
    assert os.listdir(tmp_path / "d.db" / "t" / "schema") == ["schema-0"]


def test_a_bad_definition_leaves_nothing(catalog: FilesystemCatalog) -> None:
    with pytest.raises(InvalidOptionError):
        catalog.create_table("a.t", {"columns": ["k INT"], "options": {"bucket": "x"}})
    assert catalog.list_databases() == []


@pytest.mark.parametrize("name", ["../t", "a.../x", "a./t", "a.\\t", "..t", "a\0.t"])
def test_names_stay_inside(catalog: FilesystemCatalog, name: str) -> None:
    for call in (catalog.load_table, catalog.drop_table, lambda n: catalog.create_table(n, KEYED)):
        with pytest.raises(InvalidInputError):
            call(name)
    with pytest.raises(InvalidInputError):
        catalog.list_tables(name)


def test_a_dropped_table_is_gone(tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path)
    for name in ("d.t", "d.u"):
        catalog.create_table(name, KEYED).upsert(pa.table({"k": [1], "v": ["a"]}))
    catalog.drop_table("d.t")

    assert catalog.list_tables("d") == ["u"]
    assert os.listdir(tmp_path / "d.db") == ["u"]
    with pytest.raises(NotFoundError):
        catalog.drop_table("d.t")


def test_options_for_one_handle(catalog: FilesystemCatalog) -> None:
    catalog.create_table("a.t", KEYED)

    assert catalog.load_table("a.t", {"target-file-size": "1 mb"}).options.target_file_size == 1 << 20
    assert catalog.load_table("a.t").options.target_file_size == 128 << 20
    with pytest.raises(InvalidInputError, match="merge-engine"):
        catalog.load_table("a.t", {"merge-engine": "first-row"})


def test_no_such_warehouse(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"warehouse .*/nope does not exist; check the path"):
        load_catalog(tmp_path / "nope")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match="is a file"):
        load_catalog(tmp_path / "file")
    made = load_catalog(tmp_path / "new", create_warehouse=True)
    assert made.list_databases() == []
    made.create_table("d.t", KEYED)
    assert load_catalog(tmp_path / "new").list_tables("d") == ["t"]


def test_a_warehouse_that_cannot_be_written(tmp_path: Path) -> None:
    """A file where the database's directory would be: also root cannot write there."""
    (tmp_path / "d.db").touch()
    with pytest.raises(UnavailableError, match=r"d\.db.*"):
        load_catalog(tmp_path).create_table("d.t", KEYED)


def test_catalogs_and_tables_travel(tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path)
    table = catalog.create_table("d.t", KEYED)
    table.upsert(pa.table({"k": [1], "v": ["a"]}))

    there = pickle.loads(pickle.dumps(table))
    assert there.scan().to_arrow().to_pylist() == [{"k": 1, "v": "a"}]
    assert pickle.loads(pickle.dumps(catalog)).list_tables("d") == ["t"]


def test_the_package_exports_lazily() -> None:
    assert lakecore.load_catalog is load_catalog
    assert lakecore.NotFoundError is NotFoundError
    assert set(lakecore.__all__) <= set(dir(lakecore))
    assert all(getattr(lakecore, name) is not None for name in lakecore.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = lakecore.nope


@pytest.mark.slow
def test_a_warehouse_on_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by its name in the configuration; made, written, read and dropped through conditional puts."""
    with s3_server() as server:
        lines = [f'"{key}" = "{value}"' for key, value in server.options.items()]
        text = "\n".join(["[catalogs.lake]", f'warehouse = "s3://{server.bucket}/wh"', *lines])
        (tmp_path / "lakecore.toml").write_text(text)
        monkeypatch.setenv("LAKECORE_CONFIG", str(tmp_path / "lakecore.toml"))
        catalog = load_catalog("lake")

        assert catalog.list_databases() == []
        table = catalog.create_table("d.t", KEYED)
        with pytest.raises(AlreadyExistsError):
            catalog.create_table("d.t", KEYED)
        table.upsert(pa.table({"k": [1, 2], "v": ["a", "b"]}))
        pickle.loads(pickle.dumps(table)).upsert(pa.table({"k": [2], "v": ["c"]}))
        rows = catalog.load_table("d.t").scan().to_arrow().to_pylist()
        assert sorted(rows, key=str) == [{"k": 1, "v": "a"}, {"k": 2, "v": "c"}]
        assert (catalog.list_databases(), catalog.list_tables("d")) == (["d"], ["t"])
        catalog.drop_table("d.t")
        assert catalog.list_databases() == []
        with pytest.raises(NotFoundError):
            catalog.load_table("d.t")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"metastore": "hive"}, InvalidOptionError, "option uri is missing"),
        ({"metastore": "rest"}, InvalidOptionError, "option uri is missing"),
        (
            {"metastore": "glue"},
            UnsupportedError,
            "metastore=glue: there is no such catalog.*filesystem [(]password, user[)]; hive.*; jdbc [(]catalog-key",
        ),
        ({"user": "root"}, InvalidInputError, "option user.*no users"),
        ({"password": "geheim"}, InvalidInputError, "option password"),
        ({"uri": "thrift://x"}, InvalidOptionError, "option uri.*metastore=hive or jdbc or rest have it"),
        ({"s3.endpont": "http://x"}, InvalidOptionError, r"s3\.endpont.*did you mean s3\.endpoint"),
        (
            {"no.such.option": "x"},
            InvalidOptionError,
            r"option no\.such\.option.*the known options are blob-roots, cache-enabled, .*external-roots, .*local.fsync, local.service-file-mode, metastore",
        ),
    ],
)
def test_catalog_options_without_effect_are_refused(
    options: dict[str, str], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text) as caught:
        load_catalog(tmp_path, **options)
    assert "geheim" not in str(caught.value)


def test_catalog_options_that_are_obeyed_are_taken(tmp_path: Path) -> None:
    options = {"metastore": "filesystem", "local.fsync": "false", "s3.access.key": "a", "s3.secret.key": "b"}
    assert load_catalog(tmp_path, **options).list_databases() == []


@pytest.mark.parametrize("name", ["user.sys", "privilege.sys"])
def test_a_warehouse_with_one_of_the_tables_of_users_is_not_opened(tmp_path: Path, name: str) -> None:
    load_catalog(tmp_path).create_table("d.t", KEYED)
    (tmp_path / name / "schema").mkdir(parents=True)
    for create in (False, True):
        with pytest.raises(PrivilegeError, match="was interrupted; complete it"):
            load_catalog(tmp_path, create_warehouse=create)
    shutil.rmtree(tmp_path / name)
    assert load_catalog(tmp_path).list_tables("d") == ["t"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": "/elsewhere/t"}, "path=/elsewhere/t: only catalogs of Hive and REST"),
        ({"auto-create": "TRUE"}, "auto-create=true: create the table first"),
    ],
)
def test_a_table_elsewhere_or_made_by_readers_is_refused_before_anything_is_written(
    catalog: FilesystemCatalog, options: dict[str, str], text: str
) -> None:
    with pytest.raises(UnsupportedError, match=text):
        catalog.create_table("d.t", {"columns": ["a INT"], "options": options})
    assert list(catalog.file_io.list(catalog.warehouse)) == []
    catalog.create_table("d.t", {"columns": ["a INT"], "options": {"auto-create": "false"}})


def test_the_database_of_the_catalog_itself_takes_no_tables(catalog: FilesystemCatalog) -> None:
    for name in ("sys.tables", "sys.mine"):
        with pytest.raises(InvalidInputError, match="'sys' holds the tables of the catalog"):
            catalog.create_table(name, KEYED)
    assert catalog.list_databases() == []
    assert list(catalog.file_io.list(catalog.warehouse)) == []


@pytest.mark.parametrize(
    "kind", ["view", "object-table", "lance-table", "iceberg-table", "format-table", "tabel", ""]
)
def test_other_types_of_tables_are_refused_before_anything_is_written(
    catalog: FilesystemCatalog, kind: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"type={kind}.*table and materialized-table"):
        catalog.create_table("d.t", {"columns": ["a INT"], "options": {"type": kind}})
    assert list(catalog.file_io.list(catalog.warehouse)) == []


@pytest.mark.parametrize("kind", ["table", "TABLE", "materialized-table"])
def test_a_table_of_a_type_that_is_read_is_made(catalog: FilesystemCatalog, kind: str) -> None:
    catalog.create_table("d.t", {"columns": ["a INT"], "options": {"type": kind}})
    assert catalog.load_table("d.t").scan().to_arrow().num_rows == 0


@pytest.mark.parametrize("name", ["source_table_lineage", "sink_table_lineage"])
def test_tables_that_paimon_removed_are_named_with_what_takes_their_place(
    catalog: FilesystemCatalog, name: str
) -> None:
    with pytest.raises(NotFoundError, match=r"have no such table; .*lakecore\.lineage"):
        catalog.load_table(f"sys.{name}")
    assert not catalog.table_exists(f"sys.{name}")
    assert name not in catalog.list_tables("sys")
