"""A query service follows its table, keeps its address there, and says how it is."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError, NotFoundError, UnavailableError
from lakecore.scan.file_monitor import FileMonitor, FilePlan
from lakecore.service import health_server
from lakecore.service.addresses import Address
from lakecore.service.connection import ClientOptions
from lakecore.service.query_service import QueryService, ServiceOptions
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.service.server_metrics import BOUNDS, label
from lakecore.service.server_options import ServerOptions
from lakecore.table import Table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import key_table, memory_catalog, paths_of, put

QUICK = ClientOptions(answer_seconds=5, first_wait=0.01, tries=2)
GONE = Address("127.0.0.1", 1)


@pytest.fixture
def lake() -> FilesystemCatalog:
    return memory_catalog("query-service")


@pytest.fixture
def table(lake: FilesystemCatalog) -> Table:
    table = key_table(lake)
    put(table, [{"k": k, "v": f"value {k}"} for k in range(50)])
    return table


def service(lake: FilesystemCatalog, **options: object) -> QueryService:
    return QueryService(lambda: lake.load_table("d.k"), ServiceOptions(**options), lake.clock)  # type: ignore[arg-type]


def ask(table: Table, key: int) -> dict[str, object] | None:
    with RemoteTableQuery(table, QUICK) as remote:
        return remote.lookup((), 0, (key,))


def get(address: Address | None, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.read().decode()


def test_it_follows_the_table_and_leaves_no_address(lake: FilesystemCatalog, table: Table) -> None:
    with service(lake) as running:
        address = running.start()
        assert service_manager(table).service() == (address,)
        assert ask(table, 7) == {"k": 7, "v": "value 7"}
        put(table, [{"_kind": "+I", "k": 7, "v": "new"}, {"_kind": "-D", "k": 8, "v": "x"}])
        assert ask(table, 7) == {"k": 7, "v": "value 7"}
        running.refresh()
        assert ask(table, 7) == {"k": 7, "v": "new"}
        assert ask(table, 8) is None
        assert running.health()["snapshot"] == 2
    assert service_manager(table).service() is None
    with pytest.raises(UnavailableError, match="no query service is registered"):
        ask(table, 7)


def test_a_service_that_starts_anew_finds_the_copies(
    lake: FilesystemCatalog, table: Table, tmp_path: Path
) -> None:
    """The data files are gone by then."""
    options = ServerOptions(cache_directories=(str(tmp_path),))
    with service(lake, server=options) as server:
        server.start()
        assert ask(table, 7) == {"k": 7, "v": "value 7"}
    for path in paths_of(table):
        lake.file_io.delete(path)
    with service(lake, server=options) as server:
        server.start()
        assert ask(table, 8) == {"k": 8, "v": "value 8"}


def test_it_listens_on_the_loopback_unless_it_is_told(lake: FilesystemCatalog, table: Table) -> None:
    """127.0.0.2 is this machine, too, but not the address that is bound: who binds all addresses answers there."""
    with service(lake, health_port=0) as running:
        address = running.start()
        health = running.health_address
        assert health is not None
        for bound in (address, health):
            assert bound.host == "127.0.0.1"
            with socket.create_connection((bound.host, bound.port), 10):
                pass
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.2", bound.port), 10)
    with service(lake, server=ServerOptions(host="0.0.0.0"), advertised_host="localhost") as running:
        socket.create_connection(("127.0.0.2", running.start().port), 10).close()


def test_the_plans_of_the_file_monitor_drive_it(
    lake: FilesystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refresh takes the plans that the monitor has, and lists no other files: without its plans nothing changes."""
    plans: list[FilePlan] = []
    held: list[bool] = []

    def recorded(monitor: FileMonitor) -> Iterator[FilePlan]:
        for plan in () if held else plain(monitor):
            plans.append(plan)
            yield plan

    plain = FileMonitor.__iter__
    monkeypatch.setattr(FileMonitor, "__iter__", recorded)
    with service(lake) as running:
        running.start()
        assert [plan.full for plan in plans] == [True]
        held.append(True)
        put(table, [{"k": 7, "v": "new"}])
        running.refresh()
        assert ask(table, 7) == {"k": 7, "v": "value 7"}
        held.clear()
        running.refresh()
        assert ask(table, 7) == {"k": 7, "v": "new"}
        assert [plan.full for plan in plans] == [True, False]
        ((change,),) = [plan.buckets for plan in plans[1:]]
        assert (len(change.before), len(change.after)) == (0, 1)


def test_a_table_without_snapshots(lake: FilesystemCatalog) -> None:
    table = key_table(lake)
    with service(lake) as running:
        running.start()
        assert ask(table, 1) is None
        put(table, [{"k": 1, "v": "first"}])
        running.refresh()
        assert ask(table, 1) == {"k": 1, "v": "first"}


def test_a_new_schema_is_followed(lake: FilesystemCatalog, table: Table) -> None:
    with service(lake) as running:
        running.start()
        lake.alter_table("d.k", [{"op": "add", "name": "w", "type": "INT"}])
        changed = lake.load_table("d.k")
        put(changed, [{"k": 7, "v": "new", "w": 3}])
        running.refresh()
        assert ask(changed, 7) == {"k": 7, "v": "new", "w": 3}
        assert ask(changed, 6) == {"k": 6, "v": "value 6", "w": None}
        assert ask(table, 6) == {"k": 6, "v": "value 6"}, (
            "a client with the old schema ignores the new column"
        )


def test_another_service_that_runs_is_respected(lake: FilesystemCatalog, table: Table) -> None:
    with service(lake) as first:
        address = first.start()
        with service(lake) as second, pytest.raises(AlreadyExistsError, match="runs already, its server 127"):
            second.start()
        assert service_manager(table).service() == (address,), "the second one has no part in it"
        with service(lake, replace=True) as third:
            taken = third.start()
            with pytest.raises(AlreadyExistsError, match="has taken the place"):
                first.refresh()
            first.close()
            assert service_manager(table).service() == (taken,)
            assert ask(table, 7) == {"k": 7, "v": "value 7"}
    assert service_manager(table).service() is None


def test_the_address_of_a_service_that_crashed_is_replaced(lake: FilesystemCatalog, table: Table) -> None:
    service_manager(table).reset_service([GONE])
    with service(lake) as running:
        address = running.start()
        assert service_manager(table).service() == (address,)


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_an_address_that_was_removed_is_registered_again(
    lake: FilesystemCatalog, table: Table, damage: str
) -> None:
    with service(lake) as running:
        address = running.start()
        if damage == "removed":
            service_manager(table).delete_service()
        else:
            lake.file_io.overwrite(f"{table.path}/service/service-primary-key-lookup", b'["127.0')
        running.refresh()
        assert service_manager(table).service() == (address,)


def test_it_goes_on_while_storage_fails(lake: FilesystemCatalog, table: Table) -> None:
    """It answers what it knows, says since when, and recovers."""
    broken = threading.Event()

    def load() -> Table:
        if broken.is_set():
            raise UnavailableError("the store does not answer")
        return lake.load_table("d.k")

    with QueryService(load, ServiceOptions(health_port=0), lake.clock) as running:
        running.start()
        assert get(running.health_address, "/health")[0] == 200
        broken.set()
        put(table, [{"k": 7, "v": "new"}])
        for _ in range(5):
            running.refresh()
            lake.clock.sleep(20)
        status, text = get(running.health_address, "/health")
        assert status == 503
        found = json.loads(text)
        assert found.pop("refreshed_seconds_ago") >= 100
        assert found == {
            "table": "d.k",
            "state": "stale",
            "snapshot": 1,
            "error": "the store does not answer",
        }
        assert ask(table, 7) == {"k": 7, "v": "value 7"}
        broken.clear()
        running.refresh()
        assert get(running.health_address, "/health")[0] == 200
        assert ask(table, 7) == {"k": 7, "v": "new"}


def test_a_table_that_is_gone_ends_the_service(lake: FilesystemCatalog, table: Table) -> None:
    there = [True]

    def load() -> Table:
        if not there[0]:
            raise NotFoundError("table d.k does not exist")
        return lake.load_table("d.k")

    with QueryService(load, clock=lake.clock) as running:
        running.start()
        there[0] = False
        running.refresh()
        running.refresh()
        with pytest.raises(NotFoundError):
            running.refresh()


def test_metrics_are_those_of_prometheus(lake: FilesystemCatalog, table: Table) -> None:
    with service(lake, health_port=0) as running:
        running.start()
        for key in (1, 2, 99):
            ask(table, key)
        status, text = get(running.health_address, "/metrics")
        assert status == 200
        families = {family.name: family for family in text_string_to_metric_families(text)}
        values = {
            sample.name.removeprefix("lakecore_query_"): sample.value
            for family in families.values()
            for sample in family.samples
            if "le" not in sample.labels
        }
        assert {sample.labels["table"] for family in families.values() for sample in family.samples} == {
            "d.k"
        }
        assert (values["requests_total"], values["keys_total"], values["found_total"]) == (3, 3, 2)
        assert (values["failures_total"], values["snapshot"]) == (0, 1)
        assert values["request_seconds_count"] == 3
        buckets = [
            (sample.labels["le"], sample.value)
            for sample in families["lakecore_query_request_seconds"].samples
            if "le" in sample.labels
        ]
        assert [name for name, _ in buckets] == [*map(str, BOUNDS), "+Inf"]
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert buckets[-1][1] == 3
        for path in ("/", "/health/", "/metrics?x=1", "/../etc/passwd"):
            assert get(running.health_address, path)[0] == 404


def test_labels_are_escaped() -> None:
    hostile = 'a"b\\c\nd'
    text = f"x{{{label('table', hostile)}}} 1\n"
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"table": hostile}


def test_run_ends_when_it_is_told_to(lake: FilesystemCatalog, table: Table) -> None:
    stop = threading.Event()
    with service(lake, interval=0.01) as running:
        running.start()
        thread = threading.Thread(target=running.run, args=(stop,))
        thread.start()
        put(table, [{"k": 7, "v": "new"}])
        for _ in range(500):
            if running.health()["snapshot"] == 2:
                break
            stop.wait(0.01)
        stop.set()
        thread.join(10)
        assert not thread.is_alive()
        assert ask(table, 7) == {"k": 7, "v": "new"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": 0.0}, "interval=0.0"),
        ({"server": ServerOptions(host="0.0.0.0")}, "advertised_host"),
        ({"server": ServerOptions(host="::")}, "advertised_host"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ServiceOptions(**options)  # type: ignore[arg-type]


def test_another_host_is_advertised(lake: FilesystemCatalog, table: Table) -> None:
    with service(lake, server=ServerOptions(host="0.0.0.0"), advertised_host="localhost") as running:
        address = running.start()
        assert address.host == "localhost"
        assert ask(table, 7) == {"k": 7, "v": "value 7"}


@pytest.mark.parametrize("mode", list(FaultMode))
def test_storage_that_fails_at_each_operation(lake: FilesystemCatalog, table: Table, mode: FaultMode) -> None:
    """Whatever fails, either the service ends with an error and without an address of its own, or it serves
    rightly; at the end its address is gone, or it is one where nobody listens.
    """
    signals = mode in (FaultMode.INTERRUPTED, FaultMode.INTERRUPTED_AFTER_EFFECT)  # to the main thread only
    for fail_at in range(1, 200):
        service_manager(table).delete_service()
        storage = FaultyFileIO(lake.file_io, fail_at, mode)
        faulty = replace(lake, file_io=storage)
        try:
            with service(faulty) as running:
                running.start()
                if not signals:
                    assert ask(table, 7) == {"k": 7, "v": "value 7"}
                running.refresh()
                if not signals:
                    assert ask(table, 7) == {"k": 7, "v": "value 7"}
        except (LakeError, OSError, KeyboardInterrupt):
            pass  # said, or killed
        if not storage.fired:
            assert service_manager(table).service() is None
            return
        with service(lake) as next_one:
            next_one.start()
            assert ask(table, 7) == {"k": 7, "v": "value 7"}
    raise AssertionError("storage did not pass clean")


def answered(address: Address, path: str) -> tuple[int, str]:
    """Ask until there is room: a connection counts until its thread has ended."""
    for _ in range(100):
        with contextlib.suppress(ConnectionError):
            return get(address, path)
        time.sleep(0.05)
    raise AssertionError("the health server has no room")


def test_connections_of_the_health_server_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers that send a byte now and then take its threads for some time only."""
    monkeypatch.setattr(health_server, "_MOST_CONNECTIONS", 2)
    monkeypatch.setattr(health_server, "_REQUEST_SECONDS", 0.5)
    server = health_server.HealthServer(Address("127.0.0.1", 0), lambda: (True, "{}"), lambda: "")
    server.start()
    where = server.address.host, server.address.port
    try:
        slow = [socket.create_connection(where, 10) for _ in range(2)]
        for one in slow:
            one.sendall(b"GET ")
        third = socket.create_connection(where, 10)
        assert third.recv(100) == b""
        assert [one.recv(100) for one in slow] == [b"", b""]
        assert answered(server.address, "/health") == (200, "{}")
        for one in (*slow, third):
            one.close()
    finally:
        server.close()


def test_a_table_of_the_same_columns_that_took_the_port(lake: FilesystemCatalog, table: Table) -> None:
    """The protocol does not name the table; rows of the other one, and keys that it does not have, would look right."""
    definition = {
        "columns": ["k INT NOT NULL", "v STRING"],
        "primaryKeys": ["k"],
        "options": dict(table.schema.options),
    }
    other = lake.create_table("d.other", definition)
    put(other, [{"k": k, "v": "wrong"} for k in range(50)])
    manager = service_manager(table)
    crashed = service(lake)
    address = crashed.start()
    identity = manager.identity([address])
    assert identity
    assert ask(table, 1) == {"k": 1, "v": "value 1"}
    crashed.close()
    manager.reset_identity([address], identity)
    manager.reset_service([address])

    options = ServiceOptions(server=ServerOptions(port=address.port))
    with QueryService(lambda: lake.load_table("d.other"), options, lake.clock) as taker:
        taker.start()
        assert ask(other, 1) == {"k": 1, "v": "wrong"}
        for key in (1, 99):
            with pytest.raises(UnavailableError, match="has taken its port"):
                ask(table, key)
        manager.reset_identity([], "")  # a service of Java has no identity, and its clients send none
        assert ask(table, 1) == {"k": 1, "v": "wrong"}
