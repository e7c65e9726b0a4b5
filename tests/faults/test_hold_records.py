"""The records of holds: which table they hold, who ends them, and storage that fails meanwhile."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from lakecore.errors import CorruptDataError, LakeError, OnHoldError, UnavailableError, explain
from lakecore.jobs import compact, expire_snapshots, fsck, holds, quarantine, why
from lakecore.jobs.repair import repair_plan
from lakecore.jobs.runner.chore_many import run_many
from lakecore.jobs.versions import tags
from lakecore.maintain.deletion.sweep import Sweeper
from lakecore.maintain.holds.record import EndsWith
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.lease import holder
from tests.faults.hold_steps import check, data_path, expire, flip_a_manifest, hold, lose_a_file, on_hold
from tests.support import chores
from tests.support.chores import CHORES, FUTURE
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, put
from tests.support.maintained import OWNER, History, history


def test_what_is_kept_of_tables_on_hold_does_not_count_for_the_size_of_the_quarantine() -> None:
    made = chores.undoable("capped")
    put(append_table(made.catalog), [{"v": 1, "p": "a"}], [{"v": 2, "p": "a"}])
    tags.run(tags.CreateTag(table="d.a", tag="t"), made.catalog, clock=made.catalog.clock)
    gone = tags.run(tags.DeleteTag(table="d.a", tags=("t",)), made.catalog, clock=made.catalog.clock)
    hold(made)
    before = made.quarantined()
    room = quarantine.Purge(ttl_ms=10**12, cap=max(gone.bytes, 4096))
    assert quarantine.run(room, made.catalog, clock=made.catalog.clock).nothing_to_do
    assert made.quarantined() == before


def test_one_cause_that_shows_every_night_is_one_record() -> None:
    made = history("nightly")
    flip_a_manifest(made)
    for _ in range(3):
        made.catalog.clock.sleep(60)
        with pytest.raises(CorruptDataError):
            compact.run(compact.Job(table="d.k"), made.catalog, clock=made.catalog.clock)
    [kept] = holds.holds_of(made.catalog)
    assert made.catalog.clock.now_ms() - kept.since_ms >= 120_000, "since the first night"


def test_a_repair_leaves_orphans_alone_while_the_table_is_on_hold() -> None:
    made = history("repair-held")
    orphan = f"{made.table.path}/bucket-0/data-orphan-0.parquet"
    made.catalog.file_io.write_new(orphan, b"x")
    found = fsck.run(fsck.Job(table="d.k", older_than_ms=FUTURE.now_ms()), made.catalog, clock=FUTURE)
    plan = repair_plan.plan_repair("d.k", made.catalog, found.report, FUTURE, FUTURE.now_ms() - 1).to_json()
    job = repair_plan.Job(table="d.k", plan=plan, allow_loss=True, safety=OWNER)
    hold(made)
    [note] = [n for n in repair_plan.run(job, made.catalog, clock=FUTURE).notes if "remove-orphan-files" in n]
    assert "it was skipped, because d.k is on hold" in note
    assert orphan in made.files()
    holds.run(holds.ReleaseTable(table="d.k"), made.catalog, clock=made.catalog.clock)
    repair_plan.run(job, made.catalog, clock=FUTURE)
    assert orphan not in made.files()


def test_a_hold_that_appears_while_the_quarantine_is_purged(monkeypatch: pytest.MonkeyPatch) -> None:
    made = chores.undoable("purge-race")
    kept, everyone = made.quarantined(), HoldStore.all

    def look(self: HoldStore) -> Any:
        found = everyone(self)
        hold(made)
        return found

    monkeypatch.setattr(HoldStore, "all", look)
    chores.purge(made.catalog)
    assert made.quarantined() == kept


def test_dry_runs_say_so_and_change_nothing() -> None:
    made = history("dry")
    lose_a_file(made)
    hold(made)
    image = made.state()
    look = expire_snapshots.run(
        expire_snapshots.Job(table="d.k", retain_max=1, retain_min=1, dry_run=True), made.catalog
    )
    assert "look at it first" in look.on_hold
    asked = why.run(why.Job(table="d.k"), made.catalog, clock=made.catalog.clock)
    assert any("look at it first" in name for name in asked.names)
    assert asked.blocker == "The hold ends with `lakecore release d.k`"
    assert check(made, holds=False).holds == ()
    assert (made.state(), len(on_hold(made))) == (image, 1)


def test_of_many_tables_the_others_go_on() -> None:
    made = history("many")
    other = append_table(made.catalog)
    put(other, *([{"v": n, "p": "a"}] for n in range(4)))
    hold(made)
    jobs = [expire_snapshots.Job(table=name, retain_max=1, retain_min=1) for name in ("d.k", "d.a")]
    reports = run_many(
        jobs, lambda job: expire_snapshots.run(job, made.catalog, clock=made.catalog.clock), made.catalog
    )
    assert [(bool(r.on_hold), r.error, bool(r.snapshots)) for r in reports] == [
        (True, None, False),
        (False, None, True),
    ]


def test_release_is_in_the_ledger_with_its_user_and_the_branches_share_a_hold() -> None:
    made = chores.branched("shared")
    holds.run(holds.HoldTable(table="d.k$branch_x", reason="odd rows", user="ann"), made.catalog)
    with pytest.raises(OnHoldError):
        expire(made.catalog)
    check(made, deep=True)
    assert on_hold(made) == [EndsWith.PERSON], "no check ends what a person asked for"
    holds.run(holds.ReleaseTable(table="d.k", user="bob"), made.catalog)
    assert holds.run(holds.ReleaseTable(table="d.k"), made.catalog).nothing_to_do
    lines = [
        record for record in quarantine.runs_of(made.catalog, "d.k") if record.job in ("hold", "release")
    ]
    assert [(line.job, line.parameters["user"]) for line in lines] == [("hold", "ann"), ("release", "bob")]
    assert "odd rows" in str(lines[1].parameters["holds"])
    for table, reason in (("d.k", "  "), ("d.none", "why"), ("nonsense", "why")):
        with pytest.raises(LakeError):
            holds.run(holds.HoldTable(table=table, reason=reason), made.catalog)


def test_a_record_with_a_hostile_name_is_a_hold() -> None:
    """Storage refuses its path: it has to be deleted by hand, and the release says which."""
    made = history("hostile")
    made.catalog.file_io.write_new(f"{made.catalog.warehouse}/.lakecore/holds/d.k/\n.json", b"{}")
    with pytest.raises(OnHoldError, match="cannot be read"):
        expire(made.catalog)


@pytest.mark.parametrize("name", ["x.json", "no-extension"])
@pytest.mark.parametrize("data", [b"", b"{}", b"x" * 100_000, b'{"version": 1}'])
def test_a_forged_record_holds_its_own_table_only(name: str, data: bytes) -> None:
    made = history("forged")
    path = f"{made.catalog.warehouse}/.lakecore/holds/d.k/{name}"
    made.catalog.file_io.write_new(path, data)
    with pytest.raises(OnHoldError, match="cannot be read"):
        expire(made.catalog)
    check(made, deep=True)
    assert on_hold(made) == [EndsWith.PERSON]
    put(append_table(made.catalog), [{"v": 1, "p": "a"}], [{"v": 2, "p": "a"}])
    assert expire_snapshots.run(
        expire_snapshots.Job(table="d.a", retain_max=1, retain_min=1), made.catalog
    ).snapshots
    holds.run(holds.ReleaseTable(table="d.k"), made.catalog)
    assert expire(made.catalog).snapshots


def test_a_hold_that_is_placed_while_a_check_runs_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history("between")
    path, data = flip_a_manifest(made)
    with pytest.raises(CorruptDataError):
        expire(made.catalog)
    made.catalog.file_io.overwrite(path, data)
    look = fsck.check_table

    def meanwhile(*args: Any, **how: Any) -> Any:
        report = look(*args, **how)
        flip_a_manifest(made)
        with pytest.raises(CorruptDataError):
            compact.run(
                compact.Job(table="d.k", strategy=compact.Strategy.FULL),
                made.catalog,
                clock=made.catalog.clock,
            )
        made.catalog.file_io.overwrite(path, data)
        return report

    monkeypatch.setattr(fsck, "check_table", meanwhile)
    assert check(made).report.damage == ()
    assert on_hold(made) == [EndsWith.FSCK], "the same cause, seen again after the check had begun"


def test_a_full_store_neither_hides_the_error_nor_frees_the_table() -> None:
    """Storage fails at operation 1, 2, 3, … of a chore that meets damage: the hold is there, or it is said."""
    made = history("full")
    flip_a_manifest(made)
    image = History.of(made.catalog, made.table)
    for mode in (FaultMode.ERROR, FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT, FaultMode.TORN):
        for number in itertools.count(1):
            image.reset()
            storage = FaultyFileIO(made.catalog.file_io, fail_at=number, mode=mode)
            with pytest.raises(LakeError) as raised:
                expire(image.through(storage))
            where = f"{mode} at {number}: {storage.log[number - 1 : number]}: {explain(raised.value)}"
            assert image.files() == made.files(), where
            if isinstance(raised.value, CorruptDataError):
                said = explain(raised.value)
                assert "manifest" in said, where
                there = bool(on_hold(image))
                assert there or "could NOT be put on hold" in said, where
                assert not ("is on hold now" in said and not there), where
            if not storage.fired:
                assert number > 5
                break


@pytest.mark.parametrize(
    "mode",
    [
        FaultMode.ERROR,
        FaultMode.ERROR_AFTER_EFFECT,
        FaultMode.DEAD,
        FaultMode.DEAD_AFTER_EFFECT,
        FaultMode.TORN,
    ],
)
def test_ending_a_hold_with_storage_that_fails(mode: FaultMode) -> None:
    """After a failure the hold is there or not, and a second release ends it; the ledger has it."""
    made = history("release")
    hold(made)
    image = History.of(made.catalog, made.table)
    for number in itertools.count(1):
        image.reset()
        storage = FaultyFileIO(made.catalog.file_io, fail_at=number, mode=mode)
        try:
            holds.run(
                holds.ReleaseTable(table="d.k", user="ann"), image.through(storage), clock=made.catalog.clock
            )
        except LakeError:
            assert storage.fired
        holds.run(holds.ReleaseTable(table="d.k", user="ann"), made.catalog, clock=made.catalog.clock)
        assert on_hold(image) == []
        lines = [record for record in quarantine.runs_of(made.catalog, "d.k") if record.job == "release"]
        assert lines or mode is FaultMode.TORN, "a line of the ledger that is half written is passed over"
        assert expire(made.catalog).snapshots
        if not storage.fired:
            assert number > 3
            return


def test_a_check_that_cannot_write_still_tells_what_it_found() -> None:
    made = history("read-only")
    flip_a_manifest(made)

    class ReadOnly(FaultyFileIO):
        def publish(self, path: str, data: bytes) -> bool:
            raise UnavailableError(f"{path}: read-only file system")

    lake = made.through(ReadOnly(made.catalog.file_io))
    checked = fsck.run(fsck.Job(table="d.k"), lake, clock=made.catalog.clock)
    assert checked.report.damage
    assert "could NOT be put on hold" in checked.holds[0]
    assert checked.to_json()["holds"] == list(checked.holds)


LEASED = {
    "expire": expire,
    "compact": lambda lake: compact.run(
        compact.Job(table="d.k", strategy=compact.Strategy.FULL, lease_ms=60_000, owner="test"),
        lake,
        clock=lake.clock,
    ),
    "rewrite-file-index": CHORES["rewrite-file-index"].run,
}


@pytest.mark.parametrize("name", LEASED)
def test_the_hold_is_there_before_the_lease_is_given_back(name: str) -> None:
    """Else another chore could take the lease, see no hold, and remove."""
    made = history(f"ordered-{name}")
    if name == "expire":
        flip_a_manifest(made)
    else:
        path = data_path(made)
        made.catalog.file_io.overwrite(path, made.catalog.file_io.read(path)[:-4] + b"PAR0")
    holders: list[str | None] = []

    class Watching(FaultyFileIO):
        def publish(self, path: str, data: bytes) -> bool:
            if "/.lakecore/holds/" in path:
                holders.append(holder(self.inner, made.catalog.warehouse, "d.k", made.catalog.clock.now_ms()))
            return self.inner.publish(path, data)

    with pytest.raises(CorruptDataError):
        LEASED[name](made.through(Watching(made.catalog.file_io)))
    assert holders == ["test"]


def test_every_sweep_asks_the_gate() -> None:
    """Whoever makes a sweeper has to say by which gate: the field has no default."""
    assert Sweeper.__dataclass_fields__["gate"].default is not None
    with pytest.raises(TypeError):
        Sweeper(None, None, None)  # type: ignore[arg-type, call-arg]
