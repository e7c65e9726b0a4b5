"""This module has the commands that look: databases, tables, describe, partitions, snapshots."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.output import print_json, print_rows, table_of, time_text
from lakecore.cli.session import Session, session_of
from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.store.two_writers import other_writers
from lakecore.types.sql import type_text

if TYPE_CHECKING:
    from lakecore.maintain.holds.record import Hold
    from lakecore.metadata.snapshot import Snapshot
    from lakecore.table import Table

__all__ = ["Page", "databases", "describe", "partitions", "snapshots", "tables"]

TableArgument = Annotated[
    str, typer.Argument(metavar="DB.TABLE", help="Name the table, or a branch of it: DB.TABLE$branch_B.")
]


@dataclass(frozen=True)
class Page:
    """This is the part of a list that a command prints."""

    limit: Annotated[
        int | None,
        typer.Option(
            help="List one page of at most so many names; standard error has the token of the next page."
        ),
    ] = None
    page_token: Annotated[
        str | None, typer.Option(help="List the page after the one that ended with this token.")
    ] = None


_WHOLE = Page()


def databases(context: typer.Context, page: Page = _WHOLE) -> None:
    """List the databases of the warehouse."""
    session = session_of(context)
    _check_page(page)
    if page.limit is None:
        names, next_token = session.catalog.list_databases(), None
    else:
        listed = session.catalog.list_databases_page(limit=page.limit, token=page.page_token)
        names, next_token = list(listed.names), listed.next_token
    print_rows(session, [{"database": name} for name in names], ["database"])
    if next_token is not None:
        session.note(f"the next page: --page-token {shlex.quote(next_token)}")


def _check_page(page: Page) -> None:
    if page.page_token and page.limit is None:
        raise InvalidInputError("--page-token: give --limit, too, the number of names of a page")


def tables(
    context: typer.Context,
    database: Annotated[str | None, typer.Argument(help="List only tables of this database.")] = None,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="List also views and tables of other formats, and what they are.")
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            help="List only tables whose names are like this pattern; only its end may be %: 'ods_%'."
        ),
    ] = None,
    table_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="List only tables of this type: table, format-table, materialized-table or object-table.",
        ),
    ] = None,
    page: Page = _WHOLE,
) -> None:
    """List tables."""
    from lakecore.catalog.objects.table_filter import TableFilter  # help needs no catalogs

    session = session_of(context)
    if kinds and table_type:
        raise InvalidInputError("--kinds and --type: give one of them")
    _check_page(page)
    if page.limit is not None:
        if database is None or kinds:
            raise InvalidInputError("--limit: give a database, and leave --kinds out")
        listed = session.catalog.list_tables_page(
            database, limit=page.limit, token=page.page_token, pattern=like, table_type=table_type
        )
        _print_tables(session, [(database, table) for table in listed.tables])
        if listed.next_token is not None:
            session.note(f"the next page: --page-token {shlex.quote(listed.next_token)}")
        return
    chosen = TableFilter.of(like, table_type)
    names = session.catalog.list_databases() if database is None else [database]
    if kinds:
        with_kinds = [
            {"database": name, "table": table, "name": f"{name}.{table}", "kind": kind}
            for name in names
            for table, kind in session.catalog.table_kinds(name).items()
            if chosen.has_name(table)
        ]
        print_rows(session, with_kinds, ["database", "table", "kind"])
        return
    _print_tables(
        session,
        [
            (name, table)
            for name in names
            for table in session.catalog.list_tables(name, pattern=like, table_type=table_type)
        ],
    )


def _print_tables(session: Session, tables: Sequence[tuple[str, str]]) -> None:
    rows = [{"database": name, "table": table, "name": f"{name}.{table}"} for name, table in tables]
    print_rows(session, rows, ["database", "table"])


def describe(context: typer.Context, table: TableArgument) -> None:
    """Show columns, keys, options and the latest snapshot of a table."""
    from lakecore.catalog.objects.file_tables import file_table_of  # help needs no tables
    from lakecore.cli.tables.file_tables import describe_files
    from lakecore.maintain.holds.store import HoldStore

    session = session_of(context)
    loaded = session.catalog.load_table(table)
    if (files := file_table_of(loaded)) is not None:
        describe_files(session, files)
        return
    latest = loaded._stores.snapshots.latest()
    holds = HoldStore(loaded._stores.file_io, session.catalog.warehouse, SystemClock()).of(loaded.name)
    if session.json:
        print_json(session.out, _description(loaded, latest, holds))
    else:
        _print_description(session, loaded, latest, holds)


def _description(table: Table, latest: Snapshot | None, holds: Sequence[Hold]) -> dict[str, Any]:
    schema = table.schema
    return {
        "table": table.name,
        "path": table.path,
        "branch": table._stores.paths.branch,
        "schema_id": schema.id,
        "fields": [field.to_json() for field in schema.fields],
        "primary_keys": list(schema.primary_keys),
        "partition_keys": list(schema.partition_keys),
        "bucket": table.options.bucket,
        "bucket_mode": table.options.bucket_mode.value,
        "bucket_keys": list(schema.bucket_keys),
        "merge_engine": table.options.merge_engine.value if schema.primary_keys else None,
        "options": dict(schema.options),
        "comment": schema.comment,
        "snapshot": None if latest is None else _snapshot_row(latest, ()),
        "tags": list(table._stores.tags.list()),
        "branches": list(table._stores.branches.list()),
        "warnings": list(table.warnings),
        "other_writers": asdict(other_writers(schema.options, table._stores.paths.root)),
        "holds": [hold.to_json() for hold in holds],
    }


def _print_description(
    session: Session, table: Table, latest: Snapshot | None, holds: Sequence[Hold]
) -> None:
    described = _description(table, latest, holds)
    keys = ("table", "path", "schema_id", "primary_keys", "partition_keys", "bucket", "bucket_mode")
    facts = [[key, _join(described[key])] for key in (*keys, "bucket_keys", "tags", "branches", "comment")]
    if latest is not None:
        rows = "unknown" if latest.total_record_count is None else latest.total_record_count
        facts.append(
            ["snapshot", f"{latest.id} ({latest.commit_kind.value}, {time_text(latest.time_millis)})"]
        )
        facts.append(["records in files", str(rows)])
    else:
        facts.append(["snapshot", "none yet"])
    others = described["other_writers"]
    facts += [["other writers", f"lakecore: {others['lakecore']}"], ["", f"Java Paimon: {others['java']}"]]
    facts += [["on hold", str(hold)] for hold in holds]
    session.out.print(table_of(["", ""], [fact for fact in facts if fact[1]]))
    session.warn(table.name, table.warnings)
    columns = [
        [field.id, field.name, type_text(field.type), field.default_value, field.description]
        for field in table.schema.fields
    ]
    session.out.print(table_of(["id", "column", "type", "default", "comment"], columns))
    if table.schema.options:
        session.out.print(table_of(["option", "value"], sorted(table.schema.options.items())))


def _join(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)


def partitions(
    context: typer.Context,
    table: TableArgument,
    partition: Annotated[
        str | None, typer.Option(help="List only these partitions: 'dt=a,hh=b;dt=c'; some columns suffice.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(help="List only partitions for which this condition on their columns is true."),
    ] = None,
) -> None:
    """List the partitions of a table with the counts of their files, as the catalog has them."""
    session = session_of(context)
    listed = session.catalog.partitions.list(table, partitions=partition, where=where)
    if session.json:
        print_json(session.out, [asdict(one) for one in listed])
        return
    rows = [
        {
            "partition": ",".join(f"{key}={value}" for key, value in one.spec.items()),
            "records": one.record_count,
            "bytes": one.file_size_in_bytes,
            "files": one.file_count,
            "newest_file": time_text(one.last_file_creation_time),
            "buckets": one.total_buckets,
            "done": one.is_done,
        }
        for one in listed
    ]
    print_rows(session, rows, ["partition", "records", "bytes", "files", "newest_file", "buckets", "done"])


def snapshots(context: typer.Context, table: TableArgument) -> None:
    """List the snapshots of a table, oldest first, with the tags that hold them."""
    session = session_of(context)
    loaded = session.catalog.load_table(table)
    tags: dict[int, list[str]] = {}
    for name in loaded._stores.tags.list():
        tags.setdefault(loaded._stores.tags.load(name).id, []).append(name)
    records = (
        loaded._stores.snapshots.find(snapshot_id) for snapshot_id in loaded._stores.snapshots.list_ids()
    )
    rows = [_snapshot_row(s, tags.get(s.id, ())) for s in records if s is not None]
    visible_rows = [
        "id",
        "kind",
        "time",
        "records",
        "delta_records",
        "schema_id",
        "commit_identifier",
        "commit_user",
    ]
    if not session.json:
        rows = [{**row, "tags": ", ".join(row["tags"])} for row in rows]
    print_rows(session, rows, [*visible_rows, "tags"])


def _snapshot_row(snapshot: Snapshot, tags: Any) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "kind": snapshot.commit_kind.value,
        "time": time_text(snapshot.time_millis),
        "time_millis": snapshot.time_millis,
        "records": snapshot.total_record_count,
        "delta_records": snapshot.delta_record_count,
        "changelog_records": snapshot.changelog_record_count,
        "schema_id": snapshot.schema_id,
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
        "watermark": snapshot.watermark,
        "tags": list(tags),
        "properties": dict(snapshot.properties or {}),
    }
