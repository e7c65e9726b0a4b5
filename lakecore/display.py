"""This module formats values as one line for a session and as a small table for a notebook. It is pure.

Names of tables, files and users come from records that others wrote. So control characters are shown as text,
markup is escaped, values that are secrets are masked, and long texts are cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from html import escape
from typing import Any

from lakecore.errors import mask_secrets, printable

__all__ = ["facts_of", "html_table", "one_line", "size_text"]

_UNITS = ("B", "KB", "MB", "GB", "TB")

_MOST = 200
"""Characters of one value."""


def one_line(kind: str, name: object, facts: Mapping[str, object]) -> str:
    """Return `<Kind name: fact value, fact value>`; facts that are None or empty are left out. Of a
    collection its length is shown.
    """
    text = ", ".join(f"{key} {_line_text(value)}" for key, value in facts.items() if not _is_empty(value))
    return f"<{kind} {_clean(name)}{': ' if text else ''}{text}>"


def html_table(kind: str, name: object, facts: Mapping[str, object]) -> str:
    """Return an HTML table of the facts, a row each; facts that are None or empty are left out. All text is
    escaped.
    """
    rows = "".join(
        f"<tr><th>{_markup(key)}</th><td>{_markup(_cell_text(value))}</td></tr>"
        for key, value in facts.items()
        if not _is_empty(value)
    )
    return f"<table><caption>{_markup(f'{kind} {_clean(name)}')}</caption><tbody>{rows}</tbody></table>"


def facts_of(record: Any, *, without: tuple[str, ...] = ()) -> dict[str, object]:
    """Return the fields of a dataclass whose values differ from their defaults, in order, by readable name.

    Fields that are dataclasses themselves are left out.
    """
    values = ((one, getattr(record, one.name)) for one in fields(record) if one.name not in without)
    return {
        one.name.replace("_", " "): value
        for one, value in values
        if not is_dataclass(value) and value != _default(one)
    }


def _default(one: Field[Any]) -> object:
    return one.default if one.default is not MISSING else None


def _is_empty(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, (tuple, list, Mapping)) and not value)


def _line_text(value: object) -> str:
    return str(len(value)) if isinstance(value, (tuple, list, Mapping)) else _clean(value)


def _cell_text(value: object) -> str:
    if isinstance(value, (tuple, list, Mapping)):
        return f"{len(value)}: {_clean(', '.join(map(str, value)))}"
    return _clean(value)


def _clean(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value.value if isinstance(value, Enum) else value)
    return printable(mask_secrets(text), _MOST)


def _markup(text: str) -> str:
    return escape(text, quote=True)


def size_text(size: int | None) -> str | None:
    """Format a size as `12.3 MB` (powers of 1024)."""
    if size is None:
        return None
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
