"""Java's client and our server understand each other, and so do ours and Java's server: byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore.clock import SystemClock
from lakecore.jobs import remove_orphan_files
from lakecore.lookup.query.serialized_query import SerializedQuery
from lakecore.scan.file_monitor import FileMonitor
from lakecore.service.addresses import Address
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.service.server import KvQueryServer, ServerNumber
from lakecore.service.wire.messages import LookupRequest
from lakecore.service.wire.row_codec import RowCodec
from lakecore.table import Table
from tests.support.chores import AT_ONCE
from tests.support.golden import GoldenTable, golden_tables
from tests.support.kv_service import java_answers, java_service
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

SERVERS = 3
NAMES = ("types_pk", "pk_", "part_decimal", "evo_pk")
TABLES = [
    table
    for table in golden_tables()
    if table.facts["schema"]["primaryKeys"] and any(name in table.table for name in NAMES)
]


def questions(table: Table, most: int = 200) -> list[LookupRequest]:
    """All keys of the table, asked of each of its buckets: most buckets do not have most of them."""
    codec = RowCodec(table.schema)
    rows = table.scan(columns=table.schema.trimmed_primary_keys).to_arrow()
    keys = tuple(dict.fromkeys(codec.keys_bytes(rows)))[:most]
    plan = FileMonitor(table._scanner).poll()
    assert plan is not None
    return [LookupRequest(one.partition, one.bucket, keys) for one in plan.buckets if keys]


def ask_both_ways(table: Table) -> int:
    """Compare the answers of both servers to both clients; return how many rows were found."""
    asked = questions(table)
    lines = [(one.partition, one.bucket, one.keys) for one in asked]
    with java_service(table.path, SERVERS), RemoteTableQuery(table) as remote:
        ours_of_java = [remote._client.ask(one) for one in asked]
        java_of_java = java_answers(table.path, lines)
    with SerializedQuery(table) as query:
        query.refresh()
        servers = [KvQueryServer(query, ServerNumber(n, SERVERS)) for n in range(SERVERS)]
        try:
            service_manager(table).reset_service([server.start() for server in servers])
            java_of_ours = java_answers(table.path, lines)
            with RemoteTableQuery(table) as remote:
                check_rows(table, remote, asked)
        finally:
            for server in servers:
                server.close()
    shown = [",".join("-" if row is None else row.hex() for row in answer) for answer in ours_of_java]
    assert shown == java_of_java
    assert comparable(table, java_of_ours) == comparable(table, java_of_java)
    return sum(row is not None for answer in ours_of_java for row in answer)


def comparable(table: Table, lines: list[str]) -> list[str]:
    """Answers as they are; where files are avro, as rows whose maps are sorted: Java's reader puts the entries of a map into the
    order of a hash map.
    """
    if table.schema.options.get("file.format") != "avro":
        return lines
    values = [[None if part == "-" else bytes.fromhex(part) for part in line.split(",")] for line in lines]
    return [repr(in_order(RowCodec(table.schema).found_rows(line).rows.to_pylist())) for line in values]


def in_order(value: object) -> object:
    if isinstance(value, dict):
        return {name: in_order(one) for name, one in value.items()}
    if isinstance(value, list):
        found = [in_order(one) for one in value]
        return sorted(found, key=repr) if value and all(isinstance(one, tuple) for one in value) else found
    return tuple(map(in_order, value)) if isinstance(value, tuple) else value


def check_rows(table: Table, remote: RemoteTableQuery, asked: list[LookupRequest]) -> None:
    """Rows from the network equal rows of the local query."""
    codec = RowCodec(table.schema)
    with table.new_query() as query:
        query.refresh()
        for one in asked:
            partition, keys = codec.partition_values(one.partition), codec.keys_table(one.keys)
            far = remote.lookup_in_bucket(partition, one.bucket, keys)
            near = query.lookup_in_bucket(partition, one.bucket, keys)
            assert far.matches.equals(near.matches)
            assert repr(far.rows.to_pylist()) == repr(near.rows.to_pylist())  # NaN does not equal itself


@pytest.mark.parametrize("golden", TABLES, ids=lambda table: table.name)
def test_golden_tables(golden: GoldenTable, oracle2: Oracle, tmp_path: Path) -> None:
    copy = golden.copy_to(tmp_path)
    table = lakecore.load_catalog(str(tmp_path)).load_table(copy.name)
    try:
        table.new_query().close()
    except lakecore.UnsupportedError:
        return  # which tables these are is the matter of the tests of local queries
    if table.latest_snapshot() is not None and not table.options.deletion_vectors:
        ask_both_ways(table)


def test_partitions_and_buckets(oracle2: Oracle, tmp_path: Path) -> None:
    """Each bucket is asked of the server that has it, whoever asks."""
    columns = ["p STRING NOT NULL", "k INT NOT NULL", "v ARRAY<INT>", "d DECIMAL(30, 4)", "t TIMESTAMP(9)"]
    schema = {
        "columns": columns,
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "4"},
    }
    oracle2.create(tmp_path, "d.t", schema)
    rows = [
        {
            "p": f"a longer partition {k % 5}",
            "k": k,
            "v": [k, None],
            "d": f"{k}.0001",
            "t": "1960-01-01 00:00:00.000000001",
        }
        for k in range(100)
    ]
    oracle2.write(tmp_path, "d.t", rows)
    assert ask_both_ways(lakecore.load_catalog(str(tmp_path)).load_table("d.t")) == 100


def test_a_lookup_table_asks_javas_service(oracle2: Oracle, tmp_path: Path) -> None:
    """Keys of all partitions and buckets are asked of Java's servers; the rows are those of a merged read."""
    schema = {
        "columns": ["p STRING NOT NULL", "k INT NOT NULL", "v STRING", "d DECIMAL(30, 4)"],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "4"},
    }
    oracle2.create(tmp_path, "d.t", schema)
    rows = [{"p": f"p{k % 3}", "k": k, "v": f"value {k}", "d": f"{k}.0001"} for k in range(200)]
    oracle2.write(tmp_path, "d.t", rows)
    table = lakecore.load_catalog(str(tmp_path)).load_table("d.t")
    kind = pa.schema([("p", pa.string()), ("k", pa.int32())])
    keys = pa.Table.from_pylist([{"p": f"p{k % 4}", "k": k} for k in range(210)], kind)
    expected = sorted(map(str, table.scan().to_arrow().to_pylist()))
    with java_service(table.path, SERVERS), table.new_lookup(["k", "p"]) as lookup:
        asked = pa.Table.from_pylist([{"p": row["p"], "k": row["k"]} for row in rows], kind)
        found = lookup.lookup(asked).drop_columns(["_KEY_ROW"])
        assert sorted(map(str, found.to_pylist())) == expected
        assert lookup.lookup(keys).num_rows == sum(k % 4 == k % 3 for k in range(200))
        assert lookup.kind == "service"


def test_java_sees_failures_and_new_values(oracle2: Oracle, tmp_path: Path) -> None:
    oracle2.create(
        tmp_path,
        "d.t",
        {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    )
    oracle2.write(tmp_path, "d.t", [{"k": 1, "v": "a"}])
    table = lakecore.load_catalog(str(tmp_path)).load_table("d.t")
    (asked,) = questions(table)
    line = [(asked.partition, asked.bucket, asked.keys)]
    with SerializedQuery(table) as query:
        query.refresh()
        server = KvQueryServer(query)
        with server:
            service_manager(table).reset_service([server.start()])
            before = java_answers(table.path, line)
            oracle2.write(tmp_path, "d.t", [{"k": 1, "v": "a new value, which is longer"}])
            query.refresh()
            after = java_answers(table.path, line)
            assert before != after
            assert b"a new value, which is longer".hex() in after[0]
            query.close()
            (failed,) = java_answers(table.path, line)
            assert (
                "java.lang.RuntimeException: The lookup failed; the log of the server has the cause."
                in failed
            )


def test_orphan_removal_and_fsck_spare_the_addresses(oracle2: Oracle, tmp_path: Path) -> None:
    oracle2.create(
        tmp_path,
        "d.t",
        {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    )
    oracle2.write(tmp_path, "d.t", [{"k": 1, "v": "a"}])
    lake = lakecore.load_catalog(str(tmp_path))
    table = lake.load_table("d.t")
    manager = service_manager(table)
    manager.reset_service([Address("127.0.0.1", 1234)])
    later = 4_000_000_000_000
    oracle2.call("remove-orphan-files", tmp_path, "d.t", "--older-than", later)
    ours = remove_orphan_files.Job(table="d.t", older_than_ms=SystemClock().now_ms() - 1, safety=AT_ONCE)
    assert remove_orphan_files.run(ours, lake).nothing_to_do
    assert manager.service() == (Address("127.0.0.1", 1234),)
    report = oracle2.fsck(tmp_path, "d.t")
    assert not report["errors"], json.dumps(report)
