"""The kinds of tables, and the rows that cases write. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.walk_follower import Follower
from tests.fuzz.walk_shape import Shape

__all__ = ["NEW", "OLD", "SHAPES", "TABLE", "Moment", "Row", "Rows", "by_key", "lines", "schema_of", "upsert"]

TABLE = "d.t"
OLD, NEW = "2020-01-01", "2099-01-01"
Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]

_VECTORS = {"deletion-vectors.enabled": "true"}
_TRACKED = {"row-tracking.enabled": "true"}
_FEW_ROWS = {"dynamic-bucket.target-row-num": "4"}
_OPTIONS = {
    "lakecore.commit.settle-time": "10 ms",
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "3",
}
_COLUMNS = ("p", "k", "v", "n")


def _keyed(bucket: str, *, partitioned: bool = True, engine: str = "deduplicate", **options: str) -> Shape:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return Shape(engine, partitioned, False, False, bucket, named)


SHAPES: dict[str, Shape] = {
    "append": Shape("append", True, False, False, "-1"),
    "append-buckets": Shape("append", False, False, False, "2", {"bucket-key": "k"}),
    "append-vectors": Shape("append", True, False, True, "-1", _VECTORS),
    "keyed": _keyed("1"),
    "keyed-vectors": Shape("deduplicate", True, False, True, "1", _VECTORS),
    "lookup": _keyed("1", partitioned=False, changelog_producer="lookup"),
    "dynamic": Shape("deduplicate", True, False, False, "-1", _FEW_ROWS),
    "moves": Shape("deduplicate", True, True, False, "-1", _FEW_ROWS),
    "postpone": _keyed("-2"),
    "partial-update": _keyed("1", engine="partial-update"),
    "tracked": Shape("append", True, False, False, "-1", _TRACKED),
    "evolution": Shape("append", True, False, False, "-1", _TRACKED | {"data-evolution.enabled": "true"}),
}


def schema_of(name: str) -> dict[str, Any]:
    schema = SHAPES[name].schema()
    return schema | {"options": schema["options"] | _OPTIONS}


def by_key(shape: str, rows: Iterable[Mapping[str, Any]]) -> Rows:
    """The rows by their key. Raises AssertionError for a key that comes twice."""
    primary = SHAPES[shape].primary or ["p", "k"]
    listed = [{name: row.get(name) for name in _COLUMNS} for row in rows]
    keyed = {tuple(row[name] for name in primary): row for row in listed}
    if len(keyed) != len(listed):
        raise AssertionError(f"{shape}: a key comes twice in {listed}")
    return keyed


def upsert(shape: str, rows: Rows, new: Iterable[Row]) -> Rows:
    return rows | by_key(shape, new)


def lines(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows of the columns that every table has, so that they compare with their number."""
    return Counter(json.dumps([row.get(name) for name in _COLUMNS]) for row in rows)


@dataclass
class Moment:
    """It has what a case knows of its table before anything happens, and the rows that its chore and its change write."""

    shape: str
    history: dict[int, Rows]
    """The rows of each snapshot."""
    settled: list[int]
    """The snapshots whose rows a compaction does not change: where reads leave out level 0, those of compactions."""
    tagged: Rows
    """The rows of tag t2 and of branch br."""
    java: str = "new"
    """Which Java makes the change: `old` or `new`."""
    base: Rows = field(default_factory=dict)
    """The rows of the table before the chore."""
    run: str = ""
    """The run of lakecore that the chore takes back."""
    stream: Follower | None = None
    """It has added up what a stream of the table has read so far; None for a case without a stream."""
    in_stream: bool = True
    """It tells whether streams of the table show the change."""

    @property
    def middle(self) -> int:
        return self.settled[len(self.settled) // 2]

    @property
    def low(self) -> int:
        return self.settled[1]

    @property
    def later(self) -> int:
        """How many snapshots are above the middle one."""
        return sum(number > self.middle for number in self.history)

    @property
    def of_chore(self) -> list[Row]:
        return [self._row(OLD, 2, "c", 50), self._row(NEW, 3, "c", 51), self._row(OLD, 70, "c", 52)]

    @property
    def of_change(self) -> list[Row]:
        return [self._row(OLD, 2, "j", 60, 100), self._row(NEW, 1, "j", 61, 100), self._row(OLD, 80, "j", 62)]

    @property
    def of_merge(self) -> list[Row]:
        return [self._row(OLD, 0, "m", 70), self._row(NEW, 95, "m", 71)]

    def further(self, number: int) -> list[Row]:
        """One more row of the change."""
        return [self._row((OLD, NEW)[number % 2], 290 + number, "f", 80 + number)]

    def _row(self, partition: str, key: int, text: str, number: int, apart: int = 0) -> Row:
        """Append tables get keys of their own, `apart` more for the change."""
        shape = SHAPES[self.shape]
        key += 0 if shape.keyed else 500 + apart
        if shape.moves:  # each key has one partition, so that it does not matter who moves it
            partition = (OLD, NEW)[key % 2]
        return {"p": partition, "k": key, "v": text, "n": number}
