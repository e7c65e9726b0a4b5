"""The command `query-service --servers 2`: each process serves its buckets, Java's client finds both, and a process that is killed
comes back.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import pyarrow as pa
import pytest

import lakecore
from lakecore.lookup.query.key_reader import KeyReader
from lakecore.service.connection import ClientOptions
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.service.wire.row_codec import RowCodec
from lakecore.table import Table
from tests.interop.test_query_service_process import started
from tests.support.kv_service import java_answers
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

KEYS = pa.table({"k": pa.array(range(60), pa.int32())})


@pytest.fixture
def table(oracle2: Oracle, tmp_path: Path) -> Table:
    schema = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "4"}}
    oracle2.create(tmp_path, "d.t", schema)
    write(oracle2, tmp_path, "0")
    return lakecore.load_catalog(str(tmp_path)).load_table("d.t")


def write(oracle: Oracle, warehouse: Path, value: str) -> None:
    oracle.write(warehouse, "d.t", [{"k": k, "v": value} for k in range(KEYS.num_rows)])


def java_values(table: Table) -> set[str]:
    """What Java's client gets for all keys, which it asks for bucket by bucket."""
    codec = RowCodec(table.schema)
    shares = KeyReader(table.name, table.schema, table.options).fixed_shares(KEYS, 4)
    asked = [(place[0], place[1], codec.keys_bytes(KEYS.take(pa.array(rows)))) for place, rows in shares]
    parts = [part for line in java_answers(table.path, asked) for part in line.split(",")]
    assert len(parts) == KEYS.num_rows
    rows = codec.found_rows([None if part == "-" else bytes.fromhex(part) for part in parts]).rows
    return {row["v"] for row in rows.to_pylist()}


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [one for one in map(int, found) if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def test_processes_share_the_buckets(table: Table, oracle2: Oracle, tmp_path: Path) -> None:
    process, said = started(tmp_path, "--servers", "2", "--health-port", "0")
    try:
        registered = [str(one) for one in service_manager(table).service() or ()]
        assert registered == said["addresses"]
        assert len(set(registered)) == 2
        assert java_values(table) == {"0"}
        write(oracle2, tmp_path, "1")
        until_served(said["health"], 2)
        assert java_values(table) == {"1"}

        lost = children(process.pid)[0]
        os.kill(lost, signal.SIGKILL)
        with RemoteTableQuery(table, ClientOptions(first_wait=0.05, longest_wait=0.2, tries=600)) as remote:
            assert set(remote.lookup_table(KEYS).rows.column("v").to_pylist()) == {"1"}
        assert lost not in children(process.pid)
        assert java_values(table) == {"1"}

        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, text
    assert service_manager(table).service() is None


def test_servers_end_when_the_command_is_killed(table: Table, tmp_path: Path) -> None:
    process, _ = started(tmp_path, "--servers", "2")
    servers = children(process.pid)
    process.kill()
    process.communicate()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{one}").exists() for one in servers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [one for one in servers if Path(f"/proc/{one}").exists()]


def until_served(health: str, snapshot: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(HTTPError), urllib.request.urlopen(f"http://{health}/health", timeout=10) as answer:
            if all(one["snapshot"] == snapshot for one in json.load(answer)["servers"]):
                return
        time.sleep(0.02)
    raise AssertionError(f"the servers did not reach snapshot {snapshot}")
