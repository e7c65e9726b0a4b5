"""This module keeps the state that every command shares: the global options, the catalog they name, and
where messages go.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, mask_secrets, printable

if TYPE_CHECKING:
    from lakecore.catalog.catalog import Catalog
    from lakecore.catalog.config import CatalogConfig

__all__ = ["Session", "session_of"]

_PIPE_WIDTH = 10_000


@dataclass(frozen=True)
class Session:
    """These are the global options of one run of the command line, which all commands receive."""

    warehouse: str | None
    catalog_name: str | None
    json: bool

    @cached_property
    def catalog(self) -> Catalog:
        """Open the catalog at first use. It raises the errors of `load_catalog`."""
        return self._open(create=False)

    def catalog_for_create(self) -> Catalog:
        """Open the catalog; a warehouse that does not exist yet is created with its first table."""
        return self._open(create=True)

    def config(self) -> CatalogConfig:
        """Return location and options of the catalog, which is not opened, as `resolve` does."""
        from lakecore.catalog.config import resolve  # help needs no tables

        return resolve(self._name(), os.environ)

    def _open(self, *, create: bool) -> Catalog:
        from lakecore.catalog.registry import load_catalog  # help needs no tables

        return load_catalog(self._name(), create_warehouse=create)

    def _name(self) -> str | None:
        """Return the catalog that the global options name: a location, a configured name, or None."""
        if self.warehouse is not None and self.catalog_name is not None:
            raise InvalidInputError("--warehouse and --catalog exclude each other; give one")
        if self.warehouse is not None and not self.warehouse.strip():
            raise InvalidInputError("--warehouse is empty; give a directory or s3://bucket/path")
        if self.catalog_name is not None and any(mark in self.catalog_name for mark in "/\\:"):
            raise InvalidInputError(f"--catalog {self.catalog_name!r} is a location; use --warehouse for it")
        if self.warehouse is not None and not any(mark in self.warehouse for mark in "/\\:"):
            # A bare word would be taken for the name of a catalog.
            return f"./{self.warehouse}"
        return self.warehouse or self.catalog_name

    @cached_property
    def out(self) -> Console:
        """Return standard output. Lines are not folded when it is no terminal."""
        return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)

    @cached_property
    def err(self) -> Console:
        """Return standard error, for progress and notes."""
        return Console(file=sys.stderr, highlight=False, soft_wrap=True)

    @contextmanager
    def counting(self, what: str) -> Iterator[Callable[[int], None]]:
        """Show a live count of rows on standard error; nothing is shown unless that is a terminal.

        It gives the function to call with the number of further rows.
        """
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}: {task.completed:,.0f} rows"),
            TimeElapsedColumn(),
        )
        hidden = not self.err.is_terminal
        with Progress(*columns, console=self.err, transient=True, disable=hidden) as bars:
            task = bars.add_task(what, total=None)
            yield lambda rows: bars.advance(task, rows)

    def warn(self, table: str, warnings: Sequence[str]) -> None:
        """Print what is wrong with a table, although nothing failed, on standard error."""
        for warning in warnings:
            self.note(f"warning: {table}: {warning}")

    def note(self, text: str) -> None:
        """Print one line for users, beside the output."""
        self.err.print(printable(mask_secrets(text)), markup=False)


def session_of(context: typer.Context) -> Session:
    """Return the session that `main` put into the context."""
    session = context.obj
    if not isinstance(session, Session):
        raise TypeError(f"context without session: {session!r}")
    return session
