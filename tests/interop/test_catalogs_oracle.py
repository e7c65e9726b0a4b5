"""Java's catalogs and lakecore's on one warehouse in turns: after each step both show the same databases,
properties, tables and schemas, and both refuse the same operations. LAKECORE_CATALOG_SEQUENCES: how many.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog
from lakecore.catalog.registry import load_catalog
from lakecore.errors import LakeError, UnavailableError
from tests.support.lake import rows_of
from tests.support.oracle import Oracle, OracleError, findings
from tests.support.postgres import PASSWORD, PostgresServer, postgres_server

pytestmark = pytest.mark.slow

SEQUENCES = int(os.environ.get("LAKECORE_CATALOG_SEQUENCES", "6"))
STEPS = 12
DATABASES, TABLES = ("d", "e", "F"), ("t", "u", "V w")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


class Both:
    """One warehouse, opened by Java and by lakecore, and what a reader expects of it."""

    def __init__(self, oracle: Oracle, path: Path, options: dict[str, str]) -> None:
        self.oracle, self.options = oracle, options
        self.catalog = load_catalog(path, create_warehouse=True, **options)
        path.mkdir(exist_ok=True)
        self.java = "|".join([str(path), *(f"{key}={value}" for key, value in options.items())])
        self.stores_properties = bool(options)
        self.expected: dict[str, Any] = {}

    def java_runs(self, *words: str) -> bool:
        try:
            self.oracle.call("catalog", self.java, *words)
        except OracleError:
            return False
        return True

    def show(self) -> dict[str, Any]:
        """What lakecore shows, in the form of the oracle's `catalog show`."""
        found: dict[str, Any] = {}
        for name in self.catalog.list_databases():
            tables = {}
            for table in self.catalog.list_tables(name):
                schema = json.loads(self.catalog.load_table(f"{name}.{table}").schema.to_json())
                tables[table] = schema
            found[name] = {"properties": dict(self.catalog.get_database(name).properties), "tables": tables}
        return found

    def check(self) -> None:
        java, ours = self.oracle.call("catalog", self.java, "show"), self.show()
        for database in java.values():
            for schema in database["tables"].values():
                schema["options"].pop("path")  # Java's handle says where it is
        for shown in (java, ours):
            for database in shown.values():
                for schema in database["tables"].values():
                    schema.pop("comment", None)
        assert ours == java
        assert {name: set(one["tables"]) for name, one in ours.items()} == {
            name: set(one["tables"]) for name, one in self.expected.items()
        }
        if self.stores_properties:
            for name, one in ours.items():
                own = {key: value for key, value in one["properties"].items() if key != "location"}
                assert own == self.expected[name]["properties"]


def schema(chance: random.Random) -> dict[str, Any]:
    keyed = chance.random() < 0.5
    options = {"bucket": "1"} if keyed else {}
    if chance.random() < 0.3:
        options["file.format"] = chance.choice(["orc", "avro"])
    return {
        "columns": ["k INT NOT NULL", "v STRING", "p STRING NOT NULL"],
        "primaryKeys": ["k", "p"] if keyed else [],
        "partitionKeys": ["p"] if chance.random() < 0.4 else [],
        "options": options,
    }


def step(both: Both, chance: random.Random) -> str:
    """Do one random operation with one of the two; whether it succeeds is known beforehand."""
    ours, expected = chance.random() < 0.5, both.expected
    database, other = chance.choice(DATABASES), chance.choice(DATABASES)
    table, new = chance.choice(TABLES), chance.choice(TABLES)
    name, new_name = f"{database}.{table}", f"{other}.{new}"
    lenient = chance.random() < 0.3
    flag = ("if",) if lenient else ()
    there = database in expected
    has = there and table in expected[database]["tables"]
    catalog = both.catalog
    kinds = ["create-database", "drop-database", "create", "create", "create", "rename", "drop", "alter"]
    kind = chance.choice([*kinds, "alter-database"] if both.stores_properties else kinds)
    may: bool
    match kind:
        case "create-database":
            may = lenient or not there
            properties = {"owner": chance.choice("xy")} if both.stores_properties else {}
            words = (kind, database, json.dumps(properties), *flag)
            call = partial(catalog.create_database, database, if_not_exists=lenient, properties=properties)
            if not there:
                expected[database] = {"properties": properties, "tables": {}}
        case "alter-database":
            if not there and not ours:
                return "nothing"  # Java makes such a database
            may = lenient or there
            removed, value = chance.random() < 0.4, chance.choice("pq")
            words = (kind, database, json.dumps({"owner": None} if removed else {"owner": value}), *flag)
            changed, gone = ({}, ["owner"]) if removed else ({"owner": value}, [])
            call = partial(catalog.alter_database, database, changed, gone, if_exists=lenient)
            if there:
                own = expected[database]["properties"]
                expected[database]["properties"] = {
                    **{key: one for key, one in own.items() if key not in gone},
                    **changed,
                }
        case "drop-database":
            # Java's JDBC catalog leaves the files of the tables of a database behind.
            cascade = (ours or not both.stores_properties) and chance.random() < 0.5
            empty = there and not expected[database]["tables"]
            may = (there and (empty or cascade)) or (lenient and not there)
            words = (kind, database, *flag, *(("cascade",) if cascade else ()))
            call = partial(catalog.drop_database, database, if_exists=lenient, cascade=cascade)
            if may:
                expected.pop(database, None)
        case "create":
            if not there:
                return "nothing"  # lakecore's filesystem catalog makes the database, on purpose
            may = lenient or not has
            made = schema(chance)
            words = (kind, name, json.dumps(made), *flag)
            call = partial(catalog.create_table, name, made, if_not_exists=lenient)
            expected[database]["tables"].setdefault(table, True)
        case "rename":
            if other not in expected:
                return "nothing"  # Java 1.4 renames into databases that do not exist
            taken = new in expected[other]["tables"]
            may = (lenient and not has) or (has and not taken)
            words = (kind, name, new_name, *flag)
            call = partial(catalog.rename_table, name, new_name, if_exists=lenient)
            if has and not taken:
                expected[other]["tables"][new] = expected[database]["tables"].pop(table)
        case "drop":
            may = lenient or has
            words = (kind, name, *flag)
            call = partial(catalog.drop_table, name, if_exists=lenient)
            if has:
                del expected[database]["tables"][table]
        case _:
            may = has
            change = [{"op": "set", "key": "snapshot.time-retained", "value": f"{chance.randint(1, 9)} h"}]
            words = (kind, name, json.dumps(change))
            call = partial(catalog.alter_table, name, change)
    if not ours:
        assert both.java_runs(*words) is may, f"Java: {words}"
        return kind
    try:
        call()
        done = True
    except LakeError:
        done = False
    assert done is may, f"lakecore: {words}"
    return kind


def options_of(kind: str, tmp_path: Path, postgres: PostgresServer) -> dict[str, str]:
    if kind == "filesystem":
        return {}
    lock = {"lock.enabled": "true", "lock-check-max-sleep": "200 ms", "metastore": "jdbc"}
    if kind == "sqlite":
        return {**lock, "uri": f"jdbc:sqlite:{tmp_path}/{uuid.uuid4().hex}.db"}
    uri = postgres.fresh(uuid.uuid4().hex)
    return {**lock, "uri": uri, "jdbc.user": "lake", "jdbc.password": PASSWORD}


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("kind", ["filesystem", "sqlite", "postgresql"])
def test_both_see_the_same_after_each_step(
    oracles: dict[str, Oracle], tmp_path: Path, postgres: PostgresServer, kind: str, version: str
) -> None:
    for number in range(SEQUENCES):
        chance = random.Random(f"{kind} {version} {number}")
        path = tmp_path / str(number)
        both = Both(oracles[version], path, options_of(kind, tmp_path, postgres))
        done = []
        for _ in range(STEPS):
            done.append(step(both, chance))
            try:
                both.check()
            except AssertionError as err:
                raise AssertionError(f"sequence {number} after {done}: {err}") from err
        both.catalog.close()
        shutil.rmtree(path)


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_rows_of_the_database_are_those_of_java(
    oracles: dict[str, Oracle], tmp_path: Path, postgres: PostgresServer, kind: str, version: str
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
        both = Both(oracles[version], path, options_of(kind, tmp_path, postgres))
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


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_commit_under_the_lock_is_lost(
    oracles: dict[str, Oracle], tmp_path: Path, postgres: PostgresServer, kind: str, version: str
) -> None:
    """Both append at once, without the settle time that lakecore needs beside Java where there is no lock."""
    rounds = int(os.environ.get("LAKECORE_LOCK_ROUNDS", "25"))
    oracle = oracles[version]
    both = Both(oracle, tmp_path / "wh", options_of(kind, tmp_path, postgres))
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
    oracles: dict[str, Oracle], tmp_path: Path, postgres: PostgresServer, kind: str
) -> None:
    from sqlalchemy import text

    given = {
        **options_of(kind, tmp_path, postgres),
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
