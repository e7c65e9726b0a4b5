"""Servers of catalogs that are not there, never answer, answer nonsense or close the connection: each is named with its address
and what to check, soon, and no secret is told.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakecore.catalog.configured.catalogs import Catalogs
from lakecore.catalog.registry import load_catalog
from lakecore.cli.main import main
from lakecore.errors import UnavailableError, explain
from tests.support.fake_clock import FakeClock
from tests.support.silent_port import silent_port

SECRET = "hush-of-the-night"
JDBC = {"metastore": "jdbc", "jdbc.user": "lake", "jdbc.password": SECRET}
OPTIONS = {
    "postgresql": {**JDBC, "uri": "jdbc:postgresql://127.0.0.1:PORT/names"},
    "mariadb": {**JDBC, "uri": "jdbc:mysql://127.0.0.1:PORT/names"},
    "hive": {"metastore": "hive", "uri": "thrift://127.0.0.1:PORT"},
    "rest": {
        "metastore": "rest",
        "uri": "http://127.0.0.1:PORT",
        "token.provider": "bear",
        "token": SECRET,
    },
}
REMEDY = {
    "postgresql": "check the options uri, jdbc.user and jdbc.password, and that the server runs",
    "mariadb": "check the options uri, jdbc.user and jdbc.password, and that the server runs",
    "hive": "check the option uri, and whether the metastore runs",
    "rest": "check .*the option uri",
}
WAYS: dict[str, bytes | None] = {
    "nobody listens": None,
    "it closes": b"",
    "it is a web site": b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>",
    "it breaks off": b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{",
    "nonsense": bytes(range(200, 256)) * 9,
    "it never answers": None,
}


@contextmanager
def server(way: str) -> Iterator[int]:
    """A port of this machine where a server of this way is."""
    if way == "nobody listens":
        with silent_port() as port:
            yield port
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        if way != "it never answers":
            threading.Thread(target=_serve, args=(listening, WAYS[way]), daemon=True).start()
        yield port
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def _serve(listening: socket.socket, answer: bytes | None) -> None:
    """A server speaks first, as MySQL's does, or after a request."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = listening.accept()
            with contextlib.suppress(OSError), client:
                client.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    client.recv(1 << 16)
                client.sendall(answer or b"")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are not slept; a server that never answers is waited for a second (libpq has no shorter time than two)."""
    for module in ("hive.hive_catalog", "rest.rest_catalog"):
        monkeypatch.setattr(f"lakecore.catalog.{module}.SystemClock", FakeClock)
    monkeypatch.setattr("lakecore.catalog.jdbc.connection._CONNECT_SECONDS", 2)
    monkeypatch.setattr("lakecore.catalog.jdbc.connection._ANSWER_SECONDS", 1)
    monkeypatch.setattr("lakecore.catalog.hive.connection._GREETING_MS", 200)
    monkeypatch.setattr("lakecore.catalog.rest.client._READ_SECONDS", 0.2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_server_that_does_not_do_is_named_with_what_to_check(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, way: str
) -> None:
    with server(way) as port, caplog.at_level(logging.DEBUG):
        options = {key: value.replace("PORT", str(port)) for key, value in OPTIONS[kind].items()}
        with pytest.raises(UnavailableError, match=REMEDY[kind]) as caught:
            load_catalog(str(tmp_path), **options)
    text = explain(caught.value)
    assert f"127.0.0.1:{port}" in text
    assert "\n" not in text
    assert len(text) < 700
    assert SECRET not in text + repr(caught.value) + caplog.text


@pytest.mark.parametrize("kind", OPTIONS)
def test_commands_name_the_catalog_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    with server("nobody listens") as port:
        options = {key: value.replace("PORT", str(port)) for key, value in OPTIONS[kind].items()}
        lines = [f'"{key}" = "{value}"' for key, value in {"warehouse": str(tmp_path), **options}.items()]
        file = tmp_path / "lakecore.toml"
        file.write_text("\n".join(["[catalogs.night]", *lines]))
        monkeypatch.setenv("LAKECORE_CONFIG", str(file))
        for words in (["tables"], ["read", "d.t"], ["compact", "d.t"]):
            assert main(["--catalog", "night", *words]) != 0
            said = "".join(capsys.readouterr())
            assert "the catalog is 'night'" in said
            assert f"127.0.0.1:{port}" in said
            assert "Traceback" not in said
            assert SECRET not in said
        with pytest.raises(UnavailableError) as caught, Catalogs() as catalogs:
            catalogs.load_table("night.d.t")
        assert "the catalog is 'night'" in explain(caught.value)
