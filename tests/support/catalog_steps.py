"""Random operations of catalogs by Java and by lakecore in turns, whose outcome is known beforehand."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from lakecore.catalog.registry import load_catalog
from lakecore.errors import LakeError
from tests.support.oracle import Oracle, OracleError

__all__ = ["Both", "step"]


class Both:
    """One warehouse, opened by Java and by lakecore, and what a reader expects of it."""

    def __init__(self, oracle: Oracle, path: Path, options: dict[str, str]) -> None:
        self.oracle, self.options = oracle, options
        self.catalog = load_catalog(path, create_warehouse=True, **options)
        path.mkdir(exist_ok=True)
        self.java = "|".join([str(path), *(f"{key}={value}" for key, value in options.items())])
        self.stores_properties = bool(options)
        hive = options.get("metastore") == "hive"
        self.databases = ("d", "e", "f") if hive else ("d", "e", "F")
        self.tables = ("t", "u", "v_w") if hive else ("t", "u", "V w")
        self.cascades = hive or not options
        self.expected: dict[str, Any] = {}
        self.done = Counter[str]()
        """How often each operation succeeded."""

    def java_runs(self, *words: str) -> bool:
        try:
            self.oracle.call("catalog", self.java, *words)
        except OracleError:
            return False
        return True

    def show(self) -> dict[str, Any]:
        """What lakecore shows, in the form of the oracle's `catalog show`."""
        found: dict[str, Any] = {}
        for name in set(self.catalog.list_databases()) - {"default"}:
            tables = {}
            for table in self.catalog.list_tables(name):
                schema = json.loads(self.catalog.load_table(f"{name}.{table}").schema.to_json())
                tables[table] = schema
            found[name] = {"properties": dict(self.catalog.get_database(name).properties), "tables": tables}
        return found

    def check(self) -> None:
        java, ours = self.oracle.call("catalog", self.java, "show"), self.show()
        java.pop("default", None)  # each Hive metastore has it
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
    database, other = chance.choice(both.databases), chance.choice(both.databases)
    table, new = chance.choice(both.tables), chance.choice(both.tables)
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
            properties = {"note": chance.choice("xy")} if both.stores_properties else {}
            words = (kind, database, json.dumps(properties), *flag)
            call = partial(catalog.create_database, database, if_not_exists=lenient, properties=properties)
            if not there:
                expected[database] = {"properties": properties, "tables": {}}
        case "alter-database":
            if not there and not ours:
                return "nothing"  # Java makes such a database
            may = lenient or there
            removed, value = chance.random() < 0.4, chance.choice("pq")
            words = (kind, database, json.dumps({"note": None} if removed else {"note": value}), *flag)
            changed, gone = ({}, ["note"]) if removed else ({"note": value}, [])
            call = partial(catalog.alter_database, database, changed, gone, if_exists=lenient)
            if there:
                own = expected[database]["properties"]
                expected[database]["properties"] = {
                    **{key: one for key, one in own.items() if key not in gone},
                    **changed,
                }
        case "drop-database":
            # Java's JDBC catalog leaves the files of the tables of a database behind.
            cascade = (ours or both.cascades) and chance.random() < 0.5
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
            if not there and not ours:
                return "nothing"  # the Hive catalog of Java 2.0 fails there, also with if-exists
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
    both.done[f"{kind} by {'lakecore' if ours else 'Java'}"] += may
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
