"""This module has `airflow init`, which sets Airflow up for a lake."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from lakecore.cli.output import print_rows
from lakecore.cli.session import session_of
from lakecore.data_class import dataclass

__all__ = ["airflow"]

_DONE = {"create": "created", "change": "changed"}
_PLANNED = {"create": "would be created", "change": "would be changed"}


class AirflowAction(StrEnum):
    """This is what the command does with Airflow."""

    INIT = "init"


@dataclass(frozen=True)
class AirflowOptions:
    """These are the names of what is made, and what may be changed."""

    lake_conn_id: Annotated[str, typer.Option(help="Name the connection of the lake.")] = "lake_default"
    dags_folder: Annotated[
        str, typer.Option(help="Write the DAG file here; by default into the DAG folder of Airflow.")
    ] = ""
    pool: Annotated[str, typer.Option(help="Name the pool of the tasks.")] = "lakecore"
    slots: Annotated[int, typer.Option(help="Let so many tasks of the pool run at the same time.")] = 2
    spark_master: Annotated[
        str, typer.Option(help="Use this Spark master: spark://host:7077; by default local[*].")
    ] = ""
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Change a connection, a pool or a DAG file that is there.")
    ] = False
    keep_connection: Annotated[
        bool,
        typer.Option("--keep-connection", help="Keep a connection that is there, wherever it leads."),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be made, and change nothing.")
    ] = False


def airflow(
    context: typer.Context,
    action: Annotated[AirflowAction, typer.Argument(metavar="init", help="Set Airflow up for the lake.")],
    options: AirflowOptions,
) -> None:
    """Set Airflow up for the lake: a connection, a pool, `lakecore.toml` and a file with all DAGs.

    It can be repeated: what is there stays.
    """
    from lakecore_airflow.connection_fields import connection_of  # only this command needs it
    from lakecore_airflow.setup import InitRequest, init

    session = session_of(context)
    session.catalog.list_databases()  # nothing is written for a lake that does not answer
    request = InitRequest(
        connection=connection_of(session.config(), options.spark_master),
        lake_conn_id=options.lake_conn_id,
        dags_folder=options.dags_folder,
        pool=options.pool,
        slots=options.slots,
        overwrite=options.overwrite,
        keep_connection=options.keep_connection,
        dry_run=options.dry_run,
    )
    words = _PLANNED if options.dry_run else _DONE
    steps = init(request, os.environ)
    rows = [
        {"what": one.what, "name": one.name, "state": words.get(one.state, one.state), "note": one.note}
        for one in steps
    ]
    print_rows(session, rows, ["what", "name", "state", "note"])
    if not options.dry_run and not session.json:
        suffix = "" if options.lake_conn_id == "lake_default" else f"__{options.lake_conn_id}"
        session.note(
            f"next: airflow dags unpause lakecore_survey{suffix}, and the same for lakecore_nightly{suffix}; "
            "the pages of the lake are in Airflow's menu: Browse, Lake"
        )
