"""Tables of the battery with a primary key, by merge engine and changelog producer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from tests.mutants.table_steps import (
    COLUMNS,
    TALL,
    Rows,
    compact_table,
    create_table,
    level_steps,
    plain_row,
    put_rows,
    random_rows,
    small_pages,
)


def deduplicate(lake: Any, name: str) -> None:
    table = create_table(lake, name, COLUMNS, ["k"], num_sorted_run__compaction_trigger="3")
    put_rows(table, *(random_rows(seed, 60, 100, make=plain_row) for seed in range(6)))


def levels(lake: Any, name: str) -> None:
    create_table(lake, name, COLUMNS, ["k"], num_sorted_run__compaction_trigger="2")
    level_steps(lake, name, plain_row)


def last_level(lake: Any, name: str) -> None:
    """Deletes on level 0 straight above the last level."""
    table = create_table(lake, name, COLUMNS, ["k"], num_sorted_run__compaction_trigger="2")
    put_rows(table, random_rows(1, 200, 200, deletes=0, make=plain_row))
    table = compact_table(lake, name, strategy="full")
    put_rows(table, *(random_rows(seed, 20, 200, deletes=0.5, make=plain_row) for seed in (2, 3)))


def apart_files(lake: Any, name: str) -> None:
    """Files whose keys do not meet, or only in one key, large and small ones."""
    table = create_table(
        lake, name, COLUMNS, ["k"], target_file_size="4 kb", num_sorted_run__compaction_trigger="2"
    )
    dice = random.Random(3)
    for low in (0, 300, 600, 599, 900):
        put_rows(table, [plain_row(low + i, dice) for i in range(250 if low != 599 else 2)])
    put_rows(table, *([{"k": k, "v": "", "n": 0, "_kind": "-D"}] for k in (5, 910)), [plain_row(1200, dice)])


def own_keys(lake: Any, name: str) -> None:
    """Most files have keys that no other has, so that they can be copied; one has a delete, two meet in a few keys."""
    table = create_table(
        lake, name, COLUMNS, ["k"], target_file_size="8 kb", num_sorted_run__compaction_trigger="2"
    )
    dice = random.Random(5)
    for low in (0, 300, 600, 900, 1200):
        put_rows(table, [plain_row(low + i, dice) for i in range(250)])
    put_rows(
        table, [{"k": 1500, "v": "", "n": 0, "_kind": "-D"}, *(plain_row(1501 + i, dice) for i in range(40))]
    )
    put_rows(table, [plain_row(605 + 9 * i, dice) for i in range(9)])


def sequence(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**plain_row(key, dice), "s": dice.choice([None, dice.randrange(9)])}

    table = create_table(
        lake, name, (*COLUMNS, "s INT"), ["k"], sequence__field="s", num_sorted_run__compaction_trigger="3"
    )
    put_rows(table, *(random_rows(seed, 60, 90, make=make) for seed in range(6)))


def descending(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"a": key % 7 - 3, "b": f"b{key % 11}", "v": str(key), "x": dice.choice([-2.5, -0.5, 0.0, 3.0]),
                "y": dice.randrange(3)}  # fmt: skip

    options = {"sequence.field": "x,y", "sequence.field.sort-order": "descending"}
    columns = ("a INT", "b STRING", "v STRING", "x DOUBLE", "y BIGINT")
    table = create_table(lake, name, columns, ["a", "b"], **options)
    put_rows(table, *(random_rows(seed, 50, 77, make=make) for seed in range(5)))


def key_types(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"d": Decimal(key % 13 - 6) / 4, "f": (key % 5 - 2) * 1.5, "t": date(1969, 12, 25 + key % 3 * 3),
                "b": f"ä{key % 3}", "v": dice.randrange(99)}  # fmt: skip

    columns = ("d DECIMAL(9, 2)", "f DOUBLE", "t DATE", "b STRING", "v INT")
    table = create_table(lake, name, columns, ["d", "f", "t", "b"])
    put_rows(table, *(random_rows(seed, 80, 300, make=make) for seed in range(5)))


def ignored_deletes(lake: Any, name: str) -> None:
    """The option is younger than some of the deletes."""
    table = create_table(lake, name, COLUMNS, ["k"])
    put_rows(table, *(random_rows(seed, 40, 60, deletes=0.4, make=plain_row) for seed in range(4)))
    lake.alter_table(name, [{"op": "set", "key": "ignore-delete", "value": "true"}])


def partial(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {
            "k": key,
            "a": dice.choice([None, dice.randrange(99)]),
            "b": dice.choice([None, f"b{dice.randrange(9)}"]),
        }

    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = create_table(lake, name, ("k INT", "a INT", "b STRING"), ["k"], **options)
    put_rows(table, *(random_rows(seed, 50, 70, make=make) for seed in range(5)))


def partial_groups(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        null = dice.random() < 0.2
        return {"k": key, "a": dice.randrange(99), "s": None if null else dice.randrange(5), "b": dice.randrange(99),
                "c": dice.randrange(9), "t": dice.randrange(4), "u": dice.choice([None, 0, 1]),
                "r": dice.choice([None, "x", "y"])}  # fmt: skip

    options = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "a",
        "fields.t,u.sequence-group": "b,c",
        "fields.c.aggregate-function": "sum",
        "partial-update.remove-record-on-sequence-group": "s",
    }
    columns = ("k INT", "a INT", "s INT", "b INT", "c INT", "t INT", "u INT", "r STRING")
    table = create_table(lake, name, columns, ["k"], **options)
    put_rows(table, *(random_rows(seed, 40, 50, make=make) for seed in range(6)))


FUNCTIONS = {
    "i": ("INT", "sum"), "g": ("BIGINT", "sum"), "d": ("DOUBLE", "sum"), "m": ("DECIMAL(20, 3)", "sum"),
    "p": ("INT", "product"), "hi": ("INT", "max"), "lo": ("STRING", "min"), "lv": ("STRING", "last_value"),
    "ln": ("INT", "last_non_null_value"), "fv": ("INT", "first_value"), "fn": ("INT", "first_non_null_value"),
    "la": ("STRING", "listagg"), "ba": ("BOOLEAN", "bool_and"), "co": ("ARRAY<INT>", "collect"),
    "mm": ("MAP<STRING, INT>", "merge_map"),
}  # fmt: skip
_RETRACTABLE = ("i", "g", "d", "m", "lv", "ln", "co", "mm")


def _aggregated(key: int, dice: random.Random, columns: Iterable[str]) -> dict[str, Any]:
    null = dice.random() < 0.2
    values = {
        "i": dice.randrange(-9, 9), "g": dice.randrange(10**15), "d": dice.randrange(-9, 9) / 4,
        "m": Decimal(dice.randrange(-(10**12), 10**12)) / 1000, "p": dice.randrange(1, 4), "hi": dice.randrange(99),
        "lo": f"t{dice.randrange(99)}", "lv": None if null else f"l{dice.randrange(99)}",
        "ln": None if null else dice.randrange(99), "fv": None if null else dice.randrange(99),
        "fn": None if null else dice.randrange(99), "la": f"x{dice.randrange(9)}", "ba": dice.random() < 0.8,
        "co": [dice.randrange(4) for _ in range(dice.randrange(3))], "mm": [(f"m{dice.randrange(4)}", dice.randrange(9))],
    }  # fmt: skip
    return {"k": key, **{name: values[name] for name in columns}}


def _aggregation(lake: Any, name: str, columns: Sequence[str], **more: str) -> Any:
    options = {f"fields.{one}.aggregate-function": FUNCTIONS[one][1] for one in columns}
    definition = ("k INT", *(f"{one} {FUNCTIONS[one][0]}" for one in columns))
    return create_table(lake, name, definition, ["k"], **{"merge-engine": "aggregation", **options, **more})


def _typed(table: Any, *commits: Rows) -> None:
    """Maps need their type."""
    import pyarrow as pa

    from lakecore.types.arrow import arrow_schema

    schema = arrow_schema(table.schema.row_type)
    for rows in commits:
        kinds = pa.array([row.get("_kind", "+I") for row in rows])
        plain = pa.Table.from_pylist([{k: v for k, v in row.items() if k != "_kind"} for row in rows], schema)
        table.write(plain.append_column("_kind", kinds))


def aggregates(lake: Any, name: str) -> None:
    table = _aggregation(lake, name, tuple(FUNCTIONS), num_sorted_run__compaction_trigger="3")
    make = lambda key, dice: _aggregated(key, dice, FUNCTIONS)  # noqa: E731
    _typed(table, *(random_rows(seed, 30, 40, deletes=0, make=make) for seed in range(6)))


def retractions(lake: Any, name: str) -> None:
    table = _aggregation(lake, name, _RETRACTABLE)
    make = lambda key, dice: _aggregated(key, dice, _RETRACTABLE)  # noqa: E731
    _typed(table, *(random_rows(seed, 30, 40, deletes=0.25 * (seed > 1), make=make) for seed in range(6)))


def removed_records(lake: Any, name: str) -> None:
    more = {"aggregation.remove-record-on-delete": "true"}
    table = _aggregation(lake, name, ("i", "lv", "hi"), **more)
    make = lambda key, dice: _aggregated(key, dice, ("i", "lv", "hi"))  # noqa: E731
    _typed(table, *(random_rows(seed, 30, 40, deletes=0.25, make=make) for seed in range(6)))


def first_row(lake: Any, name: str) -> None:
    create_table(lake, name, COLUMNS, ["k"], merge_engine="first-row", num_sorted_run__compaction_trigger="2")
    level_steps(lake, name, lambda key, dice: plain_row(key + dice.randrange(30), dice), deletes=0)


def first_row_told(lake: Any, name: str) -> None:
    options = {
        "merge-engine": "first-row",
        "changelog-producer": "lookup",
        "num-sorted-run.compaction-trigger": "2",
    }
    create_table(lake, name, COLUMNS, ["k"], **options)
    level_steps(lake, name, lambda key, dice: plain_row(key + dice.randrange(30), dice), deletes=0)


def lookup(lake: Any, name: str) -> None:
    create_table(
        lake, name, COLUMNS, ["k"], changelog_producer="lookup", num_sorted_run__compaction_trigger="2"
    )
    level_steps(lake, name, plain_row)


def lookup_sequence(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**plain_row(key, dice), "s": dice.randrange(5)}

    options = {
        "changelog-producer": "lookup",
        "sequence.field": "s",
        "num-sorted-run.compaction-trigger": "2",
    }
    create_table(lake, name, (*COLUMNS, "s INT"), ["k"], **options)
    level_steps(lake, name, make)


def lookup_aggregates(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "v": dice.choice([None, f"v{dice.randrange(3)}"]), "n": dice.randrange(2)}

    options = {
        "merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true", "num-sorted-run.compaction-trigger": "2",
    }  # fmt: skip
    create_table(lake, name, COLUMNS, ["k"], **options)
    level_steps(lake, name, make, deletes=0)


def full_changes(lake: Any, name: str) -> None:
    options = {"changelog-producer": "full-compaction", "num-sorted-run.compaction-trigger": "2"}
    create_table(lake, name, COLUMNS, ["k"], **options)
    level_steps(lake, name, plain_row)


def vectors(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**plain_row(key, dice), "v": f"{dice.getrandbits(800):x}", "p": "xy"[key % 2]}

    options = {"deletion-vectors.enabled": "true", "bucket": "2", **TALL}
    create_table(lake, name, (*COLUMNS, "p STRING"), ["p", "k"], ["p"], **options)
    level_steps(lake, name, make)


def vector_sums(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "v": f"{dice.getrandbits(800):x}", "n": dice.randrange(9)}

    options = {
        "merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "deletion-vectors.enabled": "true",
        **TALL,
    }  # fmt: skip
    create_table(lake, name, COLUMNS, ["k"], **options)
    level_steps(lake, name, make, deletes=0)


def _large(lake: Any, name: str, keys: int, commits: int, deletes: float, **options: str) -> None:
    """Some thousand keys in small pages: a large file of the last level, and runs above it that can be cut."""
    table = create_table(lake, name, COLUMNS, ["k"], **options)
    with small_pages():
        put_rows(table, random_rows(1, keys, keys, deletes=0, make=plain_row))
        table = compact_table(lake, name, strategy="full")
        put_rows(
            table,
            *(
                random_rows(seed, 2000, keys, deletes=deletes, make=plain_row)
                for seed in range(2, 2 + commits)
            ),
        )


def cut(lake: Any, name: str) -> None:
    _large(lake, name, 4000, 2, 0.2)


def cut_vectors(lake: Any, name: str) -> None:
    """Some rows of the last level are deleted already; two units will mark more rows of its one file."""
    options = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"}
    _large(lake, name, 12000, 1, 0.2, **options)
    table = compact_table(lake, name, strategy="universal")
    with small_pages():
        put_rows(table, *(random_rows(seed, 1000, 12000, deletes=0.2, make=plain_row) for seed in (8, 9)))


def cut_sums(lake: Any, name: str) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    _large(lake, name, 4000, 2, 0, **options)


def many_runs(lake: Any, name: str) -> None:
    table = create_table(lake, name, COLUMNS, ["k"])
    put_rows(table, *(random_rows(seed, 30, 60, deletes=0.3, make=plain_row) for seed in range(11)))


def many_fresh_runs(lake: Any, name: str) -> None:
    """More runs of level 0 than may be open, in a merge that knows levels."""
    table = create_table(lake, name, COLUMNS, ["k"], changelog_producer="lookup")
    put_rows(table, random_rows(99, 60, 60, deletes=0, make=plain_row))
    table = compact_table(lake, name, strategy="full")
    put_rows(table, *(random_rows(seed, 20, 70, deletes=0.3, make=plain_row) for seed in range(9)))


def many_sums(lake: Any, name: str) -> None:
    table = _aggregation(lake, name, ("i", "la"))
    make = lambda key, dice: _aggregated(key, dice, ("i", "la"))  # noqa: E731
    _typed(table, *(random_rows(seed, 20, 40, deletes=0, make=make) for seed in range(11)))


def expiring(lake: Any, name: str) -> None:
    """Rows of long ago, rows of a time to come, and rows without a time."""

    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "v": str(key), "t": dice.choice([None, 1_000_000, 4_000_000_000])}

    options = {"record-level.expire-time": "1 h", "record-level.time-field": "t"}
    table = create_table(lake, name, ("k INT", "v STRING", "t BIGINT"), ["k"], **options)
    put_rows(table, *(random_rows(seed, 30, 40, deletes=0.1, make=make) for seed in range(4)))


def postponed(lake: Any, name: str) -> None:
    """Rows that wait for a bucket, of several writers, above rows that have one."""
    table = create_table(lake, name, COLUMNS, ["k"], bucket="-2", postpone__default_bucket_num="2")
    put_rows(table, random_rows(1, 40, 60, deletes=0, make=plain_row))
    waiting = lake.load_table(name).with_options(
        {"postpone.batch-write-fixed-bucket": "false", "target-file-size": "400 b"}
    )
    put_rows(waiting, *(random_rows(seed, 40, 60, deletes=0.2, make=plain_row) for seed in (2, 3)))
    rows = [{"k": k % 9, "v": f"w{k}", "n": k} for k in range(3000)]
    put_rows(waiting, rows)


def dynamic(lake: Any, name: str) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "30"}
    table = create_table(lake, name, COLUMNS, ["k"], **options)
    put_rows(table, *(random_rows(seed, 40, 80, make=plain_row) for seed in range(4)))


def snapshot_order(lake: Any, name: str) -> None:
    options = {"sequence.snapshot-ordering": "true", "num-sorted-run.compaction-trigger": "2"}
    create_table(lake, name, COLUMNS, ["k"], **options)
    level_steps(lake, name, plain_row)


def thin_orc(lake: Any, name: str) -> None:
    options = {"file.format": "orc", "data-file.thin-mode": "true"}
    table = create_table(lake, name, COLUMNS, ["k"], **options)
    put_rows(table, *(random_rows(seed, 40, 60, make=plain_row) for seed in range(4)))


def avro_levels(lake: Any, name: str) -> None:
    options = {"file.format.per.level": "0:avro", "num-sorted-run.compaction-trigger": "2"}
    create_table(lake, name, COLUMNS, ["k"], **options)
    level_steps(lake, name, plain_row)


def evolved(lake: Any, name: str) -> None:
    """Files of four schemas: columns renamed, given the name of another, widened, dropped and added."""
    table = create_table(lake, name, ("k INT", "a INT", "b STRING", "r ROW<x INT, y STRING>"), ["k"])

    def make(*names: str) -> Callable[..., dict[str, Any]]:
        def row(key: int, dice: random.Random) -> dict[str, Any]:
            nested = None if key % 5 == 0 else {"x": key, "y": f"y{key}"}
            values = {"k": key, "a": key * 3, "b": f"b{key}", "r": nested, "c": key / 2, "d": f"d{key}"}
            return {one: values[one] for one in ("k", *names)}

        return row

    put_rows(table, random_rows(1, 30, 40, make=make("a", "b", "r")))
    for change, names in (
        ([{"op": "type", "name": "a", "type": "BIGINT"}, {"op": "add", "name": "c", "type": "DOUBLE"}], ("a", "b", "r", "c")),
        ([{"op": "drop", "name": "b"}, {"op": "add", "name": "b", "type": "STRING"}], ("a", "r", "c", "b")),
        ([{"op": "rename", "name": "b", "to": "d"}], ("a", "r", "c", "d")),
    ):  # fmt: skip
        table = lake.alter_table(name, change)
        put_rows(table, random_rows(len(names) + table.schema.id, 20, 40, make=make(*names)))


def many_manifests(lake: Any, name: str) -> None:
    """Manifests are merged, some in part, by every commit."""
    options = {
        "manifest.merge-min-count": "2", "manifest.target-file-size": "4 kb",
        "manifest.full-compaction-threshold-size": "6 kb", "num-sorted-run.compaction-trigger": "3",
    }  # fmt: skip
    table = create_table(lake, name, (*COLUMNS, "p INT"), ["p", "k"], ["p"], **options)
    for seed in range(8):
        rows = random_rows(
            seed, 40, 60, deletes=0, make=lambda key, dice: {**plain_row(key, dice), "p": key % 10}
        )
        put_rows(table, [row for row in rows if row["p"] in (seed, seed + 1)])
