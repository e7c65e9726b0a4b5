"""This module writes the output of commands: a table for users or one JSON document for programs, from the
same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakecore.cli.session import Session
from lakecore.types.text import timestamp_text

__all__ = ["end_on_errors", "print_json", "print_rows", "printable", "size_text", "table_of", "time_text"]


class Answer(Protocol):
    """This is the report that a command makes of one table."""

    @property
    def table(self) -> str: ...

    @property
    def error(self) -> str | None: ...


_UNITS = ("B", "KB", "MB", "GB", "TB")


def print_json(console: Console, value: Any) -> None:
    """Print one JSON document, on as many lines as are readable."""
    console.file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_rows(session: Session, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print a list of objects (`--json`), or a table with `columns`."""
    if session.json:
        print_json(session.out, list(rows))
        return
    session.out.print(table_of(columns, ([row.get(name) for name in columns] for row in rows)))


def end_on_errors(session: Session, answers: Iterable[Answer]) -> None:
    """End with exit code 1 when a table failed. If JSON goes to standard output, the first error also goes to
    standard error, on one line, so that the log of a failed run says why.
    """
    failed = [answer for answer in answers if answer.error is not None]
    if not failed:
        return
    if session.json:
        first = failed[0]
        rest = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        session.note(f"error: {first.table}: {printable(' '.join((first.error or '').split()))}{rest}")
    raise typer.Exit(1)


def table_of(columns: Sequence[str], rows: Any, whole: int = 0) -> Table:
    """Build a plain table with numbers aligned to the right and null as empty. The first `whole` columns are
    never folded.
    """
    cells = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for i, name in enumerate(columns):
        numeric = any(isinstance(row[i], int | float) and not isinstance(row[i], bool) for row in cells)
        table.add_column(
            Text(printable(name)), justify="right" if numeric else "left", overflow="fold", no_wrap=i < whole
        )
    for row in cells:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def printable(value: Any) -> str:
    """Return text that cannot move the cursor or change colours: control characters are escaped."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def size_text(size: int | None) -> str | None:
    """Format a size as `12.3 MB` (powers of 1024)."""
    if size is None:
        return None
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def time_text(millis: int | None) -> str | None:
    """Format milliseconds since the epoch as `2026-11-21 09:46:10.874Z`."""
    return None if millis is None else timestamp_text(millis * 1_000_000, 3) + "Z"
