"""Server and client: answers, attackers, and servers that move or die."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError, LakeError, UnavailableError
from lakecore.lookup.query.serialized_query import SerializedQuery
from lakecore.row.binary_row import EMPTY_ROW
from lakecore.service.addresses import Address
from lakecore.service.client import KvQueryClient
from lakecore.service.connection import ClientOptions
from lakecore.service.remote_query import RemoteTableQuery, is_service_available, service_manager
from lakecore.service.server import KvQueryServer, ServerNumber
from lakecore.service.server_options import ServerOptions
from lakecore.service.wire.frames import Frame, FrameType, encode_frame
from lakecore.service.wire.messages import LookupRequest, encode_request
from lakecore.service.wire.row_codec import RowCodec
from lakecore.table import Table
from tests.support.lake import key_table, memory_catalog, put

QUICK = ClientOptions(answer_seconds=5, first_wait=0.01, tries=3)


def keys(*values: int | None) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int32())})


@pytest.fixture
def table() -> Table:
    table = key_table(memory_catalog())
    put(table, [{"k": k, "v": f"value {k}"} for k in range(50)])
    return table


@pytest.fixture
def query(table: Table) -> Iterator[SerializedQuery]:
    with SerializedQuery(table) as query:
        query.refresh()
        yield query


def request(table: Table, *values: int) -> LookupRequest:
    return LookupRequest(EMPTY_ROW, 0, RowCodec(table.schema).keys_bytes(keys(*values)))


def closed(address: Address, data: bytes) -> bytes:
    """Send bytes; what comes back until the server closes."""
    with socket.create_connection((address.host, address.port), 5) as plain:
        plain.settimeout(5)
        plain.sendall(data)
        out = b""
        try:
            while part := plain.recv(65536):
                out += part
        except ConnectionResetError:
            return out
        return out


def test_many_keys(table: Table, query: SerializedQuery) -> None:
    with KvQueryServer(query) as server, RemoteTableQuery(table, QUICK) as remote:
        assert not is_service_available(table)
        service_manager(table).reset_service([server.start()])
        assert is_service_available(table)
        found = remote.lookup_in_bucket((), 0, keys(3, None, 99, 4, 3))
        assert found.matches.to_pylist() == [True, False, False, True, True]
        assert found.rows.column("v").to_pylist() == ["value 3", None, None, "value 4", "value 3"]
        assert found.rows.schema == remote.schema
        assert remote.lookup((), 0, (7,)) == {"k": 7, "v": "value 7"}
        assert remote.lookup((), 0, (None,)) is None
        assert remote.lookup((), 5, (7,)) is None
        put(table, [{"k": 7, "v": "new"}])
        query.refresh()
        assert remote.lookup((), 0, (7,)) == {"k": 7, "v": "new"}


HEAD = struct.Struct(">iiiq")
FORGED = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "negative length": struct.pack(">i", -1),
    "oversize length": struct.pack(">i", 2**31 - 1) + bytes(100),
    "short length": struct.pack(">i", 3) + bytes(3),
    "version": HEAD.pack(16, 2, 0, 1),
    "type": HEAD.pack(16, 1, 9, 1),
    "result": HEAD.pack(16, 1, 1, 1),
    "no body": HEAD.pack(16, 1, 0, 1),
    "token that nobody wants": encode_frame(Frame(FrameType.TOKEN, 0, b"x")),
    "many keys": HEAD.pack(40, 1, 0, 1)
    + struct.pack(">i", 12)
    + bytes(12)
    + struct.pack(">ii", 0, 2**31 - 1),
    "key of another type": encode_frame(
        Frame(FrameType.REQUEST, 1, encode_request(LookupRequest(EMPTY_ROW, 0, (EMPTY_ROW,))))
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_strangers_learn_nothing(name: str, table: Table, query: SerializedQuery) -> None:
    with KvQueryServer(query) as server, KvQueryClient(lambda: (address,), QUICK) as client:
        address = server.start()
        assert closed(address, FORGED[name]) == b""
        assert client.ask(request(table, 1))[0] is not None


def test_slow_and_half_frames_are_dropped(table: Table, query: SerializedQuery) -> None:
    options = ServerOptions(frame_seconds=0.2, idle_seconds=0.5)
    with KvQueryServer(query, options=options) as server:
        address = server.start()
        whole = encode_frame(Frame(FrameType.REQUEST, 1, encode_request(request(table, 1))))
        assert closed(address, whole[:2]) == b""
        assert closed(address, whole[:30]) == b""
        assert closed(address, b"") == b""
        assert len(closed(address, whole)) > 20


def test_clients_that_are_killed_leave_nothing(table: Table, query: SerializedQuery) -> None:
    """The system resets the connection of a killed process, wherever it was."""
    chance = random.Random(3)
    frame = encode_frame(Frame(FrameType.REQUEST, 1, encode_request(request(table, *range(50)))))
    with KvQueryServer(query) as server:
        address = server.start()
        with KvQueryClient(lambda: (address,), QUICK) as client:
            for _ in range(100):
                with socket.create_connection((address.host, address.port), 5) as plain:
                    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    plain.sendall((frame * 3)[: chance.randrange(3 * len(frame) + 1)])
                    time.sleep(chance.random() / 500)
                assert client.ask(request(table, 1))[0] is not None
            end = time.monotonic() + 10
            while server.figures.connections > 1 and time.monotonic() < end:
                time.sleep(0.01)
            assert server.figures.connections == 1
            assert server.figures.failures == 0


def test_connections_are_bounded(table: Table, query: SerializedQuery) -> None:
    with KvQueryServer(query, options=ServerOptions(max_connections=1)) as server:
        address = server.start()
        with KvQueryClient(lambda: (address,), QUICK) as client:
            client.ask(request(table, 1))
            assert closed(address, b"") == b""


def test_answers_are_bounded(table: Table, query: SerializedQuery) -> None:
    options = ServerOptions(max_answer=100)
    with KvQueryServer(query, options=options) as server:
        address = server.start()
        with KvQueryClient(lambda: (address,), QUICK) as client:
            assert client.ask(request(table, 1))[0] is not None
            with pytest.raises(UnavailableError, match=r"the lookup failed \(java.lang.RuntimeException\)"):
                client.ask(request(table, *range(50)))


def test_tokens(table: Table, query: SerializedQuery) -> None:
    with KvQueryServer(query, options=ServerOptions(token="right")) as server:
        address = server.start()
        plain = encode_frame(Frame(FrameType.REQUEST, 1, encode_request(request(table, 1))))
        assert closed(address, plain) == b""
        for token, good in (("right", True), ("wrong", False), (None, False)):
            options = ClientOptions(first_wait=0.01, tries=2, token=token)
            with KvQueryClient(lambda: (address,), options) as client:
                if good:
                    assert client.ask(request(table, 1))[0] is not None
                    continue
                with pytest.raises(UnavailableError):
                    client.ask(request(table, 1))
    assert "right" not in repr(ServerOptions(token="right"))
    with pytest.raises(InvalidInputError, match="token"):
        ServerOptions(token="")


def test_another_server_has_the_bucket(table: Table, query: SerializedQuery) -> None:
    numbers = [ServerNumber(number, 2) for number in range(2)]
    servers = [KvQueryServer(query, number) for number in numbers]
    first, second = (server.start() for server in servers)
    turns = iter([(second, first), (first, second)])
    try:
        with KvQueryClient(lambda: next(turns), QUICK) as client:
            assert client.ask(request(table, 1))[0] is not None
        with (
            KvQueryClient(lambda: (second, first), QUICK) as client,
            pytest.raises(UnavailableError, match="no server has the bucket"),
        ):
            client.ask(request(table, 1))
    finally:
        for server in servers:
            server.close()


def test_servers_die_and_move_while_clients_ask(table: Table, query: SerializedQuery) -> None:
    """Every question is answered rightly, though the server is another one every few moments."""
    chance = random.Random(5)
    options = ClientOptions(answer_seconds=5, first_wait=0.02, longest_wait=0.2, tries=200)
    server = KvQueryServer(query)
    manager = service_manager(table)
    manager.reset_service([server.start()])
    ended = threading.Event()
    wrong: list[object] = []
    asked = [0]

    def ask(number: int) -> None:
        mine = random.Random(number)
        with RemoteTableQuery(table, options) as remote:
            remote._client._clock = SystemClock()  # the clock of tests does not wait, and servers take time
            while not ended.is_set():
                key = mine.randrange(60)
                row = remote.lookup((), 0, (key,))
                asked[0] += 1
                if row != ({"k": key, "v": f"value {key}"} if key < 50 else None):
                    wrong.append((key, row))

    def guarded(number: int) -> None:
        try:
            ask(number)
        except (LakeError, OSError, AssertionError) as err:
            wrong.append(err)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        answered, end = asked[0], time.monotonic() + 60
        ended.wait(chance.random() / 5)
        while asked[0] == answered and time.monotonic() < end:
            time.sleep(0.01)
        assert asked[0] > answered
        server.close()
        server = KvQueryServer(query)
        manager.reset_service([server.start()])
    ended.set()
    for thread in threads:
        thread.join()
    server.close()
    assert not wrong


def test_no_service(table: Table) -> None:
    with RemoteTableQuery(table, QUICK) as remote, pytest.raises(UnavailableError, match="no query service"):
        remote.lookup((), 0, (1,))
    gone = Address("127.0.0.1", 1)
    with (
        KvQueryClient(lambda: (gone,), QUICK) as client,
        pytest.raises(UnavailableError, match="cannot be reached"),
    ):
        client.get_values(request(table, 1)).result(30)


def test_the_port_is_taken(table: Table, query: SerializedQuery) -> None:
    with KvQueryServer(query) as server:
        port = server.start().port
        with pytest.raises(UnavailableError, match="choose another"):
            KvQueryServer(query, options=ServerOptions(port=port)).start()
