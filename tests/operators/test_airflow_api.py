"""The client of Airflow's REST API that the demo and the tests use."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tools.airflow_api import AirflowApi, BusyError

LOCKED = (500, {"detail": {"reason": "Database error"}})
BUSY = (503, {"detail": "busy"})
CREATED = (201, {"connection_id": "c"})
ANSWERS = list[tuple[int, dict[str, object]]]


@contextmanager
def server(answers: ANSWERS) -> Iterator[tuple[AirflowApi, list[str]]]:
    """A server that gives these answers in turn; the client, and the methods of the requests."""
    methods: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            methods.append(self.command)
            status, body = answers[len(methods) - 1]
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        try:
            yield AirflowApi(f"http://127.0.0.1:{httpd.server_port}"), methods
        finally:
            httpd.shutdown()
            thread.join()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_the_database_refused_is_sent_again(method: str) -> None:
    with server([LOCKED, LOCKED, CREATED]) as (api, methods):
        assert api.call(method, "/api/v2/connections", {}) == CREATED[1]
    assert methods == [method] * 3


def test_a_database_that_stays_locked_is_an_error() -> None:
    with server([LOCKED] * 3) as (api, methods), pytest.raises(BusyError, match="Database error"):
        api.call("POST", "/api/v2/connections", {})
    assert methods == ["POST"] * 3


def test_a_busy_answer_repeats_only_what_cannot_take_effect_twice() -> None:
    with server([BUSY, CREATED]) as (api, methods):
        assert api.call("GET", "/api/v2/connections") == CREATED[1]
    assert methods == ["GET"] * 2
    with server([BUSY, CREATED]) as (api, methods), pytest.raises(BusyError):
        api.call("POST", "/api/v2/connections", {})
    assert methods == ["POST"]
