"""The protocol: bytes of frames and bodies, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import random

import pyarrow as pa
import pytest

from lakecore.errors import CorruptDataError, InvalidInputError, UnavailableError
from lakecore.fs.memory import MemoryFileIO
from lakecore.row.binary_row import EMPTY_ROW, encode_row
from lakecore.row.hashing import hash_rows
from lakecore.service.addresses import Address, ServiceManager, parse_address
from lakecore.service.location import partition_hash, server_of
from lakecore.service.wire.frames import Frame, FrameType, decode_frame, encode_frame
from lakecore.service.wire.java_failures import UNKNOWN_BUCKET, encode_failure, failure_class
from lakecore.service.wire.messages import (
    LookupRequest,
    decode_request,
    decode_result,
    encode_request,
    encode_result,
)
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot
from tests.support.fault_fs import FaultMode, FaultyFileIO

REQUEST = LookupRequest(EMPTY_ROW, 3, (b"\0\0\0\1abcdefgh", b"\0\0\0\0"))


def test_the_bytes_of_a_request() -> None:
    """As Java's MessageSerializer and KvRequest write them."""
    frame = Frame(FrameType.REQUEST, 7, encode_request(REQUEST))
    body = "0000000c" + "00" * 12 + "00000003" + "00000002" + "0000000c" + "00000001" + b"abcdefgh".hex()
    body += "00000004" + "00000000"
    head = "00000001" + "00000000" + "0000000000000007"
    size = (len(body) + len(head)) // 2
    assert encode_frame(frame).hex() == f"{size:08x}" + head + body
    assert decode_frame(encode_frame(frame)[4:], "x") == frame
    assert decode_request(frame.body, "x") == REQUEST


def test_the_bytes_of_a_result() -> None:
    body = encode_result([None, b"\0\0\0\0"])
    assert body.hex() == "00000002" + "01" + "00" + "00000004" + "00000000"
    assert decode_result(body, "x") == (None, b"\0\0\0\0")


@pytest.mark.parametrize("seed", range(200))
def test_damaged_bodies_are_refused_or_read(seed: int) -> None:
    """No damage leads to another error, nor to more keys than bytes."""
    chance = random.Random(seed)
    body = bytearray(encode_request(REQUEST))
    for _ in range(chance.randint(1, 4)):
        body[chance.randrange(len(body))] = chance.choice((0, 1, 127, 128, 255))
    cut = bytes(body[: chance.randint(0, len(body))] if seed % 2 else body)
    for decode in (decode_request, decode_result):
        found: object = ()
        with contextlib.suppress(CorruptDataError):
            found = decode(cut, "x")
        keys = found.keys if isinstance(found, LookupRequest) else found
        assert len(keys) <= len(cut)


def test_failures_name_their_class_only() -> None:
    assert failure_class(encode_failure(UNKNOWN_BUCKET, "text")) == UNKNOWN_BUCKET.name
    for forged in (
        b"",
        b"\xac\xed\0\5sr",
        b"\xac\xed\0\5sr\xff\xffabc",
        b"\xac\xed\0\5sr\0\3a\nb",
        b"pickle",
    ):
        assert failure_class(forged) == ""


def test_servers_of_buckets() -> None:
    kind = RowType(
        (
            DataField(0, "a", AtomicType(TypeRoot.INT)),
            DataField(1, "b", AtomicType(TypeRoot.VARCHAR, length=2147483647)),
        )
    )
    for number in range(50):
        value = (number * 7919, "x" * number)
        columns = [pa.array([value[0]], pa.int32()), pa.array([value[1]])]
        row = encode_row(value, kind)
        assert partition_hash(row) == int(hash_rows(columns, kind)[0])
        assert {server_of(row, bucket, 4) for bucket in range(4)} == {0, 1, 2, 3}


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:0", "a:65536", "a:x", "::1:2", "a:-1", "a:1²"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(InvalidInputError, match="host:port"):
        parse_address(text)


def test_addresses_of_ipv6() -> None:
    assert str(parse_address("[::1]:80")) == "[::1]:80"


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"[1]", b'["a"]', b"\xff"])
def test_damaged_addresses(data: bytes) -> None:
    storage = MemoryFileIO()
    storage.overwrite("/t/service/service-primary-key-lookup", data)
    with pytest.raises(CorruptDataError, match="not the addresses of a service"):
        ServiceManager(storage, "/t").service()


@pytest.mark.parametrize("mode", FaultMode)
def test_storage_fails_while_addresses_are_registered(mode: FaultMode) -> None:
    """Readers find the old addresses, the new ones, none, or a file that says that it is damaged: never others."""
    old, new = (Address("127.0.0.1", 1),), (Address("127.0.0.1", 2), Address("localhost", 3))
    for number in itertools.count(1):
        inner = MemoryFileIO()
        ServiceManager(inner, "/t").reset_service(old)
        storage = FaultyFileIO(inner, fail_at=number, mode=mode)
        manager = ServiceManager(storage, "/t")
        try:
            manager.reset_service(new)
            assert manager.service() == new
            manager.delete_service()
        except (UnavailableError, KeyboardInterrupt):
            assert storage.fired
        torn = mode is FaultMode.TORN and storage.fired
        with contextlib.suppress(CorruptDataError) if torn else contextlib.nullcontext():
            assert ServiceManager(inner, "/t").service() in (old, new, None)
        if not storage.fired:
            assert ServiceManager(inner, "/t").service() is None
            break
