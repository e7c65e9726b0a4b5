"""ALTER next to Java Paimon's: twin tables that get the same changes have the same schemas, rows and refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.column_text import parse_type_text
from lakecore.catalog.filesystem import load_catalog
from lakecore.catalog.type_change import can_change, needs_a_zone
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.read.columns.evolve import evolve
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataType
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError, findings

pytestmark = pytest.mark.slow

Change = Mapping[str, Any]


def change(op: str, name: Any = None, **more: Any) -> Change:
    named = {} if name is None else {"name": name}
    return {"op": op, **named, **more}


def option(key: str, value: str) -> Change:
    return change("set", key=key, value=value)


class Twins:
    """Two tables of one definition: `d.java`, altered by Java, and `d.ours`."""

    def __init__(self, oracle: Oracle, warehouse: Path, definition: Mapping[str, Any]) -> None:
        self.oracle = oracle
        self.warehouse = warehouse
        self.catalog = load_catalog(warehouse)
        for name in ("d.java", "d.ours"):
            oracle.create(warehouse, name, definition)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for name in ("d.java", "d.ours"):
            self.oracle.write(self.warehouse, name, rows)

    def alter(self, changes: Sequence[Change]) -> tuple[bool, bool]:
        """Who accepted: Java, lakecore."""
        return self._accepted(self._java, changes), self._accepted(self._ours, changes)

    def schemas(self) -> list[Any]:
        """Both latest schemas, without their times; the order of options does not count."""
        found = []
        for name in ("d.java", "d.ours"):
            raw = json.loads(self.catalog.load_table(name).schema.to_json())
            del raw["timeMillis"]
            found.append(raw)
        return found

    def _java(self, changes: Sequence[Change]) -> None:
        self.oracle.call("alter", self.warehouse, "d.java", json.dumps(changes))

    def _ours(self, changes: Sequence[Change]) -> None:
        self.catalog.alter_table("d.ours", changes)

    def _accepted(self, alter: Any, changes: Sequence[Change]) -> bool:
        try:
            alter(changes)
        except (OracleError, InvalidInputError, NotFoundError):
            return False
        return True


NESTED = "ROW<x INT, y ARRAY<ROW<z INT, m MAP<STRING, ROW<w INT>>>>>"
TABLE = {
    "columns": ["p STRING", "k INT NOT NULL", "v STRING", "n INT", f"r {NESTED}", "s INT", "t INT"],
    "partitionKeys": ["p"],
    "primaryKeys": ["p", "k"],
    "options": {
        "bucket": "2",
        "merge-engine": "partial-update",
        "sequence.field": "s",
        "fields.v.aggregate-function": "last_value",
        "fields.t.sequence-group": "n,v",
        "write-only": "true",
    },
}
ROWS = [{"p": "a", "k": k, "v": f"1{k}", "n": k, "r": {"x": k, "y": [{"z": k, "m": [["q", {"w": k}]]}]}, "s": 1, "t": 1}
        for k in range(4)]  # fmt: skip
STEPS: list[list[Change]] = [
    # options
    [option("snapshot.num-retained.min", "3"), option("write-buffer-size", "8 mb")],
    [change("unset", key="write-buffer-size")],
    [option("bucket", "4")],
    [option("bucket", "-1")],
    [option("bucket", "0")],
    [option("merge-engine", "deduplicate")],
    [option("bucket-key", "k")],
    [option("force-lookup", "true")],
    [option("primary-key", "k")],
    [option("deletion-vectors.enabled", "true")],
    [option("deletion-vectors.modifiable", "true")],
    [option("deletion-vectors.enabled", "true")],
    [option("deletion-vectors.enabled", "false")],
    [option("ignore-delete", "true")],
    [option("ignore-delete", "false")],
    [change("unset", key="bucket")],
    [change("unset", key="merge-engine")],
    [change("unset", key="not-there")],
    [option("snapshot.num-retained.max", "2")],
    [option("scan.fallback-branch", "nowhere")],
    [change("table-comment", comment="a table")],
    # columns
    [change("add", "a1", type="DECIMAL(10, 2)"), change("add", "a2", type="INT", first=True)],
    [change("add", "a3", type="INT", after="k"), change("add", "a4", type="INT", before="k")],
    [change("add", "a5", type="INT", last=True), change("add", "a6", type="INT", comment="six")],
    [change("add", "a5", type="INT")],
    [change("add", "a7", type="INT NOT NULL")],
    [change("add", "_KEY_x", type="INT")],
    [change("add", "row", type="ROW<a INT, b ARRAY<ROW<c INT, d MAP<INT, ROW<e INT>>>>, f INT>")],
    [change("add", ["row", "g"], type="ROW<h INT>")],
    [change("add", ["row", "b", "element", "i"], type="INT", first=True)],
    [change("add", ["row", "a", "j"], type="INT NOT NULL")],
    [change("add", "a8", type="INT", after="nowhere")],
    [change("drop", "a1"), change("add", "a1", type="STRING")],
    [change("drop", "k")],
    [change("drop", "p")],
    [change("drop", "s")],
    [change("drop", "nowhere")],
    [change("drop", ["r", "x"])],
    [change("drop", ["r", "y", "element", "m", "value", "w"])],
    [change("rename", "v", to="v2"), change("rename", "t", to="t2")],
    [change("rename", "n", to="n2"), change("rename", "s", to="s2")],
    [change("rename", "p", to="p2")],
    [change("rename", "a2", to="a3")],
    [change("rename", "k", to="k2")],
    [change("rename", ["r", "y", "element", "z"], to="z2")],
    [change("type", "n2", type="BIGINT")],
    [change("type", "k2", type="BIGINT")],
    [change("type", "p", type="INT")],
    [change("type", "v2", type="INT")],
    [change("type", ["r", "y", "element", "z2"], type="BIGINT")],
    [change("type", "row", type="ROW<a BIGINT>")],
    [change("add", "list", type="ARRAY<MAP<STRING, INT>>")],
    [change("type", ["list", "element", "value"], type="DOUBLE")],
    [change("nullability", ["list", "element"], nullable=False)],
    [change("nullability", "n2", nullable=False)],
    [change("nullability", "k2", nullable=True)],
    [change("nullability", "a2", nullable=True)],
    [option("alter-column-null-to-not-null.disabled", "false")],
    [change("nullability", "a2", nullable=False), change("nullability", ["list", "element"], nullable=False)],
    [change("type", "a2", type="BIGINT", keepNullability=False)],
    [change("move", "a2", last=True)],
    [change("move", "a2", last=True)],
    [change("move", "a2", after="p"), change("move", "v2", before="p")],
    [change("move", "k2", first=True)],
    [change("move", "v2", after="a2"), change("move", "a3", before="a6")],
    [change("move", "k2", after="k2")],
    [change("comment", "a3", comment="three"), change("comment", ["r", "y", "element", "z2"], comment="z")],
    [change("comment", "a6")],
    [change("default", "a3", value="7"), change("default", "a1", value="'seven'")],
    [change("default", "a3", value="seven")],
    [change("default", "list", value="1")],
    [change("default", "a3")],
    [option("disable-explicit-type-casting", "true")],
    [change("type", "a3", type="STRING")],
    [change("type", "a3", type="BIGINT")],
    [change("drop-primary-key")],
    [option("record-level.time-field", "a3")],
    [option("fields.a3.aggregate-function", "no_such_function")],
    [option("fields.nowhere.aggregate-function", "sum")],
    [option("changelog-producer", "lookup"), option("streaming-read-overwrite", "true")],
]  # fmt: skip
STRICTER = {
    # Java takes the default of a nested column for text of it; lakecore has no such defaults.
    '[{"op": "default", "name": "list", "value": "1"}]',
}


def test_the_same_changes_give_the_same_schemas_and_refusals(oracle: Oracle, tmp_path: Path) -> None:
    twins = Twins(oracle, tmp_path, TABLE)
    twins.write(ROWS)
    for step in STEPS:
        java, ours = twins.alter(step)
        assert ours == (java and json.dumps(step) not in STRICTER), step
        first, second = twins.schemas()
        assert first == second, step


def test_rows_of_old_schemas_read_alike_and_java_writes_on(
    oracle: Oracle, oracle2: Oracle, tmp_path: Path
) -> None:
    definition = TABLE | {"options": {"bucket": "2", "write-only": "true"}}
    twins = Twins(oracle, tmp_path, definition)
    twins.write(ROWS)
    steps = [
        step for step in STEPS if not any(change["op"] in ("set", "unset", "nullability") for change in step)
    ]
    for step in steps:
        twins.alter(step)
    first, second = twins.schemas()
    assert first == second
    assert first["id"] > 20
    rows = [{"p": "a", "k2": k, "v2": 5, "n": 2, "a3": k, "row": {"a": 1, "b": [{"i": 3}]}} for k in (3, 9)]
    batch = json_to_batch(map(json.dumps, rows), twins.catalog.load_table("d.ours").schema.row_type)
    twins.catalog.load_table("d.ours").write(batch)
    oracle.write(tmp_path, "d.java", rows)
    expected = oracle.read(tmp_path, "d.java")
    assert len(expected) == 5
    for java in (oracle, oracle2):
        assert java.read(tmp_path, "d.ours") == expected
    table = twins.catalog.load_table("d.ours")
    ours = [
        text for batch in table.scan().to_batches() for text in batch_to_json(batch, table.schema.row_type)
    ]
    assert canonical(ours) == expected
    rows[0]["v2"] = 6
    oracle.write(tmp_path, "d.ours", rows)
    assert findings(oracle.fsck(tmp_path, "d.ours")) == set()


ROOTS = ["CHAR(3)", "VARCHAR(5)", "STRING", "BOOLEAN", "BINARY(3)", "BYTES", "DECIMAL(8, 2)", "TINYINT", "SMALLINT",
         "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
         "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>"]  # fmt: skip


@pytest.mark.parametrize("explicit", [True, False])
def test_types_change_by_javas_casts(oracle: Oracle, tmp_path: Path, explicit: bool) -> None:
    """Every type to every other. Only casts to and from nested types, and those by a session's zone, are left out."""
    names = {f"c{i}": text for i, text in enumerate(ROOTS)}
    switch = {"disable-explicit-type-casting": str(not explicit).lower()}
    oracle.create(tmp_path, "d.t", {"columns": [f"{n} {t}" for n, t in names.items()], "options": switch})
    for name, source in names.items():
        for target in ROOTS:
            old, new = parse_type_text(source), parse_type_text(target)
            if nested(old) or nested(new):
                assert not can_change(old, new, explicit=explicit)
                continue
            java = True
            try:
                oracle.call("alter", tmp_path, "d.t", json.dumps([change("type", name, type=target)]))
                back = json.dumps([change("drop", name), change("add", name, type=source)])
                oracle.call("alter", tmp_path, "d.t", back)
            except OracleError:
                java = False
            assert can_change(old, new, explicit=explicit) == java, (source, target)
            if java and not needs_a_zone(old, new):
                column = pa.array([], arrow_type(old))
                assert evolve(column, old, new).type == arrow_type(new)


def nested(kind: DataType) -> bool:
    return not isinstance(kind, AtomicType)
