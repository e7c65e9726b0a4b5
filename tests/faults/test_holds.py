"""Holds on damaged tables: real damage, every chore, storage that fails while a hold is written or ended."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from lakecore.errors import CorruptDataError, LakeError, OnHoldError, ProofError, UnavailableError, explain
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact, holds, partitions, rescale, rewrite_file_index
from lakecore.jobs.versions import rollback, tags
from lakecore.maintain.holds.record import EndsWith
from lakecore.maintain.holds.store import HoldStore
from tests.faults.hold_steps import check, data_path, expire, flip_a_manifest, hold, lose_a_file, on_hold
from tests.support import chores
from tests.support.chores import CHORES
from tests.support.lake import append_table, put, rows_of
from tests.support.maintained import OWNER, History, history


@pytest.mark.parametrize("name", CHORES)
def test_a_hold_stops_what_removes_and_nothing_else(name: str) -> None:
    """Each chore on a table that a person holds: what removes is refused, the others do their work."""
    chore = CHORES[name]
    made = chore.make(f"hold-{name}")
    hold(made)
    before, kept = made.state(), made.quarantined()
    work = getattr(chore.run, "module", None)
    problem = chore.attempt(made.catalog)
    stopped = {path for path, _ in before} - {path for path, _ in made.state()}
    refused = isinstance(problem, OnHoldError)
    assert problem is None or refused, problem
    if refused:
        assert made.state() == before
        assert "look at it first" in str(problem)
        assert "lakecore release d." in str(problem)
        assert not problem.automatic if isinstance(problem, OnHoldError) else True
    if work is tags and "rename" in name:
        return
    aside = {"rollback", "rollback-to-tag", "rollback-to-timestamp", "repair", "repair-roots", "repair-hints"}
    if name in aside:
        assert not refused
        return
    assert not stopped, "no file of the table is gone"
    assert made.quarantined() == kept or name == "undo"


REFUSED = [
    name
    for name in CHORES
    if not name.startswith(("create", "rollback", "repair", "rename-tag", "undo", "purge", "reset", "mark"))
    and not name.startswith(("analyze", "rescale", "compact", "cluster", "merge", "remove-un", "rewrite"))
    and name not in ("trigger-tags", "batch-tags")
] + ["compact-manifest"]


@pytest.mark.parametrize("name", REFUSED)
def test_these_are_refused(name: str) -> None:
    made = CHORES[name].make(f"refused-{name}")
    hold(made)
    assert isinstance(CHORES[name].attempt(made.catalog), OnHoldError)
    holds.run(holds.ReleaseTable(table=made.table.name), made.catalog, clock=made.catalog.clock)
    assert CHORES[name].attempt(made.catalog) is None


@pytest.mark.parametrize("name", ["trigger-tags", "batch-tags"])
def test_tags_are_made_and_none_is_deleted(name: str) -> None:
    made = CHORES[name].make(f"makes-{name}")
    hold(made)
    before = set(made.table._stores.tags.list())
    report = CHORES[name].run(made.catalog)
    assert "on hold" in report.on_hold
    assert before < set(made.table._stores.tags.list())


def test_the_latest_snapshot_must_be_readable_before_any_goes() -> None:
    made = history("latest-lost")
    data = lose_a_file(made)
    before = made.state()
    with pytest.raises(CorruptDataError, match="which is missing") as raised:
        expire(made.catalog)
    assert "the table is on hold now" in explain(raised.value)
    assert made.state() == before
    with pytest.raises(OnHoldError, match=r"expire-snapshots by test: CorruptDataError.*which is missing"):
        expire(made.catalog)
    assert on_hold(made) == [EndsWith.FSCK]
    assert check(made).report.damage != ()
    made.catalog.file_io.write_new(data_path_of(raised.value), data)
    assert check(made, read_data=False).report.damage == ()
    assert on_hold(made) == [EndsWith.FSCK] * 2, "a check that opens no file ends nothing"
    assert check(made).report.damage == ()
    assert on_hold(made) == []
    assert expire(made.catalog).snapshots


def data_path_of(error: CorruptDataError) -> str:
    return error.problem.removeprefix("the latest snapshot needs ").partition(",")[0]


@pytest.mark.parametrize("lost", ["list", "manifest", "index"])
def test_lost_metadata_of_the_latest_snapshot_holds_the_table(lost: str) -> None:
    made = history(f"lost-{lost}", **({"deletion_vectors.enabled": "true"} if lost == "index" else {}))
    latest = made.table._stores.snapshots.latest()
    assert latest is not None
    name = latest.delta_manifest_list
    if lost == "manifest":
        name = made.table._stores.manifests.data_manifests(latest)[-1].file_name
    if lost == "index":
        raw = made.catalog.file_io.read(made.table._stores.paths.snapshot(latest.id))
        gone = raw.rstrip().removesuffix(b"}") + b', "indexManifest": "index-manifest-gone"}'
        made.catalog.file_io.overwrite(made.table._stores.paths.snapshot(latest.id), gone)
    else:
        made.catalog.file_io.delete(made.table._stores.paths.manifest(name))
    before = made.state()
    with pytest.raises(CorruptDataError):
        expire(made.catalog)
    assert on_hold(made) == [EndsWith.FSCK]
    assert made.state() == before


def test_damage_that_a_compaction_meets_stops_expiry_and_rollback_mends() -> None:
    made = history("mended")
    flip_a_manifest(made)
    with pytest.raises(CorruptDataError):
        compact.run(
            compact.Job(table="d.k", strategy=compact.Strategy.FULL), made.catalog, clock=made.catalog.clock
        )
    with pytest.raises(OnHoldError):
        expire(made.catalog)
    job = rollback.RollbackTo(table="d.k", snapshot=3, safety=chores.AT_ONCE)
    with pytest.raises(OnHoldError, match="with the quarantine"):
        rollback.run(job, made.catalog, clock=made.catalog.clock)
    rows = rows_of(made.table, snapshot=3)
    report = rollback.run(
        rollback.RollbackTo(table="d.k", snapshot=3, safety=OWNER), made.catalog, clock=made.catalog.clock
    )
    assert report.quarantined
    assert check(made).report.damage == ()
    assert on_hold(made) == []
    assert rows_of(made.table) == rows
    assert expire(made.catalog).snapshots == (1, 2)


INDEX_JOB = rewrite_file_index.Job(table="d.k", options=chores.INDEXED)


class MissesAnOutput(SerialExecutor):
    """Its units miss what they wrote, because another writer removed the table, and created it again if `creates`."""

    def __init__(self, made: History, *, creates: bool) -> None:
        super().__init__()
        self.made, self.creates = made, creates

    def run(self, function: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        path, lake, schema = data_path(self.made), self.made.catalog, self.made.table.schema
        if self.creates:
            for file, _ in self.made.state():
                lake.file_io.delete(file)
            lake.clock.sleep(0.01)  # a table is told from a later one of its name by the time of its schema
            columns = [f"{field.name} {field.type}" for field in schema.fields]
            keys, options = list(schema.primary_keys), dict(schema.options)
            lake.create_table("d.k", {"columns": columns, "primaryKeys": keys, "options": options})
        raise CorruptDataError(path, "is missing")


@pytest.mark.parametrize("creates", [True, False], ids=["again", "damaged"])
@pytest.mark.parametrize("name", ["compact", "rescale", "rewrite-file-index"])
def test_a_table_that_is_created_again_beneath_a_job_is_not_on_hold(name: str, creates: bool) -> None:
    """The files that the job misses are those of the table before."""
    made = history(f"again-{name}-{creates}")
    run = {
        "compact": partial(compact.run, compact.Job(table="d.k", strategy=compact.Strategy.FULL)),
        "rescale": partial(rescale.run, rescale.Job(table="d.k", bucket_num=3)),
        "rewrite-file-index": partial(rewrite_file_index.run, INDEX_JOB),
    }[name]
    with pytest.raises(CorruptDataError) as raised:
        run(made.catalog, MissesAnOutput(made, creates=creates), clock=made.catalog.clock)
    assert ("the name has another table now, which is not on hold" in explain(raised.value)) == creates
    assert on_hold(made) == ([] if creates else [EndsWith.DEEP_FSCK])


def test_damage_that_only_a_deep_check_sees_is_ended_by_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history("deep")

    def refuse(*_: Any) -> None:
        raise ProofError("bucket 0", "inputs hold 5 rows, outputs 4")

    with monkeypatch.context() as patched:
        patched.setattr("lakecore.compact.engine.driver.prove_pick", refuse)
        with pytest.raises(ProofError):
            compact.run(
                compact.Job(table="d.k", strategy=compact.Strategy.FULL),
                made.catalog,
                clock=made.catalog.clock,
            )
    assert on_hold(made) == [EndsWith.DEEP_FSCK]
    assert "fsck --deep d.k" in check(made).holds[0]
    with pytest.raises(OnHoldError):
        expire(made.catalog)
    compact.run(
        compact.Job(table="d.k", strategy=compact.Strategy.FULL), made.catalog, clock=made.catalog.clock
    )
    check(made, deep=True)
    assert on_hold(made) == []


def test_a_damaged_page_is_seen_by_the_chore_that_decodes_it() -> None:
    """Damage in values: only what decodes all columns can say that it is mended."""
    catalog = history("pages").catalog
    table = append_table(catalog)
    put(table, *([{"v": n, "p": "text"}] for n in range(5)))
    made = History.of(catalog, table)
    path = data_path(made)
    data = catalog.file_io.read(path)
    catalog.file_io.overwrite(path, data[:4] + b"\x00" * 60 + data[64:])
    job = compact.Job(table="d.a", strategy=compact.Strategy.FULL)
    with pytest.raises(LakeError):
        compact.run(job, catalog, clock=catalog.clock)
    assert [one.table for one in holds.holds_of(catalog)] == ["d.a"], "other tables are not on hold"
    assert on_hold(made) == [EndsWith.DEEP_FSCK]


def test_a_failure_that_retries_mend_does_not_hide_damage() -> None:
    from lakecore.errors import most_severe

    slow, wrong = UnavailableError("slow"), ProofError("unit", "rows differ")
    assert most_severe([slow, wrong]) is wrong
    assert most_severe([slow, UnavailableError("slower")]) is slow


@pytest.mark.parametrize("when", ["before the roots", "between roots and files"])
def test_a_hold_that_appears_while_a_chore_is_at_work(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = history(f"race-{when}")
    before = made.state()
    looks = itertools.count(1)
    right = 2 if when.startswith("before") else 3
    of = HoldStore.of

    def look(self: HoldStore, table: str) -> Any:
        if next(looks) == right:
            hold(made)
        return of(self, table)

    with monkeypatch.context() as patched:
        patched.setattr(HoldStore, "of", look)
        with pytest.raises(OnHoldError):
            expire(made.catalog)
    gone = {path for path, _ in before} - {path for path, _ in made.state()}
    assert all("/snapshot/" in path for path in gone), "data files stay"
    assert bool(gone) is (right == 3)
    tags.run(tags.CreateTag(table="d.k", tag="new", safety=OWNER), made.catalog, clock=made.catalog.clock)
    assert {path for path, _ in before} - {path for path, _ in made.state()} == gone, (
        "nothing is finished, either"
    )
    holds.run(holds.ReleaseTable(table="d.k", user="ann"), made.catalog, clock=made.catalog.clock)
    expire(made.catalog)
    made.check_whole(when, orphans=True)


def test_partitions_are_looked_after_before_each_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = chores.partitioned("held-partitions")
    looks, of = itertools.count(1), HoldStore.of

    def look(self: HoldStore, table: str) -> Any:
        if next(looks) == 3:
            hold(made)
        return of(self, table)

    monkeypatch.setattr(HoldStore, "of", look)
    job = partitions.ExpirePartitions(table="d.k", expiration_ms=1000, safety=OWNER)
    with pytest.raises(OnHoldError):
        partitions.run(job, made.catalog, clock=made.catalog.clock)
    assert len(made.table._stores.snapshots.list_ids()) == 3, "of three partitions one was dropped"


def test_the_quarantine_of_a_table_on_hold_stays_and_others_go() -> None:
    made = chores.undoable("purged")
    kept = made.quarantined()
    assert kept
    hold(made)
    report = chores.purge(made.catalog)
    assert (made.quarantined(), report.notes) == (
        kept,
        ("the files of d.k were not removed: the table is on hold",),
    )
    other = append_table(made.catalog)
    put(other, [{"v": 1, "p": "a"}], [{"v": 2, "p": "a"}], [{"v": 3, "p": "a"}])
    tags.run(tags.CreateTag(table="d.a", tag="t"), made.catalog, clock=made.catalog.clock)
    tags.run(tags.DeleteTag(table="d.a", tags=("t",)), made.catalog, clock=made.catalog.clock)
    assert made.quarantined() > kept
    chores.purge(made.catalog)
    assert made.quarantined() == kept
    chores.undo(made.catalog)
    assert made.quarantined() == 0, "undo is possible"
