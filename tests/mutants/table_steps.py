"""Steps that make the tables of the battery: create, write, compact, and draw rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Rows = list[dict[str, Any]]
Make = Callable[[Any, str], None]


@contextmanager
def small_pages() -> Iterator[None]:
    """Pages of 100 rows, so that small files can be cut."""
    from lakecore.format.parquet import layout as parquet_layout

    before = parquet_layout._PAGE_ROWS
    parquet_layout._PAGE_ROWS = (1, 100)
    try:
        yield
    finally:
        parquet_layout._PAGE_ROWS = before


def create_table(
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


def put_rows(table: Any, *commits: Iterable[dict[str, Any]]) -> None:
    import pyarrow as pa

    for rows in commits:
        table.write(pa.Table.from_pylist(list(rows)))


def compact_table(lake: Any, name: str, **job: Any) -> Any:
    from lakecore.jobs import compact

    compact.run(compact.Job.from_json({"table": name, **job}), lake)
    return lake.load_table(name)


def random_rows(
    seed: int, count: int, keys: int, *, deletes: float = 0.15, make: Callable[..., dict[str, Any]]
) -> Rows:
    """Rows of some of the keys, each once, in no order; some of them deletes."""
    dice = random.Random(seed)
    chosen = dice.sample(range(keys), min(count, keys))
    return [{**make(key, dice), "_kind": "-D" if dice.random() < deletes else "+I"} for key in chosen]


def plain_row(key: int, dice: random.Random) -> dict[str, Any]:
    return {"k": key, "v": f"{key}.{dice.randrange(1000)}", "n": dice.randrange(10**6)}


TALL = {
    "num-sorted-run.compaction-trigger": "2", "compaction.size-ratio": "0",
    "compaction.max-size-amplification-percent": "100000",
}  # fmt: skip
"""Small levels above large ones, so that deletes are merged into a middle level."""


def level_steps(lake: Any, name: str, make: Callable[..., dict[str, Any]], deletes: float = 0.3) -> None:
    """The last level, a level between that deletes rest on, then keys that come back on level 0, and more deletes."""
    table = lake.load_table(name)
    put_rows(table, random_rows(1, 600, 600, deletes=0, make=make))
    table = compact_table(lake, name, strategy="full")
    put_rows(table, *(random_rows(seed, 120, 600, deletes=deletes, make=make) for seed in (2, 3)))
    table = compact_table(
        lake, name, strategy="universal", options={"num-sorted-run.compaction-trigger": "2"}
    )
    put_rows(table, *(random_rows(seed, 25, 600, deletes=deletes, make=make) for seed in (4, 5)))


COLUMNS = ("k INT", "v STRING", "n BIGINT")
