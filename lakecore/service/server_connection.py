"""This module has one connection of a query server: it cuts what comes into frames, and answers requests in
their order.

A request for few keys is answered at once where nothing must be read; others are answered by the threads of
the server, while the connection waits. Whoever sends what is no request of Paimon's finds the connection
closed, without a reason.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Protocol

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError
from lakecore.lookup.query.serialized_query import MalformedKeyError
from lakecore.service.server_metrics import ServerMetrics
from lakecore.service.server_options import ServerOptions
from lakecore.service.socket_loop import Channel
from lakecore.service.wire.frames import LENGTH, SMALLEST, Frame, FrameType, decode_frame, encode_frame
from lakecore.service.wire.java_failures import LOOKUP_FAILED, UNKNOWN_BUCKET, encode_failure
from lakecore.service.wire.messages import LookupRequest, decode_request, encode_result

__all__ = ["CLIENT", "RowQuery", "ServerConnection", "ServerContext"]

logger = logging.getLogger(__name__)

CLIENT = "client"
_UNKNOWN = "lakecore query server : The server does not hold the given partition and bucket."
_NEVER = float("inf")

Rows = tuple[bytes | None, ...]


class RowQuery(Protocol):
    """It answers serialised keys with serialised rows, from several threads."""

    def lookup(self, partition: bytes, bucket: int, keys: Sequence[bytes]) -> Rows:
        """Return the row of each key, None where there is none. Raises MalformedKeyError."""

    def lookup_in_memory(self, partition: bytes, bucket: int, keys: Sequence[bytes]) -> Rows | None:
        """Return the rows if nothing must be read; None otherwise."""


@dataclass(frozen=True)
class ServerContext:
    """These are the parts of a server that its connections share."""

    query: Callable[[], RowQuery]
    """It returns the current query, which a change of the schema replaces."""
    own: Callable[[bytes, int], bool]
    """It tells whether a bucket is the server's."""
    options: ServerOptions
    metrics: ServerMetrics
    pool: Executor
    submit: Callable[[Callable[[], None]], None]
    """It lets the thread of the connections do something."""
    connections: set[ServerConnection]


class ServerConnection:
    """It is used by the thread of the server's loop only."""

    def __init__(self, context: ServerContext, channel: Channel) -> None:
        """Take a new connection, which is open."""
        self._context = context
        self._buffer = bytearray()
        self._channel: Channel | None = channel
        self._accepted = context.options.token is None
        self._paused = False
        self._reading_paused = False
        self._draining = False
        self._begun = False
        self.busy = False
        """It tells whether a thread looks up what this connection asked for."""
        self.deadline = _NEVER
        """At this time, in seconds of `time.monotonic`, the connection is closed."""
        self._wait()

    def connection_lost(self) -> None:
        """Forget the connection."""
        self._channel = None
        self._context.connections.discard(self)
        self._context.metrics.count_connection(-1)

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        self._buffer += data
        if not self.busy:
            self._go_on()
        elif len(self._buffer) > self._context.options.max_frame and self._channel is not None:
            self._reading_paused = True
            self._channel.pause_reading()  # the next requests wait in the network

    def pause_writing(self) -> None:
        """Wait for the client to take its answers before it is given more."""
        self._paused = True
        self.deadline = time.monotonic() + self._context.options.frame_seconds

    def resume_writing(self) -> None:
        """Go on after the client took its answers."""
        self._paused = False
        if not self.busy:
            self._go_on()

    def drain(self) -> None:
        """Answer what was asked, and close the connection."""
        self._draining = True
        if not self.busy and self._channel is not None:
            self._channel.close()

    def abort(self) -> None:
        """Close the connection now."""
        if self._channel is not None:
            self._channel.abort()

    def expire(self) -> None:
        """Close the connection, whose time is over."""
        logger.debug("the query server closes a connection that has timed out")
        self._context.metrics.count_closed_by_server()
        self.abort()

    def _go_on(self) -> None:
        """Answer the frames that are complete, up to one that a thread has to answer."""
        try:
            while self._channel is not None and not (self.busy or self._paused):
                content = self._next_frame()
                if content is None:
                    break
                self._handle(decode_frame(content, CLIENT))
        except (CorruptDataError, MalformedKeyError) as err:
            logger.debug("the query server closes a connection: %s", err)
            self._context.metrics.count_closed_by_server()
            self.abort()
            return
        if self._channel is not None and not (self.busy or self._paused):
            if self._reading_paused:
                self._reading_paused = False
                self._channel.resume_reading()
            self._wait()

    def _next_frame(self) -> bytes | None:
        """Return the content of the next frame; None until it is complete. Raises CorruptDataError."""
        buffer = self._buffer
        if len(buffer) < LENGTH.size:
            return None
        (size,) = LENGTH.unpack_from(buffer)
        most = self._context.options.max_frame
        if not SMALLEST <= size <= most:
            raise CorruptDataError(CLIENT, f"a frame of {size} bytes; at most {most}")
        end = LENGTH.size + size
        if len(buffer) < end:
            return None
        content = bytes(buffer[LENGTH.size : end])
        del buffer[:end]
        self._begun = False
        return content

    def _wait(self) -> None:
        """Set the deadline: that of a frame which has begun, or of a token, or that of an idle client."""
        options = self._context.options
        begun = bool(self._buffer) or not self._accepted
        if not begun:
            self.deadline = time.monotonic() + options.idle_seconds
        elif not self._begun:
            self.deadline = time.monotonic() + options.frame_seconds
        self._begun = begun

    def _handle(self, frame: Frame) -> None:
        if not self._accepted:
            self._check_token(frame)
            return
        if frame.type is FrameType.IDENTITY:
            self._check_identity(frame)
            return
        if frame.type is not FrameType.REQUEST:
            raise CorruptDataError(CLIENT, f"a frame of type {frame.type.name} where requests belong")
        started = time.perf_counter()
        request = decode_request(frame.body, CLIENT)
        if not self._context.own(request.partition, request.bucket):
            self._fail(frame.request_id, encode_failure(UNKNOWN_BUCKET, _UNKNOWN), started)
            return
        query = self._context.query()
        try:
            rows = query.lookup_in_memory(request.partition, request.bucket, request.keys)
        except MalformedKeyError:
            raise
        except LakeError as err:
            self._fail_lookup(frame.request_id, err, started)
            return
        if rows is not None:
            self._answer(frame.request_id, rows, started)
            return
        self.busy = True
        self.deadline = _NEVER
        ask = partial(_rows, query, request)
        answered = partial(self._looked_up, frame.request_id, started)
        future = self._context.pool.submit(ask)
        future.add_done_callback(lambda result: self._context.submit(partial(answered, result)))

    def _looked_up(self, number: int, started: float, future: Future[Rows | Exception]) -> None:
        """Answer what a thread has looked up."""
        self.busy = False
        if future.cancelled() or self._channel is None:
            return
        result = future.exception() or future.result()
        if isinstance(result, MalformedKeyError):
            logger.debug("the query server closes a connection: %s", result)
            self._context.metrics.count_closed_by_server()
            self.abort()
            return
        if isinstance(result, BaseException):
            self._fail_lookup(number, result, started)
        else:
            self._answer(number, result, started)
        if self._draining:
            self._channel.close()
        else:
            self._go_on()

    def _answer(self, number: int, rows: Rows, started: float) -> None:
        most = self._context.options.max_answer
        if sum(map(len, filter(None, rows))) > most:
            text = f"The rows have more than {most} bytes; ask for fewer keys."
            self._fail(number, encode_failure(LOOKUP_FAILED, text), started)
            return
        self._write(Frame(FrameType.RESULT, number, encode_result(rows)))
        hits = len(rows) - rows.count(None)
        self._context.metrics.count_answer(time.perf_counter() - started, len(rows), hits)

    def _fail_lookup(self, number: int, error: BaseException, started: float) -> None:
        logger.warning("a lookup failed: %s", error)
        text = "The lookup failed; the log of the server has the cause."
        self._fail(number, encode_failure(LOOKUP_FAILED, text), started)

    def _fail(self, number: int, failure: bytes, started: float) -> None:
        self._write(Frame(FrameType.REQUEST_FAILURE, number, failure))
        self._context.metrics.count_failure(time.perf_counter() - started)

    def _write(self, frame: Frame) -> None:
        if self._channel is not None:
            self._channel.write(encode_frame(frame))

    def _check_identity(self, frame: Frame) -> None:
        """Check that the client means this service, and not one whose port it has taken."""
        expected = self._context.options.identity.encode()
        if not hmac.compare_digest(frame.body, expected):
            raise CorruptDataError(CLIENT, "the client asks for another service")

    def _check_token(self, frame: Frame) -> None:
        token = self._context.options.token or ""
        if frame.type is not FrameType.TOKEN or not hmac.compare_digest(frame.body, token.encode()):
            raise CorruptDataError(CLIENT, "the token is missing or wrong")
        self._accepted = True


def _rows(query: RowQuery, request: LookupRequest) -> Rows | Exception:
    """Return the rows, or the error: the loop decides what to do about it."""
    try:
        return query.lookup(request.partition, request.bucket, request.keys)
    except (LakeError, pa.ArrowException) as err:
        return err
