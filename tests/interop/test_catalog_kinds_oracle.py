"""Everything that a JDBC and a REST catalog have, changed by Java and by lakecore in turns: databases, Paimon tables with tags and
branches, object tables, format tables, views and functions. After each step both show and read the same.

LAKECORE_KIND_SEQUENCES: how many random sequences of each catalog, from the number LAKECORE_KIND_FIRST on.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.registry import load_catalog
from lakecore.errors import LakeError
from tests.support.catalog_kinds import Kinds
from tests.support.oracle import Oracle, OracleError
from tests.support.rest_server import TOKEN, rest_server
from tests.support.sql_servers import SqlServers, options_of

pytestmark = pytest.mark.slow

SEQUENCES = int(os.environ.get("LAKECORE_KIND_SEQUENCES", "1"))
FIRST = int(os.environ.get("LAKECORE_KIND_FIRST", "0"))
STEPS = 16


def opened(kind: str, oracle: Oracle, path: Path, servers: SqlServers) -> Kinds:
    """A new catalog without databases. Java 1.4 has neither views nor object tables of JDBC catalogs."""
    newer = oracle.version != "1.4.2"
    if kind == "rest":
        path.mkdir(parents=True)
        options: dict[str, Any] = {"metastore": "rest", "uri": rest_server(oracle.version, str(path))}
        options |= {"token.provider": "bear", "token": TOKEN}
        catalog = load_catalog(path.name, **options, **{"lakecore.service-location": str(path / "own")})
        words = [str(path), f"warehouse={path.name}", *(f"{key}={value}" for key, value in options.items())]
        kinds = ("paimon", "paimon", "format-table", "object-table")
        external = "" if newer else "format-table"
        return Kinds(oracle, "|".join(words), catalog, kinds, True, True, remote=True, external=external)
    path.mkdir(parents=True)
    options = options_of(kind, path, servers)
    warehouse = path / "wh"
    catalog = load_catalog(warehouse, create_warehouse=True, **options)
    words = [str(warehouse), *(f"{key}={value}" for key, value in options.items())]
    kinds = ("paimon", "paimon", "object-table") if newer else ("paimon",)
    return Kinds(oracle, "|".join(words), catalog, kinds, newer, False, remote=False)


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb", "rest"])
def test_both_see_the_same_kinds_after_each_step(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers, kind: str, version: str
) -> None:
    total = Counter[str]()
    for number in range(FIRST, FIRST + SEQUENCES):
        chance, path = random.Random(f"{kind} {number}"), tmp_path / str(number)
        turns, done = opened(kind, oracles[version], path, servers), list[str]()
        turns.catalog.create_database("d")
        turns.databases.add("d")
        for _ in range(STEPS):
            try:
                done.append(turns.step(chance))
                turns.check(chance)
            except (AssertionError, OracleError, LakeError) as err:
                raise AssertionError(f"sequence {number} after {done}: {err}") from err
        total += turns.done
        turns.catalog.close()
        shutil.rmtree(path)
    succeeded = dict(sorted(total.items()))
    print(
        f"{kind} {version}: {SEQUENCES} sequences from {FIRST} on of {STEPS} operations, of which succeeded: {succeeded}"
    )
    assert sum(total.values()) > STEPS // 4 * SEQUENCES
