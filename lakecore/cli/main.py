"""Entry point of the `lakecore` command. Exit codes: 0 ok, 1 error or part failure, 2 findings."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from lakecore.cli.alter import alter
from lakecore.cli.branches import create_branch, delete_branch, fast_forward, rename_branch
from lakecore.cli.compact import compact
from lakecore.cli.create import create
from lakecore.cli.delete import delete
from lakecore.cli.expire import expire_changelogs, expire_snapshots
from lakecore.cli.fsck import fsck
from lakecore.cli.inspect import databases, describe, files, snapshots, tables
from lakecore.cli.partitions import drop_partition, expire_partitions, mark_partition_done
from lakecore.cli.quarantine import purge_quarantine, remove_orphan_files, runs, undo
from lakecore.cli.read import read
from lakecore.cli.repair import compact_manifest, repair_hints, why
from lakecore.cli.rewrite_file_index import rewrite_file_index
from lakecore.cli.rollback import (
    clear_consumers,
    expire_consumers,
    reset_consumer,
    rollback_to,
    rollback_to_as_latest,
)
from lakecore.cli.session import Session
from lakecore.cli.stream import stream
from lakecore.cli.tags import create_tag, delete_tag, expire_tags, rename_tag, replace_tag
from lakecore.cli.write import write
from lakecore.errors import LakeError
from lakecore.types.pandas_probe import skip_pandas

__all__ = ["app", "main"]

_ERROR = 1
_INTERRUPTED = 130
_FLAGS = ("--json",)
_VALUED = ("--warehouse", "--catalog")
# Typer's own class or click's, by version; both call it so.
_USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

app = typer.Typer(
    name="lakecore",
    help="Read, write, compact and check Apache Paimon tables.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"lakecore {importlib.metadata.version('lakecore')}")
        raise typer.Exit


@app.callback()
def _globals(
    context: typer.Context,
    warehouse: Annotated[
        str | None, typer.Option(help="Warehouse: a directory or s3://bucket/path. Or LAKECORE_WAREHOUSE.")
    ] = None,
    catalog: Annotated[
        str | None, typer.Option(help="A catalog of lakecore.toml. Or LAKECORE_CATALOG.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is done.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version)] = False,
) -> None:
    """Read, write, compact and check Apache Paimon tables."""
    logging.basicConfig(level=logging.INFO if verbose else logging.CRITICAL, stream=sys.stderr)
    context.obj = Session(warehouse, catalog, json)


for command in (
    databases, tables, describe, snapshots, files, create, alter, write, delete, read, stream, compact,
    fsck, rewrite_file_index,
):  # fmt: skip
    app.command()(command)
_CHORES: tuple[Callable[..., None], ...] = (
    expire_snapshots,
    expire_changelogs,
    remove_orphan_files,
    undo,
    runs,
    purge_quarantine,
    create_tag,
    replace_tag,
    rename_tag,
    delete_tag,
    expire_tags,
    rollback_to,
    rollback_to_as_latest,
    reset_consumer,
    clear_consumers,
    expire_consumers,
    expire_partitions,
    drop_partition,
    mark_partition_done,
    create_branch,
    delete_branch,
    rename_branch,
    fast_forward,
    why,
    repair_hints,
    compact_manifest,
)
for chore in _CHORES:
    app.command(rich_help_panel="Maintenance")(chore)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are one line on standard error."""
    skip_pandas()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(_globals_first(given), prog_name="lakecore", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", _INTERRUPTED)
    except typer.Exit as err:
        return err.exit_code
    except _USAGE_ERROR as err:
        return _fail(f"{err.format_message()} (lakecore --help lists commands and options)")
    except LakeError as err:
        return _fail(str(err))
    except BrokenPipeError:
        # The reader of our output is done (`| head`): nothing is wrong, and nothing can be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as err:
        return _fail(f"{err.filename or 'output'}: {err.strerror or err}; make room, or write elsewhere")
    except MemoryError:
        return _fail("out of memory; read fewer columns, or a part with --where or --limit")
    except Exception as err:  # noqa: BLE001 - the border of the process
        return _unexpected(err)
    return code if isinstance(code, int) else 0


def _globals_first(arguments: Sequence[str]) -> list[str]:
    """Global options may stand anywhere before `--`: `lakecore tables --json`."""
    first: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            rest += [argument, *waiting]
        elif argument in _FLAGS or argument.startswith(tuple(f"{name}=" for name in _VALUED)):
            first.append(argument)
        elif argument in _VALUED:
            first += [argument, *_one(waiting)]
        else:
            rest.append(argument)
    return first + rest


def _one(waiting: Iterator[str]) -> list[str]:
    value = next(waiting, None)
    return [] if value is None else [value]


def _fail(message: str, code: int = _ERROR) -> int:
    typer.echo("error: " + " ".join(message.split()), err=True)
    return code


def _unexpected(err: Exception) -> int:
    if os.environ.get("LAKECORE_DEBUG"):
        traceback.print_exc()
    return _fail(f"unexpected {type(err).__name__}: {err} (LAKECORE_DEBUG=1 shows where; please report it)")
