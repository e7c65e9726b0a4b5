"""A long-lived catalog with a cache, while Java writes, compacts, expires, rolls back, and replaces the table by another."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.catalog.registry import load_catalog
from lakecore.row.json_rows import batch_to_json
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError
from tests.support.rest_server import TOKEN, rest_server

pytestmark = pytest.mark.slow

STEPS = 60
SCHEMAS: list[dict[str, Any]] = [
    {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "2", "manifest.merge-min-count": "2"}},
    {"columns": ["k INT", "v STRING"], "options": {"bucket": "-1"}},
    {
        "columns": ["k INT", "v STRING"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
]  # fmt: skip


def rows(catalog: FilesystemCatalog, name: str) -> list[str]:
    scan = catalog.load_table(name).scan()
    return canonical(line for one in scan.to_batches() for line in batch_to_json(one, scan.row_type))


def change(java: Oracle, warehouse: Path, chance: random.Random) -> str:
    """One change of `d.t` by Java; what it refuses changes nothing."""
    number = chance.randint(1, 6)
    data = [{"k": chance.randrange(9), "v": chance.choice("xyz")} for _ in range(3)]
    changes: dict[str, Callable[[], Any]] = {
        "write": lambda: java.write(warehouse, "d.t", data),
        "compact": lambda: java.compact(warehouse, "d.t", full=True),
        "expire": lambda: java.call(
            "expire-snapshots", warehouse, "d.t", "--retain-max", 1, "--retain-min", 1, "--older-than", 0
        ),
        "rollback": lambda: java.call("rollback", warehouse, "d.t", "--snapshot", number),
        "again": lambda: java.call("drop", warehouse, "d.t"),
    }
    kind = chance.choice(["write", "write", "write", *changes])
    try:
        changes[kind]()
        if kind == "again":
            java.create(warehouse, "d.t", chance.choice(SCHEMAS))
    except OracleError:
        return "refused"
    return kind


def test_rows_are_those_of_java_after_each_of_its_changes(oracle: Oracle, tmp_path: Path) -> None:
    chance = random.Random(15)
    oracle.create(tmp_path, "d.t", SCHEMAS[0])
    catalog = load_catalog(tmp_path, **{"cache-enabled": "true"})
    assert isinstance(catalog, FilesystemCatalog)
    seen = set()
    for _ in range(STEPS):
        seen.add(change(oracle, tmp_path, chance))
        assert rows(catalog, "d.t") == oracle.read(tmp_path, "d.t"), seen
    assert seen == {"write", "compact", "expire", "rollback", "again", "refused"}
    assert catalog.manifest_cache is not None
    assert len(catalog.manifest_cache) > 20


@pytest.mark.parametrize("kind", ["rest", "jdbc"])
def test_other_catalogs_have_it_too(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db"}
    if kind == "rest":
        uri = rest_server(oracle.version, str(tmp_path))
        options = {"metastore": "rest", "uri": uri, "token.provider": "bear", "token": TOKEN}
    warehouse = tmp_path.name if kind == "rest" else str(tmp_path)
    catalog: Any = load_catalog(warehouse, **options, **{"cache-enabled": "true"})
    words = {"warehouse": warehouse, **options}
    java = "|".join([str(tmp_path), *(f"{key}={value}" for key, value in words.items())])
    catalog.create_database("d")
    for number in range(3):
        if not catalog.table_exists("d.t"):
            catalog.create_table("d.t", SCHEMAS[0])
        for value in "xy":
            oracle.write(java, "d.t", [{"k": number, "v": value}])
            for _ in range(2):
                assert rows(catalog, "d.t") == oracle.read(java, "d.t")
                assert sorted(rows(catalog, "d.t"))[-1:] == [f'{{"k": {number}, "v": "{value}"}}']
        if number == 1:
            catalog.drop_table("d.t", purge=True)
    assert len(catalog.manifest_cache) > 6
