"""Random histories. A seed is one history; tables are tiny, so that rows of a key meet often."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.fuzz.history import LAKE, NEW, OLD, History, Step
from tests.fuzz.newest import VALUES, knows_only_newest, made_newest
from tests.fuzz.production import production_table
from tests.fuzz.production_steps import ProductionSteps
from tests.fuzz.proofs import drawn_copy, drawn_mode
from tests.fuzz.values import INDEXED, KEY_TYPES, PARTITION_TYPES, SUMMABLE, TEXTS, TYPES, WIDER
from tests.support.serialized_sets import SETS, pool

__all__ = ["generate"]

_PRODUCTION = 0.6
"""Share of the histories that are as production makes them; the others have any feature of the format."""
_LONG = 0.15
"""Share of these others that have many steps."""
_MEETINGS = 0.12
"""Share of their compactions by lakecore that Java writes beside."""
_RARE = (
    ("data-file.path-directory", ("files",)),
    ("data-file.prefix", ("p-",)),
    ("file.suffix.include.compression", ("true",)),
    ("metadata.stats-dense-store", ("false",)),
    ("metadata.stats-keep-first-n-columns", ("0", "1")),
    ("fields.k.stats-mode", ("none", "counts", "full")),
    ("index-file-in-data-file-dir", ("true",)),
    ("partition.legacy-name", ("false",)),
    ("manifest.merge-min-count", ("2",)),
)
"""Options of any table that change names and statistics, never rows."""
_RARE_OF_KEYED = (
    ("file.format.per.level", ("0:avro", "0:orc,5:parquet", "5:avro")),
    ("file.compression.per.level", ("0:lz4,5:zstd",)),
    ("metadata.stats-mode.per.level", ("0:none",)),
    ("changelog-file.format", ("parquet", "orc", "avro")),
    ("changelog-file.prefix", ("c-",)),
    ("changelog-producer.row-deduplicate-ignore-fields", ("v0",)),
    ("lookup-compact", ("gentle",)),
    ("num-levels", ("3",)),
    ("compaction.force-up-level-0", ("true",)),
)


def generate(seed: int) -> History:
    """The history of a seed."""
    dice = random.Random(seed)
    if dice.random() < _PRODUCTION:
        table, judge = production_table(dice)
        return History(seed, table, ProductionSteps(dice, table, judge).steps(), judge)
    table = _keyed(dice) if dice.random() < 0.7 else _append(dice)
    if dice.random() < 0.3:
        made_newest(dice, table)
    steps = _Steps(dice, table).steps()
    if knows_only_newest(table):
        steps = tuple(map(_of_newest, steps))
    return History(seed, table, steps)


def _of_newest(step: Step) -> Step:
    other = step.meanwhile and _of_newest(step.meanwhile)
    return replace(step, by=NEW if step.by == OLD else step.by, meanwhile=other)


def _columns(dice: random.Random, count: int) -> list[dict[str, str]]:
    return [{"name": f"v{i}", "type": dice.choice(tuple(TYPES))} for i in range(count)]


def _common(dice: random.Random) -> dict[str, str]:
    """Options of any table."""
    options = {}
    if dice.random() < 0.5:
        options["file.format"] = dice.choice(("parquet", "orc", "avro"))
    if dice.random() < 0.2:
        options["manifest.format"] = dice.choice(("avro", "orc", "parquet"))
    if dice.random() < 0.2:
        options["metadata.stats-mode"] = dice.choice(("none", "counts", "full", "truncate(4)"))
    if dice.random() < 0.2:
        options["target-file-size"] = dice.choice(("1 b", "2 kb"))
    if dice.random() < 0.15:
        options["manifest.full-compaction-threshold-size"] = "1 b"
    if dice.random() < 0.1:
        options["snapshot.num-retained.min"] = "1"
    if dice.random() < 0.3:
        options |= _some(dice, _RARE)
    if dice.random() < 0.15:
        options["file.compression"] = dice.choice(("zstd", "snappy", "none"))
    return options


def _some(dice: random.Random, rare: Sequence[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """One or two of them, with a value each."""
    return {key: dice.choice(values) for key, values in dice.sample(rare, dice.randint(1, 2))}


def _append(dice: random.Random) -> dict[str, Any]:
    columns = [{"name": "k", "type": dice.choice(KEY_TYPES)}, *_columns(dice, dice.randint(1, 4))]
    options = _common(dice)
    partitions = _partition(dice, columns)
    if dice.random() < 0.4:
        options |= {"bucket": dice.choice(("1", "2")), "bucket-key": "k"}
    if dice.random() < 0.25:
        options["deletion-vectors.enabled"] = "true"
        options.pop("manifest.format", None)
    if dice.random() < 0.2 and columns[0]["type"] in INDEXED:
        kind = dice.choice(("bloom-filter", "bitmap", "range-bitmap"))
        options[f"file-index.{kind}.columns"] = "k"
    if dice.random() < 0.15:
        options["row-tracking.enabled"] = "true"
    return _table(columns, [], partitions, options)


def _keyed(dice: random.Random) -> dict[str, Any]:
    keys = [{"name": "k", "type": dice.choice(KEY_TYPES)}]
    if dice.random() < 0.2:
        keys.append({"name": "k2", "type": dice.choice(("INT", "STRING"))})
    columns = [*keys, *_columns(dice, dice.randint(1, 4))]
    options = _common(dice)
    options["bucket"] = dice.choice(("1", "1", "2", "-1", "-2"))
    partitions = _partition(dice, columns)
    primary = [column["name"] for column in keys]
    across = bool(partitions) and dice.random() < 0.2
    if across:
        options["bucket"] = "-1"
    else:
        primary += partitions
    if options["bucket"] == "-2":
        options.pop("file.compression", None)  # Java cannot put off rows with "none"
        options["postpone.batch-write-fixed-bucket"] = "false"
        options["postpone.default-bucket-num"] = dice.choice(("1", "2"))
    options["num-sorted-run.compaction-trigger"] = dice.choice(("2", "3", "5"))
    if dice.random() < 0.4:
        options["write-only"] = "true"
    if dice.random() < 0.2:
        options["data-file.thin-mode"] = "true"
    if dice.random() < 0.25:
        options["deletion-vectors.enabled"] = "true"
        if dice.random() < 0.3:
            options["deletion-vectors.bitmap64"] = "true"
    if dice.random() < 0.5:
        options["changelog-producer"] = dice.choice(("input", "lookup", "full-compaction"))
        if dice.random() < 0.25:
            options["changelog-producer.row-deduplicate"] = "true"
    if dice.random() < 0.3:
        options |= _some(dice, _RARE_OF_KEYED)
    if options["bucket"] == "-2":
        options.pop("file.compression.per.level", None)  # nor with lz4
    if not across:
        _merging(dice, columns, primary, options)
        _clustered(columns, options)
    if "deletion-vectors.enabled" in options or options["bucket"] == "-1":
        options.pop("manifest.format", None)  # Java 2.0 reads no such index manifests of 1.4
    return _table(columns, primary, partitions, options)


def _merging(
    dice: random.Random, columns: list[dict[str, str]], primary: list[str], options: dict[str, str]
) -> None:
    """Merge engine, sequence fields and what goes with them."""
    engine = dice.choice(("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row"))
    values = [column for column in columns if column["name"] not in primary and column["name"][0] == "v"]
    if engine != "deduplicate":
        options["merge-engine"] = engine
    if engine == "deduplicate" and dice.random() < 0.3:  # elsewhere late rows depend on when Java compacts
        columns.append({"name": "s", "type": dice.choice(("INT", "BIGINT", "TIMESTAMP(3)"))})
        options["sequence.field"] = "s"
    ordered = options["bucket"] != "-2"  # late rows depend on how many were put off together
    if engine == "partial-update" and dice.random() < 0.4 and ordered:
        columns.append({"name": "g", "type": "INT"})
        options["fields.g.sequence-group"] = ",".join(column["name"] for column in values)
        for column in values:
            _function(dice, column, options)
    if engine == "aggregation":
        for column in values:
            _function(dice, column, options)
    if engine == "partial-update" and dice.random() < 0.3 and "fields.g.sequence-group" not in options:
        options["partial-update.remove-record-on-delete"] = "true"
    elif engine == "aggregation" and dice.random() < 0.3:
        options["aggregation.remove-record-on-delete"] = "true"
        for key, function in options.items():  # what comes first depends on when Java compacts
            options[key] = function.replace("first_", "last_") if key.endswith("-function") else function
    elif dice.random() < (0.5 if engine in ("first-row", "partial-update") else 0.15):
        options["ignore-delete"] = "true"


def _clustered(columns: list[dict[str, str]], options: dict[str, str]) -> None:
    """Some tables have files in another order: those of which seeds follows from all the rest, which stays."""
    dice = random.Random(repr((columns, options)))
    other = options.get("merge-engine", "deduplicate") not in ("deduplicate", "first-row")
    late = options.get("changelog-producer", "input") != "input"
    if other or late or "sequence.field" in options or options["bucket"] == "-2" or dice.random() > 0.25:
        return
    columns.append({"name": "s", "type": dice.choice(KEY_TYPES)})
    options |= {
        "pk-clustering-override": "true",
        "clustering.columns": "s",
        "deletion-vectors.enabled": "true",
    }


def _function(dice: random.Random, column: Mapping[str, str], options: dict[str, str]) -> None:
    kind = column["type"]
    names = ["last_value", "last_non_null_value", "first_value", "first_non_null_value"]
    if kind in SUMMABLE:
        names += ["sum", "sum", "max", "min"]
    if kind == "BOOLEAN":
        names += ["bool_and", "bool_or"]
    if kind == "STRING":
        names += ["max", "min", "listagg"]
    if kind == "BYTES":
        names += SETS
    if kind == "ARRAY<INT>":
        names += ["collect"]
    if kind == "MAP<STRING, INT>":
        names += ["merge_map"]
    if dice.random() < 0.7:
        options[f"fields.{column['name']}.aggregate-function"] = dice.choice(names)


def _partition(dice: random.Random, columns: list[dict[str, str]]) -> list[str]:
    if dice.random() > 0.35:
        return []
    columns.append({"name": "p", "type": dice.choice(PARTITION_TYPES)})
    return ["p"]


def _table(
    columns: list[dict[str, str]], primary: list[str], partitions: list[str], options: dict[str, str]
) -> dict[str, Any]:
    for column in columns:
        if column["name"] in primary:
            column["type"] += " NOT NULL"
    return {"columns": columns, "primaryKeys": primary, "partitionKeys": partitions, "options": options}


class _Steps:
    """Steps on a table whose columns change as they go."""

    def __init__(self, dice: random.Random, table: Mapping[str, Any]) -> None:
        self.dice = dice
        self.keys = set(table["primaryKeys"])
        self.fixed = self.keys | set(table["partitionKeys"]) | {"k", "s", "g", "b"}
        self.partitions = table["partitionKeys"]
        self.columns = {
            column["name"]: column["type"].removesuffix(" NOT NULL") for column in table["columns"]
        }
        self.options = table["options"]
        self.domain = {
            name: [value for _ in range(8) if (value := (TYPES | VALUES)[kind](dice)) is not None]
            for name, kind in self.columns.items()
            if name in self.fixed
        }
        self.added = 0
        self.tags: list[str] = []
        self.tagged = 0

    def steps(self) -> tuple[Step, ...]:
        length = self.dice.randint(8, 25) if self.dice.random() < _LONG else self.dice.randint(2, 6)
        return (self._write(), *(self._step() for _ in range(length)))

    def _by(self) -> str:
        return self.dice.choice((LAKE, LAKE, OLD, NEW))

    def _step(self) -> Step:
        draws: dict[Callable[[], Step], float] = {
            self._write: 47,
            self._compact: 30,
            self._overwrite: 6,
            lambda: Step("alter", self._by(), change=self._change()): 5,
            self._tag: 4,
            lambda: Step("expire", self._by(), keep=self.dice.randint(1, 3)): 2,
            lambda: Step("orphans", self._by()): 1,
            self._roll_back: 1.5,
            self._delete: 3.5,
        }
        return self.dice.choices(list(draws), list(draws.values()))[0]()

    def _compact(self) -> Step:
        by = LAKE if self.dice.random() < 0.7 else self._by()
        full, copy = self.dice.random() < 0.5, drawn_copy(self.dice)
        step = Step("compact", by, full=full, proof=drawn_mode(self.dice), copy=copy)
        placed = self.options.get("bucket") not in ("-1", "-2") or not self.keys
        if by != LAKE or not placed or self.dice.random() > _MEETINGS:
            return step
        rows = self._rows(self.dice.randint(1, 3), inserts=True)
        return replace(step, meanwhile=Step("write", self.dice.choice((OLD, NEW)), rows=rows))

    def _roll_back(self) -> Step:
        """To a tag; later ones go with their snapshots."""
        if not self.tags:
            return self._tag()
        at = self.dice.randrange(len(self.tags))
        del self.tags[at + 1 :]
        return Step("rollback", self._by(), name=self.tags[at])

    def _tag(self) -> Step:
        """A tag of the latest snapshot, or away with one."""
        if self.tags and self.dice.random() < 0.3:
            return Step("untag", self._by(), name=self.tags.pop(self.dice.randrange(len(self.tags))))
        self.tagged += 1
        self.tags.append(f"t{self.tagged}")
        return Step("tag", self._by(), name=self.tags[-1])

    def _write(self) -> Step:
        return Step("write", self._by(), rows=self._rows(self.dice.randint(1, 7)))

    def _overwrite(self) -> Step:
        if self.keys and not set(self.partitions) <= self.keys:
            return self._write()  # the twin has no partitions, so all of it would be replaced
        rows = self._rows(self.dice.randint(0, 3), inserts=True)
        if self.partitions and rows and self.columns["p"] == "INT" and self.dice.random() < 0.5:
            value = rows[0]["p"]
            if value is not None:
                return Step(
                    "overwrite",
                    self._by(),
                    rows=tuple({**row, "p": value} for row in rows),
                    partition={"p": value},
                )
        return Step("overwrite", self._by(), rows=rows)

    def _delete(self) -> Step:
        """Rows of an append table, by key; of a keyed one, by writing deletes."""
        if not self.keys and "deletion-vectors.enabled" not in self.options:
            return self._write()
        if not self.keys:
            return Step("delete", self._by(), rows=({"k": self._value("k", nulls=False)},))
        rows = self._rows(2, inserts=True)
        kind = "-D" if "-D" in self._kinds() else "+I"
        return Step("write", self._by(), rows=tuple(self._of_kind(row, kind) for row in rows))

    def _rows(self, count: int, *, inserts: bool = False) -> tuple[dict[str, Any], ...]:
        kinds = self._kinds()
        rows = []
        for _ in range(count):
            never_null = self.keys | {"g"}  # a single row without a sequence is folded by lookups only
            row = {name: self._value(name, nulls=name not in never_null) for name in self.columns}
            kind = "+I" if inserts else self.dice.choice(kinds)
            rows.append(self._of_kind(row, kind))
        return tuple(rows)

    def _of_kind(self, row: dict[str, Any], kind: str) -> dict[str, Any]:
        """Merge engines begin with the values of a delete, until a compaction forgets it: it has none here."""
        if kind in ("-U", "-D") and "merge-engine" in self.options:
            kept = self.keys | set(self.partitions)
            row = {name: value if name in kept else None for name, value in row.items()}
        return row if kind == "+I" else {**row, "_kind": kind}

    def _kinds(self) -> tuple[str, ...]:
        """Kinds of rows that the table takes."""
        if not self.keys:
            return ("+I",)
        engine = self.options.get("merge-engine", "deduplicate")
        if "sequence.field" in self.options and self.options.get("ignore-delete") != "true":
            return ("+I", "+I", "+U")  # how long a delete hides lower rows depends on when Java compacts
        if any(key.endswith("remove-record-on-delete") for key in self.options):
            # a delete that is merged with a later row removes nothing of earlier commits: how many were put off counts
            postponed = self.options["bucket"] == "-2"
            return ("+I", "+I", "+U") if postponed else ("+I", "+I", "+U", "-D")
        takes = engine == "deduplicate" or self.options.get("ignore-delete") == "true"
        takes &= engine != "aggregation"
        return ("+I", "+I", "+U", "-U", "-D") if takes else ("+I", "+I", "+U")

    def _value(self, name: str, *, nulls: bool) -> Any:
        if nulls and self.dice.random() < 0.15:
            return None
        function = self.options.get(f"fields.{name}.aggregate-function")
        if function == "sum":
            return self._summand(name)
        if function in SETS:
            return self.dice.choice(pool(function, 60))
        if function == "listagg":
            return self.dice.choice(TEXTS[1:])  # releases differ in what a blank text does
        if name in self.domain:
            return self.dice.choice(self.domain[name])
        return (TYPES | VALUES)[self.columns[name]](self.dice)

    def _summand(self, name: str) -> Any:
        """Small and exact: sums never overflow, in whatever order they are taken."""
        value = self.dice.randint(-5, 5)
        return f"{value}.25" if self.columns[name].startswith("DECIMAL") else value

    def _change(self) -> dict[str, Any]:
        free = [name for name in self.columns if name not in self.fixed and not self._bound(name)]
        op = self.dice.choice(("add", "add", "drop", "rename", "type"))
        if op == "drop" and len(free) > 1:
            name = self.dice.choice(free)
            del self.columns[name]
            return {"op": "drop", "name": name}
        if op == "rename" and free:
            name = self.dice.choice(free)
            self.added += 1
            to = f"r{self.added}"
            self.columns = {to if key == name else key: kind for key, kind in self.columns.items()}
            return {"op": "rename", "name": name, "to": to}
        widening = [name for name in free if self.columns[name] in WIDER]
        if op == "type" and widening:
            name = self.dice.choice(widening)
            self.columns[name] = WIDER[self.columns[name]]
            TYPES.setdefault(self.columns[name], TYPES["DECIMAL(9, 2)"])
            return {"op": "type", "name": name, "type": self.columns[name]}
        self.added += 1
        name, kind = f"a{self.added}", self.dice.choice(tuple(TYPES))
        self.columns[name] = kind
        return {"op": "add", "name": name, "type": kind}

    def _bound(self, name: str) -> bool:
        """Whether options name the column."""
        return any(name in (*key.split("."), *value.split(",")) for key, value in self.options.items())
