"""Views of Hive catalogs, created, renamed and dropped by Java 1.4 and 2.0 and by lakecore in turns: both show the same
after each step. Java changes no view of a Hive catalog; it reads those that lakecore changed.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.names import TableName
from lakecore.catalog.objects.view import View
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.privileges.manager import Privileges
from lakecore.catalog.registry import load_catalog
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    PrivilegeError,
    UnsupportedError,
)
from tests.support.cut_proxy import cut_proxy
from tests.support.fake_clock import FakeClock
from tests.support.hive_metastore import HiveServer, emptied, hive_server, opened
from tests.support.oracle import OracleError

pytestmark = pytest.mark.slow

STEPS = 24
NAMES = ("vd.v", "vd.w", "ve.v", "ve.w")
VERBS = ("create", "alter", "rename", "create", "alter", "drop")
VIEW = View.from_json(
    {
        "columns": [
            "k INT",
            {"name": "v", "type": "ARRAY<STRING>", "comment": "in\ntwo lines"},
            "r ROW<a INT, b DECIMAL(9, 2), c MAP<STRING, ROW<d DATE>>>",
            "c CHAR(3)",
        ],
        "query": "select 'Å\N{HIRAGANA LETTER A}' from t",
        "comment": "Å\n\N{HIRAGANA LETTER A}",
        "options": {"a": "b"},
    }
)
PLAIN = View.from_json({"columns": ["k INT"], "query": "select k from t"})
TABLE: dict[str, Any] = {"columns": ["k INT"]}
CHANGES: tuple[dict[str, Any], ...] = (
    {"action": "updateComment", "comment": "c"},
    {"action": "updateComment", "comment": None},
    {"action": "setOption", "key": "o", "value": "1"},
    {"action": "removeOption", "key": "a"},
)


@pytest.fixture(scope="module", params=["1.4.2", "2.0.0"])
def server(request: pytest.FixtureRequest, hive: HiveServer) -> Iterator[HiveServer]:
    if hive.oracle.version == request.param:
        yield hive
        return
    with hive_server(request.param) as other:
        other.oracle.call("catalog", other.java(), "show")
        yield other


def words_of(view: View) -> str:
    return json.dumps({key: value for key, value in view.to_json().items() if value is not None})


def record_of(catalog: HiveCatalog, name: str) -> dict[str, Any]:
    """The metastore's record, without times and names."""
    record = catalog._metastore.table(TableName.parse(name))
    assert record is not None
    record.parameters.pop("transient_lastDdlTime")
    return {
        key: value
        for key, value in vars(record).items()
        if not key.endswith("Time") and key not in ("dbName", "tableName")
    }


def ours_of(catalog: HiveCatalog) -> dict[str, Any]:
    """What lakecore shows, in the form of the oracle's `catalog show-objects`."""
    views = catalog.views
    names = [f"{one}.{view}" for one in catalog.list_databases() for view in views.list(one)]
    found = {f"view {name}": views.get(name).to_json() for name in names}
    return {name: {key: v for key, v in one.items() if v is not None} for name, one in found.items()}


class Turns:
    """Two databases, and what one of the two does to their views."""

    def __init__(self, hive: HiveServer, catalog: HiveCatalog) -> None:
        self.hive, self.catalog = hive, catalog
        self.expected: dict[str, View] = {}

    def java_runs(self, *words: str) -> bool:
        try:
            self.hive.oracle.call("catalog", self.hive.java(), *words)
        except OracleError:
            return False
        return True

    def step(self, chance: random.Random, verb: str) -> str:
        """Do one random operation, whose outcome is compared with what it must be."""
        views, expected = self.catalog.views, self.expected
        name, new = chance.choice(NAMES), chance.choice(NAMES)
        if expected and verb != "create" and chance.random() < 0.8:
            name = chance.choice(sorted(expected))
        may, ours = name in expected, chance.random() < 0.5
        call: Callable[[], object]
        match verb:
            case "create":
                view = chance.choice((VIEW, PLAIN))
                words, call = ["create-view", name, words_of(view)], partial(views.create, name, view)
                may = not may
                expected.setdefault(name, view)
            case "alter":
                change, ours = chance.choice(CHANGES), True
                words, call = ["alter-view"], partial(views.alter, name, [change])
                if may:
                    expected[name] = changed(expected[name], change)
            case "rename":
                words, call = ["rename-view", name, new], partial(views.rename, name, new)
                may = may and new not in expected
                if may:
                    expected[new] = expected.pop(name)
            case _:
                words, call = ["drop-view", name], partial(views.drop, name)
                expected.pop(name, None)
        if ours:
            try:
                call()
                done = True
            except LakeError:
                done = False
        else:
            done = self.java_runs(*words)
        assert done is may, (words, "by lakecore" if ours else "by Java")
        return f"{words[0]} {ours}" if done else "nothing"

    def check(self) -> None:
        ours = ours_of(self.catalog)
        assert ours == self.hive.oracle.call("catalog", self.hive.java(), "show-objects")
        for one in ours.values():
            one["options"].pop("transient_lastDdlTime")
        views = {name.removeprefix("view "): View.from_schema(one) for name, one in ours.items()}
        assert {name: replace(one, columns=()) for name, one in views.items()} == {
            name: replace(one, columns=()) for name, one in self.expected.items()
        }
        for name, view in self.expected.items():
            texts = [(one.name, str(one.type), one.description) for one in view.columns]
            assert [(one.name, str(one.type), one.description) for one in views[name].columns] == texts


def changed(view: View, change: dict[str, Any]) -> View:
    options = dict(view.options)
    if change["action"] == "updateComment":
        return replace(view, comment=change["comment"])
    if change["action"] == "setOption":
        options[change["key"]] = change["value"]
    else:
        options.pop(change["key"], None)
    return replace(view, options=options)


def test_both_see_the_same_views(server: HiveServer) -> None:
    catalog = opened(server, **{"lock.enabled": "true"})
    turns, chance = Turns(server, catalog), random.Random(f"views {server.oracle.version}")
    catalog.create_database("vd")
    assert turns.java_runs("create-database", "ve")
    done = set()
    for number in range(STEPS):
        done.add(turns.step(chance, VERBS[number % len(VERBS)]))
        turns.check()
    assert {one.partition(" ")[0] for one in done} >= {
        "create-view",
        "alter-view",
        "rename-view",
        "drop-view",
    }
    emptied(catalog)
    catalog.close()


@pytest.mark.parametrize("view", [VIEW, PLAIN], ids=["all", "plain"])
def test_the_entries_are_those_of_java(server: HiveServer, view: View) -> None:
    catalog = opened(server)
    catalog.create_database("vb")
    server.oracle.call("catalog", server.java(), "create-view", "vb.java", words_of(view))
    catalog.views.create("vb.ours", view)
    assert record_of(catalog, "vb.ours") == record_of(catalog, "vb.java")
    for old, new in (("java", "ours2"), ("ours", "java2")):
        catalog.views.rename(f"vb.{old}", f"vb.{new}")
    assert record_of(catalog, "vb.ours2") == record_of(catalog, "vb.java2")
    emptied(catalog)
    catalog.close()


def test_java_1_4_reads_times_with_milliseconds_only(server: HiveServer) -> None:
    """A metastore has one type of timestamps. Java 1.4 takes it for TIMESTAMP(3), Java 2.0 and lakecore for TIMESTAMP(6)."""
    catalog = opened(server)
    catalog.create_database("vt")
    catalog.views.create("vt.v", View.from_json({"columns": ["t TIMESTAMP(6)"], "query": "q"}))
    assert [str(one.type) for one in catalog.views.get("vt.v").columns] == ["TIMESTAMP(6)"]
    (java,) = server.oracle.call("catalog", server.java(), "show-objects")["view vt.v"]["fields"]
    assert java["type"] == ("TIMESTAMP(3)" if server.oracle.version == "1.4.2" else "TIMESTAMP(6)")
    emptied(catalog)
    catalog.close()


class Asked:
    """Privileges of a user who has none of those that are asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Privilege, str | None, str | None]] = []

    def check(self, privilege: Privilege, database: str | None = None, table: str | None = None) -> None:
        self.asked.append((privilege, database, table))
        raise PrivilegeError("no")


def test_each_change_needs_its_privilege(hive: HiveServer) -> None:
    catalog, asked = opened(hive), Asked()
    catalog.create_database("vp")
    catalog.views.create("vp.v", PLAIN)
    views = replace(catalog, privileges=cast(Privileges, asked)).views
    comment = [{"action": "updateComment", "comment": "c"}]
    for call in (
        lambda: views.create("vp.w", PLAIN),
        lambda: views.alter("vp.v", comment),
        lambda: views.rename("vp.v", "vp.w"),
        lambda: views.drop("vp.v"),
    ):
        with pytest.raises(PrivilegeError):
            call()
    of_view = [
        (one, "vp", "v") for one in (Privilege.ALTER_TABLE, Privilege.ALTER_TABLE, Privilege.DROP_TABLE)
    ]
    assert asked.asked == [(Privilege.CREATE_TABLE, "vp", None), *of_view]
    assert catalog.views.list("vp") == ["v"]
    assert catalog.views.get("vp.v").comment is None
    emptied(catalog)
    catalog.close()


def test_a_view_and_a_table_do_not_share_a_name(server: HiveServer) -> None:
    catalog = opened(server)
    turns = Turns(server, catalog)
    catalog.create_database("vn")
    catalog.create_table("vn.t", TABLE)
    catalog.views.create("vn.v", PLAIN)
    catalog.views.create("vn.w", PLAIN)
    assert not turns.java_runs("create", "vn.v", json.dumps(TABLE))
    with pytest.raises(AlreadyExistsError, match="a view, or a table"):
        catalog.create_table("vn.v", TABLE, if_not_exists=True)
    assert not turns.java_runs("create-view", "vn.t", words_of(PLAIN))
    for lenient in (False, True):
        with pytest.raises(AlreadyExistsError, match=r"view 'vn\.t': a table of the catalog has this name"):
            catalog.views.create("vn.t", PLAIN, if_not_exists=lenient)
    catalog.views.create("vn.v", VIEW, if_not_exists=True)
    assert catalog.views.get("vn.v").query == PLAIN.query
    with pytest.raises(AlreadyExistsError, match=r"view 'vn\.v': a view of the catalog has this name"):
        catalog.views.create("vn.v", PLAIN)
    assert not turns.java_runs("rename-view", "vn.v", "vn.t")
    for new in ("t", "v", "w"):
        with pytest.raises(AlreadyExistsError, match="of the catalog has this name"):
            catalog.views.rename("vn.v", f"vn.{new}")
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table("vn.t", "vn.v")
    for refused in (catalog.views.get, catalog.views.drop, partial(catalog.views.alter, changes=[])):
        with pytest.raises(NotFoundError, match=r"view 'vn\.t' does not exist: a table"):
            refused("vn.t")
        with pytest.raises(NotFoundError, match=r"view 'vn\.x' does not exist; views: v, w"):
            refused("vn.x")
    with pytest.raises(NotFoundError):
        catalog.drop_table("vn.v")
    catalog.views.drop("vn.t", if_exists=True)
    catalog.views.drop("vn.x", if_exists=True)
    with pytest.raises(NotFoundError, match="it is a view"):
        catalog.load_table("vn.v")
    assert (
        catalog.list_tables("vn")
        == ["t"]
        == turns.hive.oracle.call("catalog", turns.hive.java(), "list", "vn", "", "")
    )
    assert catalog.views.list("vn") == ["v", "w"]
    assert catalog.table_kinds("vn") == {"t": "Paimon", "v": "view", "w": "view"}
    page = catalog.views.list_page("vn", limit=1)
    assert (page.names, page.next_token) == (("v",), "v")
    page = catalog.views.list_page("vn", limit=1, token="v")
    assert (page.names, page.next_token) == (("w",), None)
    assert catalog.views.list("sys") == []
    emptied(catalog)
    catalog.close()


def test_what_the_metastore_does_not_store_is_refused(server: HiveServer) -> None:
    """Java stores such views as others without a word: without dialects and NOT NULL, and with names in lower case."""
    catalog = opened(server)
    catalog.create_database("vr")
    nested = {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT", "description": "x"}]}
    columns: list[tuple[Any, type[LakeError]]] = [
        ("k INT NOT NULL", UnsupportedError),
        ("k TIME(3)", UnsupportedError),
        ("k TIMESTAMP(3)", UnsupportedError),
        ("K INT", InvalidInputError),
        ({"id": 0, "name": "k", "type": nested}, InvalidInputError),
    ]
    for column, error in columns:
        with pytest.raises(error, match=r"view 'vr\.v': column"):
            catalog.views.create("vr.v", View.from_json({"columns": [column], "query": "q"}))
    long = replace(PLAIN, columns=(replace(PLAIN.columns[0], description="x" * 257),))
    for view, error, text in (
        (replace(PLAIN, dialects={"spark": "q"}), UnsupportedError, "one query of a view"),
        (replace(PLAIN, options={"comment": "q"}), InvalidInputError, "the comment under this key"),
        (replace(PLAIN, columns=PLAIN.columns * 2), InvalidInputError, "each once"),
        (long, InvalidInputError, "at most 256 characters"),
    ):
        with pytest.raises(error, match=text):
            catalog.views.create("vr.v", view)
    for name in ("vr.V", "vr.a-b", "vr." + "x" * 129):
        with pytest.raises(InvalidInputError, match="a Hive metastore"):
            catalog.views.create(name, PLAIN)
    with pytest.raises(InvalidInputError, match="sys"):
        catalog.views.create("sys.v", PLAIN)
    with pytest.raises(NotFoundError, match="database 'none' does not exist"):
        catalog.views.create("none.v", PLAIN)
    assert catalog.views.list("vr") == []
    catalog.views.create("vr.v", PLAIN)
    with pytest.raises(UnsupportedError, match="dialect 'spark': a Hive metastore has one query"):
        catalog.views.alter("vr.v", [{"action": "addDialect", "dialect": "spark", "query": "q"}])
    with pytest.raises(InvalidInputError, match="the comment under this key"):
        catalog.views.alter("vr.v", [{"action": "setOption", "key": "comment", "value": "q"}])
    for new, error in (("vr.V", InvalidInputError), ("sys.v", InvalidInputError), ("none.v", NotFoundError)):
        with pytest.raises(error):
            catalog.views.rename("vr.v", new)
    assert catalog.views.list("vr") == ["v"]
    emptied(catalog)
    catalog.close()


def test_a_database_with_views_is_dropped_with_cascade_only(server: HiveServer) -> None:
    """Java drops views with their database in any case."""
    catalog = opened(server)
    turns = Turns(server, catalog)
    catalog.create_database("vc")
    catalog.create_table("vc.t", TABLE)
    assert turns.java_runs("create-view", "vc.v", words_of(PLAIN))
    catalog.views.create("vc.w", PLAIN)
    with pytest.raises(InvalidInputError, match="holds 2 views, such as 'v'; drop them first"):
        catalog.drop_database("vc")
    assert catalog.views.list("vc") == ["v", "w"]
    catalog.drop_database("vc", cascade=True)
    assert "vc" not in catalog.list_databases()
    assert server.oracle.call("catalog", server.java(), "show-objects") == {}
    catalog.create_database("vc")
    catalog.restore_table("vc.t")
    assert (catalog.list_tables("vc"), catalog.views.list("vc")) == (["t"], [])
    emptied(catalog)
    catalog.close()


def test_a_view_that_is_created_during_a_drop_without_cascade_stays(
    hive: HiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = opened(hive)
    catalog.create_database("vw")
    check = HiveCatalog._check_droppable

    def create_then(self: HiveCatalog, name: str, *, cascade: bool) -> None:
        check(self, name, cascade=cascade)
        opened(hive).views.create("vw.v", PLAIN)

    with monkeypatch.context() as patch:
        patch.setattr(HiveCatalog, "_check_droppable", create_then)
        with pytest.raises(InvalidInputError, match="drop database vw: the metastore refused it"):
            catalog.drop_database("vw")
    assert catalog.views.get("vw.v").query == PLAIN.query
    emptied(catalog)
    catalog.close()


def test_views_of_other_engines_are_those_that_java_shows(server: HiveServer) -> None:
    """An entry as Spark makes it, and one as Hive makes it, which has two texts."""
    catalog, types = opened(server), thrift_types()
    catalog.create_database("vo")
    for name, inputs, original in (
        ("spark", "org.apache.hadoop.mapred.SequenceFileInputFormat", "select k from vo.t"),
        ("hive", "org.apache.hadoop.mapred.TextInputFormat", "select k from t"),
    ):
        catalog._metastore.create_table(
            types.Table(
                tableName=name,
                dbName="vo",
                owner="somebody",
                tableType="VIRTUAL_VIEW",
                partitionKeys=[types.FieldSchema("p", "date", "of days")] if name == "hive" else [],
                parameters={"view.query.out.numCols": "1", "comment": "theirs"},
                viewOriginalText=original,
                viewExpandedText="select k from vo.t",
                sd=types.StorageDescriptor(
                    cols=[types.FieldSchema("k", "struct<A:int,b:varchar(7)>")],
                    inputFormat=inputs,
                    outputFormat="y",
                    serdeInfo=types.SerDeInfo(parameters={}),
                ),
            )
        )
    assert catalog.list_tables("vo") == []
    assert catalog.views.list("vo") == ["hive", "spark"]
    assert ours_of(catalog) == server.oracle.call("catalog", server.java(), "show-objects")
    view = catalog.views.alter("vo.hive", [{"action": "updateComment", "comment": "ours"}])
    assert (view.comment, view.query) == ("ours", "select k from vo.t")
    catalog.views.rename("vo.hive", "vo.other")
    assert ours_of(catalog) == server.oracle.call("catalog", server.java(), "show-objects")
    record = catalog._metastore.table(TableName("vo", "other"))
    assert record is not None
    assert (record.owner, record.viewOriginalText) == ("somebody", "select k from t")
    emptied(catalog)
    catalog.close()


OPERATIONS: dict[str, tuple[Callable[[HiveCatalog], object], dict[str, str | None]]] = {
    "create": (lambda one: one.views.create("vx.n", VIEW), {"vx.v": "c", "vx.n": VIEW.comment}),
    "alter": (
        lambda one: one.views.alter("vx.v", [{"action": "updateComment", "comment": "d"}]),
        {"vx.v": "d"},
    ),
    "rename": (lambda one: one.views.rename("vx.v", "vx.u"), {"vx.u": "c"}),
    "drop": (lambda one: one.views.drop("vx.v"), {}),
    "drop-database": (lambda one: one.drop_database("vx", cascade=True), {}),
}


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_metastore_that_fails_at_each_call_leaves_what_a_repetition_completes(
    hive: HiveServer, operation: str, after_effect: bool
) -> None:
    """The connection is lost at request 1, 2, 3, …, or from there on: the operation succeeds, or it fails with nothing half
    done and can be repeated.
    """
    direct, (call, expected) = opened(hive), OPERATIONS[operation]
    failures = 0
    with cut_proxy(hive.port) as proxy:
        options = {"uri": f"thrift://127.0.0.1:{proxy.port}", "hive.metastore.client.socket.timeout": "20"}
        through = load_catalog(hive.warehouse, metastore="hive", **options)
        assert isinstance(through, HiveCatalog)
        catalog = replace(through, connection=replace(through.connection, clock=FakeClock()))
        for lasting in (False, True):
            for number in range(1, 90):
                direct.create_database("vx")
                direct.views.create("vx.v", replace(PLAIN, comment="c"))
                proxy.arm(number, after_effect=after_effect, lasting=lasting)
                failed = False
                try:
                    call(catalog)
                except LakeError:
                    failed = True
                fired = proxy.fired
                proxy.arm(0, after_effect=False)
                if failed:
                    failures += 1
                    found = {
                        f"vx.{one}": direct.views.get(f"vx.{one}").comment for one in views_of(direct, "vx")
                    }
                    assert found in ({"vx.v": "c"}, expected), f"{operation} cut at request {number}"
                    with contextlib.suppress(AlreadyExistsError, NotFoundError):
                        call(catalog)
                java = hive.oracle.call("catalog", hive.java(), "show-objects")
                shown = {name.removeprefix("view "): one.get("comment") for name, one in java.items()}
                assert shown == expected, f"{operation} cut at request {number}"
                assert ("vx" in direct.list_databases()) is (operation != "drop-database")
                emptied(direct)
                if not fired:
                    break
            assert 1 < number < 89
        through.close()
    assert failures
    direct.close()


def views_of(catalog: HiveCatalog, database: str) -> list[str]:
    return catalog.views.list(database) if database in catalog.list_databases() else []
