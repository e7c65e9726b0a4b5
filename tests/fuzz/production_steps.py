"""Steps on a production table: a large base, a few hot keys that go and come back, and compactions in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.fuzz.history import FORK, LAKE, NEW, OLD, Step
from tests.fuzz.production import DYNAMIC, POSTPONED, retracts
from tests.fuzz.proofs import drawn_copy, drawn_mode
from tests.fuzz.values import TYPES, WIDER

__all__ = ["ProductionSteps"]

Row = dict[str, Any]

_LENGTHS = ((5, 9),) * 6 + ((10, 20),) * 3 + ((30, 80),)
_BASE_ROWS = (0, 20, 40, 60)
_LATE = 0.25
_NEVER_NULL = ("g", "p")


class ProductionSteps:
    """Draws steps. It knows roughly which keys live, so that deletes hit rows and deleted keys come back."""

    def __init__(self, dice: random.Random, table: Mapping[str, Any], judge: str) -> None:
        self.dice = dice
        self.judge = judge
        self.keys: Sequence[str] = [key for key in table["primaryKeys"] if key != "p"]
        self.partitioned = bool(table["partitionKeys"])
        self.columns = {
            column["name"]: column["type"].removesuffix(" NOT NULL") for column in table["columns"]
        }
        self.options = dict(table["options"])
        self.retracts = retracts(self.options, judge)
        self.hot = [self._key(number) for number in range(dice.randint(2, 6))]
        self.base = [self._key(number + 10) for number in range(dice.choice(_BASE_ROWS))]
        self.partitions = self._partition_values() if self.partitioned else [None]
        self.gone: list[Row] = []
        self.tags: list[str] = []
        self.branches: list[str] = []
        self.made = 0
        self.clock = 0

    def steps(self) -> tuple[Step, ...]:
        """The base, and what happens to it."""
        length = self.dice.randint(*self.dice.choice(_LENGTHS))
        steps = [self._base()] if self.base else [self._write([self._row(self.dice.choice(self.hot))])]
        if self.base and self.dice.random() < 0.8:
            steps.append(self._compact(full=True))
        while len(steps) < length:
            steps += self._next()
        return tuple(steps)

    def _next(self) -> list[Step]:
        draws: dict[Callable[[], list[Step]], float] = {
            self._writes: 46,
            lambda: [self._compact()]: 20,
            lambda: [self._compact(full=True)]: 5,
            self._compacted_writes: 9,
            self._delete_and_return: 7,
            lambda: [self._meeting()]: 4,
            lambda: [self._overwrite()]: 2,
            lambda: [self._alter()]: 2,
            lambda: [self._switch()]: 2.5,
            lambda: [self._tag()]: 3,
            self._branch: 1.5,
            lambda: [self._expire()]: 2,
            lambda: [Step("orphans", self._by())]: 1,
            self._roll_back: 1.5,
            lambda: [self._drop()]: 0.7,
        }
        return self.dice.choices(list(draws), list(draws.values()))[0]()

    def _by(self) -> str:
        return self.dice.choice((LAKE, LAKE, OLD, NEW))

    def _writes(self) -> list[Step]:
        if self.base and self.dice.random() < 0.12:  # a run as large as what lies below it
            some = self.dice.sample(self.base, self.dice.randint(1, len(self.base)))
            return [self._write([self._row(key) for key in some])]
        return [self._write([self._hot_row() for _ in range(self.dice.choice((1, 1, 2, 3, 6)))])]

    def _write(self, rows: list[Row]) -> Step:
        return Step("write", self._by(), rows=self._batch(rows))

    def _batch(self, rows: list[Row]) -> tuple[Row, ...]:
        """Java's write buffer sorts sequence fields upwards, whatever their order: one row of a key then."""
        if self.options.get("sequence.field.sort-order") != "descending":
            return tuple(rows)
        names = (*self.keys, "p") if self.partitioned else tuple(self.keys)
        return tuple({tuple(row[name] for name in names): row for row in rows}.values())

    def _compacted_writes(self) -> list[Step]:
        """A small write and a compaction, a few times: what a streaming job does, or a dedicated one beside it."""
        by = self._by()
        steps = []
        for _ in range(self.dice.randint(2, 5)):
            steps += [self._write([self._hot_row()]), self._compact(by=by)]
        return steps

    def _delete_and_return(self) -> list[Step]:
        """A key goes, the delete is compacted on its way down, and the key comes back."""
        if not self.retracts:
            return self._writes()
        row = self._row(self.dice.choice(self.hot))
        steps = [self._write([self._of_kind(row, self.retracts[0])]), self._compact()]
        if self.dice.random() < 0.3:
            steps += self._writes()
        return [
            *steps,
            self._write([{**self._row(row), "p": row["p"]} if self.partitioned else self._row(row)]),
            self._compact(),
        ]

    def _compact(self, *, full: bool = False, by: str = "") -> Step:
        by = by or (LAKE if self.dice.random() < 0.75 else self._by())
        part = {}
        if by == LAKE and self.dice.random() < 0.1:
            if self.partitioned and self.dice.random() < 0.6:
                part = {"where": f"p={self.dice.choice(self.partitions)}"}
            elif self.options["bucket"] not in (DYNAMIC, POSTPONED):
                part = {"buckets": "0"}
        return Step("compact", by, full=full, proof=drawn_mode(self.dice), copy=drawn_copy(self.dice), **part)

    def _meeting(self) -> Step:
        """Java comes between the plan and the commit of a compaction."""
        if self.options["bucket"] in (DYNAMIC, POSTPONED):
            return self._compact()
        java = self.dice.choice((OLD, NEW))
        rows = self._batch([self._hot_row() for _ in range(self.dice.randint(1, 3))])
        other = (
            Step("compact", java, full=True) if self.dice.random() < 0.3 else Step("write", java, rows=rows)
        )
        full = self.dice.random() < 0.5
        return Step(
            "compact",
            LAKE,
            full=full,
            proof=drawn_mode(self.dice),
            copy=drawn_copy(self.dice),
            meanwhile=other,
        )

    def _overwrite(self) -> Step:
        rows = self._batch([self._row(self.dice.choice(self.hot)) for _ in range(self.dice.randint(0, 4))])
        return Step("overwrite", self._by(), rows=rows)

    def _alter(self) -> Step:
        widening = [name for name, kind in self.columns.items() if name[0] == "v" and kind in WIDER]
        free = [name for name in widening if not any(name in key for key in self.options)]
        if free and self.dice.random() < 0.4:
            name = self.dice.choice(free)
            self.columns[name] = WIDER[self.columns[name]]
            change = {"op": "type", "name": name, "type": self.columns[name]}
        else:
            self.made += 1
            name, kind = f"a{self.made}", self.dice.choice(("INT", "STRING", "DOUBLE"))
            self.columns[name] = kind
            change = {"op": "add", "name": name, "type": kind}
        return Step("alter", self._by(), change=change)

    def _switch(self) -> Step:
        """Another value of an option that may change at any time."""
        key, values = self.dice.choice(
            (
                ("write-only", ["true", "false"]),
                ("write-only", ["true", "false"]),
                ("changelog-producer", self._producers()),
                ("num-sorted-run.compaction-trigger", self._triggers()),
                ("target-file-size", ["1 b", "2 kb", "128 mb"]),
                ("file.format", ["orc", "parquet", "avro"]),
                ("compaction.max-size-amplification-percent", ["200", "100000"]),
            )
        )
        now = self.options.get(key)
        value = self.dice.choice([value for value in values if value != now] or values)
        self.options[key] = value
        return Step("alter", self._by(), change={"op": "set", "key": key, "value": value})

    def _producers(self) -> list[str]:
        """Reads of tables that look rows up take rows above level 0 for whole ones, which those that were merged
        before may not be: then rows depend on what was merged when, and the twin is no judge.
        """
        engine = self.options.get("merge-engine", "deduplicate")
        folds = engine in ("partial-update", "aggregation") and self.judge != FORK
        producers = ["none"] if folds else ["none", "lookup"]
        if engine != "first-row" and "deletion-vectors.enabled" not in self.options:
            producers += ["input", "full-compaction"]
        return producers

    def _triggers(self) -> list[str]:
        """A lower one makes the tree lower, and Java then looks up no keys below its new last level."""
        now = int(self.options["num-sorted-run.compaction-trigger"])
        return [value for value in ("2", "3", "5", "6") if int(value) >= now or "num-levels" in self.options]

    def _expire(self) -> Step:
        by = self._by_a_reader_of_branches()
        return Step("expire", by, keep=self.dice.randint(1, 4))

    def _tag(self) -> Step:
        if self.tags and self.dice.random() < 0.25:
            by = self._by_a_reader_of_branches()
            return Step("untag", by, name=self.tags.pop(self.dice.randrange(len(self.tags))))
        self.made += 1
        self.tags.append(f"t{self.made}")
        return Step("tag", self._by(), name=self.tags[-1])

    def _branch(self) -> list[Step]:
        """From a tag, which is made first if there is none."""
        if self.branches and self.dice.random() < 0.3:
            return [Step("unbranch", self._by(), name=self.branches.pop())]
        first = [] if self.tags else [self._tag()]
        self.made += 1
        self.branches.append(f"b{self.made}")
        return [*first, Step("branch", self._by(), name=self.branches[-1], tag=self.dice.choice(self.tags))]

    def _roll_back(self) -> list[Step]:
        """To a tag, which is made and left behind first if there is none; later ones go with their snapshots."""
        first = [] if self.tags else [self._tag(), *self._writes(), self._compact()]
        at = self.dice.randrange(len(self.tags))
        del self.tags[at + 1 :]
        return [*first, Step("rollback", self._by_a_reader_of_branches(), name=self.tags[at])]

    def _by_a_reader_of_branches(self) -> str:
        """Who may remove snapshots: Java removes files that branches still need, with a tag or in a rollback, too."""
        return LAKE if self.branches else self._by()

    def _drop(self) -> Step:
        if not self.partitioned or self.options["bucket"] in (DYNAMIC, POSTPONED):
            return self._overwrite()
        return Step("drop", self._by(), partition={"p": self.dice.choice(self.partitions)})

    def _base(self) -> Step:
        return Step(
            "write", self._by(), rows=self._batch([self._row(key) for key in (*self.base, *self.hot)])
        )

    def _hot_row(self) -> Row:
        """Deleted keys come back more often than others, and living ones are deleted now and then."""
        if self.gone and self.dice.random() < 0.5:
            back = self.gone.pop(self.dice.randrange(len(self.gone)))
            return {**self._row(back), **({"p": back["p"]} if self.partitioned else {})}
        row = self._row(self.dice.choice(self.hot))
        if self.retracts and self.dice.random() < 0.3:
            self.gone.append(row)
            return self._of_kind(row, self.dice.choice(self.retracts))
        return self._of_kind(row, "+U") if self.dice.random() < 0.1 else row

    def _of_kind(self, row: Row, kind: str) -> Row:
        """The twin forgets a delete at another time, and folds begin with its values: it has none there."""
        if kind in ("-U", "-D") and "merge-engine" in self.options and self.judge != FORK:
            row = {name: value if name in (*self.keys, "p") else None for name, value in row.items()}
        return {**row, "_kind": kind}

    def _row(self, key: Row) -> Row:
        row = {name: self._value(name, kind) for name, kind in self.columns.items()}
        return row | {name: key[name] for name in self.keys}

    def _value(self, name: str, kind: str) -> Any:
        if name in ("s", "g"):
            return self._order()
        if name == "p":
            return self.dice.choice(self.partitions)
        if name == "pad":
            return f"{self.dice.getrandbits(96):024x}"
        if name not in _NEVER_NULL and self.dice.random() < 0.12:
            return None
        if self.options.get(f"fields.{name}.aggregate-function") == "sum":
            value = self.dice.randint(-5, 5)
            return f"{value}.25" if kind.startswith("DECIMAL") else value
        return TYPES[kind if kind in TYPES else "DECIMAL(9, 2)"](self.dice)

    def _order(self) -> int:
        """Of a sequence field: the time, and now and then an earlier one."""
        self.clock += 1
        return self.dice.randint(0, self.clock) if self.dice.random() < _LATE else self.clock

    def _key(self, number: int) -> Row:
        return {name: f"k{number}" if self.columns[name] == "STRING" else number for name in self.keys}

    def _partition_values(self) -> list[Any]:
        values = {"INT": [1, 2], "STRING": ["a", "b", "c"], "DATE": ["2024-02-29", "2024-03-01"]}
        return values[self.columns["p"]]
