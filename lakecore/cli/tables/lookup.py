"""This module has `lookup`, which prints the current rows of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.session import session_of
from lakecore.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakecore.types.datatypes import RowType

__all__ = ["CACHE_DIRECTORY_HELP", "lookup"]

CACHE_DIRECTORY_HELP = (
    "Keep local copies of data files below this directory, for other processes and later runs; may be "
    "repeated. By default they are below TMPDIR and removed at the end."
)


def lookup(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DB.TABLE")],
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY",
            help="Give keys as a=1,b=x or '{\"a\": 1}'; else JSON lines are read from standard input.",
        ),
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Print only these columns of rows: a,b.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Set an option of the table for this run: key=value.")
    ] = None,
    cache_directory: Annotated[list[str] | None, typer.Option(help=CACHE_DIRECTORY_HELP)] = None,
) -> None:
    """Print the current row of each key, without a scan: data files are copied to local disk as keys need
    them.

    A key has the columns of the primary key and the partition. Rows are JSON lines in the order of the keys;
    with --json each line is an object with `key`, and `row`, which is null where the key has no row.
    """
    from lakecore.cli.tables.read import column_names  # help needs no tables
    from lakecore.lookup.copies.process_cache import shared_cache
    from lakecore.row.json_rows import batch_to_json

    session = session_of(context)
    loaded = session.catalog.load_table(table, key_values(option or [], "--option"))
    names = None if columns is None else column_names(columns)
    with loaded.new_query(names, cache=shared_cache(cache_directory or [])) as query:
        query.refresh()
        schema = loaded.schema
        kind = schema.row_type.select(tuple(dict.fromkeys((*schema.partition_keys, *schema.primary_keys))))
        for batch in _batches(keys, kind):
            result = query.lookup_table(batch)
            rows = result.rows.combine_chunks().to_batches()
            row_type = schema.row_type.select(query.schema.names)
            lines = [line for part in rows for line in batch_to_json(part, row_type)]
            json_rows = batch_to_json(batch.combine_chunks().to_batches()[0], kind)
            for key, line, there in zip(json_rows, lines, result.matches.to_pylist(), strict=True):
                if session.json:
                    typer.echo(f'{{"key":{key},"row":{line if there else "null"}}}')
                elif there:
                    typer.echo(line)
                else:
                    session.note(f"{key} has no row")


def _batches(keys: Sequence[str] | None, data_type: RowType) -> Iterator[pa.Table]:
    """Yield keys as tables, some at once. Raises InvalidInputError naming key or line, column and value."""
    import pyarrow as pa

    from lakecore.cli.tables.formats import InputFormat
    from lakecore.cli.tables.input_files import read_input

    if not keys:
        for batch in read_input("-", InputFormat.JSONL, data_type):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])
        return
    yield pa.concat_tables([_parse_keys(text, data_type) for text in keys])


def _parse_keys(text: str, data_type: RowType) -> pa.Table:
    import pyarrow as pa

    from lakecore.row.json_rows import json_to_batch
    from lakecore.row.text_columns import parse_texts

    if text.lstrip().startswith("{"):
        return pa.Table.from_batches([json_to_batch([text], data_type)])
    pairs = [text] if len(data_type.fields) == 1 else text.split(",")
    values = {name.strip(): value for name, _, value in (pair.partition("=") for pair in pairs)}
    if set(values) != set(data_type.names) or len(values) != len(pairs):
        raise InvalidInputError(
            f"key {text!r}: give {','.join(f'{name}=VALUE' for name in data_type.names)}, or a JSON object "
            "if a value has a comma"
        )
    arrays = [parse_texts(pa.array([values[field.name]]), field, 1) for field in data_type.fields]
    return pa.Table.from_arrays(arrays, list(data_type.names))
