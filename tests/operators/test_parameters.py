"""A parameter of a job has the same forms everywhere: an option of the command, a parameter of the operator, a key of JSON.

The names are compared as users see them, so this does not use the code that derives one form from another.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import pytest
import typer

import lakecore_airflow
from lakecore.cli.commands import MAINTENANCE, TABLES, register
from lakecore.jobs import definitions
from lakecore.jobs.definitions.objects import DialectAction
from lakecore.jobs.definitions.parameter import declared
from lakecore.jobs.definitions.table_job import Definition, Safety
from lakecore.jobs.definitions.values import parse_value
from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator
from lakecore_airflow.tasks.job import JobTask

OF_THE_RUN = {
    "owner": "who runs the job owns its lease",
    "purges": "a run over many tables purges once at the end",
}
NO_OPTION = OF_THE_RUN | {
    "table": "an argument of the command",
    "run_id": "an argument of undo",
    "subject": "an argument of why",
    "source": "an argument of migrate-table and migrate-database",
    "target": "an argument of migrate-table, migrate-database and repair",
    "function": "an argument of the commands on functions",
    "view": "an argument of alter-view-dialect",
    "action": "an argument of alter-view-dialect",
    "plan": "an option of repair with a path, whose file is read",
    "steps": "--step and --all of repair",
}
NO_PARAMETER = OF_THE_RUN | {
    "commit_user": "the task instance names the run",
    "commit_identifier": "the task instance names the run",
    "lease": "tasks hold a lease of 60 s; Airflow's heartbeat ends dead ones",
    "quarantine_ttl": "of the warehouse: PurgeQuarantineOperator",
    "quarantine_cap": "of the warehouse: PurgeQuarantineOperator",
}
OF_THE_COMMAND = {
    "engine": "where units run",
    "master": "where units run",
    "conf": "where units run",
    "processes": "where units run",
    "max_concurrent_tables": "of the command, which takes many tables",
    "max_plan_memory": "of the command, which takes many tables; the key is max_plan_bytes",
    "follow": "of the command, which runs the job again and again",
    "interval": "see follow",
    "rounds": "see follow",
    "checkpoint": "see follow",
    "step": "see steps",
    "all": "see steps",
}
OF_THE_TASK = {
    "engine": "where units run",
    "master": "where units run",
    "spark_conf": "where units run",
    "submit": "where units run",
    "lake_conn_id": "the connection",
    "fail_on": "which findings of fsck fail the task",
    "plan": "whether fsck pushes a plan of repair as XCom",
    "skip_expired": "whether Airflow skips the task when the snapshot has expired",
    "skip_unsupported": "whether Airflow skips the task",
    "checkpoint": "whether a task that follows tables is a streaming query",
    "interval": "how often a task looks that follows tables",
    "run_for": "how long a task follows tables",
    "on_window_end": "how the task ends when its window is over",
    "window_grace": "when Airflow stops the task",
    "blackouts": "of all tasks of a DAG run",
    "budget_bytes": "of all tasks of a DAG run",
    "budget_core_seconds": "of all tasks of a DAG run",
    "budget_money": "of all tasks of a DAG run",
}
LACKING = {
    ("hold", "options"): "a hold opens no table",
    ("release", "options"): "a release opens no table",
    ("hold", "lease"): "a hold takes no lease",
    ("hold", "wait"): "a hold takes no lease",
    ("release", "lease"): "a release takes no lease",
    ("release", "wait"): "a release takes no lease",
    ("rename-tag", "zone"): "no time is read or written",
    ("delete-tag", "zone"): "no time is read or written",
    ("undo", "table"): "the run names its table",
    ("undo", "options"): "files come back to where they were, whatever the options are",
    ("mark-partition-done", "commit_user"): "nothing is committed",
    ("mark-partition-done", "commit_identifier"): "nothing is committed",
    ("why", "options"): "the command asks about the table as it is",
    ("why", "dry_run"): "nothing is changed in any case",
    ("why", "lease"): "nothing is changed in any case",
    ("why", "wait"): "nothing is changed in any case",
    ("compact-database", "max_plan"): "the options of all commands on many tables",
}
"""(command, key): why neither the command has it, nor the operator need."""
REMOVALS_ONLY = ("quarantine", "quarantine_ttl", "quarantine_cap")
"""Settings of the quarantine, which commands that remove nothing do not offer."""
OTHER_WORDS = {
    "time_zone": "zone",
    "no_data": "read_data",
    "no_hold": "holds",
    "partition_idle_time": "partition_idle",
    "undo_run": "run_id",
    "option": "options",
    "tag": "tags",
    "partition": "partitions",
    "from": "start",
    "to": "end",
    "expiration_time": "expiration",
    "consumer_id": "consumer",
    "including_consumers": "including",
    "excluding_consumers": "excluding",
    "snapshot_id": "snapshot",
    "quarantine_ttl": "ttl",
    "quarantine_cap": "cap",
    "max_plan_bytes": "max_plan",
}
"""The words of options and operators where the key of JSON is another one; Paimon's procedures and older releases use them."""


def _jobs() -> Iterator[type[Definition]]:
    for found in pkgutil.iter_modules(definitions.__path__):
        module = importlib.import_module(f"{definitions.__name__}.{found.name}")
        for kind in vars(module).values():
            own = inspect.isclass(kind) and kind.__module__ == module.__name__
            if own and issubclass(kind, Definition) and kind.command:
                yield kind


def _operators() -> Iterator[type[JobTask]]:
    for found in pkgutil.walk_packages(lakecore_airflow.__path__, "lakecore_airflow."):
        for kind in vars(importlib.import_module(found.name)).values():
            if inspect.isclass(kind) and issubclass(kind, JobTask) and kind.__name__.endswith("Operator"):
                yield kind


JOBS = sorted(_jobs(), key=lambda job: job.command)
OPERATORS = {
    kind.definition: kind
    for kind in _operators()
    if kind.definition.command and kind is not DedicatedCompactionOperator  # it runs a job again and again
}
each_job = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.command)


def _keys(job: type[Definition]) -> set[str]:
    """Keys of JSON, without the units that users write with the value."""
    names = [one.name for one in fields(job) if one.name != "safety"]
    if any(one.name == "safety" for one in fields(job)):
        names += [one.name for one in fields(Safety)]
    return {name.removesuffix("_ms").removesuffix("_bytes") for name in names}


def _options(job: type[Definition]) -> set[str]:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app, [job.command])
    command: Any = typer.main.get_command(app).commands[job.command]  # type: ignore[attr-defined]
    flags = [one.opts[0] for one in command.params if one.opts[0].startswith("--")]
    return {flag.removeprefix("--").replace("-", "_") for flag in flags}


def _known(names: set[str], keys: set[str]) -> set[str]:
    """Names of users as keys of JSON."""
    return {name if name in keys else OTHER_WORDS.get(name, name) for name in names}


def _removes(job: type[Definition]) -> bool:
    return bool(getattr(job, "removes", False))


def test_all_commands_of_jobs_and_all_operators_are_compared() -> None:
    lists = {"databases", "tables", "describe", "partitions", "snapshots", "files"}
    lists |= {"runs", "attempts", "holds", "health"}
    rows = {
        "create",
        "alter",
        "write",
        "delete",
        "update",
        "merge-into",
        "update-columns",
        "read",
        "lookup",
        "query-service",
        "stream",
        "prepare-spark",
        "run-job",
        "airflow",
    }
    of_catalogs = {
        "catalogs",
        "create-catalog",
        "drop-catalog",
        "create-database",
        "alter-database",
        "drop-database",
        "drop-table",
        "restore-table",
        "dropped-tables",
        "rename-table",
        "init-file-based-privilege",
        "create-privileged-user",
        "drop-privileged-user",
        "grant-privilege-to-user",
        "revoke-privilege-from-user",
        "privileges",
    }
    assert {job.command for job in JOBS} == {*TABLES, *MAINTENANCE} - lists - rows - of_catalogs
    assert set(OPERATORS) == set(JOBS)


@each_job
def test_options_of_the_command_are_the_keys_of_json(job: type[Definition]) -> None:
    keys = _keys(job)
    options = _known(_options(job), keys) - (set(OF_THE_COMMAND) - keys)
    lacking = {key for command, key in LACKING if command == job.command}
    if not _removes(job):
        lacking |= set(REMOVALS_ONLY)
    assert options - {"plan"} == keys - set(NO_OPTION) - lacking


@each_job
def test_parameters_of_the_operator_are_the_keys_of_json(job: type[Definition]) -> None:
    keys = _keys(job)
    signature = set(inspect.signature(OPERATORS[job].__init__).parameters) - {"self", "kwargs"}
    parameters = _known(signature, keys) - (set(OF_THE_TASK) - keys)
    optional = {key for command, key in LACKING if command == job.command} | {"quarantine"}
    expected = keys - set(NO_PARAMETER)
    assert parameters <= expected
    assert expected - parameters <= optional


@each_job
def test_every_parameter_of_an_operator_is_templated(job: type[Definition]) -> None:
    operator = OPERATORS[job]
    signature = set(inspect.signature(operator.__init__).parameters) - {"self", "kwargs"}
    assert set(operator.template_fields) == signature, "Rendered Templates has the names that users write"


@each_job
def test_a_job_comes_back_from_json(job: type[Definition]) -> None:
    given: dict[str, Any] = {
        one.name: {"tags": ("x",), "action": DialectAction.DROP}.get(one.name, "x")
        for one in fields(job)
        if one.default is MISSING and one.default_factory is MISSING
    }
    made = job(**given)
    raw = made.to_json()
    assert set(raw) == {one.name for one in fields(job)}
    assert job.from_json(json.loads(json.dumps(raw))) == made


@pytest.mark.parametrize("job", [*JOBS, Safety], ids=lambda job: getattr(job, "command", "safety"))
def test_defaults_that_users_see_are_those_of_the_fields(job: type) -> None:
    """All but the lease: commands and operators take one, a call of the library does not."""
    for one in declared(job):
        if one.parameter.default_text and one.default is not MISSING:
            shown = parse_value(one, one.parameter.default_text, one.name, 0)
            assert shown == one.default or (one.name, one.default) in (
                ("lease", 0),
                ("quarantine_cap", None),
            ), one
