"""Java and lakecore expire and drop partitions of copies of one table: the same rows are left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import partitions
from tests.support.golden import golden_tables
from tests.support.oracle import Oracle
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

DATES = (
    "2020-01-05",
    "2020-1-5",
    "2020-02-30",
    "2020-13-01",
    "20200105",
    "202001",
    "2020-01-05 10:00:00",
    "2020-01-05 10:00:00.5",
    "2020-01-05 1:2:3",
    "2020-01-05T10:00",
    "05.01.2020",
    "2020010510",
    "x",
    "2999-01-01",
    "29990101",
    None,
)
RULES: tuple[dict[str, str], ...] = (
    {},
    {"timestamp-formatter": "yyyyMMdd"},
    {"timestamp-formatter": "yyyy-MM-dd"},
    {"timestamp-formatter": "yyyyMMddHH"},
    {"timestamp-formatter": "yyyy-M-d"},
    {"timestamp-formatter": "dd.MM.yyyy"},
    {"timestamp-formatter": "yyyy-MM-dd'T'HH:mm"},
    {"timestamp-pattern": "$dt $hh:00:00"},
    {"timestamp-pattern": "$dt$hh", "timestamp-formatter": "yyyyMMddHH"},
    {"expiration-max-num": "3"},
    {"expiration-strategy": "update-time", "expiration-time": "1 ms"},
    {"expiration-strategy": "update-time"},
)


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> Path:
    """A partition for every way to write a date, wrong ones included."""
    warehouse = tmp_path_factory.mktemp("dated")
    columns = ["dt STRING", "hh INT", "v INT"]
    oracle.create(warehouse, "d.t", {"columns": columns, "partitionKeys": ["dt", "hh"]})
    oracle.write(warehouse, "d.t", [{"dt": dt, "hh": 10, "v": 1} for dt in DATES])
    return warehouse / "d.db" / "t"


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_same_partitions_expire(
    rule: dict[str, str], dated: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(dated, "d.t", tmp_path)
    options = {"partition.expiration-time": "100 d"} | {f"partition.{k}": v for k, v in rule.items()}
    flags = [part for k, v in options.items() for part in ("--option", f"{k}={v}")]
    oracle.call(
        "expire-partitions", twins.java, "d.t", *flags, "--option", "partition.expiration-check-interval=0 ms"
    )
    report = partitions.run(partitions.ExpirePartitions(table="d.t", options=options), twins.lake)
    expected = oracle.read(twins.java, "d.t")
    assert oracle.read(twins.ours, "d.t") == expected
    assert report.nothing_to_do == (len(expected) == len(DATES))
    assert len(twins.opened._stores.snapshots.list_ids()) == 2 - report.nothing_to_do


@pytest.mark.parametrize(
    ("kind", "values", "formatter"),
    [
        ("TIMESTAMP(3)", ["2020-01-01 00:00:00.000", "2020-01-01 00:00:01.500", "2020-01-01 07:30:00.000"], None),
        ("TIMESTAMP(0) WITH LOCAL TIME ZONE", ["2020-01-01 00:00:09Z"], None),
        ("TIMESTAMP(6)", ["2020-01-01 00:00:09.000000"], "yyyy-MM-dd HH:mm:ss"),
        ("DATE", ["2020-01-01"], None),
        ("DATE", ["2020-01-01"], "yyyyy"),
        ("VARBINARY(10)", ["0x323032302d30312d3031"], None),
    ],
)  # fmt: skip
def test_partitions_by_other_types_expire_alike(
    kind: str, values: list[str], formatter: str | None, tmp_path: Path, oracle2: Oracle
) -> None:
    """Never: Java asks for the text of the internal value, in which a TIMESTAMP has a T and a DATE is a number."""
    options = {"partition.expiration-time": "100 d", "bucket": "-1"}
    if formatter is not None:
        options["partition.timestamp-formatter"] = formatter
    for warehouse in ("java", "ours"):
        (tmp_path / warehouse).mkdir()
        definition = {"columns": [f"p {kind}", "v INT"], "partitionKeys": ["p"], "options": {"partition.legacy-name": "false", **options}}  # fmt: skip
        oracle2.create(tmp_path / warehouse, "d.t", definition)
        oracle2.write(tmp_path / warehouse, "d.t", [{"p": value, "v": 1} for value in values])
    flags = ("--option", "partition.expiration-check-interval=0 ms")
    oracle2.call("expire-partitions", tmp_path / "java", "d.t", *flags)
    partitions.run(partitions.ExpirePartitions(table="d.t"), load_catalog(tmp_path / "ours"))
    expected = oracle2.read(tmp_path / "java", "d.t")
    assert oracle2.read(tmp_path / "ours", "d.t") == expected
    assert len(expected) == len(values)


@pytest.mark.parametrize("golden", ["g1.a_dv_append_bucket_part", "g1.a_dv_pk_part64"], ids=str)
def test_dropped_partitions_take_their_index_along(
    golden: str, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of_golden(next(t for t in golden_tables() if t.name == golden), tmp_path)
    keys = twins.opened.schema.partition_keys
    values = json.loads(oracle.read(twins.java, golden)[0])
    spec = ",".join(f"{key}={values[key]}" for key in keys)
    oracle.call("drop-partitions", twins.java, golden, spec)
    partitions.run(partitions.DropPartition(table=golden, partitions=spec), twins.lake)
    for judge in (oracle, oracle2):
        assert judge.read(twins.ours, golden) == judge.read(twins.java, golden)
    assert twins.new_findings(oracle, twins.java) == set()
