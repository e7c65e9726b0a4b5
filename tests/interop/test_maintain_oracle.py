"""Java and lakecore do the same chore on copies of one table: the same files, snapshots and tags are left."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import AlreadyExistsError
from lakecore.jobs import (
    expire_changelogs,
    expire_snapshots,
    quarantine,
    remove_orphan_files,
)
from lakecore.jobs.definitions.repair import Undo
from lakecore.jobs.repair import metadata as repair
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches, consumers, rollback, tags
from lakecore.metadata.schema_change import AddColumn
from lakecore.types.datatypes import parse_type
from lakecore.verify.fsck.check import fsck
from tests.support.golden import GoldenTable, golden_tables
from tests.support.oracle import Oracle, findings
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

LONG = 20
MANY = 2**31 - 1


def _sampled() -> list[GoldenTable]:
    """Tables with a history: every thirtieth, and those with tags, branches or changelogs of their own."""
    found = [table for table in golden_tables() if len(table.facts["snapshots"]) > 2]
    return [t for n, t in enumerate(found) if n % 30 == 0 or "tag" in t.table or "branch" in t.table]


def expire(twins: Twins, oracle: Oracle, *, changelogs: int | None = None, **limits: int) -> Any:
    """Both expire with the same limits; Java's changes what it forgets of changelogs only when told."""
    limits = {"retain_max": MANY, "retain_min": 1, "max_deletes": MANY, "older_than_ms": _now(), **limits}
    flags = [
        part
        for name, value in limits.items()
        for part in (f"--{name.removesuffix('_ms').replace('_', '-')}", value)
    ]
    options = {}
    if changelogs is not None:
        flags += ["--changelog-retain-max", changelogs]
        options = {"changelog.num-retained.max": str(changelogs)}
    oracle.call("expire-snapshots", twins.java, twins.table, *flags)
    return expire_snapshots.run(
        expire_snapshots.Job(table=twins.table, options=options, **limits), twins.lake
    )


def check_equal(twins: Twins) -> None:
    """Java forgets the index files that lie beside changelog files: these alone may be left by it."""
    java, ours = twins.difference()
    assert ours == set()
    assert [name for name in java if not re.search(r"/changelog-[^/]*\.index$", name)] == []
    hints = [f"{folder}/{name}" for folder in ("snapshot", "changelog") for name in ("EARLIEST", "LATEST")]
    assert twins.content(twins.ours, hints) == twins.content(twins.java, hints)


@pytest.mark.parametrize("golden", _sampled(), ids=lambda table: table.name)
def test_expired_golden_tables(golden: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]) -> None:
    twins = Twins.of_golden(golden, tmp_path)
    oracle = oracles["2.0.0" if golden.version == "2.0.0" else "1.4.2"]
    keep = max(1, len(golden.facts["snapshots"]) // 3)
    decoupled = MANY if "changelog.num-retained.min" in golden.options else None
    report = expire(twins, oracle, retain_max=keep, changelogs=decoupled)
    check_equal(twins)
    assert report.snapshots or report.nothing_to_do


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> Path:
    """Two partitions, lookup changelogs, compactions in between, three tags, a consumer; the table's folder."""
    warehouse = tmp_path_factory.mktemp("long")
    schema = {
        "columns": ["p STRING NOT NULL", "k BIGINT NOT NULL", "v STRING"],
        "partitionKeys": ["p"],
        "primaryKeys": ["p", "k"],
        "options": {
            "bucket": "1",
            "changelog-producer": "lookup",
            "num-sorted-run.compaction-trigger": "3",
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "1 b",
        },
    }
    oracle.create(warehouse, "d.t", schema)
    for number in range(LONG // 2):
        rows = [{"p": "ab"[k % 2], "k": k, "v": f"{number}"} for k in range(number % 3, 6)]
        oracle.write(warehouse, "d.t", rows, "--identifier", number + 1)
    for tag, snapshot in (("early", 3), ("middle", 8), ("late", 15)):
        oracle.call("create-tag", warehouse, "d.t", tag, "--snapshot", snapshot)
    return warehouse / "d.db" / "t"


def _now() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize(
    "limits",
    [
        {"retain_max": 4},
        {"retain_max": 5, "retain_min": 2, "max_deletes": 6},
        {"retain_min": 3},
        {"retain_max": 3, "changelogs": 9},
    ],
    ids=str,
)
def test_a_long_history_expires_alike(
    limits: dict[str, int], long_history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    expire(twins, oracle, **limits)
    check_equal(twins)
    # Java's own expiry takes the changelog of a tagged snapshot, of which its check then complains
    assert twins.new_findings(oracle, twins.java) == set()
    for snapshot in twins.opened._stores.snapshots.list_ids():
        assert oracle.read(twins.ours, "d.t", snapshot=snapshot) == oracle.read(
            long_history.parents[1], "d.t", snapshot=snapshot
        )
    for tag in twins.opened._stores.tags.list():
        assert oracle.read(twins.ours, "d.t", tag=tag) == oracle.read(long_history.parents[1], "d.t", tag=tag)
    if "changelogs" in limits:
        kept = ["--retain-max", 6, "--retain-min", 1, "--older-than", _now()]
        oracle.call("expire-changelogs", twins.java, "d.t", *kept)
        job = expire_changelogs.Job(table="d.t", retain_max=6, retain_min=1, older_than_ms=_now())
        expire_changelogs.run(job, twins.lake)
        check_equal(twins)


def test_a_consumer_holds_what_it_still_has_to_read(
    long_history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    for warehouse in (twins.java, twins.ours):
        oracle.call("reset-consumer", warehouse, "d.t", "reader", 6)
    report = expire(twins, oracle, retain_max=2)
    assert report.blocker.startswith("consumer reader still needs snapshot")
    assert twins.opened._stores.snapshots.list_ids()[0] == 6
    check_equal(twins)


def test_data_streamed_from_deltas_outlives_its_snapshots_alike(tmp_path: Path, oracle: Oracle) -> None:
    """Producer none: the changelog of a snapshot is its delta, so data files stay for it."""
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    columns = ["k BIGINT NOT NULL", "v STRING"]
    source = tmp_path / "source"
    source.mkdir()
    oracle.create(source, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    for number in range(7):
        oracle.write(source, "d.t", [{"k": k, "v": f"{number}"} for k in range(number, number + 3)])
    twins = Twins.of(source / "d.db" / "t", "d.t", tmp_path)
    expire(twins, oracle, retain_max=2, changelogs=MANY)
    check_equal(twins)
    limits = ["--retain-max", 5, "--retain-min", 1, "--older-than", _now()]
    oracle.call("expire-changelogs", twins.java, "d.t", *limits)
    job = expire_changelogs.Job(table="d.t", retain_max=5, retain_min=1, older_than_ms=_now())
    expire_changelogs.run(job, twins.lake)
    # Java keeps a file until the snapshot that removed it is an expired changelog, although nothing reads it
    java, ours = twins.difference()
    assert ours == set()
    assert len(java) <= 1
    assert (
        fsck(twins.opened._stores.file_io, twins.opened._stores.paths, now_ms=_now(), deep=True).findings
        == ()
    )


def test_a_gap_in_the_ids_stops_nothing(long_history: Path, tmp_path: Path, oracle: Oracle) -> None:
    """Java gives up for good when the first snapshot to keep is missing; the files before the gap go here."""
    twins = Twins.of(long_history, "d.t", tmp_path)
    last = twins.opened._stores.snapshots.list_ids()[-1]
    for missing in (last - 4, last - 3):
        (twins.path(twins.ours) / "snapshot" / f"snapshot-{missing}").unlink()
    shutil.rmtree(twins.path(twins.java))
    job = expire_snapshots.Job(table="d.t", retain_max=4, retain_min=1, older_than_ms=0, max_deletes=MANY)
    report = expire_snapshots.run(job, twins.lake)
    assert report.snapshots[-1] == last - 5
    found = twins.new_findings(oracle, long_history.parents[1])
    assert not {text for text in found if "error" in text and "tag middle: missing manifest list" not in text}
    for snapshot in twins.opened._stores.snapshots.list_ids():
        assert oracle.read(twins.ours, "d.t", snapshot=snapshot) == oracle.read(
            long_history.parents[1], "d.t", snapshot=snapshot
        )


AT_ONCE = Safety(quarantine=False)


@pytest.mark.parametrize("gone", [("middle",), ("early", "late"), ("early", "middle", "late")], ids="-".join)
def test_deleted_tags_free_the_same_files(
    gone: tuple[str, ...], long_history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    expire(twins, oracle, retain_max=3)
    before = twins.files(twins.ours)
    for tag in gone:
        oracle.call("delete-tag", twins.java, "d.t", tag)
    report = tags.run(tags.DeleteTag(table="d.t", tags=gone), twins.lake)
    check_equal(twins)
    assert report.run is not None
    quarantine.run(quarantine.Undo(run_id=report.run), twins.lake)
    assert twins.files(twins.ours) == before
    for tag in gone:
        assert oracle.read(twins.ours, "d.t", tag=tag) == oracle.read(long_history.parents[1], "d.t", tag=tag)


def test_tags_are_made_replaced_renamed_and_expire_as_java_does(
    long_history: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    flags = ["--snapshot", 6, "--time-retained", "1 ms"]
    made = oracle.call("create-tag", twins.java, "d.t", "soon over", *flags)["tag"]
    ours = tags.CreateTag(table="d.t", tag="soon over", snapshot=6, time_retained_ms=1)
    tags.run(ours, twins.lake)
    text = twins.content(twins.ours, ["tag/tag-soon over"])["tag/tag-soon over"]
    mine = json.loads(text)
    assert set(mine) == set(made)
    stamps = ("tagCreateTime", "tagTimeRetained")
    assert {k: v for k, v in mine.items() if k not in stamps} == {
        k: v for k, v in made.items() if k not in stamps
    }
    assert float(mine["tagTimeRetained"]) == float(made["tagTimeRetained"])
    tags.run(tags.ReplaceTag(table="d.t", tag="middle", snapshot=12), twins.lake)
    tags.run(tags.RenameTag(table="d.t", tag="late", target_tag="latest one"), twins.lake)
    for judge in (oracle, oracle2):
        for tag, snapshot in (("soon over", 6), ("middle", 12), ("latest one", 15)):
            expected = judge.read(twins.java, "d.t", snapshot=snapshot)
            assert judge.read(twins.ours, "d.t", tag=tag) == expected
    expired = tags.run(tags.ExpireTags(table="d.t"), twins.lake)
    assert expired.names == ("soon over",)
    assert oracle.call("expire-tags", twins.java, "d.t")["expired"] == ["soon over"]


@pytest.mark.parametrize("to", [{"snapshot": 9}, {"tag": "middle"}, {"tag": "early"}], ids=str)
def test_a_rollback_leaves_what_javas_leaves(
    to: dict[str, Any], long_history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    """Also to a tag whose snapshot has expired; and undone, everything is back."""
    twins = Twins.of(long_history, "d.t", tmp_path)
    if "tag" in to:
        expire(twins, oracle, retain_max=4)
    before = twins.files(twins.ours)
    oracle.call("rollback", twins.java, "d.t", *(part for k, v in to.items() for part in (f"--{k}", v)))
    report = rollback.run(rollback.RollbackTo(table="d.t", **to), twins.lake)
    check_equal(twins)
    assert oracle.read(twins.ours, "d.t") == oracle.read(twins.java, "d.t")
    assert twins.content(twins.ours, ["snapshot/LATEST"]) == twins.content(twins.java, ["snapshot/LATEST"])
    rows = [{"p": "a", "k": 100, "v": "after"}]
    for warehouse in (twins.java, twins.ours):
        oracle.write(warehouse, "d.t", rows, "--identifier", 99)
    assert oracle.read(twins.ours, "d.t") == oracle.read(twins.java, "d.t")
    if "snapshot" in to:
        with pytest.raises(AlreadyExistsError, match=r"snapshot-1\d"):
            quarantine.run(quarantine.Undo(run_id=str(report.run)), twins.lake)
    assert {name for name in before - twins.files(twins.ours) if "bucket-" in name} == set()


def test_an_undone_rollback_reads_as_before_although_orphans_were_removed(
    long_history: Path, tmp_path: Path, oracle: Oracle
) -> None:
    """What waits in the quarantine still holds its files."""
    twins = Twins.of(long_history, "d.t", tmp_path)
    before = twins.files(twins.ours)
    report = rollback.run(rollback.RollbackTo(table="d.t", snapshot=4), twins.lake)
    job = remove_orphan_files.Job(table="d.t", older_than_ms=_now() - 1, safety=AT_ONCE)
    assert remove_orphan_files.run(job, twins.lake).nothing_to_do
    quarantine.run(quarantine.Undo(run_id=str(report.run)), twins.lake)
    assert twins.files(twins.ours) == before
    assert oracle.read(twins.ours, "d.t") == oracle.read(twins.java, "d.t")


@pytest.mark.parametrize("to", [{"snapshot": 5}, {"tag": "middle"}], ids=str)
def test_an_old_state_committed_again_is_read_and_written_by_java(
    to: dict[str, Any], long_history: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    report = rollback.run(rollback.RollbackToAsLatest(table="d.t", **to), twins.lake)
    expected = oracle.read(twins.java, "d.t", **to)
    assert expected != oracle.read(twins.java, "d.t")
    for judge in (oracle, oracle2):
        assert judge.read(twins.ours, "d.t") == expected
    limits = ["--retain-max", 1, "--retain-min", 1, "--older-than", _now()]
    oracle.call("expire-snapshots", twins.ours, "d.t", *limits)
    assert oracle.read(twins.ours, "d.t", snapshot=report.snapshot) == expected
    oracle.write(twins.ours, "d.t", [{"p": "a", "k": 1000, "v": "x"}], "--identifier", 99)
    oracle.compact(twins.ours, "d.t", full=True)
    assert len(oracle.read(twins.ours, "d.t")) == len(expected) + 1
    assert not [t for t in twins.new_findings(oracle, twins.java) if "error" in t and "tag" not in t]


def _planted() -> list[GoldenTable]:
    found = [t for t in golden_tables() if t.facts["snapshots"]]
    return [t for n, t in enumerate(found) if n % 40 == 7 or "branch" in t.table]


@pytest.mark.parametrize("golden", _planted(), ids=lambda table: table.name)
def test_the_same_orphans_go_and_undo_brings_them_back(
    golden: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    twins = Twins.of_golden(golden, tmp_path)
    for warehouse in (twins.java, twins.ours):
        _plant(twins.path(warehouse))
    time.sleep(0.01)
    before, now = twins.files(twins.ours), _now()
    time.sleep(0.01)
    oracle = oracles["2.0.0" if golden.version == "2.0.0" else "1.4.2"]
    oracle.call("remove-orphan-files", twins.java, twins.table, "--older-than", now)
    report = remove_orphan_files.run(
        remove_orphan_files.Job(table=twins.table, older_than_ms=now), twins.lake
    )
    check_equal(twins)
    quarantine.run(quarantine.Undo(run_id=str(report.run)), twins.lake)
    assert twins.files(twins.ours) == before


def _plant(table: Path) -> None:
    """Leftovers of failed writes, in every kind of directory."""
    folders = [path for path in table.rglob("bucket-*") if path.is_dir()]
    folders += [path for name in ("manifest", "index", "statistics") if (path := table / name).is_dir()]
    for number, folder in enumerate(folders):
        (folder / f"data-planted-{number}.parquet").write_text("x")
    (table / "snapshot" / ".snapshot-99.tmp").write_text("x")


def test_consumers_are_reset_and_cleared(long_history: Path, tmp_path: Path, oracle: Oracle) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    consumers.run(consumers.ResetConsumer(table="d.t", consumer="reader", next_snapshot=5), twins.lake)
    oracle.call("reset-consumer", twins.java, "d.t", "reader", 5)
    name = "consumer/consumer-reader"
    assert json.loads(twins.content(twins.ours, [name])[name]) == json.loads(
        twins.content(twins.java, [name])[name]
    )
    expire(twins, oracle, retain_max=2)
    check_equal(twins)
    cleared = consumers.run(consumers.ClearConsumers(table="d.t", including="read.*"), twins.lake)
    assert cleared.names == ("reader",)
    assert twins.opened._stores.snapshots.list_ids()[0] == 5


def test_branches_are_made_renamed_and_deleted_as_java_does(
    long_history: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    for name, tag in (("empty", None), ("b", "middle")):
        oracle.call("create-branch", twins.java, "d.t", name, *(["--tag", tag] if tag else []))
        branches.run(branches.CreateBranch(table="d.t", branch=name, tag=tag), twins.lake)
    check_equal(twins)
    for warehouse in (twins.java, twins.ours):
        rows = [{"p": "a", "k": 7, "v": "on the branch"}]
        oracle.write(warehouse, "d.t$branch_b", rows, "--identifier", 50)
    branches.run(branches.RenameBranch(table="d.t", branch="b", target_branch="c"), twins.lake)
    for judge in (oracle, oracle2):
        expected = judge.read(twins.java, "d.t", branch="b")
        assert judge.read(twins.ours, "d.t", branch="c") == expected
    report = branches.run(branches.DeleteBranch(table="d.t", branch="empty"), twins.lake)
    assert twins.opened._stores.branches.list() == ("c",)
    quarantine.run(quarantine.Undo(run_id=str(report.run)), twins.lake)
    assert twins.opened._stores.branches.list() == ("c", "empty")


def test_main_becomes_the_branch(long_history: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle) -> None:
    source = tmp_path / "source" / "d.db" / "t"
    shutil.copytree(long_history, source)
    warehouse = source.parents[1]
    oracle.call("create-branch", warehouse, "d.t", "b", "--tag", "middle")
    for number in (50, 51):
        rows = [{"p": "a", "k": number, "v": "on the branch"}]
        oracle.write(warehouse, "d.t$branch_b", rows, "--identifier", number)
    twins = Twins.of(source, "d.t", tmp_path)
    before = oracle.read(twins.java, "d.t")
    oracle.call("fast-forward", twins.java, "d.t", "b")
    report = branches.run(branches.FastForward(table="d.t", branch="b"), twins.lake)
    assert twins.difference() == (set(), set())
    # Java copies the branch's EARLIEST over main's, and loses sight of what is older
    assert twins.content(twins.ours, ["snapshot/EARLIEST"]) == {"snapshot/EARLIEST": "1"}
    for judge in (oracle, oracle2):
        assert judge.read(twins.ours, "d.t") == judge.read(twins.java, "d.t") != before
    assert twins.opened._stores.snapshots.latest_id() == report.snapshot


def test_main_gets_the_schemas_of_the_branch(long_history: Path, tmp_path: Path, oracle: Oracle) -> None:
    """Both were altered since they parted: the branch twice, main three times, and no commit followed."""
    source = tmp_path / "source" / "d.db" / "t"
    shutil.copytree(long_history, source)
    warehouse = source.parents[1]
    oracle.call("create-branch", warehouse, "d.t", "b", "--tag", "middle")
    catalog = load_catalog(str(warehouse))
    for name, columns in (("d.t", ("m1", "m2", "m3")), ("d.t$branch_b", ("b1", "b2"))):
        for column in columns:
            catalog.alter_table(name, [AddColumn(path=(column,), type=parse_type("INT"))])
    twins = Twins.of(source, "d.t", tmp_path)
    oracle.call("fast-forward", twins.java, "d.t", "b")
    branches.run(branches.FastForward(table="d.t", branch="b"), twins.lake)
    assert twins.difference() == (set(), {"snapshot/LATEST"})  # the branch has no hint, which Java copies
    schemas = [f"schema/schema-{number}" for number in range(4)]
    expected = twins.content(twins.java, schemas)
    assert twins.content(twins.ours, schemas) == expected
    assert [bool(text) for text in expected.values()] == [True, True, True, False]
    assert [field.name for field in twins.opened.schema.fields] == ["p", "k", "v", "b1", "b2"]
    assert oracle.read(twins.ours, "d.t") == oracle.read(twins.java, "d.t")


def test_an_undo_gives_main_its_schemas_again(long_history: Path, tmp_path: Path, oracle: Oracle) -> None:
    """Java reads the rows of before a fast-forward, with the columns of before, and its fsck finds what it found."""
    shutil.copytree(long_history, tmp_path / "d.db" / "t")
    oracle.call("create-branch", tmp_path, "d.t", "b", "--tag", "middle")
    catalog = load_catalog(str(tmp_path))
    for name, column in (("d.t", "m"), ("d.t$branch_b", "b")):
        catalog.alter_table(name, [AddColumn(path=(column,), type=parse_type("INT"))])
    oracle.write(tmp_path, "d.t", [{"p": "a", "k": 99, "v": "new", "m": 7}])
    before, found = oracle.read(tmp_path, "d.t"), findings(oracle.fsck(tmp_path, "d.t"))
    job = branches.FastForward(table="d.t", branch="b", safety=Safety(quarantine=True))
    report = branches.run(job, catalog)
    assert oracle.read(tmp_path, "d.t") == oracle.read(tmp_path, "d.t$branch_b") != before
    quarantine.run(Undo(run_id=report.run), catalog)
    assert oracle.read(tmp_path, "d.t") == before
    assert findings(oracle.fsck(tmp_path, "d.t")) <= found


def test_expiry_spares_what_a_branch_needs(long_history: Path, tmp_path: Path, oracle: Oracle) -> None:
    """Java loses the branch when the tag it was made from goes; lakecore does not."""
    twins = Twins.of(long_history, "d.t", tmp_path)
    branches.run(branches.CreateBranch(table="d.t", branch="b", tag="middle"), twins.lake)
    expected = oracle.read(twins.ours, "d.t", branch="b")
    job = expire_snapshots.Job(
        table="d.t", retain_max=1, retain_min=1, older_than_ms=_now(), max_deletes=MANY
    )
    expire_snapshots.run(job, twins.lake)
    tags.run(tags.DeleteTag(table="d.t", tags=("middle",), safety=AT_ONCE), twins.lake)
    assert oracle.read(twins.ours, "d.t", branch="b") == expected
    orphans = remove_orphan_files.Job(table="d.t", older_than_ms=_now() - 1, max_share=1.0, safety=AT_ONCE)
    assert remove_orphan_files.run(orphans, twins.lake).nothing_to_do
    assert oracle.read(twins.ours, "d.t", branch="b") == expected


def test_compacted_manifests_are_read_by_java(
    long_history: Path, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    twins = Twins.of(long_history, "d.t", tmp_path)
    oracle.call("compact-manifests", twins.java, "d.t")
    report = repair.run(repair.CompactManifest(table="d.t"), twins.lake)
    assert (report.snapshot, report.nothing_to_do) == (twins.opened._stores.snapshots.latest_id(), False)
    for judge in (oracle, oracle2):
        assert judge.read(twins.ours, "d.t") == judge.read(twins.java, "d.t")
    assert twins.new_findings(oracle, twins.java) == set()
    again = repair.run(repair.CompactManifest(table="d.t"), twins.lake)
    assert again.nothing_to_do
    kept = [
        len(list((twins.path(warehouse) / "manifest").iterdir())) for warehouse in (twins.java, twins.ours)
    ]
    assert kept[0] == kept[1]
