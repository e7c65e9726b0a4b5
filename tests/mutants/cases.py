"""Tables that a compaction can go wrong on, and the jobs that compact them.

Every table is made by lakecore itself, small, with the same rows each time; a table may have several jobs, each of which
works on a copy of its own. Imports of lakecore are inside the functions: the process that runs them decides which.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

__all__ = ["CASES", "TABLES", "Case", "few_runs_open", "run_case"]

Rows = list[dict[str, Any]]
Make = Callable[[Any, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job on a copy of `table`. `ordered`: its rows have an order. `told`: its change stream is compared too.

    `cores`: what the executor says it has. `passes`: few runs may be open at once. `kind`: which job it is.
    """

    name: str
    table: str
    job: dict[str, Any] = field(default_factory=dict)
    kind: str = "compact"
    ordered: bool = False
    told: bool = False
    cores: int = 1
    passes: bool = False


FULL, UNIVERSAL = {"strategy": "full"}, {"strategy": "universal"}
CUT = {"options": {"target-file-size": "16 kb"}}


_SETTLED = {"lakecore.commit.settle-time": "1 ms"}
"""No other writer is there to wait for; that the snapshot stays is looked at all the same."""


def run_case(lake: Any, case: Case, name: str) -> tuple[str, ...]:
    """The job of a case on the table `name`; what it left undone. Raises what the job raises."""
    if case.kind == "rescale":
        from lakecore.jobs import rescale

        rescale.run(rescale.Job(table=name, **case.job), lake)
        return ()
    from lakecore.jobs import compact

    options = {**_SETTLED, **case.job.get("options", {})}
    job = compact.Job.from_json({"table": name, "commit_user": "battery", **case.job, "options": options})
    with few_runs_open(case.passes):
        return compact.run(job, lake, _executor(case.cores)).dropped


def _executor(cores: int) -> Any:
    from lakecore.executor import SerialExecutor

    class Cores(SerialExecutor):
        """Runs units one by one, but says that it has cores, so that merges are cut."""

        name = "cores"
        parallelism = cores

    return SerialExecutor() if cores == 1 else Cores()


@contextmanager
def few_runs_open(wanted: bool) -> Iterator[None]:
    """At most three runs may be open, whatever their size."""
    from lakecore.compact.kinds.primary_key import inputs
    from lakecore.merge import passes

    limits = [(inputs, "_FEW_RUNS", 1), (inputs, "_SMALL_FILE", 0)]
    limits += [(passes, "_FEWEST_RUNS", 3), (passes, "_PAGES_BUDGET", 0)]
    before = [getattr(module, name) for module, name, _ in limits]
    try:
        for module, name, value in limits if wanted else ():
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(limits, before, strict=True):
            setattr(module, name, value)


@contextmanager
def _small_pages() -> Iterator[None]:
    """Pages of 100 rows, so that small files can be cut."""
    from lakecore.format.parquet import writer as parquet_writer

    before = parquet_writer._PAGE_ROWS
    parquet_writer._PAGE_ROWS = (1, 100)
    try:
        yield
    finally:
        parquet_writer._PAGE_ROWS = before


def _create(
    lake: Any,
    name: str,
    columns: Sequence[str],
    keys: Sequence[str] = (),
    parts: Sequence[str] = (),
    **options: str,
) -> Any:
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    if keys:
        raw = {"bucket": "1", "write-only": "true", "num-levels": "6", **raw}
    definition = {
        "columns": list(columns),
        "primaryKeys": list(keys),
        "partitionKeys": list(parts),
        "options": raw,
    }
    return lake.create_table(name, definition)


def _put(table: Any, *commits: Iterable[dict[str, Any]]) -> None:
    import pyarrow as pa

    for rows in commits:
        table.write(pa.Table.from_pylist(list(rows)))


def _compacted(lake: Any, name: str, **job: Any) -> Any:
    from lakecore.jobs import compact

    compact.run(compact.Job.from_json({"table": name, **job}), lake)
    return lake.load_table(name)


def _rows(
    seed: int, count: int, keys: int, *, deletes: float = 0.15, make: Callable[..., dict[str, Any]]
) -> Rows:
    """Rows of some of the keys, each once, in no order; some of them deletes."""
    dice = random.Random(seed)
    chosen = dice.sample(range(keys), min(count, keys))
    return [{**make(key, dice), "_kind": "-D" if dice.random() < deletes else "+I"} for key in chosen]


def _plain(key: int, dice: random.Random) -> dict[str, Any]:
    return {"k": key, "v": f"{key}.{dice.randrange(1000)}", "n": dice.randrange(10**6)}


_TALL = {
    "num-sorted-run.compaction-trigger": "2", "compaction.size-ratio": "0",
    "compaction.max-size-amplification-percent": "100000",
}  # fmt: skip
"""Small levels above large ones, so that deletes are merged into a middle level."""


def _level_steps(lake: Any, name: str, make: Callable[..., dict[str, Any]], deletes: float = 0.3) -> None:
    """The last level, a level between that deletes rest on, then keys that come back on level 0, and more deletes."""
    table = lake.load_table(name)
    _put(table, _rows(1, 600, 600, deletes=0, make=make))
    table = _compacted(lake, name, strategy="full")
    _put(table, *(_rows(seed, 120, 600, deletes=deletes, make=make) for seed in (2, 3)))
    table = _compacted(lake, name, strategy="universal", options={"num-sorted-run.compaction-trigger": "2"})
    _put(table, *(_rows(seed, 25, 600, deletes=deletes, make=make) for seed in (4, 5)))


COLUMNS = ("k INT", "v STRING", "n BIGINT")


def deduplicate(lake: Any, name: str) -> None:
    table = _create(lake, name, COLUMNS, ["k"], num_sorted_run__compaction_trigger="3")
    _put(table, *(_rows(seed, 60, 100, make=_plain) for seed in range(6)))


def levels(lake: Any, name: str) -> None:
    _create(lake, name, COLUMNS, ["k"], num_sorted_run__compaction_trigger="2")
    _level_steps(lake, name, _plain)


def last_level(lake: Any, name: str) -> None:
    """Deletes on level 0 straight above the last level."""
    table = _create(lake, name, COLUMNS, ["k"], num_sorted_run__compaction_trigger="2")
    _put(table, _rows(1, 200, 200, deletes=0, make=_plain))
    table = _compacted(lake, name, strategy="full")
    _put(table, *(_rows(seed, 20, 200, deletes=0.5, make=_plain) for seed in (2, 3)))


def apart_files(lake: Any, name: str) -> None:
    """Files whose keys do not meet, or only in one key, large and small ones."""
    table = _create(
        lake, name, COLUMNS, ["k"], target_file_size="4 kb", num_sorted_run__compaction_trigger="2"
    )
    dice = random.Random(3)
    for low in (0, 300, 600, 599, 900):
        _put(table, [_plain(low + i, dice) for i in range(250 if low != 599 else 2)])
    _put(table, *([{"k": k, "v": "", "n": 0, "_kind": "-D"}] for k in (5, 910)), [_plain(1200, dice)])


def sequence(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**_plain(key, dice), "s": dice.choice([None, dice.randrange(9)])}

    table = _create(
        lake, name, (*COLUMNS, "s INT"), ["k"], sequence__field="s", num_sorted_run__compaction_trigger="3"
    )
    _put(table, *(_rows(seed, 60, 90, make=make) for seed in range(6)))


def descending(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"a": key % 7 - 3, "b": f"b{key % 11}", "v": str(key), "x": dice.choice([-2.5, -0.5, 0.0, 3.0]),
                "y": dice.randrange(3)}  # fmt: skip

    options = {"sequence.field": "x,y", "sequence.field.sort-order": "descending"}
    columns = ("a INT", "b STRING", "v STRING", "x DOUBLE", "y BIGINT")
    table = _create(lake, name, columns, ["a", "b"], **options)
    _put(table, *(_rows(seed, 50, 77, make=make) for seed in range(5)))


def key_types(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"d": Decimal(key % 13 - 6) / 4, "f": (key % 5 - 2) * 1.5, "t": date(1969, 12, 25 + key % 3 * 3),
                "b": f"ä{key % 3}", "v": dice.randrange(99)}  # fmt: skip

    columns = ("d DECIMAL(9, 2)", "f DOUBLE", "t DATE", "b STRING", "v INT")
    table = _create(lake, name, columns, ["d", "f", "t", "b"])
    _put(table, *(_rows(seed, 80, 300, make=make) for seed in range(5)))


def ignored_deletes(lake: Any, name: str) -> None:
    """The option is younger than some of the deletes."""
    table = _create(lake, name, COLUMNS, ["k"])
    _put(table, *(_rows(seed, 40, 60, deletes=0.4, make=_plain) for seed in range(4)))
    lake.alter_table(name, [{"op": "set", "key": "ignore-delete", "value": "true"}])


def partial(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {
            "k": key,
            "a": dice.choice([None, dice.randrange(99)]),
            "b": dice.choice([None, f"b{dice.randrange(9)}"]),
        }

    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = _create(lake, name, ("k INT", "a INT", "b STRING"), ["k"], **options)
    _put(table, *(_rows(seed, 50, 70, make=make) for seed in range(5)))


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
    table = _create(lake, name, columns, ["k"], **options)
    _put(table, *(_rows(seed, 40, 50, make=make) for seed in range(6)))


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
    return _create(lake, name, definition, ["k"], **{"merge-engine": "aggregation", **options, **more})


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
    _typed(table, *(_rows(seed, 30, 40, deletes=0, make=make) for seed in range(6)))


def retractions(lake: Any, name: str) -> None:
    table = _aggregation(lake, name, _RETRACTABLE)
    make = lambda key, dice: _aggregated(key, dice, _RETRACTABLE)  # noqa: E731
    _typed(table, *(_rows(seed, 30, 40, deletes=0.25 * (seed > 1), make=make) for seed in range(6)))


def removed_records(lake: Any, name: str) -> None:
    more = {"aggregation.remove-record-on-delete": "true"}
    table = _aggregation(lake, name, ("i", "lv", "hi"), **more)
    make = lambda key, dice: _aggregated(key, dice, ("i", "lv", "hi"))  # noqa: E731
    _typed(table, *(_rows(seed, 30, 40, deletes=0.25, make=make) for seed in range(6)))


def first_row(lake: Any, name: str) -> None:
    _create(lake, name, COLUMNS, ["k"], merge_engine="first-row", num_sorted_run__compaction_trigger="2")
    _level_steps(lake, name, lambda key, dice: _plain(key + dice.randrange(30), dice), deletes=0)


def first_row_told(lake: Any, name: str) -> None:
    options = {
        "merge-engine": "first-row",
        "changelog-producer": "lookup",
        "num-sorted-run.compaction-trigger": "2",
    }
    _create(lake, name, COLUMNS, ["k"], **options)
    _level_steps(lake, name, lambda key, dice: _plain(key + dice.randrange(30), dice), deletes=0)


def lookup(lake: Any, name: str) -> None:
    _create(lake, name, COLUMNS, ["k"], changelog_producer="lookup", num_sorted_run__compaction_trigger="2")
    _level_steps(lake, name, _plain)


def lookup_sequence(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**_plain(key, dice), "s": dice.randrange(5)}

    options = {
        "changelog-producer": "lookup",
        "sequence.field": "s",
        "num-sorted-run.compaction-trigger": "2",
    }
    _create(lake, name, (*COLUMNS, "s INT"), ["k"], **options)
    _level_steps(lake, name, make)


def lookup_aggregates(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "v": dice.choice([None, f"v{dice.randrange(3)}"]), "n": dice.randrange(2)}

    options = {
        "merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true", "num-sorted-run.compaction-trigger": "2",
    }  # fmt: skip
    _create(lake, name, COLUMNS, ["k"], **options)
    _level_steps(lake, name, make, deletes=0)


def full_changes(lake: Any, name: str) -> None:
    options = {"changelog-producer": "full-compaction", "num-sorted-run.compaction-trigger": "2"}
    _create(lake, name, COLUMNS, ["k"], **options)
    _level_steps(lake, name, _plain)


def vectors(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**_plain(key, dice), "v": f"{dice.getrandbits(800):x}", "p": "xy"[key % 2]}

    options = {"deletion-vectors.enabled": "true", "bucket": "2", **_TALL}
    _create(lake, name, (*COLUMNS, "p STRING"), ["p", "k"], ["p"], **options)
    _level_steps(lake, name, make)


def vector_sums(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "v": f"{dice.getrandbits(800):x}", "n": dice.randrange(9)}

    options = {
        "merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "deletion-vectors.enabled": "true",
        **_TALL,
    }  # fmt: skip
    _create(lake, name, COLUMNS, ["k"], **options)
    _level_steps(lake, name, make, deletes=0)


def _large(lake: Any, name: str, keys: int, commits: int, deletes: float, **options: str) -> None:
    """Some thousand keys in small pages: a large file of the last level, and runs above it that can be cut."""
    table = _create(lake, name, COLUMNS, ["k"], **options)
    with _small_pages():
        _put(table, _rows(1, keys, keys, deletes=0, make=_plain))
        table = _compacted(lake, name, strategy="full")
        _put(
            table, *(_rows(seed, 2000, keys, deletes=deletes, make=_plain) for seed in range(2, 2 + commits))
        )


def cut(lake: Any, name: str) -> None:
    _large(lake, name, 4000, 2, 0.2)


def cut_vectors(lake: Any, name: str) -> None:
    """Some rows of the last level are deleted already; two units will mark more rows of its one file."""
    options = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"}
    _large(lake, name, 12000, 1, 0.2, **options)
    table = _compacted(lake, name, strategy="universal")
    with _small_pages():
        _put(table, *(_rows(seed, 1000, 12000, deletes=0.2, make=_plain) for seed in (8, 9)))


def cut_sums(lake: Any, name: str) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    _large(lake, name, 4000, 2, 0, **options)


def many_runs(lake: Any, name: str) -> None:
    table = _create(lake, name, COLUMNS, ["k"])
    _put(table, *(_rows(seed, 30, 60, deletes=0.3, make=_plain) for seed in range(11)))


def many_fresh_runs(lake: Any, name: str) -> None:
    """More runs of level 0 than may be open, in a merge that knows levels."""
    table = _create(lake, name, COLUMNS, ["k"], changelog_producer="lookup")
    _put(table, _rows(99, 60, 60, deletes=0, make=_plain))
    table = _compacted(lake, name, strategy="full")
    _put(table, *(_rows(seed, 20, 70, deletes=0.3, make=_plain) for seed in range(9)))


def many_sums(lake: Any, name: str) -> None:
    table = _aggregation(lake, name, ("i", "la"))
    make = lambda key, dice: _aggregated(key, dice, ("i", "la"))  # noqa: E731
    _typed(table, *(_rows(seed, 20, 40, deletes=0, make=make) for seed in range(11)))


def expiring(lake: Any, name: str) -> None:
    """Rows of long ago, rows of a time to come, and rows without a time."""

    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {"k": key, "v": str(key), "t": dice.choice([None, 1_000_000, 4_000_000_000])}

    options = {"record-level.expire-time": "1 h", "record-level.time-field": "t"}
    table = _create(lake, name, ("k INT", "v STRING", "t BIGINT"), ["k"], **options)
    _put(table, *(_rows(seed, 30, 40, deletes=0.1, make=make) for seed in range(4)))


def postponed(lake: Any, name: str) -> None:
    """Rows that wait for a bucket, of several writers, above rows that have one."""
    table = _create(lake, name, COLUMNS, ["k"], bucket="-2", postpone__default_bucket_num="2")
    _put(table, _rows(1, 40, 60, deletes=0, make=_plain))
    waiting = lake.load_table(name).with_options(
        {"postpone.batch-write-fixed-bucket": "false", "target-file-size": "400 b"}
    )
    _put(waiting, *(_rows(seed, 40, 60, deletes=0.2, make=_plain) for seed in (2, 3)))
    rows = [{"k": k % 9, "v": f"w{k}", "n": k} for k in range(3000)]
    _put(waiting, rows)


def dynamic(lake: Any, name: str) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "30"}
    table = _create(lake, name, COLUMNS, ["k"], **options)
    _put(table, *(_rows(seed, 40, 80, make=_plain) for seed in range(4)))


def snapshot_order(lake: Any, name: str) -> None:
    options = {"sequence.snapshot-ordering": "true", "num-sorted-run.compaction-trigger": "2"}
    _create(lake, name, COLUMNS, ["k"], **options)
    _level_steps(lake, name, _plain)


def thin_orc(lake: Any, name: str) -> None:
    options = {"file.format": "orc", "data-file.thin-mode": "true"}
    table = _create(lake, name, COLUMNS, ["k"], **options)
    _put(table, *(_rows(seed, 40, 60, make=_plain) for seed in range(4)))


def avro_levels(lake: Any, name: str) -> None:
    options = {"file.format.per.level": "0:avro", "num-sorted-run.compaction-trigger": "2"}
    _create(lake, name, COLUMNS, ["k"], **options)
    _level_steps(lake, name, _plain)


def evolved(lake: Any, name: str) -> None:
    """Files of four schemas: columns renamed, given the name of another, widened, dropped and added."""
    table = _create(lake, name, ("k INT", "a INT", "b STRING", "r ROW<x INT, y STRING>"), ["k"])

    def make(*names: str) -> Callable[..., dict[str, Any]]:
        def row(key: int, dice: random.Random) -> dict[str, Any]:
            nested = None if key % 5 == 0 else {"x": key, "y": f"y{key}"}
            values = {"k": key, "a": key * 3, "b": f"b{key}", "r": nested, "c": key / 2, "d": f"d{key}"}
            return {one: values[one] for one in ("k", *names)}

        return row

    _put(table, _rows(1, 30, 40, make=make("a", "b", "r")))
    for change, names in (
        ([{"op": "type", "name": "a", "type": "BIGINT"}, {"op": "add", "name": "c", "type": "DOUBLE"}], ("a", "b", "r", "c")),
        ([{"op": "drop", "name": "b"}, {"op": "add", "name": "b", "type": "STRING"}], ("a", "r", "c", "b")),
        ([{"op": "rename", "name": "b", "to": "d"}], ("a", "r", "c", "d")),
    ):  # fmt: skip
        table = lake.alter_table(name, change)
        _put(table, _rows(len(names) + table.schema.id, 20, 40, make=make(*names)))


def many_manifests(lake: Any, name: str) -> None:
    """Manifests are merged, some in part, by every commit."""
    options = {
        "manifest.merge-min-count": "2", "manifest.target-file-size": "4 kb",
        "manifest.full-compaction-threshold-size": "6 kb", "num-sorted-run.compaction-trigger": "3",
    }  # fmt: skip
    table = _create(lake, name, (*COLUMNS, "p INT"), ["p", "k"], ["p"], **options)
    for seed in range(8):
        rows = _rows(seed, 40, 60, deletes=0, make=lambda key, dice: {**_plain(key, dice), "p": key % 10})
        _put(table, [row for row in rows if row["p"] in (seed, seed + 1)])


def append(lake: Any, name: str) -> None:
    columns = ("v INT", "s STRING", "p STRING")
    table = _create(lake, name, columns, (), ["p"], deletion_vectors__enabled="true", bucket="-1")
    for number in range(6):
        _put(table, [{"v": number * 20 + i, "s": f"s{i}", "p": "xy"[i % 2]} for i in range(20)])
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
    table = _create(lake, name, ("v INT", "s STRING"), (), **options)
    for number in range(6):
        _put(table, [{"v": i, "s": f"{number}.{i}"} for i in range(20 + 30 * (number % 2))])
    table.delete("s = '1.7' or s = '4.8' or s = '5.11'")


def tracked(lake: Any, name: str) -> None:
    table = _create(lake, name, ("v INT", "s STRING"), (), bucket="-1", row_tracking__enabled="true")
    for number in range(5):
        _put(table, [{"v": number * 10 + i, "s": f"s{i}"} for i in range(10)])


def column_files(lake: Any, name: str) -> None:
    """Files with some of the columns of rows, and deleted rows."""
    import pyarrow as pa

    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    }
    table = _create(lake, name, ("v INT", "s STRING", "n INT"), (), bucket="-1", **options)
    for number in range(3):
        _put(table, [{"v": number * 10 + i, "s": f"s{i}", "n": i} for i in range(10)])
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
    table = _create(lake, name, ("k INT", "b BLOB"), (), bucket="-1", **options)
    for number in range(3):
        values = [f"{number}.{i}".encode() if i % 3 else None for i in range(6)]
        table.append(pa.table({"k": pa.array(range(6), pa.int32()), "b": pa.array(values, pa.binary())}))
    table.update_columns(pa.table({"_ROW_ID": [2, 13], "b": pa.array([b"two", b"thirteen"], pa.binary())}))


def unsorted(lake: Any, name: str) -> None:
    """Two partitions of files in no order, with nulls and deleted rows."""
    columns = ("a INT", "b BIGINT", "s STRING", "p STRING")
    table = _create(lake, name, columns, (), ["p"], bucket="-1", deletion_vectors__enabled="true")
    dice = random.Random(5)
    for _ in range(4):
        rows = [
            {"a": dice.choice([None, dice.randrange(-9, 30)]), "b": dice.randrange(10**6), "s": dice.choice([None, "", "ä"]),
             "p": p} for p in "xy" for _ in range(60)
        ]  # fmt: skip
        _put(table, rows)
    table.delete("b > 900000")


def in_order_parts(lake: Any, name: str) -> None:
    """Files that lie behind one another, so that ranges read some of them only."""
    table = _create(lake, name, ("a INT", "s STRING"), (), bucket="-1")
    for low in range(0, 400, 50):
        _put(table, [{"a": low + (i * 7) % 50 + (i == 3), "s": f"s{i}"} for i in range(50)])


def clustering(lake: Any, name: str) -> None:
    options = {
        "clustering.incremental": "true", "clustering.columns": "a, b", "clustering.strategy": "order",
        "num-sorted-run.compaction-trigger": "3", "bucket": "-1",
    }  # fmt: skip
    table = _create(lake, name, ("a INT", "b INT", "p STRING"), (), ["p"], **options)
    dice = random.Random(6)
    for _ in range(7):
        _put(
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
    table = _create(lake, name, ("k INT", "s STRING", "n INT"), ["k"], **options)
    _put(table, *(_rows(seed, 60, 90, deletes=0.2 * (seed > 0), make=make) for seed in range(2)))
    table = _compacted(lake, name, strategy="universal")
    _put(table, *(_rows(seed, 30, 90, deletes=0.2, make=make) for seed in (3, 4)))


def rescaled(lake: Any, name: str) -> None:
    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**_plain(key, dice), "p": "xy"[key % 2]}

    table = _create(lake, name, (*COLUMNS, "p STRING"), ["p", "k"], ["p"], bucket="2")
    _put(table, _rows(1, 80, 80, deletes=0, make=make))
    table = _compacted(lake, name, strategy="full")
    _put(table, *(_rows(seed, 30, 90, deletes=0.3, make=make) for seed in (2, 3)))


def rescaled_vectors(lake: Any, name: str) -> None:
    options = {"bucket": "2", "bucket-key": "v", "deletion-vectors.enabled": "true"}
    table = _create(lake, name, ("v INT", "s STRING"), (), **options)
    for number in range(4):
        _put(table, [{"v": i, "s": f"{number}.{i}"} for i in range(30)])
    table.delete("s = '1.7' or s = '2.8' or s = '3.11'")


def behind_large(lake: Any, name: str) -> None:
    """Rows keep their order: a large file that stays comes first, small ones are joined behind it."""
    options = {"bucket": "1", "bucket-key": "v", "target-file-size": "20 kb"}
    table = _create(lake, name, ("v INT", "s STRING"), (), **options)
    dice = random.Random(4)
    _put(table, [{"v": i, "s": str(dice.random())} for i in range(1500)])
    _put(table, *([{"v": i, "s": f"{number}.{i}"} for i in range(20)] for number in range(5)))


def row_kinds(lake: Any, name: str) -> None:
    """Rows of all kinds, null and negative sequences, in partitions of which one has an empty name."""

    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**_plain(key, dice), "s": dice.choice([None, -3, 0, 2]), "p": ["", "x", "y"][key % 3]}

    options = {"sequence.field": "s", "bucket": "2", "num-sorted-run.compaction-trigger": "2"}
    table = _create(lake, name, (*COLUMNS, "s BIGINT", "p STRING"), ["p", "k"], ["p"], **options)
    dice = random.Random(8)
    for seed in range(4):
        rows = _rows(seed, 90, 120, deletes=0, make=make)
        _put(table, [{**row, "_kind": dice.choice(["+I", "-U", "+U", "-D"])} for row in rows])


def indexed(lake: Any, name: str) -> None:
    """Files with indexes of every kind."""
    options = {
        "file-index.bloom-filter.columns": "v", "file-index.bitmap.columns": "n", "file-index.range-bitmap.columns": "k",
        "file-index.bloom-filter.v.items": "500", "num-sorted-run.compaction-trigger": "2",
    }  # fmt: skip
    table = _create(lake, name, COLUMNS, ["k"], **options)
    _put(table, *(_rows(seed, 80, 120, make=_plain) for seed in range(4)))


def expiring_told(lake: Any, name: str) -> None:
    """Rows that are too old on every level, where rows are looked up."""

    def make(key: int, dice: random.Random) -> dict[str, Any]:
        return {**_plain(key, dice), "t": dice.choice([None, 1_000_000, 4_000_000_000_000])}

    options = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "2"}
    _create(lake, name, (*COLUMNS, "t BIGINT"), ["k"], **options)
    _level_steps(lake, name, make)
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
    _create(lake, name, columns, ["k"], **options)
    _level_steps(lake, name, make, deletes=0)


def evolved_told(lake: Any, name: str) -> None:
    """A column is widened, one dropped and one added between the levels that rows are looked up on."""
    options = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "2"}
    table = _create(lake, name, ("k INT", "n INT", "v STRING", "w INT"), ["k"], **options)

    def make(*names: str) -> Callable[..., dict[str, Any]]:
        def row(key: int, dice: random.Random) -> dict[str, Any]:
            values = {"k": key, "n": dice.randrange(99), "v": f"v{key}", "w": key, "x": f"x{key}"}
            return {one: values[one] for one in ("k", *names)}

        return row

    _put(table, _rows(1, 200, 200, deletes=0, make=make("n", "v", "w")))
    _compacted(lake, name, strategy="full")
    table = lake.alter_table(
        name, [{"op": "type", "name": "n", "type": "BIGINT"}, {"op": "drop", "name": "w"}]
    )
    _put(table, *(_rows(seed, 60, 200, deletes=0.3, make=make("n", "v")) for seed in (2, 3)))
    _compacted(lake, name, strategy="universal", options={"num-sorted-run.compaction-trigger": "2"})
    table = lake.alter_table(name, [{"op": "add", "name": "x", "type": "STRING"}])
    _put(table, *(_rows(seed, 25, 200, deletes=0.3, make=make("n", "v", "x")) for seed in (4, 5)))


def clustering_local(lake: Any, name: str) -> None:
    """Files that are in order each by itself."""
    options = {
        "clustering.incremental": "true", "clustering.columns": "a", "clustering.incremental.mode": "local-sort",
        "num-sorted-run.compaction-trigger": "3", "bucket": "-1", "target-file-size": "1 kb",
    }  # fmt: skip
    table = _create(lake, name, ("a INT", "b STRING"), (), **options)
    dice = random.Random(9)
    for _ in range(6):
        _put(
            table,
            [{"a": dice.choice([None, dice.randrange(99)]), "b": str(dice.random())} for _ in range(40)],
        )


def tracked_unsorted(lake: Any, name: str) -> None:
    """Rows that keep their ids when they are put in order."""
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
    table = _create(lake, name, ("a INT", "b INT"), (), bucket="-1", **options)
    dice = random.Random(10)
    for _ in range(4):
        _put(table, [{"a": dice.randrange(99), "b": i} for i in range(30)])
    table.delete("a > 90")


TABLES: dict[str, Make] = {
    make.__name__: make
    for make in (
        deduplicate, levels, last_level, apart_files, sequence, descending, key_types, ignored_deletes, partial,
        partial_groups, aggregates, retractions, removed_records, first_row, first_row_told, lookup, lookup_sequence,
        lookup_aggregates, full_changes, vectors, vector_sums, cut, cut_vectors, cut_sums, many_runs, many_fresh_runs,
        many_sums, expiring, postponed, dynamic, snapshot_order, thin_orc, avro_levels, evolved, many_manifests, append,
        append_buckets, tracked, column_files, blobs, unsorted, in_order_parts, clustering, clustered_keys, rescaled,
        rescaled_vectors, behind_large, row_kinds, indexed, expiring_told, groups_told, evolved_told, clustering_local,
        tracked_unsorted,
    )
}  # fmt: skip
"""What makes each table, given a catalog and the table's name."""

_TOLD = {
    "first_row_told",
    "lookup",
    "lookup_sequence",
    "lookup_aggregates",
    "full_changes",
    "many_fresh_runs",
    "expiring_told",
    "groups_told",
    "evolved_told",
}
_BOTH = {
    "deduplicate", "levels", "last_level", "apart_files", "sequence", "aggregates", "first_row", "first_row_told", "lookup",
    "lookup_sequence", "lookup_aggregates", "full_changes", "vectors", "vector_sums", "snapshot_order", "avro_levels",
    "append", "append_buckets", "clustered_keys", "row_kinds", "groups_told", "evolved_told",
}  # fmt: skip
_ORDERED = {"append_buckets", "behind_large"}
_CUT = {"cut", "cut_vectors", "cut_sums"}
_PASSES = {"many_runs", "many_fresh_runs", "many_sums"}
_ELSEWHERE = {
    "unsorted",
    "in_order_parts",
    "clustering",
    "rescaled",
    "rescaled_vectors",
    "cut_vectors",
    "clustering_local",
}


def _cases() -> Iterator[Case]:
    for table in TABLES:
        told = table in _TOLD
        if table not in _ELSEWHERE:
            job = FULL | CUT if table in _CUT else FULL
            cores = 2 if table in _CUT else 1
            yield Case(name=f"{table}_full", table=table, job=job, told=told, cores=cores, passes=table in _PASSES,
                       ordered=table in _ORDERED)  # fmt: skip
        if table in _BOTH:
            yield Case(name=f"{table}_some", table=table, job=UNIVERSAL, told=told, ordered=table in _ORDERED)
    yield Case(name="cut_vectors_some", table="cut_vectors", job=UNIVERSAL | CUT, cores=2)
    yield Case(name="lookup_forced", table="lookup", told=True, job=FULL | {
        "options": {"compaction.force-rewrite-all-files": "true"}})  # fmt: skip
    for strategy in ("order", "zorder"):
        job = {"order_strategy": strategy, "order_by": ["a", "b"], "options": {"target-file-size": "1 kb"}}
        yield Case(name=f"unsorted_{strategy}", table="unsorted", job=job, cores=2)
    job = {"order_strategy": "order", "order_by": ["a"], "options": {"target-file-size": "500 b"}}
    yield Case(name="in_order_parts_order", table="in_order_parts", job=job, cores=4)
    yield Case(name="clustering_some", table="clustering", job=UNIVERSAL)
    yield Case(name="clustering_full", table="clustering", job=FULL, cores=2)
    yield Case(name="clustering_local_full", table="clustering_local", job=FULL, cores=2)
    job = {"order_strategy": "order", "order_by": ["a"], "options": {"target-file-size": "1 kb"}}
    yield Case(name="tracked_unsorted_order", table="tracked_unsorted", job=job, cores=2)
    yield Case(name="rescaled_more", table="rescaled", kind="rescale", job={"bucket_num": 3})
    yield Case(name="rescaled_less", table="rescaled", kind="rescale", job={"bucket_num": 1})
    yield Case(name="rescaled_vectors_more", table="rescaled_vectors", kind="rescale", job={"bucket_num": 4})


_TELLING = (
    "levels_some", "last_level_some", "lookup_some", "cut_vectors_some", "vectors_full", "append_full", "append_buckets_full",
    "aggregates_full", "partial_groups_full", "sequence_full", "row_kinds_some", "evolved_told_some", "groups_told_some",
    "expiring_told_full", "behind_large_full", "indexed_full", "vectors_some", "descending_full", "rescaled_more",
    "postponed_full", "unsorted_order", "many_manifests_full", "deduplicate_full", "column_files_full",
    "first_row_told_some", "full_changes_full", "lookup_aggregates_some", "apart_files_full", "cut_full",
    "vector_sums_full", "vector_sums_some", "rescaled_vectors_more", "clustered_keys_some", "clustering_full",
    "expiring_full", "evolved_full", "many_runs_full", "many_fresh_runs_full",
)  # fmt: skip
"""The cases that notice most, first: the runner takes the first ones that call the function with the bug."""


def _rank(case: Case) -> int:
    return _TELLING.index(case.name) if case.name in _TELLING else len(_TELLING)


CASES: dict[str, Case] = {case.name: case for case in sorted(_cases(), key=_rank)}
