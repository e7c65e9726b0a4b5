"""Tables of the battery without a primary key, of clustering, of rescaling, and with changelogs that tell all."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.mutants.table_steps import (
    COLUMNS,
    compact_table,
    create_table,
    level_steps,
    plain_row,
    put_rows,
    random_rows,
)


def append(lake: Any, name: str) -> None:
    columns = ("v INT", "s STRING", "p STRING")
    table = create_table(lake, name, columns, (), ["p"], deletion_vectors__enabled="true", bucket="-1")
    for number in range(6):
        put_rows(table, [{"v": number * 20 + i, "s": f"s{i}", "p": "xy"[i % 2]} for i in range(20)])
    table.delete("v > 30 and v < 47")
    table.delete("v = 3")


def append_buckets(lake: Any, name: str) -> None:
    """Rows keep their order; some of them are deleted."""
    options = {
        "bucket": "2",
        "bucket-key": "v",
        "deletion-vectors.enabled": "true",
        "compaction.min.file-num": "3",
    }
    table = create_table(lake, name, ("v INT", "s STRING"), (), **options)
    for number in range(6):
        put_rows(table, [{"v": i, "s": f"{number}.{i}"} for i in range(20 + 30 * (number % 2))])
    table.delete("s = '1.7' or s = '4.8' or s = '5.11'")


def tracked(lake: Any, name: str) -> None:
    table = create_table(lake, name, ("v INT", "s STRING"), (), bucket="-1", row_tracking__enabled="true")
    for number in range(5):
        put_rows(table, [{"v": number * 10 + i, "s": f"s{i}"} for i in range(10)])


def column_files(lake: Any, name: str) -> None:
    """Files with some of the columns of rows, and deleted rows."""
    import pyarrow as pa

    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    }
    table = create_table(lake, name, ("v INT", "s STRING", "n INT"), (), bucket="-1", **options)
    for number in range(3):
        put_rows(table, [{"v": number * 10 + i, "s": f"s{i}", "n": i} for i in range(10)])
    ids = pa.array([2, 11, 25], pa.int64())
    table.update_columns(pa.table({"_ROW_ID": ids, "s": ["two", "eleven", "twentyfive"]}))
    table.delete("v = 4 or v = 13 or v = 29")


def blobs(lake: Any, name: str) -> None:
    import pyarrow as pa

    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "blob-compaction.enabled": "true",
    }
    table = create_table(lake, name, ("k INT", "b BLOB"), (), bucket="-1", **options)
    for number in range(3):
        values = [f"{number}.{i}".encode() if i % 3 else None for i in range(6)]
        table.append(pa.table({"k": pa.array(range(6), pa.int32()), "b": pa.array(values, pa.binary())}))
    table.update_columns(pa.table({"_ROW_ID": [2, 13], "b": pa.array([b"two", b"thirteen"], pa.binary())}))


def unsorted(lake: Any, name: str) -> None:
    """Two partitions of files in no order, with nulls and deleted rows."""
    columns = ("a INT", "b BIGINT", "s STRING", "p STRING")
    table = create_table(lake, name, columns, (), ["p"], bucket="-1", deletion_vectors__enabled="true")
    dice = random.Random(5)
    for _ in range(4):
        rows = [
            {"a": dice.choice([None, dice.randrange(-9, 30)]), "b": dice.randrange(10**6), "s": dice.choice([None, "", "ä"]),
             "p": p} for p in "xy" for _ in range(60)
        ]  # fmt: skip
        put_rows(table, rows)
    table.delete("b > 900000")


def in_order_parts(lake: Any, name: str) -> None:
    """Files that lie behind one another, so that ranges read some of them only."""
    table = create_table(lake, name, ("a INT", "s STRING"), (), bucket="-1")
    for low in range(0, 400, 50):
        put_rows(table, [{"a": low + (i * 7) % 50 + (i == 3), "s": f"s{i}"} for i in range(50)])


def clustering(lake: Any, name: str) -> None:
    options = {
        "clustering.incremental": "true", "clustering.columns": "a, b", "clustering.strategy": "order",
        "num-sorted-run.compaction-trigger": "3", "bucket": "-1",
    }  # fmt: skip
    table = create_table(lake, name, ("a INT", "b INT", "p STRING"), (), ["p"], **options)
    dice = random.Random(6)
    for _ in range(7):
        put_rows(
            table,
            [{"a": dice.randrange(99), "b": dice.randrange(9), "p": p} for p in "xy" for _ in range(20)],
        )


def clustered_keys(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "s": dice.choice([None, f"s{dice.randrange(9)}"]), "n": dice.randrange(99)}

    options = {
        "pk-clustering-override": "true",
        "clustering.columns": "s,n",
        "deletion-vectors.enabled": "true",
    }
    table = create_table(lake, name, ("k INT", "s STRING", "n INT"), ["k"], **options)
    put_rows(table, *(random_rows(seed, 60, 90, deletes=0.2 * (seed > 0), make=make) for seed in range(2)))
    table = compact_table(lake, name, strategy="universal")
    put_rows(table, *(random_rows(seed, 30, 90, deletes=0.2, make=make) for seed in (3, 4)))


def rescaled(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**plain_row(key, dice), "p": "xy"[key % 2]}

    table = create_table(lake, name, (*COLUMNS, "p STRING"), ["p", "k"], ["p"], bucket="2")
    put_rows(table, random_rows(1, 80, 80, deletes=0, make=make))
    table = compact_table(lake, name, strategy="full")
    put_rows(table, *(random_rows(seed, 30, 90, deletes=0.3, make=make) for seed in (2, 3)))


def rescaled_vectors(lake: Any, name: str) -> None:
    options = {"bucket": "2", "bucket-key": "v", "deletion-vectors.enabled": "true"}
    table = create_table(lake, name, ("v INT", "s STRING"), (), **options)
    for number in range(4):
        put_rows(table, [{"v": i, "s": f"{number}.{i}"} for i in range(30)])
    table.delete("s = '1.7' or s = '2.8' or s = '3.11'")


def behind_large(lake: Any, name: str) -> None:
    """Rows keep their order: a large file that stays comes first, small ones are joined behind it."""
    options = {"bucket": "1", "bucket-key": "v", "target-file-size": "20 kb"}
    table = create_table(lake, name, ("v INT", "s STRING"), (), **options)
    dice = random.Random(4)
    put_rows(table, [{"v": i, "s": str(dice.random())} for i in range(1500)])
    put_rows(table, *([{"v": i, "s": f"{number}.{i}"} for i in range(20)] for number in range(5)))


def row_kinds(lake: Any, name: str) -> None:
    """Rows of all kinds, null and negative sequences, in partitions of which one has an empty name."""

    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**plain_row(key, dice), "s": dice.choice([None, -3, 0, 2]), "p": ["", "x", "y"][key % 3]}

    options = {"sequence.field": "s", "bucket": "2", "num-sorted-run.compaction-trigger": "2"}
    table = create_table(lake, name, (*COLUMNS, "s BIGINT", "p STRING"), ["p", "k"], ["p"], **options)
    dice = random.Random(8)
    for seed in range(4):
        rows = random_rows(seed, 90, 120, deletes=0, make=make)
        put_rows(table, [{**row, "_kind": dice.choice(["+I", "-U", "+U", "-D"])} for row in rows])


def indexed(lake: Any, name: str) -> None:
    """Files with indexes of every kind."""
    options = {
        "file-index.bloom-filter.columns": "v", "file-index.bitmap.columns": "n", "file-index.range-bitmap.columns": "k",
        "file-index.bloom-filter.v.items": "500", "num-sorted-run.compaction-trigger": "2",
    }  # fmt: skip
    table = create_table(lake, name, COLUMNS, ["k"], **options)
    put_rows(table, *(random_rows(seed, 80, 120, make=plain_row) for seed in range(4)))


def expiring_told(lake: Any, name: str) -> None:
    """Rows that are too old on every level, where rows are looked up."""

    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**plain_row(key, dice), "t": dice.choice([None, 1_000_000, 4_000_000_000_000])}

    options = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "2"}
    create_table(lake, name, (*COLUMNS, "t BIGINT"), ["k"], **options)
    level_steps(lake, name, make)
    for key, value in (("expire-time", "1 h"), ("time-field", "t")):
        lake.alter_table(name, [{"op": "set", "key": f"record-level.{key}", "value": value}])


def groups_told(lake: Any, name: str) -> None:
    """Sequence groups whose changes are looked up."""

    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "a": dice.randrange(9), "s": dice.choice([None, dice.randrange(5)]), "b": dice.randrange(9),
                "t": dice.randrange(-2, 3), "r": dice.choice([None, "x"])}  # fmt: skip

    options = {
        "merge-engine": "partial-update", "fields.s.sequence-group": "a", "fields.t.sequence-group": "b",
        "fields.b.aggregate-function": "sum", "changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "2",
    }  # fmt: skip
    columns = ("k INT", "a INT", "s INT", "b INT", "t INT", "r STRING")
    create_table(lake, name, columns, ["k"], **options)
    level_steps(lake, name, make, deletes=0)


def evolved_told(lake: Any, name: str) -> None:
    """A column is widened, one dropped and one added between the levels that rows are looked up on."""
    options = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "2"}
    table = create_table(lake, name, ("k INT", "n INT", "v STRING", "w INT"), ["k"], **options)

    def make(*names: str) -> Callable[..., dict[str, Any]]:
        def row(key: int, dice: random.Random) -> dict[str, Any]:
            values = {"k": key, "n": dice.randrange(99), "v": f"v{key}", "w": key, "x": f"x{key}"}
            return {one: values[one] for one in ("k", *names)}

        return row

    put_rows(table, random_rows(1, 200, 200, deletes=0, make=make("n", "v", "w")))
    compact_table(lake, name, strategy="full")
    table = lake.alter_table(
        name, [{"op": "type", "name": "n", "type": "BIGINT"}, {"op": "drop", "name": "w"}]
    )
    put_rows(table, *(random_rows(seed, 60, 200, deletes=0.3, make=make("n", "v")) for seed in (2, 3)))
    compact_table(lake, name, strategy="universal", options={"num-sorted-run.compaction-trigger": "2"})
    table = lake.alter_table(name, [{"op": "add", "name": "x", "type": "STRING"}])
    put_rows(table, *(random_rows(seed, 25, 200, deletes=0.3, make=make("n", "v", "x")) for seed in (4, 5)))


def clustering_local(lake: Any, name: str) -> None:
    """Files that are in order each by itself."""
    options = {
        "clustering.incremental": "true", "clustering.columns": "a", "clustering.incremental.mode": "local-sort",
        "num-sorted-run.compaction-trigger": "3", "bucket": "-1", "target-file-size": "1 kb",
    }  # fmt: skip
    table = create_table(lake, name, ("a INT", "b STRING"), (), **options)
    dice = random.Random(9)
    for _ in range(6):
        put_rows(
            table,
            [{"a": dice.choice([None, dice.randrange(99)]), "b": str(dice.random())} for _ in range(40)],
        )


def tracked_unsorted(lake: Any, name: str) -> None:
    """Rows that keep their ids when they are put in order."""
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
    table = create_table(lake, name, ("a INT", "b INT"), (), bucket="-1", **options)
    dice = random.Random(10)
    for _ in range(4):
        put_rows(table, [{"a": dice.randrange(99), "b": i} for i in range(30)])
    table.delete("a > 90")
