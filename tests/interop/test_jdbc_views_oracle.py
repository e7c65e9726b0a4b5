"""Views of JDBC catalogs, changed by Java 2.0 and by lakecore in turns: both show the same after each step."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.objects.view import View
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError
from tests.support.catalog_steps import Both
from tests.support.oracle import Oracle, OracleError
from tests.support.sql_servers import SqlServers, options_of

pytestmark = pytest.mark.slow

STEPS = 18
NAMES = ("d.v", "d.w", "e.v", "e.w")
VERBS = ("create", "alter", "rename", "create", "alter", "drop")
VIEW = View.from_json(
    {
        "columns": ["k INT NOT NULL", "v ARRAY<STRING>", "r ROW<a INT, b DECIMAL(9, 2)>"],
        "query": "select * from t",
        "comment": "Å\N{HIRAGANA LETTER A}",
        "options": {"a": "b"},
    }
)
CHANGES: tuple[dict[str, Any], ...] = (
    {"action": "updateComment", "comment": "c"},
    {"action": "setOption", "key": "o", "value": "1"},
    {"action": "removeOption", "key": "a"},
    {"action": "addDialect", "dialect": "spark", "query": "select 1"},
    {"action": "updateDialect", "dialect": "spark", "query": "select 2"},
    {"action": "dropDialect", "dialect": "spark"},
)


def show(both: Both) -> dict[str, Any]:
    """Return what lakecore shows, in the form of the oracle's `catalog show-objects`."""
    views = both.catalog.views
    names = [f"{one}.{view}" for one in both.catalog.list_databases() for view in views.list(one)]
    found = {f"view {name}": views.get(name).to_json() for name in names}
    return {name: {key: v for key, v in one.items() if v is not None} for name, one in found.items()}


def step(both: Both, chance: random.Random, verb: str) -> str:
    """Do one random operation by one of the two, whose outcome is compared with what it must be."""
    views, before = both.catalog.views, show(both)
    name, new = chance.sample(NAMES, 2)
    if before and verb != "create" and chance.random() < 0.8:
        name = chance.choice(sorted(before)).removeprefix("view ")
    there, taken = f"view {name}" in before, f"view {new}" in before
    words: list[str]
    call: Callable[[], object]
    may = there
    match verb:
        case "create":
            schema = {key: value for key, value in VIEW.to_json().items() if value is not None}
            words, call = ["create-view", name, json.dumps(schema)], partial(views.create, name, VIEW)
            may = not there
        case "alter":
            change = chance.choice(CHANGES)
            words, call = ["alter-view", name, json.dumps(change)], partial(views.alter, name, [change])
            if "Dialect" in change["action"]:
                has = there and "spark" in before[f"view {name}"]["dialects"]
                may = there and has is not change["action"].startswith("add")
        case "rename":
            words, call = ["rename-view", name, new], partial(views.rename, name, new)
            may = there and not taken
            if name == new:
                return "nothing"  # Java waits for the lock that it holds itself
        case _:
            words, call = ["drop-view", name], partial(views.drop, name)
    if chance.random() < 0.5:
        done = both.java_runs(*words)
    else:
        try:
            call()
            done = True
        except LakeError:
            done = False
    assert done is may, words
    return words[0] if done else "nothing"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_both_see_the_same_views(oracle2: Oracle, tmp_path: Path, servers: SqlServers, kind: str) -> None:
    both, chance = Both(oracle2, tmp_path, options_of(kind, tmp_path, servers)), random.Random(kind)
    both.catalog.create_database("d")
    assert both.java_runs("create-database", "e")
    done = set()
    for number in range(STEPS):
        done.add(step(both, chance, VERBS[number % len(VERBS)]))
        assert show(both) == oracle2.call("catalog", both.java, "show-objects")
    assert done >= {"create-view", "alter-view", "rename-view", "drop-view"}
    both.catalog.close()


def test_a_view_and_a_table_do_not_share_a_name_and_a_cascade_drops_both(
    oracle2: Oracle, tmp_path: Path, servers: SqlServers
) -> None:
    both = Both(oracle2, tmp_path, options_of("sqlite", tmp_path, servers))
    table = {"columns": ["k INT"], "options": {"bucket": "-1"}}
    both.catalog.create_database("d")
    both.catalog.views.create("d.v", VIEW)
    both.catalog.views.create("d.w", VIEW)
    page = both.catalog.views.list_page("d", limit=1)
    assert (page.names, page.next_token) == (("v",), "v")
    page = both.catalog.views.list_page("d", limit=1, token="v")
    assert (page.names, page.next_token) == (("w",), None)
    both.catalog.views.drop("d.w")
    assert not both.java_runs("create", "d.v", json.dumps(table))
    assert both.java_runs("create", "d.t", json.dumps(table))
    assert not both.java_runs("rename-view", "d.v", "d.t")
    with pytest.raises(AlreadyExistsError, match="a table of the catalog has this name"):
        both.catalog.views.rename("d.v", "d.t")
    assert not both.java_runs("drop-database", "d")
    both.catalog.drop_database("d", cascade=True)
    assert oracle2.call("catalog", both.java, "show-objects") == {}
    assert oracle2.call("catalog", both.java, "show") == {}
    both.catalog.close()


def test_java_reads_characters_of_four_bytes_that_only_lakecore_can_write_to_mariadb(
    oracle2: Oracle, tmp_path: Path, servers: SqlServers
) -> None:
    both = Both(oracle2, tmp_path, options_of("mariadb", tmp_path, servers))
    both.catalog.create_database("d")
    view = replace(VIEW, query="select '\N{GRINNING FACE}'")
    both.catalog.views.create("d.v", view)
    assert oracle2.call("catalog", both.java, "show-objects")["view d.v"]["query"] == view.query
    assert both.catalog.views.get("d.v") == view
    with pytest.raises(InvalidInputError, match=r"create view d\.w: .* cannot store a value"):
        both.catalog.views.create("d.w", replace(VIEW, query="x" * 70_000))
    assert both.catalog.views.list("d") == ["v"]
    both.catalog.close()


def test_java_1_4_works_beside_views_that_it_does_not_see(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers
) -> None:
    oracle = oracles["1.4.2"]
    both = Both(oracle, tmp_path, options_of("sqlite", tmp_path, servers))
    assert both.java_runs("create-database", "d")
    both.catalog.views.create("d.v", VIEW)
    assert oracle.call("catalog", both.java, "show")["d"]["tables"] == {}
    with pytest.raises(OracleError):
        oracle.call("catalog", both.java, "create-view", "d.w", json.dumps(VIEW.to_json()))
    assert both.catalog.views.list("d") == ["v"]
    both.catalog.close()
