"""This module has the server of a query service: it answers lookups in the buckets that are its own.

One thread reads and writes connections, a few others look rows up. A connection's requests are answered in
their order. Whoever sends what is no request of Paimon's finds the connection closed, without a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakecore.errors import CorruptDataError, InvalidInputError, LakeError, UnavailableError
from lakecore.lookup.query.found_rows import FoundRows
from lakecore.metadata.schema import TableSchema
from lakecore.service.addresses import Address
from lakecore.service.frames import LENGTH, SMALLEST, Frame, FrameType, decode_frame, encode_frame
from lakecore.service.java_failures import LOOKUP_FAILED, UNKNOWN_BUCKET, encode_failure
from lakecore.service.location import server_of
from lakecore.service.messages import decode_request, encode_result
from lakecore.service.row_codec import RowCodec
from lakecore.service.server_options import ServerOptions

__all__ = ["BucketQuery", "KvQueryServer", "ServerNumber"]

logger = logging.getLogger(__name__)

_START_SECONDS = 30.0
_CLIENT = "client"
_UNKNOWN = "lakecore query server : The server does not hold the given partition and bucket."


class BucketQuery(Protocol):
    """It answers lookups of one bucket, from several threads."""

    def lookup_in_bucket(self, partition: tuple[object, ...], bucket: int, keys: pa.Table) -> FoundRows:
        """Look up many keys; every column of the table is in the answer."""


@dataclass(frozen=True, slots=True)
class ServerNumber:
    """This is a server's number among the servers of a table, from 0."""

    number: int = 0
    servers: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.servers:
            raise InvalidInputError(f"server {self.number} of {self.servers}: numbers begin with 0")


class KvQueryServer:
    """It serves one table until it is closed. Bytes in memory: a frame and an answer for each connection."""

    def __init__(
        self,
        query: BucketQuery,
        schema: TableSchema,
        number: ServerNumber | None = None,
        options: ServerOptions | None = None,
    ) -> None:
        """Prepare a server; `start` listens. The query stays the caller's, who closes it last."""
        self._query = query
        self._codec = RowCodec(schema)
        self._number = number or ServerNumber()
        self._options = options or ServerOptions()
        self._pool = ThreadPoolExecutor(self._options.query_threads, "lakecore-query")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lakecore-server", daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def __enter__(self) -> KvQueryServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Address:
        """Return the address after the server listens. Raises UnavailableError when the port is taken."""
        self._thread.start()
        options = self._options
        try:
            started = asyncio.start_server(self._connected, options.host, options.port)
            self._server = asyncio.run_coroutine_threadsafe(started, self._loop).result(_START_SECONDS)
        except OSError as err:
            self.close()
            raise UnavailableError(
                f"query server: port {options.port} of {options.host} cannot be used ({err}); choose another"
            ) from err
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    def close(self) -> None:
        """Stop listening, close all connections and wait for lookups; later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_START_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        self._pool.shutdown(wait=True)

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._tasks) >= self._options.max_connections:
            writer.transport.abort()
            return
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            logger.debug("a connection of the query server ended")
        except (CorruptDataError, InvalidInputError) as err:
            logger.debug("the query server closes a connection: %s", err)
        except asyncio.CancelledError:
            logger.debug("the query server closes its connections")
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError, RuntimeError):
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._options.token is not None:
            self._check_token(await self._frame(reader, self._options.frame_seconds), self._options.token)
        while True:
            frame = await self._frame(reader, self._options.idle_seconds)
            if frame.type is not FrameType.REQUEST:
                raise CorruptDataError(_CLIENT, f"a frame of type {frame.type.name} where requests belong")
            answer = await self._loop.run_in_executor(self._pool, self._answer, frame)
            writer.write(encode_frame(answer))
            async with asyncio.timeout(self._options.frame_seconds):
                await writer.drain()

    async def _frame(self, reader: asyncio.StreamReader, wait: float) -> Frame:
        async with asyncio.timeout(wait):
            first = await reader.readexactly(1)
        async with asyncio.timeout(self._options.frame_seconds):
            (size,) = LENGTH.unpack(first + await reader.readexactly(LENGTH.size - 1))
            if not SMALLEST <= size <= self._options.max_frame:
                raise CorruptDataError(_CLIENT, f"a frame of {size} bytes; at most {self._options.max_frame}")
            return decode_frame(await reader.readexactly(size), _CLIENT)

    def _check_token(self, frame: Frame, token: str) -> None:
        if frame.type is not FrameType.TOKEN or not hmac.compare_digest(frame.body, token.encode()):
            raise CorruptDataError(_CLIENT, "the token is missing or wrong")

    def _answer(self, frame: Frame) -> Frame:
        """Return the result of a request, or its failure. Raises CorruptDataError for what is no request."""
        request = decode_request(frame.body, _CLIENT)
        number = self._number
        partition = self._codec.partition_values(request.partition)
        if server_of(request.partition, request.bucket, number.servers) != number.number:
            failure = encode_failure(UNKNOWN_BUCKET, _UNKNOWN)
            return Frame(FrameType.REQUEST_FAILURE, frame.request_id, failure)
        keys = self._codec.keys_table(request.keys)
        try:
            found = self._query.lookup_in_bucket(partition, request.bucket, keys)
            values = self._codec.values_bytes(found)
        except (LakeError, pa.ArrowException) as err:
            logger.warning("a lookup failed: %s", err)
            return _failed(frame, "The lookup failed; the log of the server has the cause.")
        if sum(len(value) for value in values if value is not None) > self._options.max_answer:
            return _failed(
                frame, f"The rows have more than {self._options.max_answer} bytes; ask for fewer keys."
            )
        return Frame(FrameType.RESULT, frame.request_id, encode_result(values))


def _failed(frame: Frame, text: str) -> Frame:
    return Frame(FrameType.REQUEST_FAILURE, frame.request_id, encode_failure(LOOKUP_FAILED, text))
