"""Random schemas and changes of schemas by lakecore, which Java must open, and by Java, which lakecore must open.

`python -m tests.fuzz.schema_walk [--seed N] [--minutes M]`: each seed is a table that lakecore creates, with random
columns, keys and options, and a walk over changes of it, by lakecore or by Java. After each one both versions of Java
and lakecore must open the table; what lakecore refuses and Java would accept is counted.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import lakecore
from lakecore.catalog.definition import TableDefinition
from lakecore.errors import LakeError, UnsupportedError
from tests.fuzz.row_lines import read_lines
from tests.fuzz.walk_loop import main
from tests.support.oracle import Oracle, OracleError

__all__ = ["SchemaWalk"]

_TYPES = (
    "INT", "BIGINT", "STRING", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP(3)", "TIMESTAMP(9)", "DECIMAL(10, 2)", "BYTES",
    "CHAR(4)", "TIME(3)", "ARRAY<INT>", "MAP<STRING, INT>", "MAP<STRING NOT NULL, INT>", "ROW<a INT, b STRING>",
    "MULTISET<STRING>", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "VARIANT", "SMALLINT", "FLOAT",
)  # fmt: skip
_VALUES: dict[str, tuple[str, ...]] = {
    "bucket": ("1", "2", "-1", "-2", "0", "-3"),
    "bucket-key": ("{c}", "{c},{c}"),
    "merge-engine": ("deduplicate", "partial-update", "aggregation", "first-row"),
    "changelog-producer": ("none", "input", "lookup", "full-compaction"),
    "sequence.field": ("{c}", "{c},{c}"),
    "sequence.field.sort-order": ("descending",),
    "rowkind.field": ("{c}",),
    "file.format": ("parquet", "orc", "avro"),
    "file.format.per.level": ("0:avro", "5:avro"),
    "changelog-file.format": ("avro", "orc"),
    "deletion-vectors.enabled": ("true",),
    "deletion-vectors.merge-on-read": ("true",),
    "streaming-read-overwrite": ("true",),
    "full-compaction.delta-commits": ("3",),
    "target-file-row-num": ("0", "10"),
    "snapshot.num-retained.min": ("0", "5"),
    "snapshot.num-retained.max": ("3", "20"),
    "changelog.num-retained.min": ("0", "5"),
    "changelog.num-retained.max": ("3",),
    "record-level.expire-time": ("1 d",),
    "record-level.time-field": ("{c}",),
    "file-index.bloom-filter.columns": ("{c}", "{c},{c}"),
    "file-index.bitmap.columns": ("{c}",),
    "file-index.bsi.columns": ("{c}",),
    "file-index.range-bitmap.columns": ("{c}",),
    "file-index.bloom-filter.{c}.fpp": ("0.1",),
    "fields.{c}.aggregate-function": ("sum", "max", "last_value", "listagg", "collect", "nonsense"),
    "fields.{c}.ignore-retract": ("true",),
    "fields.{c}.sequence-group": ("{c}", "{c},{c}"),
    "fields.{c},{c}.sequence-group": ("{c}",),
    "fields.default-aggregate-function": ("last_non_null_value",),
    "fields.{c}.map.storage-layout": ("shared-shredding",),
    "sequence.snapshot-ordering": ("true",),
    "write-only": ("true",),
    "row-tracking.enabled": ("true",),
    "data-evolution.enabled": ("true",),
    "clustering.columns": ("{c}", "{c},{c}"),
    "clustering.incremental": ("true",),
    "pk-clustering-override": ("true",),
    "partition.timestamp-pattern": ("${c}",),
    "vector-field": ("{c}",),
    "blob-field": ("{c}",),
    "local-merge-buffer-size": ("1 mb",),
    "ignore-delete": ("true",),
    "ignore-update-before": ("true",),
    "partial-update.remove-record-on-delete": ("true",),
    "partial-update.remove-record-on-sequence-group": ("{c}",),
    "aggregation.remove-record-on-delete": ("true",),
    "variant.inferShreddingSchema": ("true",),
    "primary-key-nullable": ("true",),
    "changelog.read.sequence-number.enabled": ("true",),
    "chain-table.enabled": ("true",),
    "manifest.sort.enabled": ("true",),
    "metadata.iceberg.storage": ("table-location",),
    "tag.automatic-creation": ("process-time", "watermark"),
    "scan.mode": ("latest", "from-timestamp", "from-snapshot", "compacted-full"),
    "dynamic-bucket.initial-buckets": ("2",),
    "data-file.thin-mode": ("true",),
    "visibility-callback.enabled": ("true",),
}
"""Options and values of which `{c}` is the name of a column, or of none."""


def _option(dice: random.Random, columns: list[str]) -> tuple[str, str]:
    def filled(text: str) -> str:
        while "{c}" in text:
            name = dice.choice(columns) if dice.random() < 0.93 else "nobody"
            text = text.replace("{c}", name, 1)
        return text

    key = dice.choice(list(_VALUES))
    return filled(key), filled(dice.choice(_VALUES[key]))


def _definition(dice: random.Random) -> dict[str, Any]:
    columns = {f"c{at}": dice.choice(_TYPES) for at in range(dice.randint(2, 6))}
    names = list(columns)
    primary: list[str] = []
    parts: list[str] = []
    if dice.random() < 0.6:
        primary = dice.sample(names, dice.randint(1, min(2, len(names))))
    if dice.random() < 0.4:
        parts = dice.sample(names, 1)
    options = dict(_option(dice, names) for _ in range(dice.randint(0, 5)))
    return {
        "columns": [
            f"{name} {kind}{' NOT NULL' if name in primary else ''}" for name, kind in columns.items()
        ],
        "primaryKeys": primary,
        "partitionKeys": parts,
        "options": options,
    }


def _change(dice: random.Random, columns: list[str]) -> dict[str, Any]:
    name, new = dice.choice(columns), f"x{dice.randint(0, 999)}"
    key, value = _option(dice, columns)
    return dice.choice((
        {"op": "rename", "name": name, "to": new},
        {"op": "rename", "name": name, "to": new},
        {"op": "drop", "name": name},
        {"op": "drop", "name": name},
        {"op": "add", "name": new, "type": dice.choice(_TYPES)},
        {"op": "type", "name": name, "type": dice.choice(_TYPES)},
        {"op": "nullability", "name": name, "nullable": dice.random() < 0.5},
        {"op": "move", "name": name, "first": True},
        {"op": "set", "key": key, "value": value},
        {"op": "set", "key": key, "value": value},
        {"op": "unset", "key": key},
    ))  # fmt: skip


class SchemaWalk:
    """One table of lakecore's and its changes."""

    def __init__(self, seed: int, oracles: dict[str, Oracle], root: Path) -> None:
        self.dice = random.Random(seed)
        self.oracles, self.root = oracles, root
        self.catalog = lakecore.load_catalog(str(root))
        self.log: list[str] = []
        self.stricter: Counter[str] = Counter()
        """It counts what lakecore refused and Java 2.0 made, by the message of lakecore."""
        self.made = self.changed = 0

    def tally(self) -> Counter[str]:
        stricter = {f"refused, but not by Java: {reason}": count for reason, count in self.stricter.items()}
        return Counter({"tables": self.made, "changes": self.changed} | stricter)

    def walk(self, length: int) -> None:
        while not self._create():
            pass
        self.made += 1
        self._open()
        for _ in range(length):
            self._alter()

    def _create(self) -> bool:
        definition = _definition(self.dice)
        self.log = [f"create {json.dumps(definition)}"]
        try:
            self.catalog.create_table("d.t", TableDefinition.from_json(definition))
        except LakeError as err:
            other = self.root / "other"
            try:
                self.oracles["new"].create(other, "d.t", definition)
            except OracleError:
                pass
            else:
                self.stricter[f"create: {str(err)[:150]}"] += 1
            shutil.rmtree(other, ignore_errors=True)
            return False
        return True

    def _alter(self) -> None:
        table = self.catalog.load_table("d.t")
        change = _change(self.dice, list(table.schema.row_type.names))
        self.log.append(f"alter {json.dumps(change)}")
        if self.dice.random() < 0.3:
            self._alter_by_java(change)
            return
        copy = self.root / "copy"
        shutil.copytree(self.root / "d.db", copy / "d.db")
        try:
            self.catalog.alter_table("d.t", [change])
        except LakeError as err:
            self.log[-1] += f": refused, {str(err)[:150]}"
            try:
                self.oracles["new"].call("alter", copy, "d.t", json.dumps([change]))
            except OracleError:
                pass
            else:
                self.stricter[f"{change['op']}: {str(err)[:150]}"] += 1
        else:
            self.changed += 1
            self._open()
        shutil.rmtree(copy)

    def _alter_by_java(self, change: dict[str, Any]) -> None:
        """Make a change by the newer version, which has the rules of both."""
        try:
            self.oracles["new"].call("alter", self.root, "d.t", json.dumps([change]))
        except OracleError:
            self.log[-1] += ": refused by Java"
            return
        self.log[-1] += ": by Java"
        self.changed += 1
        table = self.catalog.load_table("d.t")
        try:
            read_lines(table.scan())
        except UnsupportedError as err:
            self.stricter[f"opened after Java: {str(err)[:150]}"] += 1

    def _open(self) -> None:
        for name, judge in self.oracles.items():
            try:
                judge.read(self.root, "d.t")
            except OracleError as err:
                raise AssertionError(f"Java ({name}) does not open it: {str(err)[:400]}") from err


if __name__ == "__main__":
    main(SchemaWalk, __doc__, 15)
