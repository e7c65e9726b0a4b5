"""The files of a job: what is written is read, and what is none of them is refused by name."""

from __future__ import annotations

import json

import pytest

from lakecore.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lakecore.jobs.definitions.compaction import Compact
from lakecore.jobs.definitions.table_job import Definition
from lakecore.jobs.remote.command import remote_command
from lakecore.jobs.remote.record import (
    JobFile,
    RunRecord,
    RunResult,
    RunState,
    Step,
    StepResult,
    StepState,
)
from lakecore.jobs.remote.steps import RUNNABLE, check_step, job_of, step_of
from lakecore.maintain.lease.process import this_process


def job(**given: object) -> JobFile:
    values: dict[str, object] = {"id": "j", "steps": (step_of(Compact(table="d.k")),)}
    return JobFile(**{**values, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", RUNNABLE.values(), ids=RUNNABLE)
def test_every_runnable_job_is_the_same_after_its_way_through_a_file(kind: type[Definition]) -> None:
    given = {"table": "d.k"} if "table" in kind.__dataclass_fields__ else {}
    one = kind(**given)
    file = job(steps=(step_of(one),), until_ms=5, origin={"dag": "d"}, usage_key="2026-01-01/x")
    again = JobFile.decoded(file.encoded(), "job.json")
    assert again == file
    assert job_of(again.steps[0]) == one


def test_signs_of_life_and_results_are_the_same_after_their_way_through_a_file() -> None:
    record = RunRecord(runner="r", submission="2", beat=7, process=this_process(), progress={"rows": 3})
    assert RunRecord.decoded(record.encoded(), "run") == record
    step = StepResult(
        command="compact", state=StepState.FAILED, report={"a": [1]}, error="e", error_class="BusyError"
    )
    result = RunResult(state=RunState.FAILED, runner="r", steps=(step,), seconds=1.5, reason="why")
    assert RunResult.decoded(result.encoded(), "result") == result


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"version": 1', b'{"version": 0}', b'{"version": 1, "id": 5, "steps": []}', b"\xff"],
    ids=["empty", "list", "torn", "version", "types", "bytes"],
)
def test_what_is_no_file_of_a_job_names_its_path(data: bytes) -> None:
    for kind in (JobFile, RunRecord, RunResult):
        with pytest.raises(CorruptDataError, match=r"some/path"):
            kind.decoded(data, "some/path")


def test_a_later_version_is_unsupported() -> None:
    later = json.dumps(json.loads(job().encoded()) | {"version": 2}).encode()
    with pytest.raises(UnsupportedError, match="has version 2"):
        JobFile.decoded(later, "p")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".hidden", "x" * 200], ids=repr)
def test_an_id_is_the_name_of_a_directory(name: str) -> None:
    with pytest.raises(InvalidInputError, match="no id of a job"):
        job(id=name).encoded()


def test_a_job_has_steps_and_no_secrets() -> None:
    with pytest.raises(InvalidInputError, match="no steps"):
        job(steps=()).encoded()
    secret = step_of(Compact(table="d.k", options={"s3.secret-key": "hush-hush"}))
    with pytest.raises(InvalidInputError, match="secret among its options") as raised:
        job(steps=(secret,)).encoded()
    assert "hush" not in str(raised.value)


def test_a_step_is_checked_before_it_is_written() -> None:
    with pytest.raises(InvalidInputError, match="'undo' cannot be run"):
        check_step(Step(command="undo", request={}))
    with pytest.raises(InvalidInputError, match="not a compact job"):
        check_step(Step(command="compact", request={"tabel": "x"}))


def test_the_command_has_the_options_of_the_catalog_as_variables_without_secrets() -> None:
    options = {"s3.endpoint": "http://s3", "s3.path.style.access": "true", "s3.secret-key": "hush"}
    command = remote_command("j", "s3://lake/wh/", options, submission="3")
    assert command.command_line == ("lakecore", "--catalog", "remote", "run-job", "j", "--submission", "3")
    assert command.environment == {
        "LAKECORE_CATALOG__REMOTE__WAREHOUSE": "s3://lake/wh/",
        "LAKECORE_CATALOG__REMOTE__S3__ENDPOINT": "http://s3",
        "LAKECORE_CATALOG__REMOTE__S3__PATH__STYLE__ACCESS": "true",
    }
    assert command.secrets == {"LAKECORE_CATALOG__REMOTE__S3__SECRET_KEY": "s3.secret-key"}
    assert remote_command("j", "/wh/").arguments == ("run-job", "/wh/.lakecore/jobs/j")
    assert remote_command("j", "/wh", options, "prod").arguments == ("--catalog", "prod", "run-job", "j")
    with pytest.raises(InvalidInputError, match=r"'Some\.Option' cannot be given"):
        remote_command("j", "/wh", {"Some.Option": "x"})


def test_the_variables_are_the_catalog_that_a_runner_opens() -> None:
    from lakecore.catalog.config import resolve

    options = {"s3.endpoint": "http://s3", "s3.path.style.access": "true", "metastore": "filesystem"}
    command = remote_command("j", "s3://lake/wh", options)
    found = resolve(command.arguments[1], {"HOME": "/nowhere", **command.environment})
    assert (found.warehouse, dict(found.options)) == ("s3://lake/wh", options)
