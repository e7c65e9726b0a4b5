"""Partitions in a Hive metastore: entered by Java and by lakecore in turns, they are the same records.

LAKECORE_HIVE_SEQUENCES: how many random sequences, from the number LAKECORE_HIVE_FIRST on.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.hive.partition_list import HivePartitionList
from lakecore.catalog.names import TableName
from lakecore.errors import UnsupportedError
from lakecore.jobs import partitions, quarantine
from lakecore.jobs.versions import tags
from tests.support.hive_metastore import HiveServer, emptied, opened

pytestmark = pytest.mark.slow

SEQUENCES = int(os.environ.get("LAKECORE_HIVE_SEQUENCES", "1"))
FIRST = int(os.environ.get("LAKECORE_HIVE_FIRST", "0"))
STEPS = 20
ACTIONS = "success-file,done-partition,mark-event"
DT = "dt" if os.environ.get("LAKECORE_HIVE_VERSION") == "2.0.0" else "Dt"
"""Java 2.0 asks the metastore for the marks of a column of upper case letters, which it does not know."""
PARTITIONED = {
    "columns": ["k INT NOT NULL", "p STRING NOT NULL", f"{DT} DATE NOT NULL"],
    "partitionKeys": ["p", DT],
    "options": {
        "bucket": "-1",
        "metastore.partitioned-table": "true",
        "partition.mark-done-action": ACTIONS,
        "partition.legacy-name": "false",
    },
}
TAGGED = {
    "columns": ["k INT NOT NULL", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "metastore.tag-to-partition": "seen"},
}
VALUES = ("a", "b c", "d=/%e", "é")


def listed(catalog: HiveCatalog, name: str, *columns: str) -> HivePartitionList:
    return catalog._lists.of_name(TableName.parse(name), columns or ("p", DT))


def records(catalog: HiveCatalog, name: str, *columns: str) -> dict[tuple[str, ...], str]:
    """The metastore's records by values, without times, its own counts of files, and the name of the table."""
    own, found = ("totalSize", "numFiles", "transient_lastDdlTime"), {}
    for record in listed(catalog, name, *columns).records():
        record.tableName = record.createTime = record.lastAccessTime = None
        record.parameters = {key: one for key, one in record.parameters.items() if key not in own}
        place = re.compile(f"/{name.partition('.')[2]}(?=[/'])")
        found[tuple(record.values)] = place.sub("/T", str(record))
    return found


def rows(*values: str, k: int = 1) -> pa.Table:
    days = pa.array([19000] * len(values), pa.int32()).cast(pa.date32())
    return pa.table({"k": pa.array([k] * len(values), pa.int32()), "p": list(values), DT: days})


DAY = "2022-01-08"


@pytest.mark.parametrize("options", [{}, {"location_in_properties": "true"}], ids=["default", "properties"])
def test_partitions_are_the_records_of_java(hive: HiveServer, options: dict[str, str]) -> None:
    java, ours = hive.java(**options), opened(hive, **options)
    emptied(ours)
    ours.create_database("d")
    for name in ("d.j", "d.l"):
        ours.create_table(name, PARTITIONED)
    hive.oracle.write(java, "d.j", [{"k": 1, "p": p, DT: DAY} for p in VALUES])
    ours.load_table("d.l").append(rows(*VALUES))
    expected = {(p, DAY) for p in VALUES}
    assert set(records(ours, "d.j")) == expected
    assert records(ours, "d.l") == records(ours, "d.j")
    before = [record.sd.location for record in listed(ours, "d.j").records()]
    for name in ("d.j", "d.l"):
        ours.repair_table(name)
    assert [record.sd.location for record in listed(ours, "d.j").records()] == before
    assert records(ours, "d.l") == records(ours, "d.j")
    ours.rename_table("d.l", "d.m")
    assert records(ours, "d.m") == records(ours, "d.j")
    hive.oracle.call("catalog", java, "drop-partitions", "d.m", json.dumps([{"p": "a", DT: DAY}]))
    assert set(records(ours, "d.m")) == expected - {("a", DAY)}
    ours.drop_table("d.m")
    ours.restore_table("d.m")
    assert set(records(ours, "d.m")) == expected - {("a", DAY)}
    ours.close()


def test_a_rename_leaves_partitions_without_files(hive: HiveServer) -> None:
    """The mark of a partition that was dropped, and one that somebody created beforehand, move with the table by either."""
    ours = opened(hive)
    emptied(ours)
    ours.create_database("d")
    ours.create_table("d.early", PARTITIONED)
    ours.load_table("d.early").append(rows("a", "b c"))
    expected = {("a", f"{DAY}.done"), ("b c", DAY), ("early", DAY)}
    listed(ours, "d.early").add([("a", f"{DAY}.done"), ("early", DAY)])
    hive.oracle.call("catalog", hive.java(), "drop-partitions", "d.early", json.dumps([{"p": "a", DT: DAY}]))
    ours.rename_table("d.early", "d.late")
    assert set(listed(ours, "d.late").partitions()) == expected
    hive.oracle.call("catalog", hive.java(), "rename", "d.late", "d.later")
    assert set(listed(ours, "d.later").partitions()) == expected
    ours.repair_table("d.later")
    assert set(listed(ours, "d.later").partitions()) == {("b c", DAY)}
    ours.close()


class Turns:
    """One table that Java and lakecore change in turns, and the partitions that the metastore is to have."""

    def __init__(self, hive: HiveServer, chance: random.Random, first: str) -> None:
        self.hive, self.chance, self.catalog = hive, chance, opened(hive)
        emptied(self.catalog)
        self.catalog.create_database("d")
        self.first, self.name, self.number = first, first, 0
        self.expected: set[tuple[str, ...]] = set()
        self.marked: set[str] = set()

    def java(self, *words: object) -> None:
        self.hive.oracle.call(words[0], self.hive.java(), *words[1:])


def write(turns: Turns, ours: bool) -> None:
    chosen = turns.chance.sample(VALUES, turns.chance.randint(1, 2))
    if ours:
        turns.catalog.load_table(turns.name).append(rows(*chosen))
    else:
        turns.hive.oracle.write(turns.hive.java(), turns.name, [{"k": 1, "p": p, DT: DAY} for p in chosen])
    turns.expected |= {(p, DAY) for p in chosen}


def drop(turns: Turns, ours: bool) -> None:
    value = turns.chance.choice(VALUES)
    spec = {"p": value, DT: DAY}
    if not ours:
        turns.java("catalog", "drop-partitions", turns.name, json.dumps([spec]))
        turns.expected -= {(value, DAY)}
        return
    if turns.chance.random() < 0.5:
        turns.catalog.partitions.drop(turns.name, [{"p": value}])
    else:
        job = partitions.DropPartition(table=turns.name, partitions=f"p={value}")
        if "=" in value or "," in value:
            return
        partitions.run(job, turns.catalog)
    turns.expected -= {(value, DAY), (value, f"{DAY}.done")}


def mark(turns: Turns, ours: bool) -> None:
    """Java's procedure is not in the oracle: it gets the entry by its catalog."""
    known = sorted(one for one in turns.expected if not one[1].endswith(".done") and "=" not in one[0])
    if not known:
        return
    value, day = turns.chance.choice(known)
    if ours:
        job = partitions.MarkPartitionDone(table=turns.name, partitions=f"p={value},{DT}={day}")
        partitions.run(job, turns.catalog)
        turns.marked.add(value)
    else:
        spec = {"p": value, DT: f"{day}.done"}
        turns.java("catalog", "create-partitions", turns.name, json.dumps([spec]))
    turns.expected.add((value, f"{day}.done"))


def repair(turns: Turns, ours: bool) -> None:
    """Something is out of step: the entry of a partition with files is lost, or one without files is there."""
    if ours:
        listed(turns.catalog, turns.name).add([("zz", DAY)])
        found = sorted(turns.expected)
        listed(turns.catalog, turns.name).remove(found[:1])
        if found and found[0][1].endswith(".done"):
            turns.expected.discard(found[0])
    turns.catalog.repair_table(turns.name)
    alive = {(one.spec["p"], one.spec[DT]) for one in turns.catalog.partitions.list(turns.name)}
    turns.expected = alive | {
        one for one in turns.expected if one[1].endswith(".done") and (one[0], DAY) in alive
    }


def rename(turns: Turns, ours: bool) -> None:
    turns.number += 1
    new = f"{turns.first}_{turns.number}"
    if ours:
        turns.catalog.rename_table(turns.name, new)
    else:
        turns.java("catalog", "rename", turns.name, new)
    turns.name = new
    turns.marked.clear()  # the events of a metastore are those of a name


def test_both_keep_the_partitions_in_turns(hive: HiveServer) -> None:
    """Each sequence has each step by each of the two, and more steps by chance, in an order by chance."""
    steps: list[Callable[[Turns, bool], None]] = [write, write, write, drop, drop, mark, repair, rename]
    total = Counter[str]()
    for number in range(FIRST, FIRST + SEQUENCES):
        chance = random.Random(f"partitions {number}")
        # a metastore keeps the marks of a name, also when the table has gone
        turns, done = Turns(hive, chance, f"d.t{number}"), []
        turns.catalog.create_table(turns.name, PARTITIONED)
        order = [(step, ours) for step in dict.fromkeys(steps) for ours in (True, False)]
        order += [(chance.choice(steps), chance.random() < 0.5) for _ in range(STEPS - len(order))]
        chance.shuffle(order)
        for step, ours in order:
            done.append((step.__name__, ours))
            step(turns, ours)
            found = set(listed(turns.catalog, turns.name).partitions())
            assert found == turns.expected, f"sequence {number} after {done}"
            by_java = hive.oracle.call("catalog", hive.java(), "partitions", turns.name)
            by_us = turns.catalog.partitions.list(turns.name)
            assert [one.spec for one in by_us] == sorted(
                (one["spec"] for one in by_java), key=lambda spec: tuple(spec.values())
            ), f"sequence {number} after {done}"
            assert {one.spec["p"] for one in by_us if one.is_done} == turns.marked & {
                one.spec["p"] for one in by_us
            }  # Java 1.4.2 does not show the marks
        total += Counter(f"{name} by {'lakecore' if ours else 'Java'}" for name, ours in done)
        turns.catalog.close()
    print(f"{SEQUENCES} sequences from {FIRST} on of {STEPS} operations: {dict(sorted(total.items()))}")


def test_tags_are_partitions_in_turns(hive: HiveServer) -> None:
    """Tags made and deleted by either, renamed, made again by an undo, and those of a branch."""
    ours, java = opened(hive), hive.java()
    emptied(ours)
    ours.create_database("d")
    for name in ("d.j", "d.l"):
        ours.create_table(name, TAGGED)
        ours.load_table(name).upsert(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))

    def both() -> list[str]:
        by_java = hive.oracle.call("catalog", java, "partitions", "d.l")
        found = [one.spec["seen"] for one in ours.partitions.list("d.l")]
        assert found == sorted(one["spec"]["seen"] for one in by_java)
        return found

    hive.oracle.call("create-tag", java, "d.j", "one")
    tags.run(tags.CreateTag(table="d.l", tag="one"), ours)
    assert records(ours, "d.l", "seen") == records(ours, "d.j", "seen")
    hive.oracle.call("create-tag", java, "d.l", "by-java")
    assert both() == ["by-java", "one"]
    tags.run(tags.RenameTag(table="d.l", tag="by-java", target_tag="ours"), ours)
    assert both() == ["one", "ours"]
    hive.oracle.call("delete-tag", java, "d.l", "one")
    assert both() == ["ours"]
    report = tags.run(tags.DeleteTag(table="d.l", tags=("ours",)), ours)
    assert both() == []
    quarantine.run(quarantine.Undo(table="d.l", run_id=report.run or ""), ours)
    assert both() == ["ours"]
    ours.repair_table("d.l")
    assert both() == ["ours"]
    ours.close()


def test_what_the_metastore_cannot_do_is_refused_and_a_lost_metastore_fails_no_commit(
    hive: HiveServer,
) -> None:
    ours = opened(hive)
    emptied(ours)
    ours.create_database("d")
    plain = {**PARTITIONED, "options": {"bucket": "-1", "partition.mark-done-action": ACTIONS}}
    table = ours.create_table("d.plain", plain)
    on = [{"op": "set", "key": "metastore.partitioned-table", "value": "true"}]
    with pytest.raises(UnsupportedError, match="does not change the partition columns"):
        ours.alter_table("d.plain", on)
    preview = {"metastore.tag-to-partition": "seen", "metastore.tag-to-partition.preview": "process-time"}
    with pytest.raises(UnsupportedError, match="lists tags when they exist"):
        ours.create_table("d.early", {**TAGGED, "options": preview})
    table.append(rows("a"))
    job = partitions.MarkPartitionDone(table="d.plain", partitions=f"p=a,{DT}={DAY}")
    with pytest.raises(UnsupportedError, match="action done-partition is refused"):
        partitions.run(job, ours)
    with pytest.raises(UnsupportedError, match="has no partitions of it"):
        ours.partitions.create("d.plain", [{"p": "a", DT: DAY}])
    ours.create_table("d.t", PARTITIONED)
    loaded = ours.load_table("d.t")
    listed(ours, "d.t").connection.close()
    ours._metastore.drop_table(TableName("d", "t"))
    done = loaded.append(rows("a"))
    assert done.snapshot_ids == (1,)
    assert "run `lakecore repair d.t`" in " ".join(done.notes)
    ours.repair_table("d.t")
    assert listed(ours, "d.t").partitions() == [("a", DAY)]
    counted = [replace(one, record_count=7) for one in ours.partitions.list("d.t")]
    ours.partitions.alter("d.t", counted)
    assert [one.parameters["numRows"] for one in listed(ours, "d.t").records()] == ["7"]
    ours.close()
