"""Fields of ROWs that are read alone, of tables whose ROWs were changed: Java reads the whole rows, which this
test cuts itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakecore import load_catalog
from lakecore.metadata.schema_change import AddColumn, ChangeType, DropColumn, RenameColumn
from lakecore.types.datatypes import AtomicType, TypeRoot
from tests.golden.test_row_parts import cut, paths_of
from tests.interop.evolution import ours
from tests.support.golden import canonical
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

COLUMNS = ["k INT", "n INT", "s ROW<a INT, t ROW<x STRING, y BIGINT>, l ARRAY<INT>>"]
FIRST: list[dict[str, Any]] = [
    {"k": 1, "n": 1, "s": {"a": 1, "t": {"x": "one", "y": 10}, "l": [1]}},
    {"k": 2, "n": None, "s": {"a": None, "t": {"x": None, "y": 20}, "l": None}},
    {"k": 3, "n": 3, "s": {"a": None, "t": None, "l": None}},
    {"k": 4, "n": 4, "s": None},
]
LATER: list[dict[str, Any]] = [
    {"k": 1, "n": 7, "s": None},
    {"k": 3, "n": None, "s": {"b": 5, "t": {"y": None, "z": 0.5}, "l": [2, None], "a": "new"}},
    {"k": 5, "n": 5, "s": {"b": None, "t": {"y": None, "z": None}, "l": [], "a": None}},
]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("engine", [None, "deduplicate", "partial-update", "first-row", "aggregation"])
def test_changed_rows(engine: str | None, file_format: str, oracle2: Oracle, tmp_path: Path) -> None:
    java = oracle2
    options = {"file.format": file_format, "bucket": "-1"}
    definition: dict[str, Any] = {"columns": COLUMNS, "options": options}
    if engine is not None:
        options |= {"bucket": "1", "merge-engine": engine, "write-only": "true"}
        definition["primaryKeys"] = ["k"]
    java.create(tmp_path, "d.t", definition)
    java.write(tmp_path, "d.t", FIRST)
    catalog = load_catalog(str(tmp_path))
    catalog.alter_table(
        "d.t",
        [
            RenameColumn(("s", "a"), "b"),
            ChangeType(("s", "b"), AtomicType(TypeRoot.BIGINT)),
            DropColumn(("s", "t", "x")),
            AddColumn(path=("s", "a"), type=AtomicType(TypeRoot.VARCHAR, 10)),
            AddColumn(path=("s", "t", "z"), type=AtomicType(TypeRoot.DOUBLE)),
        ],
    )
    java.write(tmp_path, "d.t", LATER)
    table = catalog.load_table("d.t")
    if engine == "first-row":  # level 0 is not read
        java.compact(tmp_path, "d.t")
    whole = [json.loads(line) for line in java.read(tmp_path, "d.t")]
    assert len(whole) > 3
    paths = list(paths_of(table.scan().row_type.field("s").type, ("s",)))
    for some in (*([path] for path in paths), paths[:1] + paths[-1:], [("s", "t", "z"), ("s", "a")]):
        expected = [{"s": cut(row["s"], [path[1:] for path in some]), "k": row["k"]} for row in whole]
        assert ours(table, columns=[*map(".".join, some), "k"]) == canonical(expected), some
