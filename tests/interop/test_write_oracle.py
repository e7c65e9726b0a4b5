"""Java Paimon reads, checks, continues and compacts what lakecore wrote.

Every golden table that this release writes is made again from its recorded inputs: same operations, our
writers. Rows must be those that Java recorded, and the metadata of files those that Java made of the same rows.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.metadata.schema import TableSchema
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.table import Commit, Table
from tests.support.golden import GoldenTable, View, canonical, golden_tables
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

EXPIRING = "record-level.expire-time"
"""Java's compaction leaves out old rows; its rows are not those that were written."""
AS_JAVAS_CORE = {"postpone.batch-write-fixed-bucket": "false"}
"""The golden tables were written by Java's core; its engines obey this option, and the default is true."""
SORT_ORDER = "sequence.field.sort-order"
"""Java Paimon 1.4 ignores `descending` inside one write buffer; 2.0 and lakecore obey it there too."""

COMPACTED_BETWEEN = "pk_agg_seq"
"""Sums of rows that came out of order: what Java recorded depends on when it compacted."""


class Replay:
    """A golden table made again in another warehouse, operation by operation."""

    def __init__(self, golden: GoldenTable, warehouse: Path) -> None:
        self.golden = golden
        self.catalog = load_catalog(warehouse)
        self.state: int | None = None
        """The golden snapshot whose rows the table should have."""
        self._publish(0)

    @property
    def table(self) -> Table:
        return self.catalog.load_table(self.golden.name)

    def run(self) -> Iterator[dict[str, Any]]:
        """Does the operations, as far as they are writes and schema changes; yields each after it is done."""
        for operation in self.golden.inputs():
            if operation["op"] == "alter":
                self._publish(operation["schema"]["id"])
            elif operation["op"] == "write" and not any("_bucket" in row for row in operation["rows"]):
                self._write(operation)
                if operation["snapshots"]:
                    self.state = operation["snapshots"][-1]
            else:
                return
            yield operation

    def _publish(self, schema_id: int) -> None:
        path = self.golden.path / "schema" / f"schema-{schema_id}"
        folder = Path(self.catalog.warehouse) / f"{self.golden.database}.db" / self.golden.table / "schema"
        folder.mkdir(parents=True, exist_ok=True)
        schema = TableSchema.from_json(path.read_bytes(), str(path))
        (folder / path.name).write_text(schema.to_json())

    def _write(self, operation: dict[str, Any]) -> None:
        table = self.table.with_options({**AS_JAVAS_CORE, **(operation["options"] or {})})
        rows = json_to_batch(map(json.dumps, operation["rows"]), table.schema.row_type)
        commit = Commit(watermark=operation["watermark"])
        overwrite = operation["overwrite"]
        if overwrite is None:
            table.write(rows, commit)
        elif table.schema.options.get("dynamic-partition-overwrite") == "false":
            table.overwrite(rows, overwrite or None, commit=commit)
        else:
            table.overwrite(rows, commit=commit)

    def expected(self) -> list[str] | None:
        """Rows that Java recorded after the last operation, if it did."""
        view = View(f"snapshot-{self.state}.jsonl.gz", snapshot=self.state)
        return self.golden.rows(view) if (self.golden.expected / view.file).exists() else None


def inserts(rows: list[str]) -> list[str]:
    """Whether a read shows +U as +I depends on how files are laid out, in Java too."""
    return sorted(row.replace('"_kind": "+U"', '"_kind": "+I"') for row in rows)


def ours(table: Table) -> list[str]:
    scan = table.scan()
    kind = scan.row_type
    return canonical(line for batch in scan.to_batches() for line in batch_to_json(batch, kind, "+I"))


def written() -> Iterator[GoldenTable]:
    """Tables that began with a write of rows."""
    for golden in golden_tables():
        recorded = (golden.expected / "inputs.jsonl.gz").exists()
        first = next(iter(golden.inputs()), None) if recorded else None
        if (
            first is not None
            and first["op"] == "write"
            and not any("_bucket" in row for row in first["rows"])
        ):
            yield golden


def comparable(golden: GoldenTable) -> bool:
    """Java made the rows by the rules that lakecore follows."""
    descending = golden.options.get(SORT_ORDER) == "descending"
    return EXPIRING not in golden.options and not (descending and golden.version == "1.4.2")


WRITTEN = list(written())


@pytest.mark.parametrize("golden", filter(comparable, WRITTEN), ids=lambda table: table.name)
def test_golden_tables_made_again(golden: GoldenTable, oracles: dict[str, Oracle], tmp_path: Path) -> None:
    java = oracles[golden.version]
    replay = Replay(golden, tmp_path)
    for _ in replay.run():
        pass
    if replay.table.options.skips_level_0:
        compact.run(compact.Job(table=golden.name), load_catalog(tmp_path))

    if golden.options.get("merge-engine") == "first-row":
        java.compact(tmp_path, golden.name, full=True)  # level 0 is not read
    rows = inserts(java.read(tmp_path, golden.name))
    assert rows == inserts(ours(replay.table))
    if (recorded := replay.expected()) is not None and not golden.name.endswith(COMPACTED_BETWEEN):
        assert rows == inserts(recorded)
    for judge in oracles.values():
        assert findings(judge.fsck(tmp_path, golden.name)) == set()
    if "rescaled" in golden.table:
        return  # its partitions differ in their number of buckets, which Java does not compact either
    java.compact(tmp_path, golden.name, full=True)
    assert inserts(java.read(tmp_path, golden.name)) == rows
    assert inserts(ours(replay.table)) == rows
    assert findings(java.fsck(tmp_path, golden.name)) == set()


@pytest.mark.parametrize("buffer", ["64 b", "1 mb"])
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_rows_win_by_their_sequence_fields(
    order: str, buffer: str, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """Inside one write as between two; by the rules of 2.0, and read by 1.4 too."""
    dice = random.Random(order)
    schema = {
        "columns": ["k INT", "s INT", "t STRING", "v INT"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "write-only": "true", "sequence.field": "s,t", SORT_ORDER: order},
    }
    catalog, judge = load_catalog(tmp_path), oracles["2.0.0"]
    for name in ("d.ours", "d.theirs"):
        catalog.create_table(name, schema)
    table = catalog.load_table("d.ours", {"write-buffer-size": buffer})
    for commit in range(2):
        rows = [
            {
                "k": dice.randrange(30),
                "s": dice.choice([None, -1, 0, 1]),
                "t": dice.choice([None, "", "a", "a longer text", "a longer test"]),
                "v": 1000 * commit + i,
                "_kind": dice.choice(["+I", "+U", "-D"]),
            }
            for i in range(200)
        ]
        table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))
        judge.write(tmp_path, "d.theirs", rows)

    expected = inserts(judge.read(tmp_path, "d.theirs"))
    assert inserts(ours(table)) == expected
    for java in oracles.values():
        assert inserts(java.read(tmp_path, "d.ours")) == expected
        assert findings(java.fsck(tmp_path, "d.ours")) == set()


FILE_FACTS = (
    "partition", "partitionPath", "bucket", "totalBuckets", "level", "rowCount", "deleteRowCount", "minSeq", "maxSeq", "embeddedIndexBytes",
    "minKey", "maxKey", "schemaId", "fileSource", "extraFiles", "valueStatsCols", "keyStats", "valueStats",
)  # fmt: skip
OTHER_FILES = {
    "g1.a_pk_runs": "Java has a smaller buffer",
    "g1.a_append_bucket_part_mod": "Java numbers rows twice when it writes to more than ten places",
    "g1.a_part_special": "likewise",
    "g1.a_part_types_legacy": "likewise",
    "g1.a_part_types_new": "likewise",
}


def same_files() -> Iterator[GoldenTable]:
    """Tables whose first snapshot is there. (Java 2.0 also keeps bounds of binary columns.)"""
    for golden in filter(comparable, WRITTEN):
        first = min((snapshot["id"] for snapshot in golden.facts["snapshots"]), default=None)
        if golden.version == "1.4.2" and first == 1 and golden.name not in OTHER_FILES:
            yield golden


@pytest.mark.parametrize("golden", same_files(), ids=lambda table: table.name)
def test_files_are_described_as_java_describes_them(
    golden: GoldenTable, oracle: Oracle, tmp_path: Path
) -> None:
    replay = Replay(golden, tmp_path)
    first = next(replay.run())

    def described(warehouse: Path, *at: object) -> list[dict[str, Any]]:
        files = oracle.call("scan", warehouse, golden.name, *at)["files"]
        facts = [{fact: file[fact] for fact in FILE_FACTS} for file in files]
        for fact, file in zip(facts, files, strict=True):
            fact["extraFiles"] = [name.removeprefix(file["fileName"]) for name in file["extraFiles"]]
        return sorted(facts, key=lambda file: json.dumps([file["partition"], file["bucket"], file["minSeq"]]))

    assert described(tmp_path) == described(golden.warehouse, "--snapshot", first["snapshots"][0])


SCHEMAS: dict[str, dict[str, Any]] = {
    "append": {"columns": ["k INT", "v STRING", "p STRING"], "partitionKeys": ["p"]},
    "append-buckets": {
        "columns": ["k INT", "v STRING", "p STRING"],
        "options": {"bucket": "3", "bucket-key": "k", "file.format": "orc"},
    },
    "keys": {
        "columns": ["k INT", "v STRING", "p STRING"],
        "primaryKeys": ["k"],
        "options": {"bucket": "2", "changelog-producer": "input"},
    },
    "keys-dynamic": {
        "columns": ["p STRING", "v STRING", "k INT"],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "7"},
    },
    "keys-partitioned": {
        "columns": ["p STRING", "v STRING", "k INT"],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "2", "file.format": "avro", "bucket-function.type": "hive"},
    },
}


def some_rows(start: int, text: str) -> list[dict[str, Any]]:
    return [{"k": k, "v": f"{text}{k}", "p": "ab"[k % 2]} for k in range(start, start + 40)]


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
@pytest.mark.parametrize("name", list(SCHEMAS))
def test_java_and_lakecore_take_turns(
    name: str, version: str, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """Made by us, written by both, overwritten by both, compacted by Java; same rows on both sides throughout."""
    java, raw = oracles[version], SCHEMAS[name]
    catalog = load_catalog(tmp_path)
    catalog.create_table("d.t", raw)
    keyed = "primaryKeys" in raw

    def write(rows: list[dict[str, Any]]) -> None:
        table = catalog.load_table("d.t", {"write-buffer-size": "64 b"})
        table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))

    def agreed() -> list[str]:
        rows = inserts(java.read(tmp_path, "d.t"))
        assert inserts(ours(catalog.load_table("d.t"))) == rows
        assert findings(java.fsck(tmp_path, "d.t")) == set()
        return rows

    write(some_rows(0, "l"))
    java.write(tmp_path, "d.t", some_rows(20, "j"))
    write(some_rows(30, "m"))
    assert len(agreed()) == (70 if keyed else 120)
    if keyed:
        gone = [row | {"_kind": "-D"} for row in some_rows(25, "")]
        write(gone[:20])
        java.write(tmp_path, "d.t", gone[20:])
        assert len(agreed()) == 30
    before = agreed()
    java.compact(tmp_path, "d.t", full=True)
    assert agreed() == before
    table = catalog.load_table("d.t")
    table.overwrite(json_to_batch(map(json.dumps, some_rows(0, "o")[::2]), table.schema.row_type))
    overwritten = agreed()
    assert len(overwritten) == 20 + len([r for r in before if raw.get("partitionKeys") and '"p": "b"' in r])
    write(some_rows(10, "w"))
    java.write(tmp_path, "d.t", some_rows(12, "x"))
    rows = agreed()
    java.compact(tmp_path, "d.t", full=True)
    assert agreed() == rows


def test_keys_that_move_between_partitions_are_where_java_looks_for_them(
    oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """Java's core writes no such tables (Flink's index does); it reads, checks, bootstraps and compacts ours.

    Where partitions are overwritten there is no twin: Java refuses when a key comes from another one, or, when
    it overwrites dynamically, overwrites that partition too and loses what was in it.
    """
    raw = {
        "columns": ["v STRING", "p STRING", "k INT", "q INT"],
        "primaryKeys": ["k", "q"],
        "partitionKeys": ["p", "q"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "4", "changelog-producer": "input"},
    }
    catalog = load_catalog(tmp_path)
    catalog.create_table("d.t", raw)
    dice, model = random.Random(7), dict[tuple[int, int], dict[str, Any]]()
    for commit in range(4):
        rows = [
            {
                "v": f"{commit}.{i}",
                "p": dice.choice(["a", "b", None]),
                "k": dice.randrange(20),
                "q": dice.randrange(2),
            }
            for i in range(50)
        ]
        table, emptied = catalog.load_table("d.t"), ("", "p=a", "dynamic", "")[commit]
        if emptied:
            rows = [row for row in rows if row["p"] in (("a",) if emptied == "p=a" else ("a", "b"))]
            places = {(row["p"], row["q"]) for row in rows} | {("a", 0), ("a", 1)}
            model = {key: row for key, row in model.items() if (row["p"], row["q"]) not in places}
        model.update({(row["k"], row["q"]): row for row in rows})
        batch = json_to_batch(map(json.dumps, rows), table.schema.row_type)
        if emptied:
            table.overwrite(batch, emptied if emptied == "p=a" else None)
        else:
            table.write(batch)
    for java in oracles.values():
        for compacted in (False, True):
            if compacted:
                java.compact(tmp_path, "d.t", full=True)
            assert java.read(tmp_path, "d.t") == canonical(model.values()) == inserts(ours(table))
            placed = [line.split(",") for line in java.call("bootstrap", tmp_path, "d.t")]
            assert sorted((int(k), q, p) for k, p, q, _ in placed) == sorted(
                (row["k"], str(row["q"]), str(row["p"]).replace("None", "null")) for row in model.values()
            )
            assert findings(java.fsck(tmp_path, "d.t")) == set()


def test_the_changelog_of_inputs_is_what_was_written(oracle: Oracle, tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path)
    table = catalog.create_table("d.t", SCHEMAS["keys"])
    rows = [
        {"k": k, "v": str(i), "p": "a", "_kind": kind}
        for i, (k, kind) in enumerate([(1, "+I"), (2, "+I"), (1, "-U"), (1, "+U"), (2, "-D")])
    ]
    table.write(json_to_batch(map(json.dumps, rows[:3]), table.schema.row_type))
    table.write(json_to_batch(map(json.dumps, rows[3:]), table.schema.row_type))

    plans = oracle.call("stream", tmp_path, "d.t", "--from-snapshot", "1")
    streamed = [json.dumps(row, sort_keys=True) for plan in plans for row in plan["rows"]]
    assert sorted(streamed) == sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.fixture(autouse=True)
def _no_leftovers(tmp_path: Path) -> Iterator[None]:
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)
