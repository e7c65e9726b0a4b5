"""The ledger of attempts: how each ends, who began it, and what a damaged or forged record does."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.cli.main import main
from lakecore.errors import BusyError, InvalidInputError, NotFoundError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact, fsck, quarantine
from lakecore.jobs.attempts import Attempt, AttemptFilter, AttemptState, attempts_of
from lakecore.jobs.definitions.expiry import RemoveOrphanFiles
from lakecore.jobs.definitions.table_job import Safety
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.attempt import recorded
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.runner.origin import set_origin
from lakecore.jobs.survey import Job as Survey
from lakecore.jobs.survey import run as survey
from lakecore.maintain.attempts.record import DAY_MS, settled
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.support.lake import key_table, memory_catalog, put

FULL = compact.Strategy.FULL


@pytest.fixture
def catalog() -> FilesystemCatalog:
    set_origin({})
    return memory_catalog()


@pytest.fixture
def name(catalog: FilesystemCatalog) -> str:
    table = key_table(catalog)
    for number in range(3):
        put(table, [{"k": number, "v": "x"}])
    return table.name


def listed(catalog: FilesystemCatalog, **wanted: str) -> list[Attempt]:
    return list(attempts_of(catalog, AttemptFilter(**wanted), catalog.clock).attempts)


def test_each_end_has_its_state(catalog: FilesystemCatalog, name: str) -> None:
    clock = catalog.clock
    job = compact.Job(table=name, strategy=FULL)
    compact.run(job, catalog, clock=clock)
    compact.run(job, catalog, clock=clock)
    with pytest.raises(NotFoundError):
        run_chore(CreateTag(table=name, tag="t", snapshot=99), catalog, clock=clock)
    times = LeaseTimes(600_000, 0)
    held = leased(catalog.file_io, catalog.warehouse, name, "somebody", clock, times)
    with held, pytest.raises(BusyError, match="somebody"):
        run_chore(CreateTag(table=name, tag="t"), catalog, clock=clock)
    fsck.run(fsck.Job(table=name), catalog, clock)
    found = [(one.job, one.state.value) for one in listed(catalog)]
    assert found == [
        ("compact", "done"),
        ("compact", "nothing"),
        ("create-tag", "refused"),
        ("create-tag", "busy"),
        ("fsck", "done"),
    ]
    done = listed(catalog, job="compact", state="done")[0]
    assert (done.figures["files_in"], done.figures["before"]["files"]) == (3, 3)
    assert done.figures["after"]["files"] == 1
    assert done.finished_ms is not None
    assert done.cost["seconds"] >= 0
    busy = listed(catalog, state="busy")[0]
    assert busy.error_class == "BusyError"
    assert listed(catalog, table="other.*") == []


def test_dry_runs_leave_no_record(catalog: FilesystemCatalog, name: str) -> None:
    compact.run(compact.Job(table=name, strategy=FULL, dry_run=True), catalog, clock=catalog.clock)
    run_chore(CreateTag(table=name, tag="t", dry_run=True), catalog, clock=catalog.clock)
    assert listed(catalog) == []


def test_an_interruption_is_recorded_and_a_killed_process_is_seen_later(
    catalog: FilesystemCatalog, name: str
) -> None:
    with pytest.raises(KeyboardInterrupt), recorded(catalog, name, "compact", catalog.clock):
        raise KeyboardInterrupt
    dead = recorded(catalog, name, "compact", catalog.clock)
    dead.__enter__()  # nothing comes after it, as after kill -9
    assert [one.state.value for one in listed(catalog)] == ["killed", "running"]
    catalog.clock.sleep(1)
    compact.run(compact.Job(table=name, strategy=FULL), catalog, clock=catalog.clock)
    assert [one.state.value for one in listed(catalog)] == ["killed", "killed", "done"]


def test_an_attempt_without_an_end_is_killed_after_a_day() -> None:
    one = Attempt(id="a", table="d.t", job="compact", state=AttemptState.RUNNING, started_ms=0)
    assert settled([one], DAY_MS)[0].state is AttemptState.RUNNING
    assert settled([one], DAY_MS + 1)[0].state is AttemptState.KILLED


def test_errors_lose_their_secrets(catalog: FilesystemCatalog, name: str) -> None:
    set_origin({"command": "compact --option s3.secret-key=hunter2"})
    with pytest.raises(ValueError, match="hunter2"), recorded(catalog, name, "compact", catalog.clock):
        raise ValueError("s3://user:hunter2@host \x1b[2J token=hunter2")
    one = listed(catalog)[0]
    assert one.state is AttemptState.FAILED
    assert "hunter2" not in json.dumps(one.to_json())
    assert "\x1b" not in str(one.error)


def test_damaged_and_forged_records_are_left_out_and_counted(catalog: FilesystemCatalog, name: str) -> None:
    run_chore(CreateTag(table=name, tag="t"), catalog, clock=catalog.clock)
    store = AttemptStore(catalog.file_io, catalog.warehouse)
    day = store._day(catalog.clock.now_ms())
    good = listed(catalog)[0].to_json()
    forged = [
        b"{",
        b"[]",
        b'"' * 10,
        b"[" * 60_000,
        b" " * 70_000,
        json.dumps(good | {"id": "another"}).encode(),
        *(
            json.dumps(good | {"id": f"f{number}"} | change).encode()
            for number, change in enumerate(
                (
                    {"started_ms": -1},
                    {"started_ms": True},
                    {"table": 5},
                    {"state": "fine"},
                    {"cost": {"seconds": "1"}},
                    {"cost": {"seconds": -1}},
                    {"origin": []},
                    {"forecast": {"seconds": "long"}},
                ),
                6,
            )
        ),
    ]
    for number, data in enumerate(forged):
        catalog.file_io.overwrite(f"{day}/f{number}.json", data)
    found = attempts_of(catalog, AttemptFilter(), catalog.clock)
    assert [one.job for one in found.attempts] == ["create-tag"]
    assert found.damaged == len(forged)


def test_a_survey_puts_an_older_day_into_one_file(catalog: FilesystemCatalog, name: str) -> None:
    clock = catalog.clock
    for tag in ("a", "b", "c"):
        run_chore(CreateTag(table=name, tag=tag), catalog, clock=clock)
    before = listed(catalog)
    store = AttemptStore(catalog.file_io, catalog.warehouse)
    day = store._day(clock.now_ms())
    clock.sleep(3 * DAY_MS / 1000)
    survey(Survey(), catalog, clock=clock)
    assert catalog.file_io.list(day) == []
    assert catalog.file_io.stat(f"{day}.jsonl.gz") is not None
    assert [one for one in listed(catalog) if one.job != "survey"] == before
    clock.sleep(400 * DAY_MS / 1000)
    survey(Survey(), catalog, clock=clock)
    assert catalog.file_io.stat(f"{day}.jsonl.gz") is None


def test_a_lake_without_surveys_gets_one_file_a_day_too(catalog: FilesystemCatalog, name: str) -> None:
    clock = catalog.clock
    store = AttemptStore(catalog.file_io, catalog.warehouse)
    day = store._day(clock.now_ms())
    run_chore(CreateTag(table=name, tag="first"), catalog, clock=clock)
    clock.sleep(3 * DAY_MS / 1000)
    for number in range(60):
        run_chore(CreateTag(table=name, tag=f"t{number}"), catalog, clock=clock)
    assert catalog.file_io.stat(f"{day}.jsonl.gz") is not None
    assert catalog.file_io.list(day) == []
    assert len(listed(catalog)) == 61


def test_surveys_and_purges_are_attempts_on_the_whole_lake(catalog: FilesystemCatalog, name: str) -> None:
    survey(Survey(), catalog, clock=catalog.clock)
    survey(Survey(dry_run=True), catalog, clock=catalog.clock)
    quarantine.run(quarantine.Purge(ttl_ms=DAY_MS), catalog, clock=catalog.clock)
    found = [(one.table, one.job, one.state.value) for one in listed(catalog)]
    assert found == [("", "survey", "done"), ("", "purge-quarantine", "nothing")]
    assert listed(catalog)[0].figures["tables"] == 1


def test_an_attempt_has_its_cost_and_what_was_expected(catalog: FilesystemCatalog, name: str) -> None:
    compact.run(compact.Job(table=name, strategy=FULL), catalog, clock=catalog.clock)
    one = listed(catalog)[0]
    assert one.forecast["seconds"] > 0
    assert one.forecast["seconds_low"] <= one.forecast["seconds"] <= one.forecast["seconds_high"]
    assert "never ran" in one.forecast["based_on"]
    assert one.cost["requests"] > 10
    assert one.cost["bytes_written"] >= one.figures["bytes_out"] > 0
    assert one.cost["bytes_read"] >= one.figures["bytes_in"]
    assert 0 < one.cost["core_seconds"] <= one.cost["seconds"] + 0.002
    assert json.loads(one.encoded())["forecast"] == one.forecast


def test_attempts_at_once_share_the_seconds_of_their_process(catalog: FilesystemCatalog, name: str) -> None:
    with recorded(catalog, name, "a", catalog.clock), recorded(catalog, name, "b", catalog.clock):
        time.sleep(0.2)
    costs = [one.cost for one in listed(catalog)]
    assert all(cost["requests"] is cost["bytes_read"] is cost["cpu_seconds"] is None for cost in costs)
    assert 0.19 < sum(cost["core_seconds"] for cost in costs) < max(cost["seconds"] for cost in costs) + 0.01


def test_units_of_other_processes_are_part_of_the_cost(catalog: FilesystemCatalog, name: str) -> None:
    class Elsewhere(SerialExecutor):
        """It runs units as if each had a process of its own."""

        def run(self, function: Any, tasks: Any) -> Any:
            for result in super().run(function, tasks):
                assert not isinstance(result, BaseException)
                value, took = result
                yield value, replace(took, pid=0, seconds=100.0, cpu_seconds=90.0)

    compact.run(compact.Job(table=name, strategy=FULL), catalog, Elsewhere(), clock=catalog.clock)
    cost = listed(catalog)[0].cost
    assert 100 < cost["core_seconds"] < 200
    assert 90 < cost["cpu_seconds"] < 190


def test_health_and_runs_tell_what_the_ledger_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = ["--warehouse", str(tmp_path)]
    load_catalog(str(tmp_path)).create_table("d.t", {"columns": ["k INT", "v STRING"]})
    rows = tmp_path / "rows.jsonl"
    for number in range(3):
        rows.write_text(f'{{"k": {number}, "v": "a"}}\n')
        assert main([*warehouse, "write", "d.t", str(rows)]) == 0
    assert main([*warehouse, "survey"]) == 0
    assert main([*warehouse, "expire-snapshots", "d.t", "--retain-max", "1", "--retain-min", "1"]) == 0
    assert main([*warehouse, "create-tag", "d.t", "--tag", "x", "--snapshot", "99"]) == 1
    capsys.readouterr()
    assert main([*warehouse, "--json", "health"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    last = {job: one["state"] for job, one in table["attempts"].items()}
    assert last == {"compact": "nothing", "expire-snapshots": "done", "create-tag": "refused"}
    assert main([*warehouse, "health"]) == 0
    text = capsys.readouterr().out
    assert "expire-snapshots" in text
    assert "1 attempt of the last 7 days failed" in text
    assert main([*warehouse, "--json", "runs"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert run["by"] == "expire-snapshots"
    assert run["cost"]["requests"] > 5


def test_fields_of_a_later_release_are_ignored(catalog: FilesystemCatalog, name: str) -> None:
    run_chore(CreateTag(table=name, tag="t"), catalog, clock=catalog.clock)
    one = listed(catalog)[0]
    assert Attempt.from_json(json.dumps(one.to_json() | {"more": 1}).encode()) == one


def test_the_removal_of_orphans_spares_the_ledger(catalog: FilesystemCatalog, name: str) -> None:
    clock = catalog.clock
    run_chore(CreateTag(table=name, tag="a"), catalog, clock=clock)
    clock.sleep(2 * DAY_MS / 1000)
    job = RemoveOrphanFiles(table=name, safety=Safety(quarantine=False))
    run_chore(job, catalog, clock=clock)
    assert [one.job for one in listed(catalog)] == ["create-tag", "remove-orphan-files"]


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="broken"):
        AttemptFilter(state="broken")


def test_the_command_lists_what_commands_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = ["--warehouse", str(tmp_path)]
    load_catalog(str(tmp_path)).create_table("d.t", {"columns": ["k INT", "v STRING"]})
    assert main([*warehouse, "compact", "d.t"]) == 0
    capsys.readouterr()
    assert main([*warehouse, "--json", "attempts", "--table", "d.*"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["table"], one["job"], one["state"]) == ("d.t", "compact", "nothing")
    assert one["origin"]["command"] == "compact"
    assert one["origin"]["pid"] > 0
    assert main([*warehouse, "attempts", "--state", "odd"]) == 1
