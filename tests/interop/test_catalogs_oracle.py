"""Java's catalogs and lakecore's on one warehouse in turns: after each step both show the same databases,
properties, tables and schemas, and both refuse the same operations. LAKECORE_CATALOG_SEQUENCES: how many, from the
number LAKECORE_CATALOG_FIRST on.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog
from lakecore.errors import UnavailableError
from tests.support.catalog_steps import Both, step
from tests.support.lake import rows_of
from tests.support.oracle import Oracle, OracleError, findings
from tests.support.sql_servers import SqlServers, options_of

pytestmark = pytest.mark.slow

SEQUENCES = int(os.environ.get("LAKECORE_CATALOG_SEQUENCES", "6"))
FIRST = int(os.environ.get("LAKECORE_CATALOG_FIRST", "0"))
STEPS = 12


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("kind", ["filesystem", "sqlite", "postgresql", "mariadb"])
def test_both_see_the_same_after_each_step(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers, kind: str, version: str
) -> None:
    total, count = Counter[str](), SEQUENCES if kind != "mariadb" else max(1, SEQUENCES // 6)
    for number in range(FIRST, FIRST + count):
        chance = random.Random(f"{kind} {version} {number}")
        path = tmp_path / str(number)
        both = Both(oracles[version], path, options_of(kind, tmp_path, servers))
        done = []
        for _ in range(STEPS):
            done.append(step(both, chance))
            try:
                both.check()
            except AssertionError as err:
                raise AssertionError(f"sequence {number} after {done}: {err}") from err
        total += both.done
        both.catalog.close()
        shutil.rmtree(path)
    succeeded = dict(sorted(total.items()))
    print(
        f"{kind} {version}: {count} sequences from {FIRST} on of {STEPS} operations, of which succeeded: {succeeded}"
    )
    assert sum(total.values()) > count


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_the_rows_of_the_database_are_those_of_java(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers, kind: str, version: str
) -> None:
    """The same operations by either leave the same rows in Paimon's tables."""
    from sqlalchemy import text

    schema = {
        "columns": ["k INT NOT NULL", "v STRING", "p STRING NOT NULL"],
        "primaryKeys": ["k", "p"],
        "partitionKeys": ["p"],
        "options": {"bucket": "2", "file.format": "orc"},
    }
    change = [
        {"op": "set", "key": "snapshot.time-retained", "value": "5 h"},
        {"op": "unset", "key": "file.format"},
    ]
    found = []
    for who in ("java", "lakecore"):
        path = tmp_path / "wh"
        both = Both(oracles[version], path, options_of(kind, tmp_path, servers))
        if who == "java":
            for words in (
                ("create-database", "d", '{"owner": "x"}'),
                ("alter-database", "d", '{"owner": "y", "more": "z"}'),
                ("create", "d.t", json.dumps(schema)),
                ("create", "d.gone", json.dumps(schema)),
                ("alter", "d.t", json.dumps(change)),
                ("rename", "d.t", "d.u"),
                ("drop", "d.gone"),
            ):
                assert both.java_runs(*words), words
        else:
            both.catalog.create_database("d", properties={"owner": "x"})
            both.catalog.alter_database("d", {"owner": "y", "more": "z"})
            both.catalog.create_table("d.t", schema)
            both.catalog.create_table("d.gone", schema)
            both.catalog.alter_table("d.t", change)
            both.catalog.rename_table("d.t", "d.u")
            both.catalog.drop_table("d.gone")
        assert isinstance(both.catalog, JdbcCatalog)
        with both.catalog.connection.transaction("look") as database:
            found.append(
                {
                    table: sorted(map(tuple, database.execute(text(f"SELECT * FROM {table}"))))
                    for table in (
                        "paimon_tables",
                        "paimon_database_properties",
                        "paimon_table_properties",
                        "paimon_distributed_locks",
                    )
                }
            )
        both.catalog.close()
        shutil.rmtree(path)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("sqlite", "1.4.2"),
        ("sqlite", "2.0.0"),
        ("postgresql", "1.4.2"),
        ("postgresql", "2.0.0"),
        ("mariadb", "2.0.0"),
    ],
)
def test_no_commit_under_the_lock_is_lost(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers, kind: str, version: str
) -> None:
    """Both append at once, without the settle time that lakecore needs beside Java where there is no lock."""
    rounds = int(os.environ.get("LAKECORE_LOCK_ROUNDS", "25" if kind != "mariadb" else "12"))
    oracle = oracles[version]
    both = Both(oracle, tmp_path / "wh", options_of(kind, tmp_path, servers))
    both.catalog.create_database("d")
    options = {
        "lakecore.commit.settle-time": "0 ms",
        "bucket": "-1",
        "write-only": "true",
        "commit.max-retries": "200",
    }
    both.catalog.create_table("d.t", {"columns": ["v INT", "who STRING"], "options": options})
    failures: list[BaseException] = []

    def write() -> None:
        try:
            table = both.catalog.load_table("d.t")
            for number in range(rounds):
                table.append(pa.table({"v": pa.array([number], pa.int32()), "who": ["lakecore"]}))
        except BaseException as err:  # noqa: BLE001 - of a thread
            failures.append(err)

    writer = threading.Thread(target=write)
    writer.start()
    for number in range(rounds):
        oracle.write(both.java, "d.t", [{"v": number, "who": "java"}])
    writer.join()
    assert failures == []
    table = both.catalog.load_table("d.t")
    expected = sorted((number, who) for number in range(rounds) for who in ("java", "lakecore"))
    assert sorted(rows_of(table)) == expected
    assert len(oracle.read(both.java, "d.t")) == len(expected)
    found = findings(oracle.fsck(both.java, "d.t"))
    # What a commit wrote that lost a race may be left; it does no harm.
    assert {one for one in found if not one.startswith("orphan: manifest")} == set()
    assert len(list(table.snapshots())) == 2 * rounds


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_lock_of_a_dead_owner_is_taken_over_by_both(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers, kind: str
) -> None:
    from sqlalchemy import text

    given = {
        **options_of(kind, tmp_path, servers),
        "lock-acquire-timeout": "4 s",
        "lock-check-max-sleep": "100 ms",
    }
    both = Both(oracles["2.0.0"], tmp_path / "wh", given)
    both.catalog.create_database("d")
    both.catalog.create_table("d.t", {"columns": ["v INT"], "options": {"bucket": "-1"}})

    def die(seconds: int) -> None:
        with both.catalog.connection.transaction("die") as database:
            database.execute(
                text(
                    "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES ('jdbc.d.t', :s)"
                ),
                {"s": seconds},
            )

    die(1)
    both.catalog.load_table("d.t").append(pa.table({"v": pa.array([1], pa.int32())}))
    die(1)
    oracles["2.0.0"].write(both.java, "d.t", [{"v": 2}])
    die(3600)
    # Java waits as long as this in each of its eleven tries
    hasty = Both(oracles["2.0.0"], tmp_path / "wh", {**given, "lock-acquire-timeout": "200 ms"})
    with pytest.raises(UnavailableError, match=r"jdbc.d.t: another writer held it for longer than"):
        hasty.catalog.load_table("d.t").append(pa.table({"v": pa.array([3], pa.int32())}))
    with pytest.raises(OracleError, match="Acquire lock failed"):
        oracles["2.0.0"].write(hasty.java, "d.t", [{"v": 4}])
    assert rows_of(both.catalog.load_table("d.t")) == [(1,), (2,)]
