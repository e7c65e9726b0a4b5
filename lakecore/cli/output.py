"""This module writes the output of commands: a table for users or one JSON document for programs, from the
same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Protocol

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakecore.cli.session import Session
from lakecore.display import size_text
from lakecore.types.text import timestamp_text

__all__ = ["end_on_errors", "print_json", "print_rows", "printable", "size_text", "table_of", "time_text"]


class Answer(Protocol):
    """This is the report that a command makes of one table."""

    @property
    def table(self) -> str: ...

    @property
    def error(self) -> str | None: ...


_MANY_ROWS = 1000
"""The rows from which a table is written line by line: one that fits a terminal takes almost 1 ms a row."""


def print_json(console: Console, value: Any) -> None:
    """Print one JSON document, on as many lines as are readable."""
    console.file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_rows(session: Session, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print a list of objects (`--json`), or a table with `columns`. Of many rows it holds the first ones
    only, and writes a line for each.
    """
    rest = iter(rows)
    first = list(islice(rest, _MANY_ROWS + 1))
    if len(first) > _MANY_ROWS:
        lines = _json_lines(first, rest) if session.json else _plain_lines(columns, first, rest)
        session.out.file.writelines(f"{line}\n" for line in lines)
    elif session.json:
        print_json(session.out, first)
    else:
        session.out.print(table_of(columns, ([row.get(name) for name in columns] for row in first)))


def _json_lines(first: Iterable[Mapping[str, Any]], rest: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a list of objects, each on a line."""
    start = "["
    for row in chain(first, rest):
        yield start
        start = json.dumps(row, ensure_ascii=False) + ","
    yield start.removesuffix(",")
    yield "]"


def _plain_lines(
    columns: Sequence[str], first: Sequence[Mapping[str, Any]], rest: Iterable[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Yield a table line by line, some 10 us a row: nothing is folded, numbers are aligned to the right. The
    `first` rows set the widths; later values may be longer.
    """
    cells = [[row.get(name) for name in columns] for row in first]
    texts = [[printable(cell) for cell in row] for row in (columns, *cells)]
    widths = [max(map(_width, column)) for column in zip(*texts, strict=True)]
    right = [any(_is_number(cell) for cell in column) for column in zip(*cells, strict=True)]
    yield _line(texts[0], widths, right)
    yield " " + "  ".join("-" * width for width in widths)
    for text in texts[1:]:
        yield _line(text, widths, right)
    for row in rest:
        yield _line([printable(row.get(name)) for name in columns], widths, right)


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    line = _template(tuple(widths), tuple(right)) % tuple(texts)
    if line.isascii():
        return line.rstrip()
    cells = []
    for text, width, numeric in zip(texts, widths, right, strict=True):
        places = width if text.isascii() else width - cell_len(text) + len(text)
        cells.append(text.rjust(places) if numeric else text.ljust(places))
    return f" {'  '.join(cells)}".rstrip()


@lru_cache(maxsize=4)
def _template(widths: tuple[int, ...], right: tuple[bool, ...]) -> str:
    """Return the format of a line whose characters take one place each."""
    ends = zip(widths, right, strict=True)
    return " " + "  ".join(f"%{'' if numeric else '-'}{width}s" for width, numeric in ends)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _width(text: str) -> int:
    """Return how many places of a terminal a text takes."""
    return len(text) if text.isascii() else cell_len(text)


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
        numeric = any(_is_number(row[i]) for row in cells)
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
    if type(value) is int:
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def time_text(millis: int | None) -> str | None:
    """Format milliseconds since the epoch as `2026-11-21 09:46:10.874Z`."""
    return None if millis is None else timestamp_text(millis * 1_000_000, 3) + "Z"
