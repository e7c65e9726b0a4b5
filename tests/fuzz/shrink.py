"""A failing history made smaller: what can go without changing the kind of failure goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.fuzz.failures import Failed, TwinBrokenError
from tests.fuzz.history import LAKE, OLD, History
from tests.fuzz.play import play
from tests.fuzz.ways import IN_PROCESS, Way
from tests.support.oracle import Oracle

__all__ = ["shrink"]

_MOST_TRIES = 60


def shrink(
    history: History,
    err: Failed,
    oracles: Mapping[str, Oracle],
    most: int = _MOST_TRIES,
    way: Way = IN_PROCESS,
) -> tuple[History, Failed]:
    """The smallest history found with at most so many plays, and its failure."""
    tries = 0
    again = True
    if 0 <= err.step < len(history.steps) - 1:  # what comes after the failing step has no part in it
        history = replace(history, steps=history.steps[: err.step + 1])
    while again:
        again = False
        for smaller in _smaller(history):
            tries += 1
            if tries > most:
                return history, err
            found = _fails(smaller, oracles, way)
            if found is not None and found.kind == err.kind:
                history, err, again = smaller, found, True
                break
    return history, err


def _fails(history: History, oracles: Mapping[str, Oracle], way: Way) -> Failed | None:
    try:
        play(history, oracles, way)
    except Failed as err:
        return err
    except TwinBrokenError:
        return None
    return None


def _smaller(history: History) -> Iterator[History]:
    """Without some steps, an option or rows; with Java in place of lakecore."""
    steps = history.steps
    size = len(steps) // 2
    while size > 1:  # long histories lose large parts first
        for start in reversed(range(0, len(steps), size)):
            yield replace(history, steps=steps[:start] + steps[start + size :])
        size //= 2
    for number in reversed(range(len(steps))):
        yield replace(history, steps=steps[:number] + steps[number + 1 :])
    options: Mapping[str, Any] = history.table["options"]
    for key in options:
        if key not in ("bucket", "bucket-key"):
            rest = {name: value for name, value in options.items() if name != key}
            yield replace(history, table={**history.table, "options": rest})
    for number, step in enumerate(steps):
        if step.by not in (LAKE, OLD):
            yield _with(history, number, replace(step, by=OLD))
        if step.by == LAKE:
            yield _with(history, number, replace(step, by=OLD))
        half = len(step.rows) // 2
        for rows in (step.rows[:half], step.rows[half:]):
            if half:
                yield _with(history, number, replace(step, rows=rows))
    yield from _fewer_columns(history)


def _with(history: History, number: int, step: Any) -> History:
    return replace(history, steps=(*history.steps[:number], step, *history.steps[number + 1 :]))


def _fewer_columns(history: History) -> Iterator[History]:
    table = history.table
    bound = {*table["primaryKeys"], *table["partitionKeys"], "k"}
    for column in table["columns"]:
        name = column["name"]
        if name in bound or any(name in f"{key} {value}" for key, value in table["options"].items()):
            continue
        if any(name in str(step.change) for step in history.steps if step.change):
            continue
        columns = [other for other in table["columns"] if other["name"] != name]
        if len(columns) > 1:
            steps = tuple(
                replace(step, rows=tuple({k: v for k, v in row.items() if k != name} for row in step.rows))
                for step in history.steps
            )
            yield replace(history, table={**table, "columns": columns}, steps=steps)
