"""Options that several commands share: a parameter of a command whose type is a group stands for its
options.

A group is a frozen dataclass; its fields are options as typer knows them, with defaults.
`JobOptions[SomeJob]` is a group, too: its options are the parameters of the job.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from lakecore.cli.job_options import JobOptions, job_options_of, options_of_job
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.jobs.runner.limits import Limits
from lakecore.options import parse_size

__all__ = ["Concurrency", "command_of"]


@dataclass(frozen=True)
class Concurrency:
    """These are the limits on how many tables are processed at once."""

    max_concurrent_tables: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Work on so many tables concurrently; by default 8 are compacted, and other jobs take 4.",
        ),
    ] = None
    max_plan_memory: Annotated[
        str, typer.Option(help="Reserve so much memory for the plans of these tables, in this process.")
    ] = "512 mb"

    def limits(self, tables: int = Limits().tables) -> Limits:
        """Return the limits; `tables` is the default. Raises InvalidInputError for text that is no size."""
        try:
            most = parse_size(self.max_plan_memory)
            return Limits(tables=self.max_concurrent_tables or tables, plan_bytes=most)
        except ValueError as err:
            raise InvalidInputError(f"--max-plan-memory {self.max_plan_memory!r}: {err}") from err


def command_of(
    function: Callable[..., None], prepare: Callable[[dict[str, Any]], None]
) -> Callable[..., None]:
    """Return the command that typer calls: the options of groups one by one, and `prepare`, which may change
    the arguments, before `function`.
    """
    signature = inspect.signature(function, eval_str=True)
    groups = {one.name: one.annotation for one in signature.parameters.values() if _is_group(one.annotation)}

    def command(**arguments: Any) -> None:
        prepare(arguments)
        whole = {name: _group_of(group, arguments) for name, group in groups.items()}
        function(**arguments, **whole)

    parameters = [
        option
        for one in signature.parameters.values()
        for option in (_options(groups[one.name]) if one.name in groups else [one])
    ]
    loose = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    command.__doc__ = function.__doc__
    setattr(command, "__signature__", signature.replace(parameters=loose))  # noqa: B010 - mypy knows none
    command.__annotations__ = {}
    return command


def _is_group(kind: Any) -> bool:
    return get_origin(kind) is JobOptions or (isinstance(kind, type) and is_dataclass(kind))


def _group_of(group: Any, arguments: dict[str, Any]) -> Any:
    """Take the options of a group out of the arguments and return the group."""
    if get_origin(group) is JobOptions:
        return job_options_of(get_args(group)[0], arguments)
    return group(**{one.name: arguments.pop(one.name) for one in fields(group)})


def _options(group: Any) -> Iterable[inspect.Parameter]:
    if get_origin(group) is JobOptions:
        return options_of_job(get_args(group)[0])
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(one.name, kind, default=one.default, annotation=hints[one.name])
        for one in fields(group)
    ]
