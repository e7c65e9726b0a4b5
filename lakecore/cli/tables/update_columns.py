"""This module has `update-columns`, which gives new values to some columns of existing rows, which it
finds by row id.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.run_name import RunName
from lakecore.cli.session import session_of
from lakecore.cli.tables.formats import InputFormat
from lakecore.data_class import dataclass
from lakecore.types.counted import counted
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot

__all__ = ["update_columns"]


@dataclass(frozen=True)
class InputOptions:
    """These options say how the file is read, and what the commit records."""

    form: Annotated[
        InputFormat | None,
        typer.Option(
            "--format",
            help="Use this format; by default it follows from the extension, and standard input is jsonl.",
        ),
    ] = None
    option: Annotated[
        list[str] | None, typer.Option(help="Set an option of the table for this run: key=value.")
    ] = None
    property_: Annotated[
        list[str] | None, typer.Option("--property", help="Set a property of the snapshot: key=value.")
    ] = None


def update_columns(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="_ROW_ID and the columns to set; '-' is standard input.")
    ],
    run_name: RunName,
    input_options: InputOptions,
) -> None:
    """Give rows new values in some columns: tables with data-evolution.enabled; TABLE$row_tracking has ids.

    The columns of the file are set, all others stay. A null, or an empty field in CSV, empties the column.
    """
    import pyarrow as pa  # help needs no tables

    from lakecore.cli.tables.changed_rows import ChangedRows
    from lakecore.cli.tables.input_files import read_columns
    from lakecore.commit.request import CommitResult
    from lakecore.metadata.row_kind import ROW_ID_FIELD_ID, ROW_ID_NAME
    from lakecore.table import Commit, UpdatedRows

    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(input_options.option or [], "--option"))
    commit = Commit(
        user=run_name.user or None,
        identifier=run_name.identifier,
        properties=key_values(input_options.property_ or [], "--property"),
    )
    row_id = DataField(ROW_ID_FIELD_ID, ROW_ID_NAME, AtomicType(TypeRoot.BIGINT))
    row_type_with_ids = RowType((row_id, *loaded.schema.row_type.fields))
    with session.counting(f"reading {file}") as count:
        batches = []
        for batch in read_columns(file, input_options.form, row_type_with_ids):
            count(batch.num_rows)
            batches.append(batch)
    data = pa.Table.from_batches(batches) if batches else None
    updated = UpdatedRows(0, CommitResult()) if data is None else loaded.update_columns(data, commit)
    columns = [name for name in ([] if data is None else data.column_names) if name != ROW_ID_NAME]
    ChangedRows(
        table=loaded,
        rows=updated.rows,
        commit=updated.commit,
        verb="updated",
        message=f"{', '.join(columns)} set in {counted(updated.rows, 'row')}",
        nothing="nothing to update",
        more={"columns": columns},
    ).print(session)
