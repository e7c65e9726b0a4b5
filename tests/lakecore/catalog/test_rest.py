"""The client of a REST catalog against a server that fails. Java's server judges the rest (tests/interop)."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from lakecore.catalog.registry import load_catalog
from lakecore.catalog.remote.lost_answer import LostAnswerError
from lakecore.catalog.remote.pauses import pause_after
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.options import RestOptions, merged_options
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.fake_clock import FakeClock
from tests.support.scripted_server import Script, scripted_server

TOKEN = "secret-word"


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


def options(script: Script, **more: str) -> dict[str, str]:
    return {"uri": script.address, "token.provider": "bear", "token": TOKEN, **more}


@pytest.fixture
def client(script: Script) -> Iterator[RestClient]:
    client = RestClient(RestOptions.from_options(options(script), FakeClock()), FakeClock())
    yield client
    client.close()


@pytest.mark.parametrize("failure", [None, (503, "{}"), (429, "{}"), (502, "<html>"), (504, "")])
@pytest.mark.parametrize("count", [1, 4])
def test_reads_are_repeated(
    script: Script, client: RestClient, failure: tuple[int, str] | None, count: int
) -> None:
    script.answers = [*[failure] * count, (200, '{"name": "d"}')]
    assert client.get("database d", ("v1", "d")) == {"name": "d"}
    assert len(script.seen) == count + 1


def test_reads_are_not_repeated_for_ever(script: Script, client: RestClient) -> None:
    script.answers = [None] * 5
    with pytest.raises(UnavailableError, match="did not answer"):
        client.get("database d", ("v1", "d"))
    assert len(script.seen) == 5


@pytest.mark.parametrize("failure", [None, (500, "{}"), (502, ""), (503, "{}"), (200, "<html>")])
def test_changes_are_sent_once(script: Script, client: RestClient, failure: tuple[int, str] | None) -> None:
    """A server that failed may have done it, so the message says that nobody knows."""
    for send in (lambda: client.post("create d", ("v1",), {}), lambda: client.delete("drop d", ("v1",))):
        script.answers, script.seen = [failure], []
        with pytest.raises(LostAnswerError, match="whether it took effect is unknown"):
            send()
        assert len(script.seen) == 1


def test_a_change_that_was_refused_for_now_is_sent_again(script: Script, client: RestClient) -> None:
    script.answers = [(429, "{}"), (429, "{}"), (200, '{"success": true}')]
    assert client.post("commit", ("v1",), {}) == {"success": True}
    assert len(script.seen) == 3


@pytest.mark.parametrize(("asked", "seconds"), [("7", 7.0), ("86400", 60.0), ("soon", None)])
def test_the_pause_that_the_server_asks_for(
    script: Script, client: RestClient, asked: str, seconds: float | None
) -> None:
    script.answers, script.more = [(429, "{}"), (200, "{}")], {"Retry-After": asked}
    client.get("database d", ("v1", "d"))
    assert isinstance(client.clock, FakeClock)
    assert client.clock.slept == [seconds] if seconds else 0.2 <= client.clock.slept[0] <= 0.3


def test_a_date_to_wait_for() -> None:
    clock = FakeClock(1_700_000_000_000)
    for odd in ("\u00b2", "nan", "1e400", "-5"):
        assert 0.2 <= pause_after(0, odd, clock) <= 0.3
    assert pause_after(0, "9" * 5000, clock) == 60
    assert pause_after(0, "Tue, 14 Nov 2023 22:13:25 GMT", clock) == 5.0
    assert pause_after(0, "Tue, 14 Nov 2023 22:13:10 GMT", clock) == 0.0
    assert 0.2 <= pause_after(0, None, clock) <= 0.3
    assert 10 <= pause_after(30, None, clock) <= 15


def test_nobody_listens() -> None:
    clock = FakeClock()
    raw = {"uri": "http://127.0.0.1:9", "token.provider": "bear", "token": TOKEN}
    client = RestClient(RestOptions.from_options(raw, clock), clock)
    with pytest.raises(UnavailableError, match="check the option uri"):
        client.post("create d", ("v1",), {})


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (400, InvalidInputError, "change the request"),
        (401, UnavailableError, "valid token"),
        (403, UnavailableError, "privilege"),
        (404, NotFoundError, "404"),
        (409, AlreadyExistsError, "another name"),
        (500, UnavailableError, "log of the server"),
        (501, UnsupportedError, "cannot do it"),
        (302, UnavailableError, "302"),
    ],
)
def test_statuses(
    script: Script, client: RestClient, status: int, error: type[LakeError], words: str
) -> None:
    said = json.dumps({"message": f"no, Bearer {TOKEN} \x1b[2J", "code": status})
    script.answers = [(status, said)]
    with pytest.raises(error, match=words) as caught:
        client.get("database d", ("v1", "d"))
    assert TOKEN not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("body", ["<html>", "[]", "1", "[" * 100_000])
def test_an_answer_that_is_no_object(script: Script, client: RestClient, body: str) -> None:
    script.answers = [(200, body)]
    with pytest.raises(UnavailableError, match="no JSON object"):
        client.get("database d", ("v1", "d"))


def test_an_answer_without_end(script: Script, client: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.catalog.rest.client._MOST_BYTES", 1000)
    script.answers = [(200, '{"a": "' + "x" * 2000 + '"}')]
    with pytest.raises(UnavailableError, match="more than"):
        client.get("database d", ("v1", "d"))


def test_an_answer_that_drips(script: Script, client: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.catalog.rest.client._ANSWER_SECONDS", -1.0)
    script.answers = [(200, '{"success": true}')] * 2
    with pytest.raises(UnavailableError, match="takes longer"):
        client.get("database d", ("v1", "d"))
    with pytest.raises(LostAnswerError, match="takes longer"):
        client.post("create d", ("v1",), {})


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd", "br", "gzip, gzip", "\u00e9" * 1000])
def test_an_answer_that_is_not_encoded_as_it_says(script: Script, client: RestClient, coding: str) -> None:
    """A damaged answer to a change may follow its effect; what could expand without a limit is not decoded."""
    script.more = {"Content-Encoding": coding}
    script.answers = [(200, '{"success": true}')] * 6
    with pytest.raises(LostAnswerError, match="whether it took effect is unknown"):
        client.post("create d", ("v1",), {})
    assert len(script.seen) == 1
    with pytest.raises(UnavailableError, match=r"did not answer|encoded as") as caught:
        client.get("database d", ("v1", "d"))
    assert not isinstance(caught.value, LostAnswerError)
    assert script.headers[0]["Accept-Encoding"] == "gzip, deflate"


def test_no_redirection_takes_the_token_elsewhere(script: Script, client: RestClient) -> None:
    with scripted_server() as other:
        for status in (301, 302, 307, 308):
            script.more = {"Location": f"{other.address}/v1/d"}
            script.answers = [(status, "")] * 2
            with pytest.raises(UnavailableError, match=str(status)):
                client.get("database d", ("v1", "d"))
            with pytest.raises(LostAnswerError, match=str(status)):
                client.post("create d", ("v1", "d"), {})
        assert other.seen == []


def test_pages(script: Script, client: RestClient) -> None:
    pages = [{"names": ["a"], "nextPageToken": "a b"}, {"names": ["b"], "nextPageToken": None}]
    script.answers = [(200, json.dumps(page)) for page in pages]
    assert client.list("list", ("v1", "V w"), "names") == ["a", "b"]
    assert script.seen == ["GET /v1/V+w", "GET /v1/V+w?pageToken=a+b"]


def test_pages_of_tables_are_those_of_the_server(script: Script) -> None:
    script.answers = [
        (200, "{}"),
        (200, '{"tables": ["b", "a"], "nextPageToken": "x y"}'),
        (200, '{"tables": []}'),
    ]
    catalog = load_catalog("lake", metastore="rest", **options(script))
    page = catalog.list_tables_page("d", limit=2, pattern="%", table_type="table")
    assert (page.tables, page.next_token) == (("b", "a"), "x y")
    page = catalog.list_tables_page("d", limit=3, token=page.next_token)
    assert (page.tables, page.next_token) == ((), None)
    assert script.seen[1:] == [
        "GET /v1/databases/d/tables?maxResults=2&tableNamePattern=%25&tableType=table",
        "GET /v1/databases/d/tables?maxResults=3&pageToken=x+y",
    ]
    with pytest.raises(InvalidInputError, match="limit 0"):
        catalog.list_tables_page("d", limit=0)


@pytest.mark.parametrize("tokens", ["aaa", "ababab", "abcbcb"])
def test_a_server_that_repeats_a_page(script: Script, client: RestClient, tokens: str) -> None:
    script.answers = [(200, json.dumps({"names": ["a"], "nextPageToken": token})) for token in tokens]
    with pytest.raises(UnavailableError, match="page after page"):
        client.list("list", ("v1",), "names")


def test_the_server_is_asked_for_options(script: Script) -> None:
    merged = {"defaults": {"prefix": "p/q", "header.X-Default": "1"}, "overrides": {"header.X-Own": "3"}}
    script.answers = [(200, json.dumps(merged)), (200, '{"databases": ["b", "a"]}')]
    catalog = load_catalog("lake", metastore="rest", **options(script, **{"header.X-Own": "2"}))
    assert catalog.list_databases() == ["a", "b"]
    assert script.seen == ["GET /v1/config?warehouse=lake", "GET /v1/p%2Fq/databases"]
    assert [one.get("X-Own") for one in script.headers] == ["2", "3"]
    assert script.headers[1]["X-Default"] == "1"
    assert script.headers[1]["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in repr(catalog)
    script.answers = [(200, '{"databases": []}')]
    assert pickle.loads(pickle.dumps(catalog)).list_databases() == []
    catalog.close()


@pytest.mark.parametrize("key", ["cache.snapshot.max-num-per-table", "cache.partition.max-num"])
def test_what_may_be_stale_is_refused_with_the_reason(script: Script, key: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{key}.*who may read a table.*leave them out"):
        load_catalog("lake", metastore="rest", **options(script, **{"cache-enabled": "true", key: "5"}))
    assert script.seen == []
    load_catalog("lake", metastore="rest", **options(script, **{"cache-enabled": "true", key: "0"})).close()


def test_options_of_caller_and_server() -> None:
    answer = {"defaults": {"a": "1", "b": "1"}, "overrides": {"c": "3", "d": None}}
    assert merged_options({"b": "2", "c": "2"}, answer) == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"uri": ""}, InvalidOptionError, "uri is missing"),
        ({"uri": "http://me:secret-word@host"}, InvalidOptionError, "no user"),
        ({"uri": "http://host:notaport"}, InvalidOptionError, "uri"),
        ({"token": ""}, InvalidOptionError, "give the token"),
        ({"token-file": "/t"}, InvalidOptionError, "not both"),
        ({"token.provider": "basic"}, UnsupportedError, "bear and dlf"),
        ({"token": "secret-word\nX: y"}, InvalidOptionError, "printable"),
        ({"token.provider": "dlf"}, InvalidOptionError, "token would have no effect"),
        ({"header.a b": "1"}, InvalidOptionError, "name of a header"),
        ({"dlf.region": "x"}, InvalidOptionError, "dlf.region"),
    ],
)
def test_options_that_are_refused(
    script: Script, more: dict[str, str], error: type[LakeError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        load_catalog("lake", metastore="rest", **{**options(script), **more})
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "answer", [{}, {"path": "/x", "schemaId": 0, "schema": {"fields": [1]}}, {"path": 1, "schema": {}}]
)
def test_a_table_that_is_none(script: Script, answer: dict[str, object]) -> None:
    catalog = load_catalog("lake", metastore="rest", **options(script))
    script.answers = [(200, json.dumps(answer))]
    with pytest.raises(UnavailableError, match="describes no table"):
        catalog.load_table("d.t")
    catalog.close()


def test_pages_of_other_names_are_those_of_the_server(script: Script) -> None:
    script.answers = [
        (200, "{}"),
        (200, '{"databases": ["b", "a"], "nextPageToken": "x y"}'),
        (200, '{"views": ["v"], "nextPageToken": "v"}'),
        (200, '{"functions": []}'),
    ]
    catalog = load_catalog("lake", metastore="rest", **options(script))
    page = catalog.list_databases_page(limit=2, pattern="%")
    assert (page.names, page.next_token) == (("b", "a"), "x y")
    page = catalog.views.list_page("d", limit=1, token="u", pattern="v%")
    assert (page.names, page.next_token) == (("v",), "v")
    page = catalog.functions.list_page("d", limit=3, pattern="f")
    assert (page.names, page.next_token) == ((), None)
    assert script.seen[1:] == [
        "GET /v1/databases?maxResults=2&databaseNamePattern=%25",
        "GET /v1/databases/d/views?maxResults=1&pageToken=u&viewNamePattern=v%25",
        "GET /v1/databases/d/functions?maxResults=3&functionNamePattern=f",
    ]
    for ask in (catalog.list_databases_page, partial(catalog.views.list_page, "d")):
        with pytest.raises(InvalidInputError, match="limit 0"):
            ask(limit=0)


def test_the_token_is_in_no_log(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    """Not in lakecore's, and not in what the libraries below log at their most talkative."""
    caplog.set_level("DEBUG")
    said = json.dumps({"message": f"not with {TOKEN}"})
    script.answers = [(200, "{}"), (401, said), (503, said), (200, '{"databases": []}'), (409, said)]
    catalog = load_catalog("lake", metastore="rest", **options(script))
    for ask in (catalog.list_databases, catalog.list_databases, partial(catalog.create_database, "d")):
        with suppress(LakeError):
            ask()
    catalog.close()
    assert len(script.seen) == 5
    assert caplog.records
    assert TOKEN not in caplog.text
