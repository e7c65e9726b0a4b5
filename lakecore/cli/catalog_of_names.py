"""This module lets commands work on the catalog with which the names of their tables begin."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lakecore.cli.session import Session
from lakecore.errors import InvalidInputError

__all__ = ["choose_catalog"]

_TABLES = ("table", "tables", "new_name", "function", "view")
_DATABASES = ("database", "target")


def choose_catalog(arguments: dict[str, Any]) -> None:
    """Let the names in the arguments of a command choose its catalog, and remove the catalog from them.

    Names do not change if --warehouse is specified. Raises InvalidInputError for names of two catalogs, and
    for another one than --catalog names.
    """
    context = arguments.get("context")
    session = getattr(context, "obj", None)
    if isinstance(session, Session) and session.warehouse is None:
        names = _names(arguments)
        if any(_may_change(name, is_database) for _, name, is_database in names):
            catalog = _rewritten(arguments, names, session)
            setattr(context, "obj", replace(session, catalog_name=catalog))  # noqa: B010 - typer's own object


def _names(arguments: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Return parameter, text and whether it is a database, of each name in the arguments."""
    names = []
    for parameter in (*_TABLES, *_DATABASES):
        value = arguments.get(parameter)
        texts = value if isinstance(value, list) else [value]
        names += [(parameter, text, parameter in _DATABASES) for text in texts if isinstance(text, str)]
    return names


def _may_change(name: str, is_database: bool) -> bool:
    dots = name.partition("$")[0].count(".")
    if is_database or "*" in name:
        return dots > (0 if is_database else 1)
    return bool(name) and dots != 1


def _rewritten(arguments: dict[str, Any], names: list[tuple[str, str, bool]], session: Session) -> str | None:
    """Put names without catalog into the arguments; return the catalog that all of them name."""
    from lakecore.catalog.config import default_database, read_config
    from lakecore.catalog.configured.catalog_names import qualified  # help needs no tables

    config = read_config(os.environ)
    parsed = [(parameter, qualified(text, config, database=base), base) for parameter, text, base in names]
    catalogs = {one.catalog for _, one, _ in parsed}
    catalog_names = catalogs - {None}
    if session.catalog_name is not None:
        catalog_names.add(session.catalog_name)
    elif None in catalogs and catalog_names:
        catalog_names.add("the default catalog")
    if len(catalog_names) > 1:
        raise InvalidInputError(
            f"the names belong to several catalogs ({', '.join(sorted(map(str, catalog_names)))}); "
            "a command works on one"
        )
    catalog = next(iter(catalog_names), None)
    for parameter in {one for one, _, _ in parsed}:
        texts = [
            one.rest if base else _with_database(one.rest, lambda: default_database(catalog, os.environ))
            for name, one, base in parsed
            if name == parameter
        ]
        arguments[parameter] = texts if isinstance(arguments[parameter], list) else texts[0]
    return catalog


def _with_database(name: str, default: Callable[[], str | None]) -> str:
    if "." in name.partition("$")[0] or "*" in name or not name:
        return name
    database = default()
    return f"{database}.{name}" if database else name
