"""Views and functions of Paimon's REST server, changed by Java and by lakecore in turns: both show the same."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.objects.function import Function
from lakecore.catalog.objects.view import View
from lakecore.catalog.registry import load_catalog
from lakecore.cli.main import main
from lakecore.errors import LakeError
from tests.support.oracle import Oracle, OracleError
from tests.support.rest_server import TOKEN, rest_server

pytestmark = pytest.mark.slow

STEPS = 24
AUDIT = ("owner", "createdAt", "createdBy", "updatedAt", "updatedBy")
SQL = {"type": "sql", "definition": "x + 1"}
LAMBDA = {"type": "lambda", "definition": "(Integer x) -> x + 1", "language": "JAVA"}
FILE = {
    "type": "file",
    "fileResources": [{"resourceType": "JAR", "uri": "/lib/f.jar"}],
    "language": "JAVA",
    "className": "a.B",
    "functionName": "eval",
}
VIEW = View.from_json(
    {"columns": ["k INT NOT NULL", "v ARRAY<STRING>"], "query": "select * from t", "comment": "c"}
)
FUNCTION = Function.from_json({"inputParams": ["x INT"], "returnParams": ["y BIGINT"], "options": {"a": "b"}})


def draw_change(chance: random.Random, kind: str) -> dict[str, Any]:
    if chance.random() < 0.2:
        return {"action": "updateComment", "comment": chance.choice(["x", "y"])}
    if chance.random() < 0.3:
        return {"action": "setOption", "key": "o", "value": chance.choice("12")}
    verb, name = chance.choice(["add", "update", "drop"]), chance.choice(["spark", "flink"])
    if kind == "view":
        own = {} if verb == "drop" else {"query": f"select {chance.randint(0, 9)}"}
        return {"action": f"{verb}Dialect", "dialect": name, **own}
    own = {} if verb == "drop" else {"definition": chance.choice([SQL, LAMBDA, FILE])}
    return {"action": f"{verb}Definition", "name": name, **own}


class Both:
    """One server, asked by Java and by lakecore."""

    def __init__(self, oracle: Oracle, path: Path) -> None:
        options = {
            "metastore": "rest",
            "uri": rest_server(oracle.version, str(path)),
            "token.provider": "bear",
            "token": TOKEN,
        }
        self.options, self.catalog = options, load_catalog(path.name, **options)
        words = [str(path), f"warehouse={path.name}", *(f"{key}={value}" for key, value in options.items())]
        self.java = partial(oracle.call, "catalog", "|".join(words))

    def show(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for database in self.catalog.list_databases():
            for name in self.catalog.views.list(database):
                found[f"view {database}.{name}"] = self.catalog.views.get(f"{database}.{name}").to_json()
            for name in self.catalog.functions.list(database):
                one = self.catalog.functions.get(f"{database}.{name}")
                found[f"function {database}.{name}"] = {"name": name, **one.to_json()}
        return found

    def step(self, chance: random.Random, before: dict[str, Any]) -> dict[str, Any]:
        """Make one random change, and return what is there after it: nothing else when it was refused."""
        kind, name = chance.choice(["view", "function"]), f"d.{chance.choice('ab')}"
        objects = self.catalog.views if kind == "view" else self.catalog.functions
        value = VIEW if kind == "view" else FUNCTION
        verb = chance.choice(["create", "alter", "alter", "alter", "drop"])
        words: list[str] = []
        call: Callable[[], object] = partial(objects.drop, name)
        if verb == "create":
            words = [json.dumps({"name": name[2:], **value.to_json()})]
            call = partial(objects.create, name, value)
        if verb == "alter":
            change = draw_change(chance, kind)
            words, call = [json.dumps(change)], partial(objects.alter, name, [change])
        ours = chance.random() < 0.5
        try:
            if ours:
                call()
            else:
                self.java(f"{verb}-{kind}", name, *words)
        except (LakeError, OracleError):
            assert self.show() == before
            return before
        return self.show()


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_both_see_the_same_views_and_functions(
    oracles: dict[str, Oracle], tmp_path: Path, version: str
) -> None:
    both, chance = Both(oracles[version], tmp_path), random.Random(version)
    both.catalog.create_database("d")
    shown, changed = both.show(), 0
    for _ in range(STEPS):
        after = both.step(chance, shown)
        if after != shown:
            changed += 1
            assert defined(copy.deepcopy(after)) == defined(both.java("show-objects"))
        shown = after
    assert changed > STEPS / 4


def defined(shown: dict[str, Any]) -> dict[str, Any]:
    """What was defined: Java adds who created and changed an object to its options."""
    for one in shown.values():
        one["options"] = {key: value for key, value in one["options"].items() if key not in AUDIT}
    return {name: {key: v for key, v in one.items() if v is not None} for name, one in shown.items()}


def test_a_view_gets_another_name(oracle2: Oracle, tmp_path: Path) -> None:
    both = Both(oracle2, tmp_path)
    both.catalog.create_database("d")
    both.catalog.views.create("d.v", VIEW)
    both.catalog.views.create("d.v", VIEW, if_not_exists=True)
    both.catalog.views.rename("d.v", "d.w")
    assert list(both.java("show-objects")) == ["view d.w"]


def test_procedures_are_commands(
    oracle2: Oracle, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Both(oracle2, tmp_path)
    for key, value in {"warehouse": tmp_path.name, **both.options}.items():
        monkeypatch.setenv(f"LAKECORE_CATALOG__LAKE__{key.upper().replace('.', '__')}", value)
    both.catalog.create_database("d")
    both.catalog.views.create("d.v", VIEW)
    change = {"action": "addDefinition", "name": "spark", "definition": SQL}
    for words in (
        ["create-function", "d.f", "--function-definition", json.dumps({"inputParams": ["x INT"]})],
        ["create-function", "d.f", "--if-not-exists"],
        ["alter-function", "d.f", "--change", json.dumps(change)],
        ["alter-view-dialect", "d.v", "add", "--engine", "flink", "--query", "select 1"],
        ["create-function", "d.g"],
        ["drop-function", "d.g"],
        ["drop-function", "d.g", "--if-exists"],
    ):
        assert main([*words, "--catalog", "lake"]) == 0, words
    shown = both.java("show-objects")
    assert set(shown) == {"view d.v", "function d.f"}
    assert shown["function d.f"]["definitions"] == {"spark": SQL}
    assert shown["view d.v"]["dialects"] == {"flink": "select 1"}
    for words, text in (
        (["alter-view-dialect", "d.v", "add", "--engine", "spark"], "add needs a query"),
        (["alter-view-dialect", "d.v", "drop", "--query", "select 1"], "dropped without a query"),
        (["alter-function", "d.f", "--change", "[]"], "write a JSON object"),
        (["create-function", "d.1"], "at least one letter"),
        (["drop-function", "d.g"], "404"),
    ):
        capfd.readouterr()
        assert main([*words, "--catalog", "lake"]) != 0, words
        assert text in capfd.readouterr().err
