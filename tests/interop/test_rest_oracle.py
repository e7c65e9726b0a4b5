"""Java's REST catalog and lakecore's on Paimon's own REST server in turns: after each step both show the same
databases, properties, tables, schemas and rows, and both refuse the same operations.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.objects.function import Function
from lakecore.catalog.objects.table_filter import TABLE_TYPES
from lakecore.catalog.objects.table_page import NamePage
from lakecore.catalog.objects.view import View
from lakecore.catalog.registry import load_catalog
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError
from tests.support.rest_server import TOKEN, rest_server

pytestmark = pytest.mark.slow

STEPS = 25
VERSIONS = ["1.4.2", "2.0.0"]
AUDIT = ("owner", "createdAt", "createdBy", "updatedAt", "updatedBy", "comment", "path")
SCHEMA = {
    "columns": ["k INT NOT NULL", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1"},
}


class Both:
    """One server, asked by Java and by lakecore."""

    def __init__(self, oracle: Oracle, path: Path) -> None:
        self.oracle, self.path = oracle, path
        self.uri = rest_server(oracle.version, str(path))
        self.options = {"metastore": "rest", "uri": self.uri, "token.provider": "bear", "token": TOKEN}
        self.catalog = load_catalog(path.name, **self.options)
        named = {"warehouse": path.name, **self.options}
        self.java = "|".join([str(path), *(f"{key}={value}" for key, value in named.items())])

    def show(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.catalog.list_databases():
            tables = {}
            for table in self.catalog.list_tables(name):
                tables[table] = json.loads(self.catalog.load_table(f"{name}.{table}").schema.to_json())
            found[name] = {"properties": dict(self.catalog.get_database(name).properties), "tables": tables}
        return found

    def rows(self, name: str) -> list[str]:
        return canonical(self.catalog.load_table(name).scan().to_arrow().to_pylist())

    def check(self) -> None:
        java, ours = self.oracle.call("catalog", self.java, "show"), self.show()
        for shown in (java, ours):
            for database in shown.values():
                for key in AUDIT:
                    database["properties"].pop(key, None)
                for schema in database["tables"].values():
                    schema.pop("timeMillis", None)  # the server does not tell it
                    schema.pop("comment", None)
                    for key in AUDIT:
                        schema["options"].pop(key, None)
        assert ours == java
        for name, database in ours.items():
            for table in database["tables"]:
                assert self.rows(f"{name}.{table}") == self.oracle.read(self.java, f"{name}.{table}")


def step(both: Both, chance: random.Random) -> None:
    """Ask Java or lakecore for one random change. Whether it may succeed is what the other side shows."""
    ours, catalog = chance.random() < 0.5, both.catalog
    database, other = chance.choice("de"), chance.choice("de")
    name, new = (
        f"{database}.{chance.choice(['t', 'u', 'V w'])}",
        f"{other}.{chance.choice(['t', 'u', 'V w'])}",
    )
    there = database in catalog.list_databases()
    has = there and catalog.table_exists(name)
    kinds = [
        "create-database",
        "create",
        "create",
        "write",
        "write",
        "rename",
        "drop",
        "alter",
        "drop-database",
    ]
    kind = chance.choice(kinds)
    call: Callable[[], object]
    match kind:
        case "create-database":
            may, words = not there, [kind, database, json.dumps({"owner": "x"})]
            call = partial(catalog.create_database, database, properties={"owner": "x"})
        case "drop-database":
            may, words = there and not catalog.list_tables(database), [kind, database]
            call = partial(catalog.drop_database, database)
        case "create":
            may, words = there and not has, [kind, name, json.dumps(SCHEMA)]
            call = partial(catalog.create_table, name, SCHEMA)
        case "rename":
            if not has or other not in catalog.list_databases():
                return  # the server of the tests answers 500, or makes a mess
            may, words = not catalog.table_exists(new), [kind, name, new]
            call = partial(catalog.rename_table, name, new)
        case "drop":
            may, words = has, [kind, name]
            call = partial(catalog.drop_table, name, purge=True)
        case "alter":
            if not has:
                return  # the server of the tests answers that all went well
            change = chance.choice(
                [
                    {"op": "set", "key": "snapshot.time-retained", "value": f"{chance.randint(1, 9)} h"},
                    {"op": "add", "name": f"c{chance.randint(0, 10**6)}", "type": "INT"},
                ]
            )
            may, words = has, [kind, name, json.dumps([change])]
            call = partial(catalog.alter_table, name, [change])
        case _:
            if has:
                rows = [{"k": chance.randint(0, 9), "v": chance.choice("xyz")} for _ in range(3)]
                both.oracle.write(both.java, name, rows)
            return
    assert outcome(both, call if ours else None, words) is may, (ours, words)


def outcome(both: Both, call: Callable[[], object] | None, words: list[str]) -> bool:
    try:
        if call is None:
            both.oracle.call("catalog", both.java, *words)
        else:
            call()
    except (LakeError, OracleError):
        return False
    return True


@pytest.mark.parametrize("version", VERSIONS)
def test_both_see_the_same_after_each_step(oracles: dict[str, Oracle], tmp_path: Path, version: str) -> None:
    both, chance = Both(oracles[version], tmp_path), random.Random(7)
    for _ in range(STEPS):
        step(both, chance)
        both.check()


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_of_columns_are_those_of_java(
    oracles: dict[str, Oracle], tmp_path: Path, version: str
) -> None:
    both = Both(oracles[version], tmp_path)
    both.catalog.create_database("d")
    both.catalog.create_table("d.t", SCHEMA)
    both.oracle.write(both.java, "d.t", [{"k": 1, "v": "x"}])
    for change in (
        {"op": "add", "name": "a", "type": "INT", "first": True},
        {"op": "rename", "name": "v", "to": "w"},
        {"op": "type", "name": "a", "type": "BIGINT"},
        {"op": "comment", "name": "a", "comment": "what it is"},
        {"op": "move", "name": "a", "after": "w"},
        {"op": "nullability", "name": "w", "nullable": True},
        {"op": "set", "key": "snapshot.time-retained", "value": "2 h"},
        {"op": "unset", "key": "snapshot.time-retained"},
        {"op": "drop", "name": "a"},
    ):
        both.catalog.alter_table("d.t", [change])
        both.check()
    assert both.catalog.load_table("d.t").schema.row_type.names == ("k", "w")
    assert both.rows("d.t") == ['{"k": 1, "w": "x"}']


def test_many_tables_come_page_after_page(oracle: Oracle, tmp_path: Path) -> None:
    both = Both(oracle, tmp_path)
    for number in range(105):  # a page of the server has 100
        both.catalog.create_database(f"d{number}")
    assert len(both.catalog.list_databases()) == 105


@pytest.mark.parametrize("version", VERSIONS)
def test_lists_by_type_and_name_are_those_of_java(
    oracles: dict[str, Oracle], tmp_path: Path, version: str
) -> None:
    both = Both(oracles[version], tmp_path)
    both.catalog.create_database("d")
    for name, kind in (("a", None), ("ab", "table"), ("a_b", "format-table"), ("axb", "object-table")):
        options = {} if kind is None else {"type": kind, "file.format": "csv"}
        columns = [] if kind == "object-table" else ["k INT"]
        schema = {"columns": columns, "options": options}
        both.oracle.call("catalog", both.java, "create", f"d.{name}", json.dumps(schema))
    seen = set()
    for pattern in ("", "a", "a%", "a_%", "%", "b%", "a\\b", "a%b"):
        for kind in ("", *TABLE_TYPES):
            try:
                java = both.oracle.call("catalog", both.java, "list", "d", pattern, kind)
            except OracleError:
                with pytest.raises(InvalidInputError, match="only the end of a pattern may be %"):
                    both.catalog.list_tables("d", pattern=pattern, table_type=kind)
                assert pattern == "a%b"
                continue
            assert both.catalog.list_tables("d", pattern=pattern, table_type=kind) == java
            listed, page = [], both.catalog.list_tables_page("d", limit=1, pattern=pattern, table_type=kind)
            while page.next_token is not None:
                listed += page.tables
                assert len(page.tables) <= 1
                page = both.catalog.list_tables_page(
                    "d", limit=1, token=page.next_token, pattern=pattern, table_type=kind
                )
            assert sorted([*listed, *page.tables]) == java
            seen.add(tuple(java))
    assert len(seen) > 6


def test_java_s_server_makes_the_pages_of_databases_views_and_functions(
    oracle2: Oracle, tmp_path: Path
) -> None:
    catalog = Both(oracle2, tmp_path).catalog
    names = ["a", "ab", "b", "c"]
    for name in names:
        catalog.create_database(name)
        catalog.views.create(f"a.{name}", View.from_json({"fields": ["k INT"], "query": "select 1 as k"}))
        catalog.functions.create(f"a.{name}", Function.from_json({}))
    lists: list[tuple[Callable[..., NamePage], list[str]]] = [
        (catalog.list_databases_page, catalog.list_databases()),
        (partial(catalog.views.list_page, "a"), catalog.views.list("a")),
        (partial(catalog.functions.list_page, "a"), catalog.functions.list("a")),
    ]
    for ask, whole in lists:
        assert whole == names
        for pattern, expected in (("", names), ("a%", ["a", "ab"]), ("b", ["b"]), ("z%", [])):
            pages, token = list[tuple[str, ...]](), None
            while not pages or token is not None:
                page = ask(limit=1, token=token, pattern=pattern)
                pages.append(page.names)
                token = page.next_token
            assert sorted(name for part in pages for name in part) == expected
            assert all(len(part) <= 1 for part in pages)


def test_a_drop_that_would_keep_files_is_refused(oracle2: Oracle, tmp_path: Path) -> None:
    both = Both(oracle2, tmp_path)
    both.catalog.create_database("d")
    both.catalog.create_table("d.t", SCHEMA)
    both.oracle.write(both.java, "d.t", [{"k": 1, "v": "x"}])
    before = sorted(tmp_path.rglob("*"))
    for drop in (both.catalog.drop_table, partial(both.catalog.drop_database, cascade=True)):
        with pytest.raises(UnsupportedError, match="purge"):
            drop("d.t" if drop == both.catalog.drop_table else "d")
    assert sorted(tmp_path.rglob("*")) == before
    assert both.rows("d.t") == ['{"k": 1, "v": "x"}']


def test_names_and_tokens_that_are_wrong(oracle: Oracle, tmp_path: Path) -> None:
    both = Both(oracle, tmp_path)
    both.catalog.create_database("d")
    with pytest.raises(AlreadyExistsError):
        both.catalog.create_database("d")
    both.catalog.create_database("d", if_not_exists=True)
    with pytest.raises(NotFoundError, match="none"):
        both.catalog.load_table("d.none")
    with pytest.raises(NotFoundError):
        both.catalog.drop_database("e")
    both.catalog.drop_database("e", if_exists=True)
    with pytest.raises(UnavailableError, match="valid token") as caught:
        load_catalog(tmp_path.name, **{**both.options, "token": "wrong-word"})
    assert "wrong-word" not in str(caught.value)
    assert TOKEN not in repr(both.catalog) + repr(both.catalog.client)


def test_the_server_decides_which_snapshot_is_the_newest(oracle: Oracle, tmp_path: Path) -> None:
    """A snapshot file that the server did not commit is not read, as Java does not read it."""
    both = Both(oracle, tmp_path)
    both.catalog.create_database("d")
    both.catalog.create_table("d.t", SCHEMA)
    both.oracle.write(both.java, "d.t", [{"k": 1, "v": "x"}])
    snapshots = tmp_path / "d.db" / "t" / "snapshot"
    forged = json.loads((snapshots / "snapshot-1").read_text()) | {"id": 2, "schemaId": 9}
    (snapshots / "snapshot-2").write_text(json.dumps(forged))
    (snapshots / "LATEST").write_text("2")
    assert both.oracle.read(both.java, "d.t") == both.rows("d.t") == ['{"k": 1, "v": "x"}']
