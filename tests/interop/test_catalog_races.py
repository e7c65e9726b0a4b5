"""Bad moments of each kind of catalog: creators that race, names that differ in case only, tables that are renamed or dropped
beneath a commit, and entries without files. One wins whole, the others are told what to do, and nothing is half made.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.objects.function import Function
from lakecore.catalog.objects.view import View
from lakecore.catalog.rest.rest_catalog import RestCatalog
from lakecore.catalog.rest.rest_storage import RestStorage
from lakecore.catalog.warehouse.new_tables import NewTables
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    explain,
)
from lakecore.fs.file_io import FileIO
from tests.support.any_catalog import KINDS, AnyCatalog, any_catalog
from tests.support.lake import rows_of
from tests.support.meddling_fs import Meddling
from tests.support.oracle import Oracle
from tests.support.sql_servers import SqlServers

pytestmark = pytest.mark.slow

DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"columns": ["k INT", "a STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    {"columns": ["k INT", "b INT"], "primaryKeys": ["k"], "options": {"bucket": "1"}},
)
VIEWS = [View.from_json({"columns": ["k INT"], "query": f"SELECT {number}"}) for number in range(2)]
FUNCTIONS = [
    Function.from_json({"inputParams": ["x INT"], "returnParams": ["y INT"], "comment": str(number)})
    for number in range(2)
]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: SqlServers) -> Iterator[AnyCatalog]:
    """A catalog of the kind that the test asks for."""
    hive = request.getfixturevalue("hive") if request.param == "hive" else None
    with ExitStack() as opened:
        yield any_catalog(request.param, tmp_path, servers, hive, opened)


def of(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("place", kinds, indirect=True)


def row(number: int) -> pa.Table:
    return pa.table({"k": pa.array([number], pa.int32()), "a": ["x"]})


def at_once(calls: Sequence[Callable[[], object]]) -> list[object]:
    """Return what the calls return, or the errors of lakecore that they raise; any other error fails the test."""
    outcomes: list[object] = [None] * len(calls)
    ready = threading.Barrier(len(calls))

    def run(number: int) -> None:
        ready.wait(60)
        try:
            outcomes[number] = calls[number]() or "made"
        except LakeError as err:
            outcomes[number] = err

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in outcomes, outcomes
    return outcomes


def winners(outcomes: list[object]) -> list[int]:
    """Return who got no error; all others got the one that the name is taken."""
    assert all(isinstance(one, AlreadyExistsError) for one in outcomes if isinstance(one, LakeError)), (
        outcomes
    )
    return [number for number, one in enumerate(outcomes) if not isinstance(one, LakeError)]


def second_column(catalog: Catalog, name: str) -> str:
    return str(catalog.load_table(name).schema.fields[1].name)


@of(*KINDS)
def test_of_racing_creators_one_wins_whole(place: AnyCatalog) -> None:
    catalogs, name = [place.open() for _ in range(4)], place.database
    both = list(enumerate(catalogs))
    if place.kind not in ("rest", "filesystem on S3"):  # the server of the tests, and a prefix, take them all
        assert len(winners(at_once([lambda one=one: one.create_database(name) for one in catalogs]))) == 1
    at_once([lambda one=one: one.create_database(name, if_not_exists=True) for one in catalogs])
    assert name in catalogs[0].list_databases()
    definitions = [DEFINITIONS[number % 2] for number in range(4)]
    won = winners(
        at_once([lambda i=i, one=one: one.create_table(f"{name}.t", definitions[i]) for i, one in both])
    )
    columns = {("a", "b")[number % 2] for number in won}
    assert columns == {second_column(catalogs[0], f"{name}.t")}
    tables = at_once(
        [
            lambda i=i, one=one: (
                one.create_table(f"{name}.u", definitions[i], if_not_exists=True).schema.fields
            )
            for i, one in both
        ]
    )
    assert tables == [catalogs[0].load_table(f"{name}.u").schema.fields] * 4
    assert catalogs[0].list_tables(name) == ["t", "u"]
    catalogs[0].drop_database(name, cascade=True, purge=True)
    assert name not in catalogs[0].list_databases()


@of("sqlite", "postgresql", "mariadb", "hive", "rest")
def test_of_racing_creators_of_a_view_or_a_function_one_wins(place: AnyCatalog) -> None:
    catalogs, name = [place.open() for _ in range(2)], place.database
    catalogs[0].create_database(name)
    pairs = list(zip(catalogs, VIEWS, FUNCTIONS, strict=True))
    won = winners(at_once([lambda c=c, v=v: c.views.create(f"{name}.v", v) for c, v, _ in pairs]))
    assert len(won) == 1 or place.kind == "rest"  # the server of the tests may take both
    assert catalogs[0].views.get(f"{name}.v").query in [VIEWS[one].query for one in won]
    again = [lambda c=c, v=v: c.views.create(f"{name}.w", v, if_not_exists=True) for c, v, _ in pairs]
    assert winners(at_once(again)) == [0, 1]
    if place.kind == "rest":
        won = winners(at_once([lambda c=c, f=f: c.functions.create(f"{name}.f", f) for c, _, f in pairs]))
        assert catalogs[0].functions.get(f"{name}.f") in [FUNCTIONS[one] for one in won]
        return  # the server of the tests lets a view and a table have one name
    table, view = (
        lambda: catalogs[0].create_table(f"{name}.x", DEFINITIONS[0]),
        lambda: catalogs[1].views.create(f"{name}.x", VIEWS[0]),
    )
    won = winners(at_once([table, view]))
    assert len(won) == 1
    assert catalogs[0].list_tables(name) == (["x"] if won == [0] else [])
    assert ("x" in catalogs[0].views.list(name)) == (won == [1])
    catalogs[0].drop_database(name, cascade=True, purge=True)  # refused where files belong to no table


def meddled(place: AnyCatalog, operation: str, part: str, meddle: Callable[[], object]) -> Catalog:
    """A client before whose operation somebody else does something."""
    catalog = place.open()
    if isinstance(catalog, RestCatalog):

        class Storage(RestStorage):
            def of_table(self, *arguments: Any) -> FileIO:
                return Meddling(super().of_table(*arguments), operation, part, meddle)

        catalog.__dict__["_storage"] = Storage(catalog.client, catalog.options)
        return catalog
    assert isinstance(catalog, WarehouseCatalog)
    return replace(catalog, file_io=Meddling(catalog.file_io, operation, part, meddle))


@of("filesystem", "sqlite", "hive")
def test_java_is_the_faster_creator(place: AnyCatalog, request: pytest.FixtureRequest) -> None:
    """It creates the table when lakecore has found no table, and is about to publish the first schema."""
    import json

    hive = place.kind == "hive"
    oracle: Oracle = request.getfixturevalue("hive").oracle if hive else request.getfixturevalue("oracle")
    place.open().create_database(place.database)
    for table, if_not_exists in (("t", False), ("u", True)):
        name = f"{place.database}.{table}"
        words = ("create", name, json.dumps(DEFINITIONS[1]))
        far = meddled(
            place, "publish", "schema-0", lambda words=words: oracle.call("catalog", place.java, *words)
        )
        if if_not_exists:
            assert far.create_table(name, DEFINITIONS[0], if_not_exists=True).schema.fields[1].name == "b"
        else:
            with pytest.raises(AlreadyExistsError, match=r"exists in .*drop it or choose another name"):
                far.create_table(name, DEFINITIONS[0])
        assert second_column(place.open(), name) == "b"
        shown = oracle.call("catalog", place.java, "show")[place.database]["tables"][table]
        assert [field["name"] for field in shown["fields"]] == ["k", "b"]


@of("sqlite", "hive")
def test_a_creator_between_files_and_name_is_waited_for(
    place: AnyCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A creator with `if_not_exists` gets the table, as soon as the faster one has entered it."""
    slow, fast = place.open(), place.open()
    slow.create_database(place.database)
    name, outcomes = f"{place.database}.t", list[object]()
    enter = NewTables._enter_new

    def late(catalog: NewTables, *arguments: Any) -> None:
        with pytest.raises(AlreadyExistsError, match="unless another process creates the table now"):
            fast.create_table(name, DEFINITIONS[1])
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        enter(catalog, *arguments)

    def ask() -> None:
        outcomes.append(fast.create_table(name, DEFINITIONS[1], if_not_exists=True).schema.fields[1].name)

    waiting = threading.Thread(target=ask)
    monkeypatch.setattr(NewTables, "_enter_new", late)
    slow.create_table(name, DEFINITIONS[0])
    waiting.join(60)
    assert outcomes == ["a"]


@of("sqlite", "hive")
def test_a_view_that_takes_the_name_leaves_no_files_without_a_name(place: AnyCatalog) -> None:
    first, name = place.open(), f"{place.database}.x"
    first.create_database(place.database)
    far = meddled(place, "publish", "schema-0", lambda: first.views.create(name, VIEWS[0]))
    with pytest.raises(AlreadyExistsError, match="name"):
        far.create_table(name, DEFINITIONS[0])
    first.views.drop(name)
    assert rows_of(first.create_table(name, DEFINITIONS[0])) == []


@of("filesystem", "sqlite", "postgresql", "mariadb", "rest", "filesystem on S3")
def test_names_that_differ_in_case_only_are_two_names(place: AnyCatalog) -> None:
    catalog, lower, upper = place.open(), place.database, place.database.upper()
    for number, name in enumerate((lower, upper)):
        catalog.create_database(name)
        catalog.create_table(f"{name}.t", DEFINITIONS[number])
    with pytest.raises(NotFoundError):
        catalog.load_table(f"{lower}.T")
    catalog.create_table(f"{lower}.T", DEFINITIONS[1])
    assert sorted(catalog.list_tables(lower)) == ["T", "t"]
    assert [second_column(catalog, f"{lower}.{name}") for name in ("t", "T")] == ["a", "b"]
    if "S3" not in place.kind:
        with pytest.raises(AlreadyExistsError, match=rf"{lower}\.T.*exists"):
            catalog.rename_table(f"{lower}.t", f"{lower}.T")
    catalog.drop_table(f"{lower}.T", purge=place.is_remote)
    catalog.drop_database(upper, cascade=True, purge=place.is_remote)
    assert catalog.list_tables(lower) == ["t"]
    assert second_column(catalog, f"{lower}.t") == "a"


@of("hive")
def test_a_metastore_refuses_names_in_upper_case(place: AnyCatalog) -> None:
    catalog, name = place.open(), place.database
    catalog.create_database(name)
    catalog.create_table(f"{name}.t", DEFINITIONS[0])
    for refused in (
        lambda: catalog.create_database(name.upper()),
        lambda: catalog.create_table(f"{name}.T", DEFINITIONS[1]),
        lambda: catalog.rename_table(f"{name}.t", f"{name}.T"),
        lambda: catalog.views.create(f"{name}.V", VIEWS[0]),
    ):
        with pytest.raises(InvalidInputError, match="lower-case letters, digits and _ only; choose"):
            refused()
    for missing in (
        lambda: catalog.load_table(f"{name}.T"),
        lambda: catalog.drop_table(f"{name}.T"),
        lambda: catalog.drop_database(name.upper(), cascade=True),
    ):
        with pytest.raises(NotFoundError, match="does not exist"):
            missing()
    assert catalog.list_tables(name) == ["t"]


@pytest.mark.parametrize(
    ("place", "action"),
    [
        *((kind, action) for kind in ("postgresql", "mariadb", "hive") for action in ("rename", "drop")),
        ("filesystem on S3", "drop"),  # an object store does not rename, and with a lock a drop waits
    ],
    indirect=["place"],
)
def test_a_commit_beneath_a_rename_or_a_drop_is_no_success(place: AnyCatalog, action: str) -> None:
    other, name = place.open(), place.database
    other.create_database(name)
    other.create_table(f"{name}.t", DEFINITIONS[0]).upsert(row(0))

    def meddle() -> object:
        if action == "rename":
            return other.rename_table(f"{name}.t", f"{name}.u")
        return other.drop_table(f"{name}.t")

    for operation, part, error in (
        ("publish", "snapshot-2", CommitUncertainError),
        ("write_new", "manifest", NotFoundError),
    ):
        far = meddled(place, operation, part, meddle)
        with pytest.raises(error, match=r"load (the table|it) by the name that it has now"):
            far.load_table(f"{name}.t").upsert(row(1))
        assert f"{name}.t" not in {f"{name}.{one}" for one in other.list_tables(name)}
        if action == "rename":
            other.rename_table(f"{name}.u", f"{name}.t")
        else:
            other.restore_table(f"{name}.t")
        assert rows_of(other.load_table(f"{name}.t")) == [(0, "x")]


@of("rest")
def test_a_commit_to_a_table_that_the_server_has_dropped_says_so(place: AnyCatalog) -> None:
    other, name = place.open(), f"{place.database}.t"
    other.create_database(place.database)
    other.create_table(name, DEFINITIONS[0]).upsert(row(0))
    far = meddled(place, "write_new", "manifest-list", lambda: other.drop_table(name, purge=True))
    with pytest.raises(NotFoundError, match="check the name, and whether it was renamed or dropped"):
        far.load_table(name).upsert(row(1))
    assert rows_of(other.create_table(name, DEFINITIONS[0])) == []


@of("sqlite", "postgresql", "mariadb", "hive", "rest")
def test_a_table_whose_files_are_missing_says_so(place: AnyCatalog) -> None:
    catalog, name = place.open(), f"{place.database}.t"
    catalog.create_database(place.database)
    table = catalog.create_table(name, DEFINITIONS[0])
    table.upsert(row(0))
    shutil.rmtree(table.path)
    with pytest.raises(LakeError) as caught:
        catalog.load_table(name).scan().to_arrow()
    assert "bring" in explain(caught.value)
    assert "expired" not in explain(caught.value)
    catalog.drop_table(name, purge=place.is_remote)
    assert catalog.list_tables(place.database) == []
