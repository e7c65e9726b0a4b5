"""Java Paimon works on a table while lakecore orders, clusters or rescales it, and goes on afterwards."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.compact.engine.request import CompactRequest, RunName
from lakecore.compact.engine.run import RewriteRun
from lakecore.compact.kinds.sort.apply import Clustering
from lakecore.jobs import compact, rescale
from lakecore.jobs.runner.lake import rewrite_target
from tests.lakecore.compact.test_cluster import Meddling
from tests.support.oracle import Oracle, OracleError, findings

pytestmark = pytest.mark.slow

COLUMNS = ["k INT NOT NULL", "p STRING NOT NULL", "v STRING"]
ROWS = [{"k": k * 37 % 101, "p": p, "v": f"v{k}"} for k in range(60) for p in "xy"]
MORE = [{"k": 500 + k, "p": "x", "v": "more"} for k in range(5)]


def made(oracle: Oracle, warehouse: Path, keys: list[str], **options: str) -> None:
    """`d.t`, by Java: three commits."""
    definition = {"columns": COLUMNS, "partitionKeys": ["p"], "primaryKeys": keys}
    oracle.create(warehouse, "d.t", definition | {"options": {"write-only": "true", **options}})
    for part in (ROWS[:40], ROWS[30:90], ROWS[80:]):
        oracle.write(warehouse, "d.t", part)


def sort(lake: Any, meddling: Meddling) -> None:
    job = compact.Job(table="d.t", order_strategy=compact.OrderStrategy.ZORDER, order_by=("k", "v"))
    assert compact.run(job, lake, meddling).dropped == ()


def to_five_buckets(lake: Any, meddling: Meddling) -> None:
    assert rescale.run(rescale.Job(table="d.t", bucket_num=5), lake, meddling).blocker == ""


DEEDS: dict[str, Callable[[Oracle, Path], Any]] = {
    "inserts": lambda oracle, warehouse: oracle.write(warehouse, "d.t", MORE),
    "compacts": lambda oracle, warehouse: oracle.compact(warehouse, "d.t", full=True),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize(
    ("work", "keys", "options"), [(sort, [], {}), (to_five_buckets, ["k", "p"], {"bucket": "2"})]
)
def test_java_meanwhile(
    work: Callable[[Any, Meddling], None],
    keys: list[str],
    options: dict[str, str],
    deed: str,
    oracle: Oracle,
    tmp_path: Path,
) -> None:
    made(oracle, tmp_path / "a", keys, **options)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    DEEDS[deed](oracle, tmp_path / "b")
    lake = lakecore.load_catalog(str(tmp_path / "a"), **{"local.fsync": "false"})
    work(lake, Meddling(lambda: DEEDS[deed](oracle, tmp_path / "a")))
    assert oracle.read(tmp_path / "a", "d.t") == oracle.read(tmp_path / "b", "d.t")
    assert findings(oracle.fsck(tmp_path / "a", "d.t")) == set()


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_java_makes_the_changelog_that_a_rescaling_left_to_make(
    producer: str, oracle: Oracle, tmp_path: Path
) -> None:
    """The same lines as on a table that was never rescaled."""
    made(oracle, tmp_path / "a", ["k", "p"], **{"bucket": "2", "changelog-producer": producer})
    oracle.compact(tmp_path / "a", "d.t", full=True)
    oracle.write(tmp_path / "a", "d.t", [{**row, "v": "changed"} for row in ROWS[:9]] + MORE)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    lake = lakecore.load_catalog(str(tmp_path / "a"), **{"local.fsync": "false"})
    first = (lake.load_table("d.t")._stores.snapshots.latest_id() or 0) + 1
    rescale.run(rescale.Job(table="d.t", bucket_num=3), lake)
    with pytest.raises(OracleError, match="bucket"):
        oracle.write(tmp_path / "a", "d.t", MORE)
    change = [{"op": "set", "key": "bucket", "value": "3"}]
    oracle.call("alter", tmp_path / "a", "d.t", json.dumps(change))
    lines = []
    for warehouse in (tmp_path / "a", tmp_path / "b"):
        oracle.compact(warehouse, "d.t", full=True)
        stream = oracle.call("stream", warehouse, "d.t", "--from-snapshot", first)
        lines.append(Counter(json.dumps(row, sort_keys=True) for plan in stream for row in plan["rows"]))
    assert lines[0] == lines[1]
    assert lines[0]


def clustering_picks(lake: Any, *, full: bool) -> dict[str, Any]:
    """Level and files, by partition, of what a compaction would put in order."""
    table = lake.load_table("d.t")
    target = rewrite_target(table, lake.clock)
    request = CompactRequest(run=RunName(commit_user="x", identifier=1), strategy=STRATEGIES[full])
    found = {}
    for pick in RewriteRun(target, request, Clustering(target, request, None), None).plan().picks:
        (unit,) = pick.units
        names = sorted(file.file_name for file in pick.replaced)
        found[pick.place.partition.hex()] = [unit.output_level, names]
    return found


STRATEGIES = (compact.Strategy.UNIVERSAL, compact.Strategy.FULL)
CLUSTERED: list[tuple[str, dict[str, str]]] = [
    ("1.4.2", {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"}),
    ("2.0.0", {"row-tracking.enabled": "true", "num-sorted-run.compaction-trigger": "2", "num-levels": "4"}),
]


@pytest.mark.parametrize(("version", "options"), CLUSTERED)
def test_clusterings_of_both_pick_the_same_files_turn_by_turn(
    version: str, options: dict[str, str], oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    oracle, chance = oracles[version], random.Random(5)
    clustering = {"clustering.incremental": "true", "clustering.columns": "k,v", "target-file-size": "2 kb"}
    definition = {"columns": COLUMNS, "partitionKeys": ["p"], "options": clustering | options}
    oracle.create(tmp_path, "d.t", definition)
    lake = lakecore.load_catalog(str(tmp_path), **{"local.fsync": "false"})
    compared = 0
    for deed in ["write", "write", "write", "ours", "write", "write", "java", "delete", "write", "ours", "write",
                 "write", "java full", "write", "ours full", "write"]:  # fmt: skip
        if deed == "write":
            oracle.write(tmp_path, "d.t", chance.sample(ROWS, chance.choice((3, 9, 60))))
        elif deed == "delete" and "deletion-vectors.enabled" in options:
            lake.load_table("d.t").delete("k < 20")
        rows = oracle.read(tmp_path, "d.t")
        for full in (False,) if deed == "write" else (False, True):
            flags = ["--full"] if full else []
            wanted = oracle.call("cluster-picks", tmp_path, "d.t", *flags)
            assert clustering_picks(lake, full=full) == wanted
            compared += len(wanted)
        whole = deed.endswith("full")
        if deed.startswith("ours"):
            report = compact.run(compact.Job(table="d.t", strategy=STRATEGIES[whole]), lake)
            assert (report.error, report.dropped) == (None, ())
        elif deed.startswith("java"):
            oracle.call("cluster", tmp_path, "d.t", *(["--full"] if whole else []))
        assert oracle.read(tmp_path, "d.t") == rows
    assert compared > 20
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
