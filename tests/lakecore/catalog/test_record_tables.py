"""`sys.runs` and `sys.health`: rows of the ledger and of the survey, damaged and forged records, storage that fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.cli.main import main
from lakecore.errors import InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakecore.fs.tally import storage_use
from lakecore.jobs import compact
from lakecore.jobs.definitions.tags import CreateTag
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.runner.origin import set_origin
from lakecore.jobs.survey import Job as Survey
from lakecore.jobs.survey import run as survey
from lakecore.maintain.attempts.record import Attempt, AttemptState
from lakecore.maintain.attempts.store import AttemptStore
from tests.support.lake import key_table, memory_catalog, put


@pytest.fixture
def catalog() -> FilesystemCatalog:
    set_origin({"dag": "nightly", "try": 1})
    found = memory_catalog("records")
    table = key_table(found)
    for number in range(3):
        put(table, [{"k": number, "v": "x"}])
    return found


def rows(catalog: FilesystemCatalog, name: str, **scan: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = catalog.load_table(name).scan(**scan).to_arrow().to_pylist()
    return found


def test_without_records_they_are_empty(catalog: FilesystemCatalog) -> None:
    for name in ("sys.runs", "sys.health"):
        scan = catalog.load_table(name).scan()
        assert scan.to_arrow().num_rows == 0
        assert scan.to_arrow().schema.equals(scan.schema)


def test_runs_has_every_attempt_with_its_end(catalog: FilesystemCatalog) -> None:
    clock = catalog.clock
    started = clock.now_ms()
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, clock=clock)
    with pytest.raises(NotFoundError):
        run_chore(CreateTag(table="d.k", tag="t", snapshot=99), catalog, clock=clock)
    done, failed = rows(catalog, "sys.runs")
    assert (done["database_name"], done["table_name"], done["job"], done["state"]) == (
        "d",
        "k",
        "compact",
        "done",
    )
    assert started <= done["started_at"] <= done["finished_at"] <= clock.now_ms()
    assert json.loads(done["origin"])["dag"] == "nightly"
    assert json.loads(done["figures"])["files_in"] == 3
    assert (failed["job"], failed["error_class"]) == ("create-tag", "NotFoundError")
    assert "99" in failed["error"]
    wanted = {"where": "state = 'done'", "columns": ["job"]}
    assert rows(catalog, "sys.runs", **wanted) == [{"job": "compact"}]
    assert len(rows(catalog, "sys.runs", limit=1)) == 1


def test_a_filter_on_the_time_reads_fewer_days(catalog: FilesystemCatalog) -> None:
    clock = catalog.clock
    moments = []
    for number in range(3):
        moments.append(clock.now_ms())
        run_chore(CreateTag(table="d.k", tag=f"t{number}"), catalog, clock=clock)
        clock.sleep(30 * 86_400)

    def requests(where: str | None) -> tuple[int, int]:
        before = storage_use().requests
        found = rows(catalog, "sys.runs", where=where)
        return len(found), storage_use().requests - before

    whole = requests(None)
    assert whole[0] == 3
    assert requests(f"started_at >= {moments[2]}") == (1, pytest.approx(63, abs=5))
    assert requests(f"started_at = {moments[1]} and state = 'done'") == (1, pytest.approx(5, abs=3))
    assert requests(f"started_at in ({moments[0]}, {moments[1]})")[0] == 2
    assert requests(f"started_at = {moments[1]} or job = 'x'") == (1, whole[1])
    assert requests("started_at < -5")[0] == 0


def test_health_has_the_tables_of_the_newest_survey(catalog: FilesystemCatalog) -> None:
    survey(Survey(), catalog, clock=catalog.clock)
    (before,) = rows(catalog, "sys.health")
    assert (before["database_name"], before["table_name"], before["files"]) == ("d", "k", 3)
    assert before["snapshot"] == 3
    assert before["has_key"] is True
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, clock=catalog.clock)
    assert rows(catalog, "sys.health") == [before], "a survey says what was there when it was made"
    survey(Survey(), catalog, clock=catalog.clock)
    (after,) = rows(catalog, "sys.health")
    assert after["files"] == 1
    assert after["score"] >= before["score"]
    assert after["surveyed_at"] >= before["surveyed_at"]
    catalog.file_io.delete(f"{catalog.warehouse}/d.db/k/schema/schema-0")
    survey(Survey(), catalog, clock=catalog.clock)
    assert [row["state"] for row in rows(catalog, "sys.health")] == ["vanished"]


def test_forged_records_break_no_scan(catalog: FilesystemCatalog, caplog: pytest.LogCaptureFixture) -> None:
    store = AttemptStore(catalog.file_io, catalog.warehouse)
    now = catalog.clock.now_ms()
    good = Attempt(id="a0", table="d.k", job="compact", state=AttemptState.DONE, started_ms=now)
    hostile = replace(
        good,
        table="<img onerror>\x1b[2J\ud800",
        error="\u202e" + "x" * 10_000,
        cost={"seconds": 1, "peak_bytes": 1 << 80, "cpu_seconds": 0.5},
        figures={"\ud800": "\x1b[2J"},
        origin={},
    )
    day = store._day(now)
    raw = json.dumps(good.to_json() | {"figures": 0})
    nan = raw.replace('"figures": 0', '"figures": {"a": NaN}').replace("a0", "a2")
    catalog.file_io.overwrite(f"{day}/a1.json", json.dumps(hostile.to_json() | {"id": "a1"}).encode())
    catalog.file_io.overwrite(f"{day}/a2.json", nan.encode())
    catalog.file_io.overwrite(f"{day}/a3.json", b"{")
    for depth in range(500, 5000, 250):
        nested = raw.replace('"figures": 0', '"figures": {"a": %s}' % ("[" * depth + "]" * depth))
        catalog.file_io.overwrite(f"{day}/deep{depth}.json", nested.replace("a0", f"deep{depth}").encode())
    found = {row["attempt_id"]: row for row in rows(catalog, "sys.runs")}
    assert {"a1", "deep500"} <= set(found)
    assert not {"a2", "a3"} & set(found), "NaN and half an object are no JSON"
    assert found["a1"]["database_name"] == "<img onerror>\\x1b[2J\\ud800"
    assert found["a1"]["peak_bytes"] is None
    assert found["a1"]["seconds"] == 1.0
    assert len(found["a1"]["error"]) < 5000
    assert found["a1"]["figures"].isascii()
    assert "damaged records, which are left out" in caplog.text


def test_storage_that_fails_is_said(catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    survey(Survey(), catalog, clock=catalog.clock)

    def fail(*_: Any, **__: Any) -> Any:
        raise UnavailableError("storage does not answer")

    monkeypatch.setattr(type(catalog.file_io), "list", fail)
    monkeypatch.setattr(type(catalog.file_io), "read", fail)
    for name in ("sys.runs", "sys.health"):
        with pytest.raises(UnavailableError, match="does not answer"):
            rows(catalog, name)


def test_they_can_only_be_read_and_have_no_past(catalog: FilesystemCatalog) -> None:
    for name in ("sys.runs", "sys.health"):
        assert catalog.table_exists(name)
        with pytest.raises(UnsupportedError, match="can only be read"):
            catalog.load_table(name).write([])
        with pytest.raises(InvalidInputError, match="has no snapshot"):
            rows(catalog, name, snapshot=1)
        with pytest.raises(InvalidInputError, match="'sys' holds"):
            catalog.drop_table(name)


def test_the_command_line_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = load_catalog(str(tmp_path))
    put(key_table(found), [{"k": 1, "v": "x"}])
    survey(Survey(), found)
    run_chore(CreateTag(table="d.k", tag="t"), found)
    for name, wanted in (("sys.runs", "create-tag"), ("sys.health", "d")):
        assert main(["--warehouse", str(tmp_path), "read", name]) == 0
        assert wanted in capsys.readouterr().out
