"""A query service on Spark: servers share the buckets, follow the table, and end with their driver."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import lakecore
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import AlreadyExistsError, InvalidInputError, UnavailableError
from lakecore.service.addresses import Address
from lakecore.service.connection import ClientOptions
from lakecore.service.registration import accepts_connections
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.service.servers_options import ServersOptions
from lakecore.spark.executor import SparkExecutor
from lakecore.spark.liveness import DriverLiveness, LivenessEndpoint, TaskLiveness
from lakecore.spark.query_service import serve_on_spark
from lakecore.table import Table

KEYS = 60
BUCKETS = 5
OPTIONS = ServersOptions(servers=2, interval=0.1)
WITH_HEALTH = replace(OPTIONS, health=Address("127.0.0.1", 0))


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    lake = lakecore.load_catalog(str(tmp_path))
    definition = {
        "columns": ["k INT", "v STRING"],
        "primaryKeys": ["k"],
        "options": {"bucket": str(BUCKETS)},
    }
    put(lake.create_table("d.t", definition), "0")
    return lake


def put(table: Table, value: str) -> None:
    table.write(pa.table({"k": pa.array(range(KEYS), pa.int32()), "v": [value] * KEYS}))


def values(table: Table) -> set[object]:
    """The values of all keys, each asked of every bucket: one bucket has it."""
    keys = pa.table({"k": pa.array(range(KEYS), pa.int32())})
    found = []
    with RemoteTableQuery(table, ClientOptions(first_wait=0.05, tries=10)) as remote:
        for bucket in range(BUCKETS):
            rows = remote.lookup_in_bucket((), bucket, keys)
            found += rows.rows.filter(rows.matches).column("v").to_pylist()
    assert len(found) == KEYS
    return set(found)


class Running:
    """A service in a thread."""

    def __init__(self, spark: SparkExecutor, lake: FilesystemCatalog, options: ServersOptions) -> None:
        self.stop = threading.Event()
        self.table = lake.load_table("d.t")
        self._pool = ThreadPoolExecutor(1)
        self.health: queue.Queue[Address] = queue.Queue()
        given = (spark._spark(), lake, "d.t", options, self.stop, self.health.put)
        self._service = self._pool.submit(serve_on_spark, *given)

    @property
    def error(self) -> BaseException | None:
        """Wait for the end; return what the service raised."""
        return self._service.exception(60)

    def addresses(self, other_than: tuple[Address, ...] = ()) -> tuple[Address, ...]:
        """Wait for servers that accept connections."""
        end = time.monotonic() + 180
        while time.monotonic() < end and not self._service.done():
            found = service_manager(self.table).service() or ()
            if found and found != other_than and all(map(accepts_connections, found)):
                return found
            time.sleep(0.05)
        raise AssertionError("no service") from self.error

    def end(self) -> None:
        self.stop.set()
        self._pool.shutdown()


def test_servers_share_the_buckets_follow_the_table_and_end(
    spark: SparkExecutor, lake: FilesystemCatalog
) -> None:
    running = Running(spark, lake, WITH_HEALTH)
    try:
        health = running.health.get(timeout=180)
        assert get(health, "/health")[0] in (503, 200)  # the servers may have started already
        addresses = running.addresses()
        assert len(set(addresses)) == 2
        assert values(running.table) == {"0"}
        put(running.table, "1")
        end = time.monotonic() + 180
        while values(running.table) != {"1"} and time.monotonic() < end:
            time.sleep(0.1)
        assert values(running.table) == {"1"}
        snapshot = running.table.latest_snapshot()
        assert snapshot is not None
        seen = until_served(health, snapshot.id)
        assert [line["snapshot"] for line in seen["servers"]] == [snapshot.id] * 2
        requests = samples(health)["lakecore_query_requests_total"]
        assert requests.keys() == {"0", "1"}
        assert min(requests.values()) > 0
        with pytest.raises(AlreadyExistsError, match="runs already"):
            serve_on_spark(spark._spark(), lake, "d.t", OPTIONS, threading.Event())
    finally:
        running.end()
    assert running.error is None
    assert service_manager(running.table).service() is None
    until_closed(addresses)


def until_closed(addresses: Sequence[Address]) -> None:
    """Wait until nobody listens any more: Spark ends the other tasks of a failed stage a moment later."""
    end = time.monotonic() + 180
    while any(map(accepts_connections, addresses)):
        assert time.monotonic() < end, f"somebody listens at {addresses}"
        time.sleep(0.1)


def get(health: Address, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{health}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.read().decode()


def until_served(health: Address, snapshot: int) -> dict[str, Any]:
    """Wait until the driver says that all servers are at this snapshot, and return what it says."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        status, text = get(health, "/health")
        found: dict[str, Any] = json.loads(text)
        if status == 200 and all(line["snapshot"] == snapshot for line in found["servers"]):
            assert found["state"] == "serving"
            return found
        time.sleep(0.05)
    raise AssertionError(text)


def samples(health: Address) -> dict[str, dict[str, float]]:
    """The counters of each server, as a reader of Prometheus reads them."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(get(health, "/metrics")[1]):
        for sample in family.samples:
            if "server" in sample.labels and "le" not in sample.labels:
                assert sample.labels["table"] == "d.t"
                found.setdefault(sample.name, {})[sample.labels["server"]] = sample.value
    return found


def test_a_server_that_is_killed_is_started_again(spark: SparkExecutor, lake: FilesystemCatalog) -> None:
    running = Running(spark, lake, OPTIONS)
    try:
        first = running.addresses()
        os.kill(process_of(first[0]), signal.SIGKILL)
        second = running.addresses(other_than=first)
        assert values(running.table) == {"0"}
    finally:
        running.end()
    assert running.error is None
    assert service_manager(running.table).service() is None
    until_closed(second)


def process_of(address: Address) -> int:
    """The process that listens at an address, from /proc."""
    line = next(
        line.split()
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{address.port:04X}") and line.split()[3] == "0A"
    )
    link = f"socket:[{line[9]}]"
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(os.readlink(entry) == link for entry in folder.iterdir()):
                return int(folder.parent.name)
        except OSError:  # the process has ended
            continue
    raise AssertionError(f"nobody listens at {address}")


def test_too_many_servers_are_refused_at_once(lake: FilesystemCatalog) -> None:
    with SparkExecutor("local[2]") as spark, pytest.raises(InvalidInputError, match="has 2 cores"):
        serve_on_spark(spark._spark(), lake, "d.t", ServersOptions(servers=3), threading.Event())


def test_what_a_server_raises_ends_the_service(spark: SparkExecutor, lake: FilesystemCatalog) -> None:
    running = Running(spark, lake, OPTIONS)
    try:
        first = running.addresses()
        service_manager(running.table).reset_service([Address("127.0.0.1", 1)])  # another takes the place
        assert isinstance(running.error, UnavailableError)
        assert "has taken the place" in str(running.error)
        assert service_manager(running.table).service() == (Address("127.0.0.1", 1),)
        until_closed(first)
    finally:
        running.end()


def test_a_liveness_ends_with_its_driver_and_admits_no_strangers() -> None:
    lines: list[str] = []
    driver = DriverLiveness("127.0.0.1", lines.append)
    task = TaskLiveness(driver.endpoint)
    assert not task.wait(0.1)
    stranger = TaskLiveness(LivenessEndpoint(driver.endpoint.address, bytes(16)))
    assert stranger.wait(10)
    assert not task.wait(0.1)
    task.report("a line")
    task.report("é" * 1000)
    end = time.monotonic() + 60
    while len(lines) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert lines == ["a line", "é" * 1000]
    endless = TaskLiveness(driver.endpoint)
    endless.report("x" * (1 << 20))
    assert endless.wait(10)
    assert lines == ["a line", "é" * 1000]
    assert not task.wait(0.1)
    driver.close()
    driver.close()
    assert task.wait(10)
    assert driver.endpoint.token.hex() not in repr(driver.endpoint)
    with pytest.raises(UnavailableError, match=r"spark\.driver\.host"):
        TaskLiveness(driver.endpoint)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_with_a_signal(
    lake: FilesystemCatalog, tmp_path: Path, number: signal.Signals
) -> None:
    command = [
        str(Path(sys.executable).with_name("lakecore")),
        "--warehouse",
        str(tmp_path),
        "query-service",
        "d.t",
    ]
    more = ["--engine", "spark", "--servers", "2", "--master", "local[2]", "--interval", "0.1"]
    more += ["--health-port", "0"]
    table = lake.load_table("d.t")
    with subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True) as process:
        try:
            end = time.monotonic() + 180
            while not (found := service_manager(table).service()) and time.monotonic() < end:
                time.sleep(0.1)
            assert len(found or ()) == 2
            assert values(table) == {"0"}
            process.send_signal(number)
            _, text = process.communicate(timeout=180)
        finally:
            process.kill()
    assert process.returncode == 0, text
    assert "has ended" in text
    assert "health at http://127.0.0.1:" in text
    assert service_manager(table).service() is None


@pytest.mark.parametrize("option", [("--port", "7000"), ("--option", "a=b")])
def test_options_that_servers_on_spark_do_not_obey(tmp_path: Path, option: tuple[str, str]) -> None:
    command = [
        str(Path(sys.executable).with_name("lakecore")),
        "--warehouse",
        str(tmp_path),
        "query-service",
        "d.t",
    ]
    done = subprocess.run(
        [*command, "--engine", "spark", *option], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 1
    assert f"{option[0]}: servers on Spark do not obey it" in " ".join(done.stderr.split())
