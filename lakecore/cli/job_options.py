"""This module derives the options of a command that follow from the parameters of its job
(`lakecore/jobs/definitions/parameter.py`).

A command has a parameter of type `JobOptions[ExpireSnapshots]`; `lakecore.cli.option_groups` puts the
options of the job in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, Generic, TypeVar

import typer

from lakecore.cli.run_name import RunName
from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import DeclaredParameter, Kind, declared
from lakecore.jobs.definitions.table_job import Definition, Safety, TableJob
from lakecore.jobs.definitions.values import parse_value

__all__ = ["JobOptions", "job_options_of", "options_of_job"]

J = TypeVar("J", bound=Definition)

_TEXTS = (Kind.NAMES, Kind.MOMENT, Kind.DURATION, Kind.END, Kind.SIZE, Kind.VALUE)
_QUARANTINE = ("quarantine", "quarantine_ttl_ms", "quarantine_cap")


@dataclass(frozen=True)
class JobOptions(Generic[J]):
    """These are the parameters of a job, as a command received them."""

    kind: type[J]
    values: Mapping[str, Any]
    """These are the values of the job's fields by name, without those that nobody gave."""

    def job(self, **rest: Any) -> J:
        """Return the job; `rest` has the fields that are no options."""
        return self.kind(**self.values, **rest)

    def jobs(self, tables: Iterable[str], **rest: Any) -> list[J]:
        """Return the job of each table."""
        return [self.job(table=table, **rest) for table in tables]


def options_of_job(kind: type[Definition]) -> Iterator[inspect.Parameter]:
    """Return the options of a job as typer knows them."""
    for one in _parameters_of(kind):
        option = typer.Option(_default(one), *one.flags, help=one.parameter.help)
        yield inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=_type(one)
        )
    if _names_run(kind):
        yield from RunName.options()


def job_options_of(kind: type[J], arguments: dict[str, Any]) -> JobOptions[J]:
    """Take the options of a job out of the arguments, and parse them. Raises InvalidInputError."""
    now_ms = SystemClock().now_ms()
    values = {
        one.field: parse_value(one, value, one.flags[0].split("/")[0], now_ms)
        for one in _parameters_of(kind)
        if (value := arguments.pop(one.name)) is not None and not _is_empty(one, value)
    }
    if _is_leased(kind):
        settings = {one.field for one in _safety(kind)}
        safety = {name: values.pop(name) for name in settings if name in values}
        if not _removes(kind):
            safety["quarantine_cap"] = None
        values["safety"] = Safety(**safety)
    if _names_run(kind):
        run = RunName.taken_from(arguments)
        user = run.user_or_fresh if kind.names_user else run.user
        values |= {"commit_user": user, "commit_identifier": run.identifier}
    return JobOptions(kind, values)


def _parameters_of(kind: type) -> list[DeclaredParameter]:
    own = [one for one in declared(kind) if one.parameter.on_command]
    return own + (_safety(kind) if _is_leased(kind) else [])


def _safety(kind: type) -> list[DeclaredParameter]:
    return [one for one in declared(Safety) if _removes(kind) or one.field not in _QUARANTINE]


def _removes(kind: type) -> bool:
    return issubclass(kind, TableJob) and kind.removes


def _is_leased(kind: type) -> bool:
    return issubclass(kind, TableJob) and kind.leased


def _names_run(kind: type[Definition]) -> bool:
    return kind.names_run and any(field.name == "commit_user" for field in fields(kind))


def _type(one: DeclaredParameter) -> Any:
    """Return the type that typer parses."""
    if one.kind is Kind.OPTIONS:
        return list[str] | None
    if one.kind in _TEXTS:
        return str if one.user_default is MISSING or one.user_default is not None else str | None
    if one.kind is Kind.CHOICE:
        return one.choices
    return bool if one.kind is Kind.NO_FLAG else one.type


def _default(one: DeclaredParameter) -> Any:
    default = one.user_default
    if default is MISSING:
        return ...
    return one.choices(default) if one.choices is not None else default


def _is_empty(one: DeclaredParameter, value: Any) -> bool:
    """Return whether nothing was given: no pair, or an empty text for what has no default."""
    return value == [] or (value == "" and one.kind in _TEXTS and one.user_default is None)
