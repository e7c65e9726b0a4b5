"""A chore or a change: what it does, and what it does to the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakecore.catalog.catalog import Catalog
from tests.fuzz.changes_beneath.place import Place
from tests.fuzz.changes_beneath.shapes import TABLE, Moment, Rows

__all__ = ["Act", "RowsAfter", "Step", "job", "same", "to_middle", "to_nothing"]

Act = Callable[[Place, Catalog, Moment], None]
RowsAfter = Callable[[Rows, Moment], Rows]
Judgement = Callable[[Place, Moment, list[Counter[str]]], list[str]]


def same(rows: Rows, moment: Moment) -> Rows:
    return rows


def to_middle(rows: Rows, moment: Moment) -> Rows:
    return moment.history[moment.middle]


def to_nothing(rows: Rows, moment: Moment) -> Rows:
    return {}


def _nothing(place: Place, catalog: Catalog, moment: Moment) -> None:
    return


def _no_problem(place: Place, moment: Moment, allowed: list[Counter[str]]) -> list[str]:
    return []


@dataclass(frozen=True)
class Step:
    """`act` is given a catalog; that of a chore has the storage that knows when the change is due."""

    name: str
    act: Act
    rows: RowsAfter = same
    skip: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    prepare: Act = _nothing
    """It is called before all else in a case, and may set the base."""
    judge: Judgement = _no_problem
    """It returns what else is wrong after the chore succeeded; it gets the rows that the table may have."""

    appends: bool = False
    """Each time it is done it appends its rows to a table without a primary key."""
    writes: bool = False
    """It writes data files before it commits them."""
    beneath_writers: bool = True
    """False for a change that deletes the files of writers which have not committed, also of those of Java."""
    several: bool = False
    """It publishes more than once, so that an error may come after the rows have changed."""
    killed: bool = True
    """False for a stream: its reader would go on from where it was at its last checkpoint, which is none here."""
    in_stream: bool = True
    """Streams of the table have its changes; those of the format leave out overwrites and dropped partitions."""

    def fits(self, shape: str) -> bool:
        """Return whether there are such tables for it."""
        return shape not in self.skip and (not self.only or shape in self.only)


def job(module: Any, kind: Any, **fields: Any) -> Act:
    """A job of lakecore; a field that is a function is asked for the moment. `clock` is that of the run."""

    def act(place: Place, catalog: Catalog, moment: Moment) -> None:
        values = {name: value(moment) if callable(value) else value for name, value in fields.items()}
        clock = values.pop("clock", None)
        module.run(kind(**{"table": TABLE} | values), catalog, clock=clock or catalog.clock)

    return act
