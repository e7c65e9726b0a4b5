"""Holds on damage: a command that reads or writes a damaged table puts the table on hold, as chores do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lakecore.cli.session import Session
from lakecore.errors import CorruptDataError, ProofError

__all__ = ["damaged_table", "holding"]


def holding(name: str, function: Callable[..., None]) -> Callable[..., None]:
    """Return `function`, the command `name`, such that damage puts the table on hold; the error is raised all
    the same, with a note that says what happened.

    Who has no right to write into the warehouse gets a note, too: the table could not be put on hold.
    """

    @functools.wraps(function)
    def command(*arguments: Any, **positional: Any) -> None:
        try:
            function(*arguments, **positional)
        except (CorruptDataError, ProofError) as err:
            context = positional.get("context", arguments[0] if arguments else None)
            _hold(err, getattr(context, "obj", None), positional.get("table"), name)
            raise

    return command


def damaged_table(path: str, warehouse: str) -> str | None:
    """Return the table of the warehouse whose directory contains the file; None for a file elsewhere."""
    root = f"{warehouse.rstrip('/')}/"
    database, _, rest = path.removeprefix(root).partition("/")
    table, slash, _ = rest.partition("/")
    if not path.startswith(root) or not database.endswith(".db") or not slash or database == ".db":
        return None
    return f"{database.removesuffix('.db')}.{table}"


def _hold(error: CorruptDataError | ProofError, session: Any, table: Any, name: str) -> None:
    from lakecore.clock import SystemClock  # help needs none of these
    from lakecore.maintain.holds.place import place_hold_for
    from lakecore.maintain.holds.store import HoldStore
    from lakecore.maintain.table_key import table_key

    if not isinstance(session, Session):
        return
    lake = session.catalog
    damage = damaged_table(error.path, lake.warehouse) if isinstance(error, CorruptDataError) else None
    if damage is None and isinstance(table, str):
        damage = table_key(table)
    if damage is not None:
        place_hold_for(error, HoldStore(lake.file_io, lake.warehouse, SystemClock()), damage, name, "")
