"""Keyed tables as production has them: a few simple columns, and options weighted by how common they are.

Options that decide how deep a bucket's tree grows are drawn so that files come to rest at middle levels.
"""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz.history import FORK, TWIN
from tests.fuzz.values import SUMMABLE, TYPES

__all__ = ["DYNAMIC", "POSTPONED", "production_table", "retracts"]

DYNAMIC, POSTPONED = "-1", "-2"
_COMMON_TYPES = (
    "INT",
    "BIGINT",
    "STRING",
    "STRING",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "TIMESTAMP(3)",
    "BOOLEAN",
    "DATE",
)
_RETRACTABLE = ("sum", "last_value", "last_non_null_value")

_WITHOUT_MAPS = tuple(kind for kind in TYPES if "MAP" not in kind)
"""Java reads MAPs of avro in the order of their hashes, and compares states by the bytes of rows."""
_LEVELS = {
    "num-sorted-run.compaction-trigger": (1.0, ("2", "2", "3", "4", "5")),
    "num-levels": (0.4, ("3", "4", "5", "6")),
    "compaction.max-size-amplification-percent": (0.6, ("400", "1000", "100000", "100000")),
    "compaction.size-ratio": (0.3, ("0", "10", "50")),
    "compaction.force-up-level-0": (0.06, ("true",)),
    "compaction.total-size-threshold": (0.03, ("1 kb",)),
    "compaction.incremental-size-threshold": (0.03, ("8 kb",)),
    "compaction.force-rewrite-all-files": (0.04, ("true",)),
    "target-file-size": (0.35, ("1 b", "2 kb", "4 kb")),
}
"""Option: how often it is set, and its values."""
_OF_FILES = {
    "file.format": (0.5, ("parquet", "orc", "avro", "avro")),
    "file.compression": (0.1, ("zstd", "snappy")),
    "manifest.merge-min-count": (0.25, ("2", "3")),
    "manifest.full-compaction-threshold-size": (0.1, ("1 b",)),
    "metadata.stats-mode": (0.15, ("none", "counts", "full", "truncate(4)")),
    "data-file.thin-mode": (0.12, ("true",)),
    "file-index.bloom-filter.columns": (0.05, ("k",)),
    "force-lookup": (0.05, ("true",)),
}


def production_table(dice: random.Random) -> tuple[dict[str, Any], str]:
    """A table as the oracle's `create` takes it, and the judge that fits it."""
    columns = [{"name": "k", "type": dice.choice(("INT", "INT", "BIGINT", "STRING"))}]
    if dice.random() < 0.15:
        columns.append({"name": "k2", "type": dice.choice(("INT", "STRING"))})
    primary = [column["name"] for column in columns]
    options = {"bucket": _drawn(dice, {"1": 50, "2": 28, "3": 6, DYNAMIC: 8, POSTPONED: 8})}
    for index in range(dice.randint(1, 3)):
        anything = dice.random() < 0.12
        kinds = _WITHOUT_MAPS if anything else _COMMON_TYPES
        columns.append({"name": f"v{index}", "type": dice.choice(kinds)})
    if dice.random() < 0.6:
        columns.append({"name": "pad", "type": "STRING"})
    partitions = ["p"] if dice.random() < 0.28 else []
    primary += partitions
    options |= _set(dice, _LEVELS) | _set(dice, _OF_FILES)
    judge = FORK if options["bucket"] not in (DYNAMIC, POSTPONED) and dice.random() < 0.65 else TWIN
    _merging(dice, columns, options, judge)
    _changes(dice, options)
    if partitions:
        columns.append({"name": "p", "type": dice.choice(("INT", "STRING", "DATE"))})
    _fit(options)
    for column in columns:
        if column["name"] in primary:
            column["type"] += " NOT NULL"
    table = {"columns": columns, "primaryKeys": primary, "partitionKeys": partitions, "options": options}
    return table, judge


def retracts(options: dict[str, str], judge: str) -> tuple[str, ...]:
    """Kinds of rows that take something back, as far as the table takes them and the judge knows what comes of it."""
    aggregates = options.get("merge-engine") == "aggregation"
    if options.get("ignore-delete") == "true" and not (aggregates and judge == TWIN):
        return ("-D", "-U", "-D")
    if any(key.endswith("remove-record-on-delete") for key in options):
        # a delete that is merged with a later row removes nothing of lower levels, so it counts which are merged when
        return ("-D",) if judge == FORK else ()
    match options.get("merge-engine", "deduplicate"):
        case "deduplicate":
            return ("-D", "-D", "-D", "-U")
        case "partial-update":
            return ("-D",) if any(key.endswith(".sequence-group") for key in options) else ()
        case "aggregation":
            return ("-D", "-U") if judge == FORK else ()
    return ()


def _merging(dice: random.Random, columns: list[dict[str, str]], options: dict[str, str], judge: str) -> None:
    """Merge engine, sequence fields and what goes with them. The twin merges rows at other times than the
    table does, so it is no judge of what depends on that: late rows, and folds that keep what comes first.
    """
    weights = {"deduplicate": 46, "partial-update": 20, "aggregation": 18, "first-row": 16}
    engine = _drawn(dice, weights)
    if engine != "deduplicate":
        options["merge-engine"] = engine
    values = [column for column in columns if column["name"].startswith("v")]
    forked = judge == FORK
    if engine == "partial-update":
        _partial_update(dice, columns, values, options, forked=forked)
    elif engine == "aggregation":
        if dice.random() < 0.3:
            options["aggregation.remove-record-on-delete"] = "true"
        for column in values:
            _aggregate(dice, column, options, forked=forked)
    grouped = any(key.endswith(".sequence-group") for key in options)
    if engine != "first-row" and not grouped and forked and dice.random() < 0.35:
        columns.append({"name": "s", "type": dice.choice(("INT", "BIGINT"))})
        options["sequence.field"] = "s"
        if dice.random() < 0.15:
            options["sequence.field.sort-order"] = "descending"
    if dice.random() < {"first-row": 0.5, "deduplicate": 0.1}.get(engine, 0.1):
        for key in [key for key in options if key.endswith("remove-record-on-delete")]:
            del options[key]
        options["ignore-delete"] = "true"


def _partial_update(
    dice: random.Random,
    columns: list[dict[str, str]],
    values: list[dict[str, str]],
    options: dict[str, str],
    *,
    forked: bool,
) -> None:
    if dice.random() < 0.4 and forked:
        columns.append({"name": "g", "type": "INT"})
        options["fields.g.sequence-group"] = ",".join(column["name"] for column in values)
        for column in values:
            if dice.random() < 0.4:
                _aggregate(dice, column, options, forked=forked)
        if dice.random() < 0.3:
            options["partial-update.remove-record-on-sequence-group"] = "g"
    elif dice.random() < 0.5:
        options["partial-update.remove-record-on-delete"] = "true"


def _aggregate(dice: random.Random, column: dict[str, str], options: dict[str, str], *, forked: bool) -> None:
    names = ["last_value", "last_non_null_value", "last_non_null_value"]
    if column["type"] in SUMMABLE:
        names += ["sum", "sum", "max", "min"]
    if forked:
        names += ["first_value", "first_non_null_value"]
    function = dice.choice(names)
    options[f"fields.{column['name']}.aggregate-function"] = function
    if function not in _RETRACTABLE and "aggregation.remove-record-on-delete" not in options:
        options[f"fields.{column['name']}.ignore-retract"] = "true"


def _changes(dice: random.Random, options: dict[str, str]) -> None:
    """How changes are announced, and when compactions run."""
    producer = _drawn(dice, {"none": 24, "input": 10, "lookup": 42, "full-compaction": 24})
    if options.get("merge-engine") == "first-row" and producer not in ("none", "lookup"):
        producer = "lookup"
    if producer != "none":
        options["changelog-producer"] = producer
    if producer in ("lookup", "full-compaction") and dice.random() < 0.2:
        options["changelog-producer.row-deduplicate"] = "true"
    if dice.random() < 0.55:
        options["write-only"] = "true"
    if dice.random() < 0.12:
        options["lookup-compact"] = "gentle"
        if dice.random() < 0.5:
            options["lookup-compact.max-interval"] = dice.choice(("2", "4"))
    vectors = producer in ("none", "lookup") and options.get("merge-engine") != "first-row"
    if vectors and dice.random() < 0.3:
        options["deletion-vectors.enabled"] = "true"
        if dice.random() < 0.25:
            options["deletion-vectors.bitmap64"] = "true"


def _fit(options: dict[str, str]) -> None:
    """Without what Java refuses, or does wrong itself, on such a table."""
    if options["bucket"] == POSTPONED:
        options.pop("file.compression", None)
        options["postpone.batch-write-fixed-bucket"] = "false"
        options["postpone.default-bucket-num"] = "2"
    if options.get("merge-engine") == "first-row":
        options.pop("force-lookup", None)


def _drawn(dice: random.Random, weights: dict[str, int]) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]


def _set(dice: random.Random, options: dict[str, tuple[float, tuple[str, ...]]]) -> dict[str, str]:
    return {
        key: value
        for key, (share, values) in options.items()
        if (value := dice.choice(values)) is not None and dice.random() < share
    }
