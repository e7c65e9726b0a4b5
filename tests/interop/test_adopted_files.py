"""Data files with other columns than their table: adopted from Hive, variants and maps in typed columns."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakecore
from lakecore.commit.request import CommitRequest
from lakecore.errors import InvalidInputError
from lakecore.jobs import compact
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EMPTY_STATS
from lakecore.row.binary_row import encode_row
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.verify.fsck.check import fsck
from tests.support.builders import commit_message
from tests.support.golden import canonical
from tests.support.lake import live_files, rows_of
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow


def test_partition_columns_that_files_lack(oracle: Oracle, tmp_path: Path) -> None:
    """They are those of the partition: in reads, conditions, streams, deletes, and after a compaction."""
    lake = lakecore.load_catalog(str(tmp_path))
    lake.create_table("d.bare", {"columns": ["k INT", "v STRING"], "options": {"bucket": "-1"}})
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    columns = ["k INT", "v STRING", "p INT", "q STRING NOT NULL"]
    lake.create_table("d.t", {"columns": columns, "partitionKeys": ["p", "q"], "options": options})
    for number, place in enumerate([(1, "a"), (1, "a"), (None, "b")]):
        lake.load_table("d.bare").overwrite(pa.table({"k": pa.array([number], pa.int32()), "v": ["x"]}))
        bare, table = lake.load_table("d.bare"), lake.load_table("d.t")
        (file,) = live_files(bare)
        partition = encode_row(place, table.schema.partition_type)
        target = Path(table._read_context().data_path(partition, 0, file).removeprefix("file://"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bare._read_context().data_path(EMPTY_ROW, 0, file).removeprefix("file://"), target)
        adopted = replace(file, value_stats=EMPTY_STATS, value_stats_cols=())
        table._committer().commit(
            [commit_message(adopted, partition=partition)], CommitRequest(user="hive", identifier=number)
        )
    table = lake.load_table("d.t")
    assert rows_of(table) == [(0, "x", 1, "a"), (1, "x", 1, "a"), (2, "x", None, "b")]
    assert rows_of(table, where="p is null or k = 0", columns=["q", "k"]) == [("a", 0), ("b", 2)]
    told = [
        row
        for changes in table.stream(snapshot=2)
        for batch in changes.to_batches()
        for row in batch.to_pylist()
    ]
    assert [(row["k"], row["p"], row["q"]) for row in told] == [(1, 1, "a"), (2, None, "b")]
    assert table.delete("p is null and k < 2").rows == 0
    before = oracle.read(tmp_path, "d.t")
    job = compact.Job(table="d.t", strategy=compact.Strategy.FULL, proof=compact.ProofMode.FULL)
    assert compact.run(job, lake).snapshot is not None
    assert oracle.read(tmp_path, "d.t") == before
    assert oracle.fsck(tmp_path, "d.t")["errors"] == []


TYPED = {"name": "v", "type": {"type": "ROW", "fields": [
    {"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "STRING"},
    {"id": 2, "name": "l", "type": {"type": "ARRAY", "element": "DOUBLE"}},
    {"id": 3, "name": "d", "type": "DECIMAL(9, 2)"}, {"id": 4, "name": "t", "type": "BOOLEAN"}]}}  # fmt: skip
VARIANTS = [
    '{"a":1,"b":"x"}', '{"a":"no","c":[1,2]}', "5", '"s"', '{"b":"y","z":{"q":1.5,"a":null}}', None, "[1,{\"a\":2}]",
    '{"l":[1.5,"x",{"a":1}],"d":1.25,"t":true}', '{"l":[1.5,-2.25],"d":3,"é":{"é":[]}}', "{}", "null",
    '{"d":0.000000000001,"a":-129,"t":[]}', '{"d":12345678901234567890.5,"l":[]}',
]  # fmt: skip


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_shredded_variants(version: str, oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """What the types do not fit stands beside the typed columns. Files that lakecore writes, or makes of
    Java's, have such columns too, and Java reads them.
    """
    java = oracles[version]
    options = {"bucket": "1", "variant.inferShreddingSchema": "true", "write-only": "true"}
    given = {"parquet.variant.shreddingSchema": json.dumps({"type": "ROW", "fields": [{"id": 0, **TYPED}]})}
    lake = lakecore.load_catalog(str(tmp_path))
    for name, chosen in (("d.inferred", options), ("d.given", options | given)):
        columns = ["k INT NOT NULL", "v VARIANT", "r ROW<x INT NOT NULL, w VARIANT>"]
        java.create(tmp_path, name, {"columns": columns, "primaryKeys": ["k"], "options": chosen})
        rows = [
            {"k": number, "v": text, "r": None if number % 3 == 0 else {"x": 1, "w": text}}
            for number, text in enumerate(VARIANTS)
            if name == "d.given" or text is None or text[0] == "{"
        ]
        java.write(tmp_path, name, rows)
        table = lake.load_table(name)
        wanted = java.read(tmp_path, name)
        table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))
        assert java.read(tmp_path, name) == wanted
        java.write(tmp_path, name, rows[3:5])
        wanted = java.read(tmp_path, name)
        for proof in (None, compact.ProofMode.FULL):
            if proof is not None:
                job = compact.Job(table=name, strategy=compact.Strategy.FULL, proof=proof)
                assert compact.run(job, lake).snapshot is not None
            scan = lake.load_table(name).scan()
            found = canonical(line for b in scan.to_batches() for line in batch_to_json(b, scan.row_type))
            assert found == wanted == java.read(tmp_path, name)
        (file,) = live_files(lake.load_table(name))
        kinds = pq.read_schema(tmp_path / name.replace(".", ".db/") / "bucket-0" / file.file_name)
        assert "typed_value" in str(kinds.field("v"))
        assert ("typed_value" in str(kinds.field("r"))) == (name == "d.inferred")


IN_KEY_ORDER = ("keys not sorted in", "rows outside [minKey,maxKey] in", "overlapping files in level")
"""What the oracle's check says of every file above level 0, whoever wrote it: it knows no other order."""


@pytest.mark.parametrize(
    ("engine", "version"), [("deduplicate", "1.4.2"), ("deduplicate", "2.0.0"), ("first-row", "2.0.0")]
)
def test_files_that_are_sorted_by_other_columns(
    engine: str, version: str, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """States are read, compared, written and compacted on by turns, as Java does; checks find nothing."""
    java = oracles[version]
    options = {
        "bucket": "2",
        "pk-clustering-override": "true",
        "clustering.columns": "n,s",
        "deletion-vectors.enabled": "true",
        "merge-engine": engine,
    }
    columns = ["k STRING NOT NULL", "n INT", "s STRING"]
    java.create(tmp_path, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    kinds = ["+I", "+I", "-D"] if engine == "deduplicate" else ["+I"]
    batches = [
        [
            {
                "k": f"key {k}",
                "n": (7 * k + number) % 10 if k % 7 else None,
                "s": f"{number}",
                "_kind": kinds[k % len(kinds)],
            }
            for k in range(number, 20 + number)
        ]
        for number in range(6)
    ]
    for number, rows in enumerate(batches[:4]):
        java.write(tmp_path, "d.t", rows if number else [row | {"_kind": "+I"} for row in rows])
        if number == 2:
            java.compact(tmp_path, "d.t", full=True)
    java.call("alter", tmp_path, "d.t", '[{"op": "set", "key": "write-only", "value": "true"}]')
    lake = lakecore.load_catalog(str(tmp_path))
    java.write(tmp_path, "d.t", batches[4])
    table = lake.load_table("d.t")
    table.write(json_to_batch(map(json.dumps, batches[5]), table.schema.row_type))
    states = [java.read(tmp_path, "d.t", snapshot=number) for number in table._stores.snapshots.list_ids()]
    shutil.copytree(tmp_path / "d.db", tmp_path / "java" / "d.db")
    java.compact(tmp_path / "java", "d.t", full=True)
    job = compact.Job(table="d.t", strategy=compact.Strategy.FULL, proof=compact.ProofMode.FULL)
    assert len(compact.run(job, lake).snapshots) == 2
    assert compact.run(job, lake).snapshots == ()
    for key, value in (("clustering.columns", "s"), ("pk-clustering-override", "false")):
        with pytest.raises(InvalidInputError, match="cannot be changed for one run"):
            compact.run(replace(job, options={key: value}), lake)
    after = java.read(tmp_path / "java", "d.t")
    assert after != states[-1]
    states += [after, java.read(tmp_path, "d.t")]
    java.write(tmp_path, "d.t", batches[3])
    java.compact(tmp_path, "d.t", full=True)
    states += [after, java.read(tmp_path, "d.t")]
    table = lake.load_table("d.t")
    for number, wanted in enumerate(states, 1):
        state = table.scan(snapshot=number)
        assert canonical(state.to_arrow().to_pylist()) == wanted
        for where, wants in (
            ("n = 3", '"n": 3'),
            ("k = 'key 11'", "key 11"),
            ("s = '2' and k > 'key 1'", '"s": "2"'),
        ):
            some = [line for line in wanted if wants in line and json.loads(line)["k"] > "key 1"]
            found = table.scan(snapshot=number, where=f"({where}) and k > 'key 1'", columns=["s", "k", "n"])
            assert canonical(found.to_arrow().to_pylist()) == canonical(map(json.loads, some))
    assert (
        fsck(
            table._stores.file_io, table._stores.paths, now_ms=int(time.time() * 1000), read_data=True
        ).damage
        == ()
    )
    found = findings(java.fsck(tmp_path, "d.t"))
    assert {finding for finding in found if not any(text in finding for text in IN_KEY_ORDER)} == set()
    for first, last in ((2, 4), (3, len(states)), (len(states) - 3, len(states))):
        changed = {"incremental-between": f"{first},{last}", "incremental-between-scan-mode": "diff"}
        news = [line for line in states[last - 1] if line not in states[first - 1]]
        found = table.with_options(changed).scan().to_arrow().to_pylist()
        assert canonical(found) == news, (first, last)
