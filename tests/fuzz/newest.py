"""What only Paimon 2.0 writes, in tables of histories: their other steps and readers are 2.0's, too."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["VALUES", "knows_only_newest", "made_newest"]

VALUES: dict[str, Callable[[random.Random], Any]] = {
    "BLOB": lambda dice: dice.choice(("0x", "0x00", "0x0aff", "0x" + "cd" * 90)),
    "VECTOR<FLOAT, 2>": lambda dice: [dice.choice((0.5, -1.25)), 2.0],
    "VARIANT": lambda dice: dice.choice(({"a": 1, "b": ["x", None]}, {"a": "1", "c": {"d": 1.5}}, 7, '"t"', [1, {"a": True}])),
    "MULTISET<STRING>": lambda dice: [[text, dice.randint(1, 3)] for text in dice.sample(("a", "b", "日本"), dice.randint(0, 2))],
    "MAP<STRING NOT NULL, BIGINT>": lambda dice: [[text, dice.choice((1, -5, None))] for text in dice.sample("abcdef", dice.randint(0, 5))],
}  # fmt: skip
"""Values of types that no other table has."""
_ONLY_NEWEST = ("sequence.snapshot-ordering", "pk-clustering-override", "map.storage-layout",
                "write.sequence-number-init-mode", "'row'", "BLOB", "VECTOR", "manifest-sort.enabled")  # fmt: skip
_NO_STEP_FOR_SHREDDED = (
    "file.format.per.level",
    "changelog-file.format",
    "file.compression",
    "file.compression.per.level",
)


def knows_only_newest(table: Mapping[str, Any]) -> bool:
    """Whether 1.4 cannot write or read such a table, or passes over what it does not know."""
    return any(word in str(table) for word in _ONLY_NEWEST)


def made_newest(dice: random.Random, table: dict[str, Any]) -> None:
    """The table gets something of 2.0, in place."""
    kinds = (_ordered, _blobs, _clustered, _shredded, _plain, _small) if table["primaryKeys"] else (
        _rows, _rows, _shredded, _plain, _evolving, _small)  # fmt: skip
    dice.choice(kinds)(dice, table)


def _ordered(_dice: random.Random, table: dict[str, Any]) -> None:
    """Rows of a key are ordered by snapshot: no sequence field then, and writers do not compact."""
    options = table["options"]
    if options["bucket"] == "-2":
        options["bucket"] = "1"
    if options.pop("sequence.field", None):
        table["columns"] = [column for column in table["columns"] if column["name"] != "s"]
    options |= {"sequence.snapshot-ordering": "true", "write-only": "true"}


def _blobs(dice: random.Random, table: dict[str, Any]) -> None:
    options = table["options"]
    if options.get("merge-engine", "deduplicate") != "deduplicate" or options["bucket"] in ("-1", "-2"):
        return _plain(dice, table)
    for key in ("changelog-producer", "deletion-vectors.enabled", "deletion-vectors.bitmap64"):
        options.pop(key, None)
    _add(table, "b", "BLOB")
    return None


def _clustered(dice: random.Random, table: dict[str, Any]) -> None:
    options = table["options"]
    if (
        options["bucket"] in ("-1", "-2")
        or options.get("merge-engine", "deduplicate") != "deduplicate"
        or "sequence.field" in options
    ):
        return _plain(dice, table)
    for key in ("changelog-producer", "data-file.thin-mode", "ignore-delete", "lookup-compact"):
        options.pop(key, None)
    _add(table, "c", dice.choice(("INT", "STRING")))
    options |= {"pk-clustering-override": "true", "clustering.columns": "c", "write-only": "true"}
    options |= {"deletion-vectors.enabled": "true"}
    return None


def _shredded(dice: random.Random, table: dict[str, Any]) -> None:
    options = table["options"]
    if options.get("bucket") == "-2":
        return _plain(dice, table)
    for key in _NO_STEP_FOR_SHREDDED:
        options.pop(key, None)
    options["file.format"] = dice.choice(("parquet", "orc"))
    _add(table, "m", "MAP<STRING NOT NULL, BIGINT>")
    options["fields.m.map.storage-layout"] = "shared-shredding"
    if dice.random() < 0.6:
        options["fields.m.map.shared-shredding.max-columns"] = str(dice.randint(1, 4))
    return None


def _rows(_dice: random.Random, table: dict[str, Any]) -> None:
    table["options"]["file.format"] = "row"
    for key in ("row-tracking.enabled", "file.compression"):
        table["options"].pop(key, None)


def _plain(dice: random.Random, table: dict[str, Any]) -> None:
    """Types that 1.4 knows, too."""
    _add(table, "x", dice.choice(("VARIANT", "MULTISET<STRING>")))
    if table["columns"][-1]["type"] == "VARIANT":
        for key in ("file.format.per.level", "changelog-file.format"):
            table["options"].pop(key, None)
        table["options"]["file.format"] = "parquet"


def _evolving(dice: random.Random, table: dict[str, Any]) -> None:
    """Columns in files of their own, joined by row id."""
    for key in ("bucket", "bucket-key", "deletion-vectors.enabled"):
        table["options"].pop(key, None)
    table["options"] |= {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    _add(table, "b", dice.choice(("BLOB", "VECTOR<FLOAT, 2>", "INT")))


def _small(dice: random.Random, table: dict[str, Any]) -> None:
    """Options that change how files are cut, numbered and listed."""
    options = table["options"]
    options["manifest.target-file-size"] = dice.choice(("2", "300"))
    if table["primaryKeys"] and options.get("write-only") == "true":
        options["write.sequence-number-init-mode"] = "snapshot"
    if table["partitionKeys"] and dice.random() < 0.5:
        options |= {"manifest-sort.enabled": "true", "manifest-sort.partition-field": "p"}


def _add(table: dict[str, Any], name: str, kind: str) -> None:
    """Before the partition column, if there is one."""
    columns = table["columns"]
    columns.insert(len(columns) - bool(table["partitionKeys"]), {"name": name, "type": kind})
