"""The command `query-service` in a process of its own: Java's client asks it, and it is stopped and killed while clients ask."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lakecore
from lakecore.errors import LakeError
from lakecore.row.binary_row import EMPTY_ROW
from lakecore.service.connection import ClientOptions
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.service.wire.row_codec import RowCodec
from lakecore.table import Table
from tests.support.kv_service import java_answers
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

LAKECORE = str(Path(sys.executable).with_name("lakecore"))
KEYS = 40
KILLS = 4


@pytest.fixture
def table(oracle2: Oracle, tmp_path: Path) -> Table:
    schema = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    oracle2.create(tmp_path, "d.t", schema)
    oracle2.write(tmp_path, "d.t", [{"k": k, "v": "0"} for k in range(KEYS)])
    return lakecore.load_catalog(str(tmp_path)).load_table("d.t")


def started(warehouse: Path, *more: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A service that answers, and what it printed."""
    command = [LAKECORE, "--warehouse", str(warehouse), "--json"]
    process = subprocess.Popen(
        [*command, "query-service", "d.t", "--interval", "0.05", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate()[1])
    return process, json.loads(line)


@contextmanager
def service(warehouse: Path, *more: str) -> Iterator[dict[str, str]]:
    process, said = started(warehouse, *more)
    try:
        yield said
    finally:
        process.kill()
        process.communicate()


def java_values(table: Table) -> list[str]:
    """What Java's client gets for each key."""
    codec = RowCodec(table.schema)
    keys = codec.keys_bytes(table.scan(columns=["k"]).to_arrow().sort_by("k"))
    (line,) = java_answers(table.path, [(EMPTY_ROW, 0, keys)])
    rows = codec.found_rows([None if part == "-" else bytes.fromhex(part) for part in line.split(",")]).rows
    return [row["v"] for row in rows.to_pylist()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_javas_client_asks_the_command_and_a_signal_ends_it(
    table: Table, oracle2: Oracle, tmp_path: Path, number: signal.Signals
) -> None:
    process, said = started(tmp_path, "--health-port", "0")
    try:
        assert [str(one) for one in service_manager(table).service() or ()] == [said["address"]]
        assert java_values(table) == ["0"] * KEYS
        oracle2.write(tmp_path, "d.t", [{"k": k, "v": "1"} for k in range(KEYS)])
        until_snapshot(said["health"], 2)
        assert java_values(table) == ["1"] * KEYS
        process.send_signal(number)
        _, text = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, text
    assert "has ended" in text
    assert service_manager(table).service() is None


def until_snapshot(health: str, snapshot: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with urllib.request.urlopen(f"http://{health}/health", timeout=10) as answer:
            if json.load(answer)["snapshot"] == snapshot:
                return
        time.sleep(0.02)
    raise AssertionError(f"the service did not reach snapshot {snapshot}")


def test_services_are_killed_while_clients_ask_and_java_writes(
    table: Table, oracle2: Oracle, tmp_path: Path
) -> None:
    """Each answer is a value that was current at some moment between the question and the answer, or the one that was
    current when the service began to follow; a client waits until the next service runs, and never sees an error.
    """
    options = ClientOptions(answer_seconds=30, first_wait=0.05, longest_wait=0.2, tries=900)
    written, ended, wrong, asked = [0], threading.Event(), [], [0] * 3

    def ask(seed: int) -> None:
        order, seen = random.Random(seed), {}
        try:
            with RemoteTableQuery(table, options) as remote:
                while not ended.is_set():
                    key = order.randrange(KEYS)
                    row = remote.lookup((), 0, (key,))
                    newest = written[0]
                    asked[seed] += 1
                    value = -1 if row is None else int(str(row["v"]))
                    if not seen.get(key, 0) <= value <= newest:
                        wrong.append((key, value, newest, seen.get(key)))
                    seen[key] = value
        except (LakeError, AssertionError) as err:
            wrong.append(err)

    process, _ = started(tmp_path)
    clients = [threading.Thread(target=ask, args=(seed,)) for seed in range(3)]
    for client in clients:
        client.start()
    chance = random.Random(11)
    try:
        for kill in range(KILLS):
            for _ in range(3):
                written[0] += 1  # before the commit: it may be seen as soon as it is there
                oracle2.write(tmp_path, "d.t", [{"k": k, "v": str(written[0])} for k in range(KEYS)])
                if chance.random() < 0.5:
                    oracle2.compact(tmp_path, "d.t", full=True)
            until_each_asks_again(asked, wrong)
            process.send_signal(signal.SIGKILL if kill % 2 else signal.SIGTERM)
            process.communicate()
            process, said = started(tmp_path, "--health-port", "0")
        until_snapshot(said["health"], table.latest_snapshot().id)  # type: ignore[union-attr]
        with RemoteTableQuery(table, options) as remote:
            for key in range(KEYS):
                assert remote.lookup((), 0, (key,)) == {"k": key, "v": str(written[0])}
    finally:
        ended.set()
        for client in clients:
            client.join()
        process.kill()
        process.communicate()
    assert not wrong


def until_each_asks_again(asked: list[int], wrong: list[object]) -> None:
    """Wait until each client got ten more answers: then the kill finds them at work, also on a busy machine."""
    goals = [number + 10 for number in asked]
    end = time.monotonic() + 120
    while not wrong and time.monotonic() < end:
        if all(number >= goal for number, goal in zip(asked, goals, strict=True)):
            return
        time.sleep(0.01)
    raise AssertionError(f"the clients got {asked} answers of {goals}: {wrong}")


def test_what_a_user_can_get_wrong(table: Table, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")

    def refusal(*more: str) -> str:
        command = [
            LAKECORE,
            "--warehouse",
            str(tmp_path),
            "query-service",
            "d.t",
            *more,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    with service(tmp_path, "--token-file", str(token)) as said:
        assert "runs already" in refusal()
        port = said["address"].rpartition(":")[2]
        assert "choose another" in refusal("--port", port, "--replace")
        with RemoteTableQuery(table, ClientOptions(token="secret", tries=2)) as remote:
            assert remote.lookup((), 0, (1,)) == {"k": 1, "v": "0"}
        with RemoteTableQuery(table, ClientOptions(tries=2)) as remote, pytest.raises(LakeError):
            remote.lookup((), 0, (1,))
    assert "advertised" in refusal("--host", "0.0.0.0")
    assert "cannot be read" in refusal("--token-file", str(tmp_path / "none"))
    token.write_text(" \n")
    assert "is empty" in refusal("--token-file", str(token))
