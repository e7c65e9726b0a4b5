"""Every operation of catalogs, tables and jobs, walked over with users who may not do it: each is refused, and nothing changes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakecore
import lakecore.jobs.definitions
from lakecore.catalog.catalog import Catalog
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.catalog.partitions.partition import Partitions
from lakecore.catalog.privileges.grants import Privilege, Securable
from lakecore.catalog.privileges.manager import Privileges
from lakecore.errors import PrivilegeError
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs import fsck
from lakecore.jobs.attempts import AttemptFilter, attempts_of
from lakecore.jobs.definitions.table_job import Definition, Safety
from lakecore.jobs.holds import HoldTable, holds_of
from lakecore.jobs.holds import run as hold
from lakecore.jobs.quarantine import runs_of
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.jobs.survey import Job as Survey
from lakecore.jobs.survey import latest_survey
from lakecore.jobs.survey import run as survey
from lakecore.maintain.analyze.statistics import Statistics
from lakecore.table import Table
from lakecore.write.row_level.clauses import MergeRules
from tests.support.maintained import history

DEFINITION = {"columns": ["k INT"]}
ROWS = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]})


def user(catalog: FilesystemCatalog, name: str) -> FilesystemCatalog:
    options = {"user": name, "password": f"of-{name}"}
    return replace(
        catalog, privileges=Privileges.open(catalog.file_io, catalog.warehouse, catalog.clock, options)
    )


@pytest.fixture(scope="module")
def lake() -> FilesystemCatalog:
    """d.k with a history, runs, a hold and a survey; the users none, reader (SELECT) and writer (INSERT on d.other)."""
    tables = history("privileges-everywhere")
    catalog = tables.catalog
    catalog.create_table("d.other", DEFINITION)
    catalog.create_table("d.lost", DEFINITION)
    catalog.drop_table("d.lost")
    Privileges.open(catalog.file_io, catalog.warehouse, catalog.clock, {}).init("of-root")
    root = user(catalog, "root")
    assert root.privileges is not None
    for name in ("none", "reader", "writer"):
        root.privileges.create_user(name, f"of-{name}")
    root.privileges.grant("reader", Privilege.SELECT, Securable("d", "k"))
    root.privileges.grant("writer", Privilege.INSERT, Securable("d", "other"))
    for job in (
        job_of("expire-snapshots", retain_max=4, retain_min=1, safety=Safety(quarantine=True)),
        job_of("create-tag", tag="c"),
        job_of("create-branch", branch="x"),
    ):
        run_chore(job, root)
    hold(HoldTable(table="d.k", reason="secret"), root)
    survey(Survey(), root)
    return catalog


def image(catalog: FilesystemCatalog) -> dict[str, bytes]:
    """All files but leases and the ledger, which says who was refused."""
    assert isinstance(catalog.file_io, MemoryFileIO)
    found: dict[str, bytes] = {}
    pending = [catalog.warehouse]
    while pending:
        for status in catalog.file_io.list(pending.pop()):
            if status.is_dir:
                pending.append(status.path)
            elif not any(part in status.path for part in ("/.lakecore/leases/", "/.lakecore/ledger/")):
                found[status.path] = catalog.file_io.read(status.path)
    return found


def definitions() -> dict[str, type[Definition]]:
    for module in pkgutil.iter_modules(lakecore.jobs.definitions.__path__):
        importlib.import_module(f"lakecore.jobs.definitions.{module.name}")

    def below(kind: type[Definition]) -> Iterator[type[Definition]]:
        for one in kind.__subclasses__():
            yield one
            yield from below(one)

    return {one.command: one for one in below(Definition) if one.command}


PLAN = {"version": 1, "table": "d.k", "made_ms": 0, "steps": []}
FIELDS: dict[str, dict[str, Any]] = {
    "apply-repair-plan": {"plan": PLAN},
    "create-branch": {"branch": "y"},
    "create-tag": {"tag": "new"},
    "delete-branch": {"branch": "x"},
    "delete-tag": {"tags": ("a",)},
    "drop-partition": {"partitions": ("k=1",)},
    "fast-forward": {"branch": "x"},
    "hold": {"reason": "because"},
    "mark-partition-done": {"partitions": ("k=1",)},
    "merge-branch": {"source_branch": "x"},
    "copy": {"source": "d.k", "target": "d.mine"},
    "migrate-database": {"source": "memory://privileges-everywhere/wh/d.db", "target": "d"},
    "migrate-table": {"source": "memory://privileges-everywhere/wh/hive", "target": "d.mine"},
    "purge-quarantine": {"ttl_ms": 0},
    "rename-branch": {"branch": "x", "target_branch": "y"},
    "rename-tag": {"tag": "a", "target_tag": "y"},
    "repair-earliest-snapshot": {"snapshot": 1},
    "replace-tag": {"tag": "a"},
    "rescale": {"bucket_num": 2},
    "reset-consumer": {"consumer": "c"},
    "rollback-to": {"snapshot": 1},
    "rollback-to-as-latest": {"snapshot": 1},
    "undo": {"run_id": "RUN"},
}
WITHOUT_TABLE = {
    "compact-database", "copy", "migrate-database", "migrate-table", "purge-quarantine", "repair", "survey", "undo",
}  # fmt: skip
READING = {"fsck", "what-if", "why"}
"""These jobs need SELECT or INSERT; all others need INSERT."""


def job_of(command: str, **fields: Any) -> Definition:
    given = {**FIELDS.get(command, {}), **fields}
    if command not in WITHOUT_TABLE:
        given["table"] = "d.k"
    return definitions()[command](**given)


OF_OTHER_CATALOGS = {
    "alter-function", "alter-view-dialect", "create-function", "drop-function", "repair",
}  # fmt: skip
"""These jobs are refused whoever asks: this kind of catalog has nothing for them."""
ELSEWHERE = {"compact-database", "fsck"}


@pytest.mark.parametrize("command", sorted({*definitions()} - OF_OTHER_CATALOGS - ELSEWHERE))
def test_a_job_of_a_user_without_its_privilege_is_refused(lake: FilesystemCatalog, command: str) -> None:
    before, run_id = image(lake), next(one.id for one in runs_of(lake) if one.keeps)
    job = job_of(command, run_id=run_id) if command == "undo" else job_of(command)
    for name in ("none", "writer", *(() if command in READING else ("reader",))):
        with pytest.raises(PrivilegeError):
            run_chore(job, user(lake, name))
    assert image(lake) == before


def test_a_purge_of_one_run_needs_insert_on_its_table(lake: FilesystemCatalog) -> None:
    before, run_id = image(lake), next(one.id for one in runs_of(lake) if one.keeps)
    for name in ("none", "reader", "writer"):
        with pytest.raises(PrivilegeError, match=r"INSERT on table d\.k"):
            run_chore(job_of("purge-quarantine", purge_run=run_id), user(lake, name))
    assert image(lake) == before


def test_compactions_of_a_database_fail_table_by_table(lake: FilesystemCatalog) -> None:
    before = image(lake)
    for name in ("none", "reader"):
        report = run_chore(job_of("compact-database"), user(lake, name))
        assert [one.error_class for one in report.tables] == ["PrivilegeError"] * 2
    assert image(lake) == before


def test_a_check_changes_no_holds_for_a_reader(lake: FilesystemCatalog) -> None:
    before = image(lake)
    with pytest.raises(PrivilegeError):
        fsck.run(fsck.Job(table="d.k"), user(lake, "none"))
    assert fsck.run(fsck.Job(table="d.k"), user(lake, "reader")).holds == ()
    assert image(lake) == before


def test_the_end_of_a_job_purges_only_tables_that_its_user_may_change(lake: FilesystemCatalog) -> None:
    writer, before = user(lake, "writer"), image(lake)
    kept = {path for path in before if "/kept/" in path}
    assert kept
    safety = Safety(quarantine=True, quarantine_ttl_ms=0, quarantine_cap=0)
    run_chore(definitions()["expire-snapshots"](table="d.other", safety=safety), writer)
    assert kept <= set(image(lake))


RECORDS: dict[str, Callable[[FilesystemCatalog], Iterator[str]]] = {
    "attempts": lambda c: (one.table for one in attempts_of(c, AttemptFilter(since_ms=0)).attempts),
    "holds": lambda c: (one.table for one in holds_of(c)),
    "holds of one": lambda c: (one.table for one in holds_of(c, table="d.k")),
    "runs": lambda c: (one.table for one in runs_of(c)),
    "survey": lambda c: (one.table for one in latest_survey(c).tables),  # type: ignore[union-attr]
    "sys.health": lambda c: names(c.load_table("sys.health")),
    "sys.runs": lambda c: names(c.load_table("sys.runs")),
}


def names(table: Table) -> Iterator[str]:
    rows = table.scan().to_arrow().to_pylist()
    return (f"{row['database_name']}.{row['table_name']}".strip(".") for row in rows)


@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_a_table_are_shown_to_those_who_may_read_or_change_it(
    lake: FilesystemCatalog, kind: str
) -> None:
    expected = {"none": False, "reader": True, "writer": False, "root": True}
    assert {name: "d.k" in set(RECORDS[kind](user(lake, name))) for name in expected} == expected


CATALOG: dict[str, Callable[[FilesystemCatalog], object]] = {
    "alter_database": lambda c: c.alter_database("d", {"a": "b"}),
    "alter_table": lambda c: c.alter_table("d.k", [{"op": "set", "key": "a", "value": "b"}]),
    "create_database": lambda c: c.create_database("e"),
    "create_table": lambda c: c.create_table("d.new", DEFINITION),
    "drop_database": lambda c: c.drop_database("d", cascade=True),
    "drop_table": lambda c: c.drop_table("d.k", purge=True),
    "rename_table": lambda c: c.rename_table("d.k", "d.mine"),
    "restore_table": lambda c: c.restore_table("d.lost"),
}
OPEN_TO_ALL = {
    "allowed_paths", "clock", "close", "file_io", "warehouse",  # what the program itself works with
    "get_database", "list_databases", "list_databases_page", "list_tables", "list_tables_page", "table_kinds", "table_exists", "load_table", "dropped_tables",  # names and schemas
}  # fmt: skip
TABLE: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(ROWS),
    "at_branch": lambda t: t.at_branch("x"),
    "branches": lambda t: t.branches(),
    "delete": lambda t: t.delete("k = 1"),
    "latest_snapshot": lambda t: t.latest_snapshot(),
    "merge": lambda t: t.merge(ROWS, ["k"], MergeRules(set={"v": "b"})),
    "new_batch_write": lambda t: t.new_batch_write(),
    "new_lookup": lambda t: t.new_lookup(["k"]),
    "new_query": lambda t: t.new_query(),
    "new_stream_write": lambda t: t.new_stream_write("u"),
    "overwrite": lambda t: t.overwrite(ROWS),
    "scan": lambda t: t.scan(),
    "snapshot": lambda t: t.snapshot(5),
    "snapshots": lambda t: list(t.snapshots()),
    "statistics": lambda t: t.statistics(),
    "stream": lambda t: t.stream(),
    "tags": lambda t: t.tags(),
    "update": lambda t: t.update({"v": "b"}, where="k = 1"),
    "update_statistics": lambda t: t.update_statistics(Statistics(snapshot_id=1, schema_id=0)),
    "update_columns": lambda t: t.update_columns(ROWS),
    "upsert": lambda t: t.upsert(ROWS),
    "write": lambda t: t.write(ROWS),
}
SCHEMA = {"schema", "path", "options", "changelog_mode", "warnings", "with_options"}
"""These members of a table tell its schema, which every user may see."""
PARTITIONS: dict[str, Callable[[Partitions], object]] = {
    "list": lambda p: p.list("d.k"),
    "list_page": lambda p: p.list_page("d.k"),
    "drop": lambda p: p.drop("d.k", "p=a"),
}
READS = {"at_branch", "branches", "latest_snapshot", "new_lookup", "new_query", "scan", "snapshot", "snapshots", "statistics", "stream", "tags"}  # fmt: skip


def members(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def test_the_walks_have_every_operation() -> None:
    without_users = {"views", "functions"}  # no catalog with users has any
    assert members(Catalog) == set(CATALOG) | OPEN_TO_ALL | without_users | {"partitions"}
    assert members(Partitions) == set(PARTITIONS) | {"create", "alter", "mark_done"}  # always refused
    assert members(Table) == set(TABLE) | SCHEMA


@pytest.mark.parametrize("operation", CATALOG)
def test_operations_of_the_catalog_are_refused(lake: FilesystemCatalog, operation: str) -> None:
    before = image(lake)
    for name in ("none", "reader", "writer"):
        with pytest.raises(PrivilegeError):
            CATALOG[operation](user(lake, name))
    assert image(lake) == before


@pytest.mark.parametrize("operation", PARTITIONS)
def test_operations_on_partitions_are_refused(lake: FilesystemCatalog, operation: str) -> None:
    before = image(lake)
    for name in ("none", "writer", *(("reader",) if operation == "drop" else ())):
        with pytest.raises(PrivilegeError):
            PARTITIONS[operation](user(lake, name).partitions)
    assert image(lake) == before


@pytest.mark.parametrize("operation", TABLE)
def test_operations_on_a_table_are_refused(lake: FilesystemCatalog, operation: str) -> None:
    before = image(lake)
    users = ("none", "writer", *(() if operation in READS else ("reader",)))
    for name in ("none", "reader") if operation == "append" else users:
        table = user(lake, name).load_table("d.other" if operation == "append" else "d.k")
        with pytest.raises(PrivilegeError):
            TABLE[operation](table)
    assert image(lake) == before
