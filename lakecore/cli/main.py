"""This module is the entry point of the `lakecore` command. The exit code is 0 for success, 1 for an error
or a part that failed, 2 for findings, or for a table on hold.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from lakecore.cli.commands import register, similar_commands
from lakecore.cli.log_text import PrintableFormatter
from lakecore.cli.session import Session
from lakecore.cli.standard_streams import open_standard_streams
from lakecore.errors import LakeError, OnHoldError, explain, mask_secrets, printable
from lakecore.jobs.runner.origin import set_origin
from lakecore.types.pandas_probe import pandas_hidden

__all__ = ["main"]

_ERROR = 1
_ON_HOLD = 2
_INTERRUPTED = 130
_FLAGS = ("--json",)
_VALUED = ("--warehouse", "--catalog")
# Typer's own class or click's, by version; both call it so.
_USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"lakecore {importlib.metadata.version('lakecore')}")
        raise typer.Exit


def _globals(
    context: typer.Context,
    warehouse: Annotated[
        str | None,
        typer.Option(
            help="Use this warehouse, a directory or s3://bucket/path; by default the value of "
            "LAKECORE_WAREHOUSE."
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(help="Use this catalog of lakecore.toml; by default the value of LAKECORE_CATALOG."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Write a log to standard error.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version)] = False,
) -> None:
    """Read, write, compact and check Apache Paimon tables."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter())
    logging.basicConfig(level=logging.INFO if verbose else logging.CRITICAL, handlers=[handler])
    set_origin({"command": context.invoked_subcommand})
    context.obj = Session(warehouse, catalog, json)


def _app(arguments: Sequence[str]) -> typer.Typer:
    app = typer.Typer(
        name="lakecore",
        help="Read, write, compact and check Apache Paimon tables.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_globals)
    register(app, arguments)
    return app


@pandas_hidden()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are one line on standard error."""
    open_standard_streams()
    globals_, rest = _globals_apart(list(sys.argv[1:] if arguments is None else arguments))
    try:
        code = _app(rest)(globals_ + rest, prog_name="lakecore", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", _INTERRUPTED)
    except typer.Exit as err:
        return err.exit_code
    except _USAGE_ERROR as err:
        message = err.format_message()
        if names := similar_commands(rest):  # in place of those that the parser names
            message = f"{message.partition(' Did you mean')[0]} Did you mean {', '.join(names)}?"
        return _fail(f"{message} (lakecore --help lists commands and options)")
    except LakeError as err:
        return _fail(explain(err), _ON_HOLD if isinstance(err, OnHoldError) else _ERROR)
    except BrokenPipeError:
        # The reader of our output is done (`| head`): nothing is wrong, and nothing can be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as err:
        return _fail(
            f"{err.filename or 'output'}: {err.strerror or err}; free some space, or write elsewhere"
        )
    except MemoryError:
        return _fail("out of memory; read fewer columns, or a part with --where or --limit")
    except Exception as err:  # noqa: BLE001 - the border of the process
        return _report_unexpected(err)
    return code if isinstance(code, int) else 0


def _globals_apart(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the global options, which may stand anywhere before `--` (`lakecore tables --json`), and the
    other arguments.
    """
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
    return first, rest


def _one(waiting: Iterator[str]) -> list[str]:
    value = next(waiting, None)
    return [] if value is None else [value]


def _fail(message: str, code: int = _ERROR) -> int:
    typer.echo("error: " + printable(mask_secrets(" ".join(message.split()))), err=True)
    return code


def _report_unexpected(err: Exception) -> int:
    if os.environ.get("LAKECORE_DEBUG"):
        traceback.print_exc()
    return _fail(f"unexpected {type(err).__name__}: {err} (LAKECORE_DEBUG=1 shows where; please report it)")
