"""This module sends the requests of a REST catalog, through httpx."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from lakecore.catalog.remote.lost_answer import UNKNOWN, LostAnswerError
from lakecore.catalog.remote.pauses import pause_after
from lakecore.catalog.rest.answers import answer_of, error_of
from lakecore.catalog.rest.authorization.authorizer import RestRequest
from lakecore.catalog.rest.options import RestOptions
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import UnavailableError, UnsupportedError, mask_secrets, printable, reason

if TYPE_CHECKING:
    from httpx import Client, RequestError

__all__ = ["RestClient"]

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
_ANSWER_SECONDS = 600.0
"""A server that sends its answer byte by byte is not waited for without a limit."""
_TRIES = 5
_REFUSED = 401
_BUSY = 429
_AGAIN = (_BUSY, 502, 503, 504)
_DONE = (200, 202, 204)
_MOST_BYTES = 64 << 20
_MOST_PAGES = 100_000
_CODINGS = ("", "identity", "gzip", "deflate")
"""Answers have at most one of these codings: with others a few bytes may become gigabytes at once."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content: bytes
    retry_after: str | None


@dataclass(frozen=True)
class RestClient:
    """This is the connection to one server. Its connections are not pickled, and its headers are not shown.

    A request that only reads is sent up to 5 times, with growing pauses or those that the server asks for,
    when the server is overloaded or the connection is lost. One that has an effect is sent again only if it
    certainly had none: no connection was made, or the server said 429. Both are sent once more with fresh
    credentials when the server refused the old ones.
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
        headers = {"Accept-Encoding": "gzip, deflate", **self.options.headers}
        return httpx.Client(headers=headers, timeout=timeout, follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
        client = self.__dict__.get("_client")
        if client is not None:
            client.close()

    def get(self, what: str, path: tuple[str, ...], query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the answer to a request that only reads. `what` is in messages; `path` is not yet encoded.

        Raises MissingResourceError, UnavailableError and the other errors of `error_of`.
        """
        return self._try(what, RestRequest("GET", _encode(path), query or {}))

    def post(self, what: str, path: tuple[str, ...], body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a change. Raises as `get`, and LostAnswerError if the change may have taken effect."""
        return self._try(what, RestRequest("POST", _encode(path), body=json.dumps(body)))

    def delete(self, what: str, path: tuple[str, ...]) -> None:
        """Send a removal. Raises as `post`."""
        self._try(what, RestRequest("DELETE", _encode(path)))

    def list(
        self, what: str, path: tuple[str, ...], key: str, query: Mapping[str, str] | None = None
    ) -> list[Any]:
        """Return the elements of all pages of a list, one request a page. `key` has them in an answer."""
        elements: list[Any] = []
        tokens, token = set[str](), ""
        for _ in range(_MOST_PAGES):
            part, following = self.page(
                what, path, key, {**(query or {}), **({"pageToken": token} if token else {})}
            )
            elements += part
            if not following or not part:
                return elements
            if following in tokens:
                break
            tokens.add(following)
            token = following
        raise self._no_pages(what)

    def page(
        self, what: str, path: tuple[str, ...], key: str, query: Mapping[str, str]
    ) -> tuple[Sequence[Any], str]:
        """Return the elements of one page of a list, and the token of the next page, empty at the end."""
        answer = self.get(what, path, query)
        part = answer.get(key) or []
        if not isinstance(part, list):
            raise self._no_pages(what)
        return part, str(answer.get("nextPageToken") or "")

    def _no_pages(self, what: str) -> UnavailableError:
        return UnavailableError(f"{what}: the server does not list page after page; look into its log")

    def _try(self, what: str, request: RestRequest) -> dict[str, Any]:
        reads, refreshed = request.method == "GET", False
        for number in range(_TRIES):
            last = number == _TRIES - 1
            answer = self._once(what, request, last=last)
            retry_after = None
            if answer is not None:
                if answer.status in _DONE:
                    return _answer_of_success(what, answer.content, reads=reads)
                if answer.status == _REFUSED and not refreshed and self.options.authorizer.refresh():
                    refreshed = True
                    continue
                if last or answer.status not in (_AGAIN if reads else (_BUSY,)):
                    content = self.options.without_secrets(answer.content)
                    raise error_of(what, answer.status, content, effect=not reads)
                retry_after = answer.retry_after
            self.clock.sleep(pause_after(number, retry_after, self.clock))
        raise UnavailableError(f"{what}: {self.options.uri} refused every try; give valid credentials")

    def _once(self, what: str, request: RestRequest, *, last: bool) -> _Answer | None:
        """Send once; None if another try is safe. Raises UnavailableError if it is not."""
        _ = self._client  # it says which package is missing
        import httpx

        try:
            return self._send(request)
        except (httpx.TransportError, httpx.DecodingError) as err:  # a damaged body may follow the effect
            reads, unsent = request.method == "GET", _was_not_sent(err)
            if (reads or unsent) and not last:
                return None
            text = f"{what}: {self.options.uri} did not answer ({mask_secrets(reason(err))})"
            if reads or unsent:
                raise UnavailableError(f"{text}; check the option uri, and that the server runs") from err
            raise LostAnswerError(f"{text}; {UNKNOWN}") from err
        except (httpx.HTTPError, httpx.InvalidURL) as err:
            raise UnavailableError(
                f"{what}: no request can be sent to {self.options.uri} ({mask_secrets(reason(err))}); check "
                "the option uri"
            ) from err

    def _send(self, request: RestRequest) -> _Answer:
        headers = dict(self.options.authorizer.headers(request))
        if request.body:
            headers.setdefault("Content-Type", "application/json")
        with self._client.stream(
            request.method,
            self.options.uri + request.path,
            params=request.query or None,
            headers=headers,
            content=request.body.encode() or None,
        ) as response:
            coding = response.headers.get("Content-Encoding", "")
            if coding.lower() not in _CODINGS:
                raise _unreadable(request, f"the answer is encoded as {printable(coding, 40)}")
            content, started = bytearray(), self.clock.monotonic()
            for part in response.iter_bytes():
                content += part
                if self.clock.monotonic() - started > _ANSWER_SECONDS:
                    raise _unreadable(request, f"the answer takes longer than {_ANSWER_SECONDS:.0f} seconds")
                if len(content) > _MOST_BYTES:
                    raise _unreadable(request, f"the answer has more than {_MOST_BYTES >> 20} MiB")
            return _Answer(response.status_code, bytes(content), response.headers.get("Retry-After"))


def _answer_of_success(what: str, content: bytes, *, reads: bool) -> dict[str, Any]:
    """Return the answer of a success; of a change it may be damaged, but the change took effect."""
    try:
        return answer_of(what, content)
    except UnavailableError as err:
        if reads:
            raise
        raise LostAnswerError(f"{err}; {UNKNOWN}") from err


def _unreadable(request: RestRequest, problem: str) -> UnavailableError:
    text = f"{request.method} {request.path}: {problem}"
    return UnavailableError(text) if request.method == "GET" else LostAnswerError(f"{text}; {UNKNOWN}")


def _encode(path: tuple[str, ...]) -> str:
    return "".join(f"/{quote_plus(part)}" for part in path)


def _was_not_sent(error: RequestError) -> bool:
    import httpx

    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
