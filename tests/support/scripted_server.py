"""An HTTP server whose answers are given one after the other, for clients that must survive bad ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Script", "scripted_server"]


@dataclass
class Script:
    """What the server does with the requests: a status and a body each, or None for a closed connection."""

    answers: list[tuple[int, str] | None] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)
    address: str = ""


@contextmanager
def scripted_server() -> Iterator[Script]:
    """Serve on a free port of this machine."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.seen.append(f"{self.command} {self.path}")
            script.headers.append(dict(self.headers))
            found = script.answers.pop(0) if script.answers else (200, "{}")
            self.close_connection = True
            if found is None:
                return
            self.send_response(found[0])
            data = found[1].encode()
            self.send_header("Content-Length", str(len(data)))
            for name, value in script.more.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the names that the base class calls

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
