"""File indexes between lakecore and Java Paimon: each side's are used by the other, and never change the rows."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.index.definition import IndexType, can_index
from lakecore.jobs import compact, rewrite_file_index
from lakecore.read.file.file_index import open_index
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.table import Table
from tests.support.golden import GoldenTable, canonical, golden_tables
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

COLUMNS = [
    "id BIGINT", "s STRING", "n INT", "x DOUBLE", "d DATE", "t TIMESTAMP(3)", "u TIMESTAMP(6)", "c DECIMAL(12, 2)",
    "b BOOLEAN", "y SMALLINT", "m MAP<STRING, INT>",
]  # fmt: skip
INDEXES = {
    "file-index.bloom-filter.columns": "id,s,t,x,m[a],m[b]",
    "file-index.bloom-filter.id.items": "300",
    "file-index.bloom-filter.s.items": "100",
    "file-index.bloom-filter.t.items": "100",
    "file-index.bloom-filter.x.items": "100",
    "file-index.bloom-filter.m.items": "20",
    "file-index.bitmap.columns": "s,b,y,d,u",
    "file-index.bitmap.y.version": "1",
    "file-index.bitmap.d.index-block-size": "60 b",
    "file-index.bsi.columns": "n,c,t,d",
    "file-index.range-bitmap.columns": "x,s,c,u,b,id",
    "file-index.range-bitmap.s.chunk-size": "30 b",
    "file-index.range-bitmap.id.chunk-size": "100 b",
}
POOLS: dict[str, list[Any]] = {
    "id": list(range(400)),
    "s": ["", "a", "ab", "b\u00e9", "\U0001f680", *(f"s{i}" for i in range(30)), "long " * 9],
    "n": [-(2**31), -5, -1, 0, 1, 7, 2**31 - 1, *range(50, 60)],
    "x": [-1.5, 0.0, 2.25, 1e9, *(i / 4 for i in range(20))],
    "d": ["0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "2024-03-01"],
    "t": ["1969-12-31 23:59:59.999", "1970-01-01 00:00:00", "2024-01-01 10:00:00.500", "2024-01-02 00:00:00"],
    "u": ["1969-12-31 23:59:59.999999", "2024-01-01 10:00:00.500001", "2024-01-02 00:00:00"],
    "c": ["-1.00", "0.00", "3.14", "9999999999.99", "12.50"],
    "b": [True, False],
    "y": [-32768, -1, 0, 5, 32767],
}
LITERALS = {"d": "DATE '{}'", "t": "TIMESTAMP '{}'", "u": "TIMESTAMP '{}'", "s": "'{}'"}


def some_rows(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Of few of the values, so that files and rows can be left out."""
    pools = {name: dice.sample(pool, max(len(pool) // 3, 1)) for name, pool in POOLS.items()}
    rows = []
    for _ in range(count):
        row: dict[str, Any] = {name: dice.choice([*pool, None]) for name, pool in pools.items()}
        row["id"] = dice.choice(pools["id"])
        row["m"] = dice.choice([None, [], [["a", 1]], [["b", dice.randrange(9)], ["c", 2]]])
        rows.append(row)
    return rows


def condition(dice: random.Random, columns: Sequence[str]) -> tuple[list[Any], str]:
    """A filter for Java and the same for lakecore."""
    kind = dice.random()
    if kind < 0.3:
        parts = [condition(dice, columns) for _ in range(2)]
        word = dice.choice(["and", "or"])
        return [word, *(java for java, _ in parts)], "(" + f" {word} ".join(sql for _, sql in parts) + ")"
    column = dice.choice(columns)
    if kind < 0.4:
        word = dice.choice(["is null", "is not null"])
        return [word, column], f"{column} {word}"
    values = dice.sample(POOLS[column], min(2, len(POOLS[column])))
    literals = [
        LITERALS.get(column, "{}").format(str(value).lower() if column == "b" else value) for value in values
    ]
    if kind < 0.55:
        word = dice.choice(["in", "not in"])
        return [word, column, *values], f"{column} {word} ({', '.join(literals)})"
    op = dice.choice(["=", "=", "=", "<>", "<", "<=", ">", ">="])
    return [op, column, values[0]], f"{column} {op} {literals[0]}"


def key_condition(dice: random.Random) -> str:
    """A filter on the value under a key of the map column, for lakecore: Java's has none."""
    key, value = dice.choice("abcz"), dice.randrange(10)
    return dice.choice(
        [f"m['{key}'] = {value}", f"m['{key}'] in ({value}, 2)", f"m['{key}'] > {value}", f"m['{key}'] is null",
         f"not (m['{key}'] = {value} or m['b'] is null)", f"m['{key}'] = {value} and s is not null"]
    )  # fmt: skip


def write(table: Table, rows: list[dict[str, Any]]) -> None:
    table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))


def lines(table: Table, where: str | None = None) -> list[str]:
    scan = table.scan(where=where)
    return canonical(line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type))


def agree(
    java: Oracle, warehouse: Path, table: Table, dice: random.Random, columns: Sequence[str], count: int
) -> tuple[int, int]:
    """Both sides read the same rows for the same filters. (rows Java's own indexes left, rows of the table)"""
    plain = table.with_options({"file-index.read.enabled": "false"})
    left = 0
    for _ in range(count):
        where, sql = condition(dice, columns)
        wanted = lines(plain, sql)
        assert lines(table, sql) == wanted, sql
        flags = ("--where", json.dumps(where))
        assert canonical(java.call("read", warehouse, table.name, *flags)) == wanted, sql
        found = canonical(java.call("read", warehouse, table.name, *flags, "--unfiltered"))
        assert set(wanted) <= set(found), sql
        left += len(found)
        sql = key_condition(dice)
        assert lines(table, sql) == lines(plain, sql), sql
    return left, count * len(lines(plain))


def created(catalog: FilesystemCatalog, options: dict[str, str], keys: Sequence[str] = ()) -> Table:
    columns = [f"{column} NOT NULL" if keys and column.startswith("id ") else column for column in COLUMNS]
    raw = {
        "columns": columns,
        "primaryKeys": list(keys),
        "options": {**INDEXES, "write-only": "true", **options},
    }
    return catalog.create_table("d.t", raw)


@pytest.mark.parametrize(
    ("version", "options", "keys"),
    [
        ("1.4.2", {"bucket": "-1", "file-index.in-manifest-threshold": "1 mb"}, ()),
        ("2.0.0", {"bucket": "-1", "file.format": "orc"}, ()),
        ("1.4.2", {"bucket": "1", "file.format": "avro", "bucket-key": "id"}, ()),
        ("2.0.0", {"bucket": "1"}, ("id",)),
        (
            "1.4.2",
            {"bucket": "1", "file-index.in-manifest-threshold": "1 mb", "data-file.thin-mode": "true"},
            ("id",),
        ),
    ],
    ids=["append-embedded", "append-orc", "append-avro", "keys", "keys-embedded"],
)
def test_java_uses_our_indexes(
    options: dict[str, str], keys: Sequence[str], version: str, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    java = oracles[version]
    dice = random.Random(f"{options}{version}")
    table = created(load_catalog(tmp_path), options, keys)
    for _ in range(3):
        write(table, some_rows(dice, 60))
    left, total = agree(java, tmp_path, table, dice, list(POOLS), 6)
    assert keys or left < 0.8 * total
    assert findings(java.fsck(tmp_path, "d.t")) == set()
    report = compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), load_catalog(tmp_path))
    assert report.files_out == 1
    left, total = agree(java, tmp_path, table, dice, list(POOLS), 6)
    assert left < total
    assert findings(java.fsck(tmp_path, "d.t")) == set()
    rows = lines(table)
    java.write(tmp_path, "d.t", some_rows(dice, 30))
    java.compact(tmp_path, "d.t", full=True)
    agree(java, tmp_path, table, dice, list(POOLS), 2)
    assert keys or len(lines(table)) == len(rows) + 30


@pytest.mark.parametrize("writer", ["java", "lakecore"])
def test_indexes_of_older_schemas_never_hide_rows(writer: str, oracle2: Oracle, tmp_path: Path) -> None:
    """Columns renamed, swapped, dropped and added again under their old name, and changed in type."""
    dice = random.Random(writer)
    table = created(load_catalog(tmp_path), {"bucket": "-1"})

    def put(columns: dict[str, str]) -> None:
        rows = [{columns.get(k, k): v for k, v in row.items() if k in columns} for row in some_rows(dice, 40)]
        if writer == "java":
            oracle2.write(tmp_path, "d.t", rows)
        else:
            write(load_catalog(tmp_path).load_table("d.t"), rows)

    put({name: name for name in POOLS})
    changes = [
        {"op": "unset", "key": key} for key in INDEXES if ".n." in key or key in ("file-index.bsi.columns",)
    ] + [
        {"op": "set", "key": "file-index.bsi.columns", "value": "c,t,d"},
        {"op": "set", "key": "file-index.bloom-filter.columns", "value": "id,t,x"},
        {"op": "unset", "key": "file-index.bloom-filter.s.items"},
        {"op": "unset", "key": "file-index.bloom-filter.m.items"},
        {"op": "set", "key": "file-index.bitmap.columns", "value": "b,y,d,u"},
        {"op": "set", "key": "file-index.range-bitmap.columns", "value": "x,c,u,b,id"},
        {"op": "unset", "key": "file-index.range-bitmap.s.chunk-size"},
    ]
    oracle2.call("alter", tmp_path, "d.t", json.dumps(changes))
    steps = [
        [{"op": "rename", "name": "n", "to": "old"}, {"op": "add", "name": "n", "type": "INT"}],
        [{"op": "drop", "name": "s"}, {"op": "add", "name": "s", "type": "STRING"}],
        [{"op": "type", "name": "y", "type": "INT"}, {"op": "type", "name": "c", "type": "DECIMAL(14, 2)"}],
    ]
    for step in steps:
        for change in step:
            oracle2.call("alter", tmp_path, "d.t", json.dumps([change]))
        put({name: name for name in POOLS})
    table = load_catalog(tmp_path).load_table("d.t")
    left, total = agree(oracle2, tmp_path, table, dice, list(POOLS), 15)
    assert left < total


@pytest.mark.parametrize(
    ("version", "options", "keys"),
    [
        ("2.0.0", {"bucket": "-1"}, ()),
        ("1.4.2", {"bucket": "-1", "file-index.in-manifest-threshold": "1 mb"}, ()),
        (
            "2.0.0",
            {"bucket": "1", "file-index.in-manifest-threshold": "1 mb", "write-only": "false"},
            ("id",),
        ),
    ],
    ids=["append", "append-embedded", "keys-embedded"],
)
def test_indexes_and_deletion_vectors_count_together(
    version: str, options: dict[str, str], keys: Sequence[str], oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    java = oracles[version]
    dice = random.Random(f"{version}{options}")
    table = created(load_catalog(tmp_path), {**options, "deletion-vectors.enabled": "true"}, keys)
    for _ in range(3):
        java.write(tmp_path, "d.t", some_rows(dice, 60))
    if not keys:
        doomed = tmp_path / "doomed.jsonl"
        doomed.write_text("".join(json.dumps({"id": n}) + "\n" for n in range(0, 400, 3)))
        java.call("delete-rows", tmp_path, "d.t", doomed)
    table = load_catalog(tmp_path).load_table("d.t")
    left, total = agree(java, tmp_path, table, dice, list(POOLS), 8)
    assert 0 < left < total


COMPARED = [
    "g1.a_idx_files", "g3.h3_idx_pk", "g1.a_types_append_parquet", "g3.h3_types_append_orc", "g1.a_types_pk_avro",
    "g1.a_types_extreme",
]  # fmt: skip


def rewritten_tables() -> list[GoldenTable]:
    """Indexed ones, all types in all formats; embedded indexes; changed schemas; deletion vectors."""
    named = {table.name: table for table in golden_tables()}
    changed = [t for t in golden_tables() if t.version == "1.4.2" and t.facts["schema"]["id"] > 1][:2]
    marked = [
        t
        for t in golden_tables()
        if t.version == "2.0.0" and t.options.get("deletion-vectors.enabled") == "true"
    ][:2]
    embedded = [named["g1.a_idx_embedded"], named["g3.h3_idx_embedded"]]
    return [*(named[name] for name in COMPARED), *embedded, *changed, *marked]


def index_options(table: Table) -> dict[str, str]:
    """Every type of index, on the columns of the table that can have it."""
    options = {"file-index.in-manifest-threshold": "700 b"}
    for index in IndexType:
        names = [field.name for field in table.schema.fields if can_index(field.type, index)][:9]
        names = [
            name
            for name in names
            if (table.name, index) != ("g1.a_types_extreme", IndexType.BSI) or name != "b"
        ]
        if names:
            options[f"file-index.{index.value}.columns"] = ",".join(names)
        if index is IndexType.BLOOM_FILTER:
            options |= {f"file-index.bloom-filter.{name}.items": "100" for name in names}
    return options


def blobs_of(table: Table) -> dict[tuple[str, str, str], bytes]:
    """Indexes by data file, name and type; an empty one has no bytes. Bitmaps by their length: Java's lie in the order
    of its hash map."""
    latest = table._stores.snapshots.latest()
    assert latest is not None
    ctx = table._read_context()
    out = {}
    for entry in table._scanner.live_entries(latest).rows():
        with open_index(ctx, ctx.bucket_dir(entry.partition, entry.bucket), entry.file) as index:
            for name, kinds in index.head.items():
                for kind, blob in kinds.items():
                    data = b"" if blob.empty else index.read(blob)
                    out[entry.file.file_name, name, kind] = (
                        str(len(data)).encode() if kind == "bitmap" else data
                    )
    return out


@pytest.mark.parametrize("golden", rewritten_tables(), ids=lambda table: table.name)
def test_rewritten_indexes_are_those_of_java(
    golden: GoldenTable, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """Where Java can make them: it fails for changed types and deletion vectors, and leaves embedded ones."""
    java = oracles[golden.version]
    ours = golden.copy_to(tmp_path / "ours")
    catalog = load_catalog(ours.warehouse)
    options = index_options(catalog.load_table(ours.name))
    kept = blobs_of(catalog.load_table(ours.name))
    rows = java.read(ours.warehouse, ours.name)

    def rewrite(wanted: dict[str, str]) -> rewrite_file_index.Report:
        return rewrite_file_index.run(rewrite_file_index.Job(table=ours.name, options=wanted), catalog)

    def check() -> None:
        assert java.read(ours.warehouse, ours.name) == rows
        assert findings(java.fsck(ours.warehouse, ours.name)) <= findings(golden.facts["fsck"])

    done = rewrite(options)
    assert done.files == done.planned > 0
    mine = blobs_of(catalog.load_table(ours.name))
    assert mine.items() >= {key: blob for key, blob in kept.items() if key in mine}.items()
    if golden.name in COMPARED:
        theirs = golden.copy_to(tmp_path / "theirs")
        flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
        java.call("rewrite-file-index", theirs.warehouse, theirs.name, *flags)
        made = blobs_of(load_catalog(theirs.warehouse).load_table(theirs.name))
        ranges_of_nulls = {key for key, blob in mine.items() if not blob and key[2] == "range-bitmap"}
        new = made.keys() - kept.keys() - ranges_of_nulls  # in which Java finds two of the nulls only
        assert {key: mine[key] for key in new} == {key: made[key] for key in new}
        assert mine.keys() == made.keys()
    check()
    assert rewrite(options).nothing_to_do
    fewer = {"file-index.bitmap.columns": options["file-index.bitmap.columns"].split(",")[0]}
    for wanted in (fewer, options, fewer):  # descriptions never come back: Java would take them for deleted
        rewrite(wanted | {key: "1 mb" for key in options if key.endswith("threshold")})
    check()
