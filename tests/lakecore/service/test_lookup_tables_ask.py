"""Lookup tables ask the query service of their table, and go on without it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.lookup.tables.lookup_table import KEY_ROW
from lakecore.service.addresses import Address
from lakecore.service.connection import ClientOptions
from lakecore.service.query_service import QueryService, ServiceOptions
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.table import Table
from tests.support.lake import key_table, memory_catalog, put

ALWAYS = {"continuous.discovery-interval": "0 s"}
QUICK = ClientOptions(answer_seconds=5, first_wait=0.01, tries=2)
COLUMNS = ("p STRING", "k INT", "v STRING")
ROWS = [{"p": "ab"[k % 2], "k": k, "v": f"value {k}"} for k in range(60)]


@pytest.fixture
def lake() -> FilesystemCatalog:
    return memory_catalog("lookup-service")


@pytest.fixture
def table(lake: FilesystemCatalog) -> Table:
    table = key_table(lake, COLUMNS, keys=("p", "k"), partitions=("p",), bucket="3")
    put(table, ROWS)
    return table


@pytest.fixture
def running(lake: FilesystemCatalog, table: Table) -> Iterator[QueryService]:
    with QueryService(lambda: lake.load_table(table.name), ServiceOptions(), lake.clock) as service:
        service.start()
        yield service


def some_keys(count: int = 70) -> pa.Table:
    rows = [{"p": "ab"[k % 2], "k": k} for k in range(count)] + [{"p": None, "k": 1}, {"p": "c", "k": 1}]
    return pa.Table.from_pylist(rows, pa.schema([("p", pa.string()), ("k", pa.int32())]))


def wait_for_keys(running: QueryService, count: int) -> None:
    """A server counts an answer once it is sent."""
    for _ in range(1000):
        if running.figures.keys >= count:
            break
        time.sleep(0.01)
    assert running.figures.keys == count


def test_keys_of_all_buckets_at_once(running: QueryService, table: Table) -> None:
    keys = some_keys()
    with RemoteTableQuery(table, QUICK) as remote, table.new_query() as local:
        local.refresh()
        far, near = remote.lookup_table(keys), local.lookup_table(keys)
        assert far.matches.equals(near.matches)
        assert far.rows.equals(near.rows)
        assert sum(far.matches.to_pylist()) == 60
        assert remote.lookup_table(keys.slice(0, 0)).rows.num_rows == 0
    wait_for_keys(running, 71)
    assert running.figures.requests == 7  # three buckets of each of two partitions, and one of another


def test_more_keys_than_a_request_has(running: QueryService, table: Table) -> None:
    keys = some_keys(20_000)
    with RemoteTableQuery(table, QUICK) as remote:
        assert sum(remote.lookup_table(keys).matches.to_pylist()) == 60


def test_a_lookup_table_asks_the_service(running: QueryService, table: Table) -> None:
    with table.new_lookup(["k", "p"], columns=["v"], where="k < 50", options=ALWAYS) as lookup:
        assert lookup.kind == "service"
        assert lookup.snapshot_id is None
        rows = lookup.lookup(some_keys()).to_pylist()
        assert rows == [{KEY_ROW: k, "v": f"value {k}"} for k in range(50)]
        wait_for_keys(running, 71)
        put(table, [{"p": "a", "k": 0, "v": "new"}])
        running.refresh()
        assert lookup.lookup_key(0, "a") == [{"v": "new"}]


def test_it_reads_files_once_the_service_is_gone(running: QueryService, table: Table) -> None:
    with table.new_lookup(["p", "k"], options=ALWAYS) as lookup:
        lookup._cache._query._client._options = QUICK  # type: ignore[union-attr]
        assert len(lookup.lookup(some_keys())) == 60
        running.close()
        put(table, [{"p": "a", "k": 0, "v": "new"}])
        assert lookup.lookup_key("a", 0) == [{"p": "a", "k": 0, "v": "new"}]
        assert lookup.kind == "partial"
        assert lookup.snapshot_id == 2


def test_threads_go_on_while_the_service_ends(running: QueryService, table: Table) -> None:
    def ask() -> int:
        return sum(len(lookup.lookup(some_keys())) for _ in range(20))

    with table.new_lookup(["p", "k"], options=ALWAYS) as lookup:
        lookup._cache._query._client._options = QUICK  # type: ignore[union-attr]
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(ask) for _ in range(4)]
            running.close()
            assert [one.result() for one in asked] == [20 * 60] * 4
        assert lookup.kind == "partial"


def test_an_address_where_nobody_listens(table: Table) -> None:
    service_manager(table).reset_service([Address("127.0.0.1", 1)])
    with table.new_lookup(["p", "k"], options=ALWAYS) as lookup:
        assert lookup.kind == "service"
        lookup._cache._query._client._options = QUICK  # type: ignore[union-attr]
        assert len(lookup.lookup(some_keys())) == 60
        assert lookup.kind == "partial"


def test_the_service_of_another_table_listens_there(lake: FilesystemCatalog, table: Table) -> None:
    """It took the port of a service that ended. Its rows are no answer, for they have other keys."""
    columns = ["v STRING", "k INT", "p STRING"]
    options = {"bucket": "3", "write-only": "true"}
    definition = {"columns": columns, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": options}
    other = lake.create_table("d.other", definition)
    put(other, [row | {"v": "of the other table"} for row in ROWS])
    with QueryService(lambda: lake.load_table("d.other"), ServiceOptions(), lake.clock) as service:
        service_manager(table).reset_service([service.start()])
        with (
            RemoteTableQuery(table, QUICK) as remote,
            pytest.raises(CorruptDataError, match="rows of other keys"),
        ):
            remote.lookup_table(some_keys())
        with table.new_lookup(["p", "k"], options=ALWAYS) as lookup:
            assert lookup.kind == "service"
            assert [row["v"] for row in lookup.lookup(some_keys()).to_pylist()] == [row["v"] for row in ROWS]
            assert lookup.kind == "partial"


def test_a_new_schema_ends_the_use_of_the_service(
    lake: FilesystemCatalog, running: QueryService, table: Table
) -> None:
    with table.new_lookup(["p", "k"], options=ALWAYS) as lookup:
        lake.alter_table(table.name, [{"op": "set", "key": "snapshot.num-retained.min", "value": "7"}])
        assert len(lookup.lookup(some_keys())) == 60
        assert lookup.kind == "partial"
    with table.new_lookup(["p", "k"], options=ALWAYS) as lookup:
        assert lookup.kind == "partial"
    with lake.load_table(table.name).new_lookup(["p", "k"], options=ALWAYS) as lookup:
        assert lookup.kind == "service"


def test_buckets_that_only_files_tell(lake: FilesystemCatalog, running: QueryService, table: Table) -> None:
    """A partition may still have the number of buckets of an earlier schema."""
    lake.alter_table(table.name, [{"op": "set", "key": "bucket", "value": "4"}])
    changed = lake.load_table(table.name)
    with changed.new_lookup(["p", "k"], options=ALWAYS) as lookup:
        assert lookup.kind == "partial"
        assert len(lookup.lookup(some_keys())) == 60
    with (
        RemoteTableQuery(changed, QUICK) as remote,
        pytest.raises(UnsupportedError, match="bucket=4: the buckets of keys are not known"),
    ):
        remote.lookup_table(some_keys())


def test_lookups_that_the_service_cannot_answer(running: QueryService, table: Table) -> None:
    for on, options in (
        (["v"], {}),
        (["p", "k"], {"lookup.cache": "full"}),
        (["p", "k"], {"lookup.cache": "memory"}),
    ):
        with table.new_lookup(on, options=ALWAYS | options) as lookup:
            assert lookup.kind == "full"
