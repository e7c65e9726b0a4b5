"""Options that several commands share: a parameter of a command whose type is a group stands for its options.

A group is a frozen dataclass; its fields are options as typer knows them, with defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError
from lakecore.jobs.runner.limits import Limits
from lakecore.options import parse_size

__all__ = ["Concurrency", "RunName", "Window", "expanded"]

_COMMITS_BITS = 10


@dataclass(frozen=True)
class Concurrency:
    """The limits on how many tables are processed at once."""

    max_concurrent_tables: Annotated[
        int | None,
        typer.Option(min=1, help="How many tables are worked on at once: 8 are compacted, others 4."),
    ] = None
    max_plan_memory: Annotated[
        str, typer.Option(help="Memory for the plans of these tables, in this process.")
    ] = "512 mb"

    def limits(self, tables: int = Limits().tables) -> Limits:
        """Return the limits; `tables` is the default. Raises InvalidInputError for text that is no size."""
        try:
            most = parse_size(self.max_plan_memory)
            return Limits(tables=self.max_concurrent_tables or tables, plan_bytes=most)
        except ValueError as err:
            raise InvalidInputError(f"--max-plan-memory {self.max_plan_memory!r}: {err}") from err


@dataclass(frozen=True)
class RunName:
    """The commit identity of a run: a repeated run of the same name finds what it had committed."""

    commit_user: Annotated[
        str | None, typer.Option(help="Names the run, with --commit-identifier; repeated, it commits once.")
    ] = None
    commit_identifier: Annotated[
        int | None,
        typer.Option(min=0, max=(1 << 43) - 1, help="Number of the run among those of --commit-user."),
    ] = None

    @property
    def user(self) -> str:
        """Return the commit user; empty means a fresh one. Raises InvalidInputError when only half of the
        name is given.
        """
        if (self.commit_user is None) != (self.commit_identifier is None):
            raise InvalidInputError("a run is named by both: --commit-user and --commit-identifier")
        return self.commit_user or ""

    @property
    def user_or_fresh(self) -> str:
        """Return a fresh user if none was given, so that files of a killed attempt can be attributed."""
        return self.user or f"lakecore-cli-{SystemClock().fresh_id()}"

    @property
    def identifier(self) -> int:
        """Return the identifier of the run's first commit. Runs are numbered one by one, and a long run
        numbers its commits.
        """
        return 1 if self.commit_identifier is None else self.commit_identifier << _COMMITS_BITS


@dataclass(frozen=True)
class Window:
    """When a run ends."""

    until: Annotated[
        str | None,
        typer.Option(
            help="Stop then (HH:MM or ISO date and time, UTC), commit what is proven, report the rest."
        ),
    ] = None

    @property
    def until_ms(self) -> int | None:
        """Return milliseconds since the epoch; None: no end. Raises InvalidInputError."""
        if self.until is None:
            return None
        from lakecore.jobs.runner.until import parse_until  # pendulum takes a tenth of a second to import

        return parse_until(self.until, SystemClock().now_ms())


def expanded(function: Callable[..., None]) -> Callable[..., None]:
    """Return `function` with the options of its groups one by one, as typer expects them."""
    signature = inspect.signature(function, eval_str=True)
    groups = {one.name: one.annotation for one in signature.parameters.values() if _is_group(one.annotation)}
    if not groups:
        return function

    def command(**given: Any) -> None:
        whole = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group)})
            for name, group in groups.items()
        }
        function(**given, **whole)

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
    return isinstance(kind, type) and is_dataclass(kind)


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(one.name, kind, default=one.default, annotation=hints[one.name])
        for one in fields(group)
    ]
