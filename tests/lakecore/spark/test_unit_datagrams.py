"""Datagrams of units: heard by token, dropped without one, and gone where no port is."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable

import pytest

from lakecore.executor import UnitWork
from lakecore.processes.unit_messages import encode_message
from lakecore.spark.unit_datagrams import DatagramAddress, UnitDatagrams, address_towards


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_each_run_hears_its_own_units(host: str) -> None:
    datagrams = UnitDatagrams(host)
    told: list[list[UnitWork]] = [[], []]
    with datagrams.address_for(told[0].append) as first, datagrams.address_for(told[1].append) as second:
        assert first is not None
        assert second is not None
        assert (first.port, first.token != second.token) == (second.port, True)
        many = [UnitWork((number, "ab"), number, 2) for number in range(45)]
        pickle.loads(pickle.dumps(first)).send(many)
        second.send([UnitWork(("c",), 7, 0)])
        wait_for(lambda: len(told[0]) == 45 and len(told[1]) == 1)
        assert told == [many, [UnitWork(("c",), 7, 0)]]
        for data in (
            b"",
            b"x",
            b"\xff" * 40,
            first.token.encode(),
            first.token.encode() + b"[[1]]",
            b"a" * 36 + b"[]",
        ):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.sendto(data, ("127.0.0.1", first.port))
        stranger_address = DatagramAddress(host, first.port, "0" * 36)
        stranger_address.send(many)
        first.send([UnitWork(("d",), 1, 1)])
        wait_for(lambda: len(told[0]) == 46)
        assert len(told[1]) == 1
    first.send(many)  # a worker that did not hear of the end
    wait_for(lambda: not any(one.name == "lakecore-unit-datagrams" for one in threading.enumerate()))
    assert len(told[0]) == 46
    with datagrams.address_for(told[1].append) as third:
        assert third is not None
        third.send([UnitWork(("e",), 1, 1)])
        wait_for(lambda: len(told[1]) == 2)


def test_without_a_listener_or_a_port_there_is_no_address() -> None:
    with UnitDatagrams("127.0.0.1").address_for(None) as address:
        assert address is None
    with UnitDatagrams("192.0.2.1").address_for(print) as address:
        assert address is None
    with pytest.raises(OSError, match=r"\S"):
        DatagramAddress("no such host.invalid", 1, "0" * 36).send([UnitWork(("a",), 1, 1)])


def test_the_address_towards_a_server() -> None:
    assert address_towards("127.0.0.1") == "127.0.0.1"
    assert address_towards("no such host.invalid") is None
    assert encode_message([]) == b"[]"
