"""A REST server that answers nonsense: each answer is taken, or refused with an error of lakecore's own, and a commit of which nobody
knows the outcome is uncertain, so that nothing is deleted.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakecore.catalog.registry import load_catalog
from lakecore.catalog.rest.client import RestClient, _Answer
from lakecore.catalog.rest.rest_catalog import RestCatalog
from lakecore.errors import AlreadyExistsError, CommitUncertainError, LakeError, NotFoundError
from tests.support.fake_clock import FakeClock

OPTIONS = {"uri": "http://127.0.0.1:9", "token.provider": "bear", "token": "secret-word"}
SNAPSHOT: dict[str, Any] = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "b",
    "deltaManifestList": "d",
    "commitUser": "me",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 1,
    "totalRecordCount": 1,
    "deltaRecordCount": 1,
}
FIELDS = [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "p", "type": "STRING"}]
TABLE: dict[str, Any] = {
    "id": "1",
    "name": "t",
    "path": "/nowhere/d.db/t",
    "isExternal": False,
    "schemaId": 0,
    "schema": {"fields": FIELDS, "partitionKeys": ["p"], "primaryKeys": [], "options": {"bucket": "-1"}},
}
COUNTS = dict.fromkeys(
    ("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime", "totalBuckets"), 1
)
ANSWERS: dict[str, dict[str, Any]] = {
    "config": {"defaults": {"prefix": "p", "header.X": "1"}, "overrides": {"a": "b"}},
    "databases": {"databases": ["d"], "nextPageToken": None},
    "databases/d": {"name": "d", "location": "/x", "options": {"a": "b"}},
    "tables": {"tables": ["t"], "nextPageToken": None},
    "tables/t": TABLE,
    "snapshot": {"snapshot": {"snapshot": SNAPSHOT, "recordCount": 1}},
    "token": {"token": {"s3.access-key": "a", "s3.secret-key": "b"}, "expiresAtMillis": 9_000_000_000_000},
    "partitions": {"partitions": [{"spec": {"p": "a"}, "options": {"x": "y"}, **COUNTS}]},
    "views": {"views": ["v"]},
    "views/v": {"name": "v", "schema": {"fields": FIELDS, "query": "q", "dialects": {}, "options": {}}},
    "functions": {"functions": ["f"]},
    "functions/f": {"name": "f", "inputParams": FIELDS[:1], "returnParams": FIELDS[:1], "definitions": {}},
}
NONSENSE: tuple[Any, ...] = (
    None,
    [],
    {},
    "",
    "../..",
    -1,
    1e308,
    True,
    [None],
    [[]],
    [{}],
    {"a": None},
    {"a": []},
)


def with_tokens() -> RestCatalog:
    catalog = load_catalog("lake", metastore="rest", **OPTIONS, **{"data-token.enabled": "true"})
    assert isinstance(catalog, RestCatalog)
    return catalog


ASKED: dict[str, Callable[[RestCatalog], Any]] = {
    "config": lambda lake: load_catalog("lake", metastore="rest", **OPTIONS),
    "databases": lambda lake: (lake.list_databases(), *lake.list_databases_page(limit=1).names),
    "databases/d": lambda lake: lake.get_database("d"),
    "tables": lambda lake: (lake.list_tables("d"), *lake.list_tables_page("d", limit=1).tables),
    "tables/t": lambda lake: (lake.load_table("d.t"), lake.table_exists("d.t")),
    "tables/t ": lambda lake: lake.table_kinds("d"),
    "tables/t  ": lambda lake: (lake.alter_table("d.t", CHANGE), lake.drop_table("d.t", purge=True)),
    "snapshot": lambda lake: lake.load_table("d.t").latest_snapshot(),
    "token": lambda lake: with_tokens().load_table("d.t")._stores.file_io.stat("/nowhere/d.db/t/x") or True,
    "partitions": lambda lake: (lake.partitions.list("d.t"), lake.partitions.list_page("d.t")),
    "views": lambda lake: (lake.views.list("d"), *lake.views.list_page("d", limit=1).names),
    "views/v": lambda lake: lake.views.get("d.v"),
    "functions": lambda lake: (lake.functions.list("d"), *lake.functions.list_page("d", limit=1).names),
    "functions/f": lambda lake: lake.functions.get("d.f"),
}


LISTS = ("databases", "tables", "views", "functions")
CHANGE = [{"op": "set", "key": "snapshot.time-retained", "value": "5 h"}]


class Server:
    """It answers by the end of the path; `answers` may be changed."""

    def __init__(self) -> None:
        self.answers = copy.deepcopy(ANSWERS)

    def send(self, client: RestClient, request: Any) -> _Answer:
        path = request.path.partition("?")[0]
        key = max((one for one in self.answers if path.endswith(f"/{one}")), key=len)
        return _Answer(200, json.dumps(self.answers[key]).encode(), None)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(RestClient, "_send", lambda client, request: server.send(client, request))
    monkeypatch.setattr("lakecore.catalog.rest.rest_catalog.SystemClock", FakeClock)
    return server


def places(answer: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value within an answer, and of the answer itself."""
    yield path
    parts = (
        answer.items() if isinstance(answer, dict) else enumerate(answer) if isinstance(answer, list) else ()
    )
    for key, one in parts:
        yield from places(one, (*path, key))


def with_value(answer: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(answer)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize("kind", ASKED)
def test_each_value_of_an_answer_may_be_anything(server: Server, kind: str) -> None:
    catalog = load_catalog("lake", metastore="rest", **OPTIONS)
    assert isinstance(catalog, RestCatalog)
    ask = ASKED[kind]
    assert ask(catalog) is not None
    refused, kind = 0, kind.strip()
    for place in places(ANSWERS[kind]):
        for value in NONSENSE:
            server.answers[kind] = with_value(ANSWERS[kind], place, value)
            try:
                found = ask(catalog)
                assert "None" not in str(found) or kind not in LISTS
            except LakeError:
                refused += 1
            except Exception as err:
                raise AssertionError(f"{server.answers[kind]}: {type(err).__name__} {err}") from err
    assert refused


class Committing(Server):
    """It commits each snapshot, and answers in a way of its own. `blind`: it fails afterwards, or shows a later snapshot only."""

    def __init__(self, path: Path, way: str, blind: str) -> None:
        super().__init__()
        self.way, self.blind, self.commits = way, blind, list[dict[str, Any]]()
        table = load_catalog(path, create_warehouse=True).create_table(
            "d.t", {"columns": ["k INT", "p STRING"]}
        )
        schema = json.loads(table.schema.to_json())
        self.answers["tables/t"] = {**TABLE, "path": table.path, "schema": schema}

    def send(self, client: RestClient, request: Any) -> _Answer:
        if request.method == "POST" and request.path.endswith("/commit"):
            self.commits.append(json.loads(request.body)["snapshot"])
            if self.way == "damaged":
                raise httpx.DecodingError("incorrect header check")
            status, body = WAYS[self.way]
            return _Answer(status, body, None)
        if request.path.endswith("/snapshot"):
            if not self.commits:
                return _Answer(404, b'{"resourceType": "snapshot", "code": 404}', None)
            if self.blind == "fails":
                return _Answer(500, b"{}", None)
            shown = self.commits[-1] | ({"id": 2} if self.blind else {})
            return _Answer(200, json.dumps({"snapshot": {"snapshot": shown}}).encode(), None)
        if request.path.endswith("/snapshots/1"):
            return _Answer(404, b'{"resourceType": "snapshot", "code": 404}', None)
        return super().send(client, request)


WAYS: dict[str, tuple[int, bytes]] = {
    "damaged": (200, b""),
    "not yet": (202, b""),
    "says nothing": (200, b"{}"),
    "says it in words": (200, b'{"success": "false"}'),
    "refused it": (200, b'{"success": false}'),
    "taken": (409, b"{}"),
    "invalid": (400, b"{}"),
    "unable": (501, b"{}"),
    "elsewhere": (307, b""),
}


def rows_after_commit(monkeypatch: pytest.MonkeyPatch, server: Committing) -> Callable[[], int]:
    """Commit a row, and return what counts the rows of the table."""
    monkeypatch.setattr(RestClient, "_send", lambda client, request: server.send(client, request))
    monkeypatch.setattr("lakecore.catalog.rest.rest_catalog.SystemClock", FakeClock)
    catalog = load_catalog("lake", metastore="rest", **OPTIONS)
    row = pa.table({"k": pa.array([1], pa.int32()), "p": ["a"]})
    with pytest.raises(CommitUncertainError, match="delete nothing") if server.blind else nullcontext():
        catalog.load_table("d.t").append(row)
    return lambda: catalog.load_table("d.t").scan().to_arrow().num_rows


@pytest.mark.parametrize("blind", ["", "fails", "expired"])
@pytest.mark.parametrize("way", WAYS)
def test_a_commit_that_took_effect_loses_nothing_whatever_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, blind: str
) -> None:
    server = Committing(tmp_path, way, blind)
    count = rows_after_commit(monkeypatch, server)
    server.blind = ""
    assert count() == 1
    assert len({json.dumps(one, sort_keys=True) for one in server.commits}) == 1


class Creating(Server):
    """It says that a table exists, and has it only after some questions, because another process creates it."""

    def __init__(self, path: Path, misses: int) -> None:
        super().__init__()
        self.misses, self.requests = misses, list[str]()
        table = load_catalog(path, create_warehouse=True).create_table("d.t", {"columns": ["k INT"]})
        schema = json.loads(table.schema.to_json())
        self.answers["tables/t"] = {**TABLE, "path": table.path, "schema": schema}

    def send(self, client: RestClient, request: Any) -> _Answer:
        if request.path.endswith(("/tables", "/tables/t")):
            self.requests.append(request.method)
            if request.method == "POST":
                return _Answer(409, b'{"resourceType": "TABLE", "code": 409}', None)
            self.misses -= 1
            if self.misses >= 0:
                return _Answer(404, b'{"resourceType": "TABLE", "code": 404}', None)
        return super().send(client, request)


@pytest.mark.parametrize("misses", range(5))
def test_a_table_that_another_process_is_creating_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, misses: int
) -> None:
    server = Creating(tmp_path, misses)
    monkeypatch.setattr(RestClient, "_send", lambda client, request: server.send(client, request))
    clock = FakeClock()
    monkeypatch.setattr("lakecore.catalog.rest.rest_catalog.SystemClock", lambda: clock)
    catalog = load_catalog("w", metastore="rest", **OPTIONS)
    with pytest.raises(NotFoundError) if misses == 4 else nullcontext():
        table = catalog.create_table("d.t", {"columns": ["k INT"]}, if_not_exists=True)
        assert table.schema.row_type.names == ("k",)
    tries = min(misses + 1, 4)
    assert server.requests == ["POST", "GET"] * tries
    assert clock.slept == [0.05, 0.2, 0.8][: tries - 1]
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("d.t", {"columns": ["k INT"]})
