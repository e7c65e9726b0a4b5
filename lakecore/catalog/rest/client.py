"""This module sends the requests of a REST catalog, through httpx."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from lakecore.catalog.rest.answers import answer_of, error_of
from lakecore.catalog.rest.options import RestOptions
from lakecore.clock import Clock
from lakecore.errors import UnavailableError, UnsupportedError, mask_secrets, reason

if TYPE_CHECKING:
    from httpx import Client

__all__ = ["RestClient"]

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
_TRIES = 5
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_AGAIN = (429, 502, 503, 504)
_DONE = (200, 202, 204)
_MOST_BYTES = 64 << 20
_MOST_PAGES = 100_000


@dataclass(frozen=True)
class RestClient:
    """This is the connection to one server. Its connections are not pickled, and its headers are not shown.

    A request that only reads is sent up to 5 times, with growing pauses, when the server is overloaded or the
    connection is lost. One that has an effect is sent again only if no connection was made at all.
    """

    options: RestOptions
    clock: Clock

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_client"}

    @cached_property
    def _client(self) -> Client:
        try:
            import httpx
        except ImportError as err:
            raise UnsupportedError("a REST catalog needs the package httpx; install lakecore[rest]") from err
        timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
        return httpx.Client(headers=dict(self.options.headers), timeout=timeout, follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
        client = self.__dict__.get("_client")
        if client is not None:
            client.close()

    def get(self, what: str, path: tuple[str, ...], query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the answer to a request that only reads. `what` is in messages; `path` is not yet encoded.

        Raises MissingResourceError, UnavailableError and the other errors of `error_of`.
        """
        return self._try("GET", what, path, query, None)

    def post(self, what: str, path: tuple[str, ...], body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a change. Raises as `get`; UnavailableError says so if the change may have taken effect."""
        return self._try("POST", what, path, None, body)

    def delete(self, what: str, path: tuple[str, ...]) -> None:
        """Send a removal. Raises as `post`."""
        self._try("DELETE", what, path, None, None)

    def list(self, what: str, path: tuple[str, ...], key: str) -> list[Any]:
        """Return the elements of all pages of a list, one request a page. `key` has them in an answer."""
        result: list[Any] = []
        token = ""
        for _ in range(_MOST_PAGES):
            page = self.get(what, path, {"pageToken": token} if token else None)
            elements = page.get(key) or []
            if not isinstance(elements, list):
                break
            result += elements
            following = str(page.get("nextPageToken") or "")
            if not following or not elements:
                return result
            if following == token:
                break
            token = following
        raise UnavailableError(f"{what}: the server does not list page after page; look into its log")

    def _try(
        self,
        method: str,
        what: str,
        path: tuple[str, ...],
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        url = self.options.uri + "".join(f"/{quote_plus(part)}" for part in path)
        send = self._sender(method, url, query, body)
        pause = _FIRST_PAUSE
        for last in (*(False,) * (_TRIES - 1), True):
            answer = self._once(what, send, reads=method == "GET", last=last)
            if answer is not None:
                status, content = answer
                if status in _DONE:
                    return answer_of(what, content)
                if last or method != "GET" or status not in _AGAIN:
                    message = self.options.without_token(content)
                    raise error_of(what, status, message, effect=method != "GET")
            self.clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("the last try returns or raises")

    def _sender(
        self, method: str, url: str, query: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> Callable[[], tuple[int, bytes]]:
        def send() -> tuple[int, bytes]:
            with self._client.stream(method, url, params=query, json=body) as response:
                content = bytearray()
                for part in response.iter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES:
                        raise UnavailableError(
                            f"{method} {url}: the answer has more than {_MOST_BYTES >> 20} MiB"
                        )
                return response.status_code, bytes(content)

        return send

    def _once(
        self, what: str, send: Callable[[], tuple[int, bytes]], *, reads: bool, last: bool
    ) -> tuple[int, bytes] | None:
        """Send once; None if another try is safe. Raises UnavailableError if it is not."""
        _ = self._client  # it says which package is missing
        import httpx

        try:
            return send()
        except (httpx.HTTPError, httpx.InvalidURL) as err:
            unsent = isinstance(err, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            if (reads or unsent) and not last and isinstance(err, httpx.TransportError):
                return None
            remedy = (
                "check the option uri, and that the server runs"
                if reads or unsent
                else "whether it took effect is unknown: check, and repeat it if it did not"
            )
            raise UnavailableError(
                f"{what}: {self.options.uri} did not answer ({mask_secrets(reason(err))}); {remedy}"
            ) from err
