"""Which tables may be made: lakecore refuses what Java Paimon refuses, and makes what Java makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidInputError
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow

COLUMNS = ["k INT NOT NULL", "p STRING", "v INT", "t TIMESTAMP(9)", "a ARRAY<INT>", "b BIGINT", "s STRING"]


def keyed(*columns: Any, **options: Any) -> dict[str, Any]:
    return table(*columns, primary_keys=["k"], **{"bucket": "1", **options})


def table(*columns: Any, primary_keys: Any = (), partition_keys: Any = (), **options: Any) -> dict[str, Any]:
    return {
        "columns": [*COLUMNS, *columns],
        "primaryKeys": list(primary_keys),
        "partitionKeys": list(partition_keys),
        "options": {key.replace("__", ".").replace("_", "-"): str(value) for key, value in options.items()},
    }


def raw(definition: dict[str, Any], **options: str) -> dict[str, Any]:
    """With options whose keys have underscores or capitals of their own."""
    return definition | {"options": definition["options"] | options}


def partial(**options: str) -> dict[str, Any]:
    return raw(keyed(merge_engine="partial-update"), **options)


def summed(**options: str) -> dict[str, Any]:
    return raw(keyed(merge_engine="aggregation"), **options)


PARTITIONED = {"primary_keys": ["k", "p"], "partition_keys": ["p"]}
ACROSS = {"primary_keys": ["k"], "partition_keys": ["p"]}
DEFINITIONS = [
    table(path="/elsewhere/t"), table(auto_create="true"), table(auto_create="FALSE"),
    # keys and buckets
    table(), keyed(), table(**PARTITIONED), table(**ACROSS), table(**ACROSS, bucket=2),
    table(primary_keys=["a"], bucket=1), table(partition_keys=["a"]), table(primary_keys=["p"], partition_keys=["p"]),
    table(primary_keys=["nowhere"]), table(primary_keys=["k", "k"]), table(partition_keys=["nowhere"]),
    table(bucket=2), table(bucket=2, bucket_key="k"), table(bucket=2, bucket_key="a"), table(bucket_key="k"),
    table(bucket=0), table(bucket=-2), table(bucket=-3), keyed(bucket=0), keyed(bucket=-2), keyed(bucket=-3),
    keyed(bucket_key="v"), keyed(bucket_key="nowhere"), table(**PARTITIONED, bucket=1, bucket_key="p"),
    keyed(bucket=-1, bucket_key="k"), keyed(upsert_key="k"), table(upsert_key="k"), table(upsert_key="a"),
    table(full_compaction__delta_commits=2), keyed(bucket=-1, full_compaction__delta_commits=2),
    table(bucket=2, bucket_key="k", full_compaction__delta_commits=2),
    table("_KEY_x INT"), table("_SEQUENCE_NUMBER INT"), table("k INT"), table("_ROW_ID INT"),
    table(primary_key="k", bucket="1"), keyed(primary_key="k"),
    # engines, sequences, changelogs
    keyed(merge_engine="merge"), keyed(sequence__field="v"), keyed(sequence__field="nowhere"),
    keyed(sequence__field="v,v"), table(**ACROSS, sequence__field="v"), keyed(sequence__field="v,b"),
    keyed(sequence__field="v", merge_engine="first-row"), keyed(rowkind__field="nowhere"), keyed(rowkind__field="s"),
    keyed(sequence__field="v", fields__v__aggregate_function="sum", merge_engine="aggregation"),
    keyed(fields__nowhere__aggregate_function="sum"), keyed(merge_engine="aggregation", fields__v__aggregate_function="sum"),
    raw(keyed(merge_engine="aggregation"), **{"fields.v.aggregate-function": "no_such"}),
    raw(keyed(merge_engine="aggregation"), **{"fields.default-aggregate-function": "last_value"}),
    raw(keyed(), **{"fields.v.aggregate-function": "no_such"}),
    keyed(changelog_producer="lookup"), table(changelog_producer="input"), keyed(changelog_producer="some"),
    keyed(merge_engine="first-row", changelog_producer="input"), keyed(merge_engine="first-row", changelog_producer="lookup"),
    keyed(changelog_producer="lookup", streaming_read_overwrite="true"), keyed(streaming_read_overwrite="true"),
    table(streaming_read_overwrite="true"),
    # partial updates and aggregates
    partial(), partial(**{"fields.v.sequence-group": "b"}), partial(**{"fields.v,b.sequence-group": "s"}),
    partial(**{"fields.v.sequence-group": "nowhere"}), partial(**{"fields.nowhere.sequence-group": "b"}),
    partial(**{"fields.v.sequence-group": "s", "fields.b.sequence-group": "s"}),
    partial(**{"fields.s.aggregate-function": "last_value"}), partial(**{"fields.s.aggregate-function": "last_non_null_value"}),
    partial(**{"fields.v.sequence-group": "s", "fields.s.aggregate-function": "listagg"}),
    partial(**{"fields.default-aggregate-function": "last_value"}),
    partial(**{"ignore-delete": "true", "partial-update.remove-record-on-delete": "true"}),
    partial(**{"fields.v.sequence-group": "s", "partial-update.remove-record-on-delete": "true"}),
    partial(**{"fields.v.sequence-group": "s", "partial-update.remove-record-on-sequence-group": "v"}),
    partial(**{"fields.v.sequence-group": "s", "partial-update.remove-record-on-sequence-group": "s"}),
    partial(**{"partial-update.remove-record-on-sequence-group": "v"}),
    partial(**{"sequence.field": "v"}),
    summed(**{"fields.v.aggregate-function": "sum"}),
    summed(**{"fields.a.aggregate-function": "collect"}),

     summed(**{"aggregation.remove-record-on-delete": "true"}),
    summed(**{"fields.k.aggregate-function": "sum"}),
    # deletion vectors, row tracking, clustering
    keyed(deletion_vectors__enabled="true"), table(deletion_vectors__enabled="true"),
    keyed(deletion_vectors__enabled="true", changelog_producer="full-compaction"),
    keyed(deletion_vectors__enabled="true", changelog_producer="lookup"),
    keyed(deletion_vectors__enabled="true", changelog_producer="input"),
    keyed(deletion_vectors__enabled="true", merge_engine="first-row"),
    table(row_tracking__enabled="true"), keyed(row_tracking__enabled="true"),
    table(row_tracking__enabled="true", bucket=2, bucket_key="k"), table(data_evolution__enabled="true"),
    table(row_tracking__enabled="true", data_evolution__enabled="true"),
    table(clustering__incremental="true", clustering__columns="k"), keyed(clustering__incremental="true"),
    table(clustering__incremental="true", bucket=2, bucket_key="k"),
    keyed(pk_clustering_override="true"),
    keyed(pk_clustering_override="true", deletion_vectors__enabled="true"),
    keyed(pk_clustering_override="true", deletion_vectors__enabled="true", clustering__columns="v"),
    table(table_read__sequence_number__enabled="true"), keyed(table_read__sequence_number__enabled="true"),
    # retention and times
    keyed(snapshot__num_retained__min=0), keyed(snapshot__num_retained__min=5, snapshot__num_retained__max=4),
    keyed(changelog__num_retained__min=0), keyed(changelog__num_retained__min=30, changelog__num_retained__max=20),
    keyed(changelog__num_retained__max=5), keyed(partition__expiration_time="1 d"),
    table(**PARTITIONED, partition__expiration_time="1 d"), keyed(record_level__time_field="nowhere"),
    keyed(record_level__time_field="s"), keyed(record_level__time_field="b"), keyed(record_level__time_field="t"),
    # reads
    keyed(scan__mode="from-snapshot"), keyed(scan__mode="from-snapshot", scan__snapshot_id=1),
    keyed(scan__snapshot_id=1, scan__timestamp_millis=1), keyed(scan__mode="latest", scan__snapshot_id=1),
    keyed(scan__mode="somewhere"), keyed(scan__snapshot_id=1), keyed(scan__timestamp_millis=1),
    keyed(incremental_between="1,2"), keyed(incremental_between="1,2", scan__snapshot_id=1),
    keyed(scan__mode="incremental"), keyed(scan__mode="from-file-creation-time"),
    keyed(scan__fallback_branch="b"), keyed(scan__fallback_branch="b", scan__primary_branch="c"),
    keyed(chain_table__enabled="true"),
    # formats and types
    keyed(file__format="orc"), keyed(file__format="avro"), keyed(file__format="nothing"),
    table("m MULTISET<INT>", file__format="orc"), table("x VARIANT", file__format="orc"),
    table("x VARIANT"), table("x VARIANT", file__format="avro"),
    {"columns": ["m MULTISET<INT>", "x TIME(3)"], "options": {"file.format": "avro"}},
    {"columns": [{"name": "k", "type": "INT", "defaultValue": "7"}]},
    {"columns": [{"name": "k", "type": "INT", "defaultValue": "seven"}]},
]  # fmt: skip

STRICTER = [
    partial(**{"fields.v.sequence-group": "k"}),
    summed(**{"fields.s.aggregate-function": "sum"}),
    summed(**{"fields.s.aggregate-function": "merge_map"}),
    summed(**{"fields.v.aggregate-function": "theta_sketch"}),
    summed(**{"fields.b.aggregate-function": "bool_and"}),
]
"""Java makes these tables; no row of them can be merged."""


def evolving(*columns: Any, partition_keys: Any = (), **options: Any) -> dict[str, Any]:
    both = {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}
    return table(*columns, partition_keys=partition_keys, **both, **options)


def shared(kind: str = "MAP<STRING NOT NULL, INT>", *columns: Any, **options: str) -> dict[str, Any]:
    layout = {"fields.m.map.storage-layout": "shared-shredding"}
    return raw(keyed(f"m {kind}", *columns), **(layout | options))


NEWER = [
    shared(), shared("MAP<STRING, INT>"), shared("MAP<INT NOT NULL, INT>"), shared("MAP<CHAR(3) NOT NULL, INT>"), shared("INT"),
    shared(**{"fields.x.map.storage-layout": "default"}), shared(**{"fields.m.map.storage-layout": "default"}),
    shared(**{"fields.m.map.shared-shredding.max-columns": "0"}), shared(**{"file.format": "avro"}), shared(**{"file.format": "orc"}),
    shared(**{"fields.m.map.shared-shredding.column-placement-policy": "any"}), shared(**{"file.compression": "snappy"}),
    shared(**{"file.format.per.level": "0:avro"}), shared(**{"changelog-file.format": "avro"}), shared(bucket="-2"),
    shared(**{"file.compression.per.level": "3:gzip"}), shared("MAP<STRING NOT NULL, INT>", "x VARIANT"), shared("MAP<STRING, INT>", **{"fields.m.map.storage-layout": "DEFAULT"}),
    shared("MAP<STRING NOT NULL, INT>", "x ROW<b MULTISET<INT>>"), shared("MAP<STRING NOT NULL, VECTOR<FLOAT, 2>>"),
    keyed("x VARIANT", **{"variant.inferShreddingSchema": "true", "variant.shredding.minFieldCardinalityRatio": "2"}),
    evolving(deletion_vectors__enabled="true"), table("x BLOB"), evolving("x BLOB"), evolving("x VECTOR<INT, 2>"),
    evolving("x BLOB", blob_descriptor_field="x"), evolving("x BLOB", blob_descriptor_field="v"),
    evolving("x BLOB", partition_keys=["x"]), table("x VECTOR<FLOAT, 2>"), table("x VECTOR<INT, 2>", file__format="orc"),
    table("x VECTOR<INT, 2>", **{"vector.file.format": "avro"}), evolving("x ROW<b BLOB>"),
    evolving("x ARRAY<BLOB>"), evolving("x MAP<STRING, BLOB>"), evolving("x ARRAY<ARRAY<BLOB>>"),
    evolving("x ARRAY<BLOB>", blob_descriptor_field="x"),
    evolving("x VECTOR<INT, 2>", **{"vector.file.format": "avro"}, file__format="orc"),
    evolving("x VECTOR<INT, 2>", **{"vector.file.format": "avro"}, partition_keys=["x"]),
    keyed("x BLOB", "y ARRAY<BLOB>", "z MAP<INT, BLOB>"), keyed("x BLOB", changelog_producer="input"),
    keyed("x BLOB", merge_engine="partial-update"), keyed("x BLOB", sequence__field="x"), keyed("x ROW<b BLOB>"),
    keyed("x BLOB", merge_engine="partial-update", blob_descriptor_field="x", changelog_producer="lookup"),
    table("x BLOB", primary_keys=["k", "x"], bucket=1), keyed("x BLOB", bucket_key="x"),
    keyed("x BLOB", blob_descriptor_field="v"), keyed("x BLOB", data_file__external_paths="file:/tmp/x",
                                                      data_file__external_paths__strategy="round-robin"),
]  # fmt: skip
"""Judged by Java 2.0.0: 1.4.2 makes fewer of these."""


def test_lakecore_makes_the_tables_that_java_makes(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path)
    wrong = []
    for number, definition in enumerate([*DEFINITIONS, *STRICTER, *NEWER]):
        java = ours = "made"
        try:
            oracles["2.0.0" if definition in NEWER else "1.4.2"].create(
                tmp_path, f"d.java{number}", definition
            )
        except OracleError as err:
            java = str(err).splitlines()[0]
        try:
            catalog.create_table(f"d.ours{number}", definition)
        except InvalidInputError as err:
            ours = str(err)
        if (java == "made" and definition not in STRICTER) != (ours == "made"):
            wrong.append((json.dumps(definition), java, ours))
    assert wrong == []
