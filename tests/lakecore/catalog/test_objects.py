"""Views and functions: what is refused before anything is sent, and changes whose answer is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.objects.function import Function, changed_function, check_function_name
from lakecore.catalog.objects.view import View, changed_view
from lakecore.catalog.registry import load_catalog
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.resource_paths import ResourcePaths
from lakecore.catalog.rest.rest_views import RestFunctions, RestViews
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.fake_clock import FakeClock
from tests.support.lake import memory_catalog
from tests.support.scripted_server import Script, scripted_server

VIEW = View.from_json({"columns": ["k INT"], "query": "select 1", "dialects": {"spark": "select 2"}})
FUNCTION = Function.from_json({"definitions": {"spark": {"type": "sql", "definition": "1"}}})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"action": "addDialect", "dialect": "spark", "query": "q"}, AlreadyExistsError),
        ({"action": "updateDialect", "dialect": "flink", "query": "q"}, NotFoundError),
        ({"action": "dropDialect", "dialect": "flink"}, NotFoundError),
        ({"action": "dropDialect"}, InvalidInputError),
        ({"action": "addDialect", "dialect": "flink", "query": 1}, InvalidInputError),
        ({"action": "addDefinition", "name": "x", "definition": {}}, InvalidInputError),
        ({"action": "setOption", "key": "a", "value": "b", "c": "d"}, InvalidInputError),
        ("addDialect", InvalidInputError),
    ],
)
def test_changes_of_a_view_that_do_not_fit_are_refused(change: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        changed_view(VIEW, [change])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"action": "addDefinition", "name": "spark", "definition": {"type": "sql", "definition": "2"}}, AlreadyExistsError),
        ({"action": "dropDefinition", "name": "flink"}, NotFoundError),
        ({"action": "addDefinition", "name": "flink", "definition": {"type": "wasm"}}, InvalidInputError),
        ({"action": "addDefinition", "name": "flink", "definition": {"type": "lambda", "definition": "x"}}, InvalidInputError),
    ],
)  # fmt: skip
def test_changes_of_a_function_that_do_not_fit_are_refused(change: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        changed_function(FUNCTION, [change])


def test_what_is_no_view_and_no_function_is_refused() -> None:
    for raw in (
        {"columns": ["k INT"]},
        {"columns": [], "query": "q"},
        {"columns": ["k INT", "k INT"], "query": "q"},
    ):
        with pytest.raises(InvalidInputError):
            View.from_json(raw)
    for name in ("", "1", "a b", "a/b", "ä"):
        with pytest.raises(InvalidInputError):
            check_function_name(name)
    with pytest.raises(InvalidInputError):
        Function.from_json({"definitions": ["x"]})


def test_a_directory_has_neither_views_nor_functions() -> None:
    catalog = memory_catalog("objects")
    with pytest.raises(UnsupportedError, match="metastore=rest, jdbc or hive"):
        _ = catalog.views
    with pytest.raises(UnsupportedError, match="metastore=rest"):
        _ = catalog.functions


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as found:
        yield found


def client_of(script: Script) -> RestClient:
    script.answers.append((200, "{}"))
    options = {"metastore": "rest", "uri": script.address, "token.provider": "bear", "token": "t"}
    client = load_catalog("wh", **options).client  # type: ignore[attr-defined]
    script.seen.clear()
    return replace(client, clock=FakeClock(0))


def test_a_change_of_a_view_whose_answer_is_lost_is_looked_for(script: Script) -> None:
    views = RestViews.of(client_of(script), ResourcePaths(""))
    change = {"action": "addDialect", "dialect": "flink", "query": "q"}
    before, after = (
        (200, json.dumps({"schema": one.to_json()})) for one in (VIEW, changed_view(VIEW, [change]))
    )
    script.answers[:] = [before, (500, ""), after, after]
    assert views.alter("d.v", [change]).dialects == {"spark": "select 2", "flink": "q"}
    assert [one.partition(" ")[0] for one in script.seen] == ["GET", "POST", "GET", "GET"]


def test_a_function_that_was_created_without_an_answer_is_not_created_twice(script: Script) -> None:
    functions = RestFunctions.of(client_of(script), ResourcePaths(""))
    script.answers[:] = [None, (200, json.dumps({"name": "f", **FUNCTION.to_json()}))]
    functions.create("d.f", FUNCTION)
    script.answers[:] = [(200, json.dumps({"name": "f", "definitions": []}))]
    assert functions.get("d.f") == Function()
    script.answers[:] = [(200, json.dumps({"name": "f", "definitions": [1]}))]
    with pytest.raises(UnavailableError, match="no function"):
        functions.get("d.f")
