"""This module has the options that name a run: `--commit-user` and `--commit-identifier`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer

from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["RunName"]

_COMMITS_BITS = 10


@dataclass(frozen=True)
class RunName:
    """The commit identity of a run: a repeated run of the same name finds what it had committed."""

    commit_user: Annotated[
        str | None, typer.Option(help="Name the run, with --commit-identifier; a repetition commits nothing.")
    ] = None
    commit_identifier: Annotated[
        int | None,
        typer.Option(
            min=0, max=(1 << 43) - 1, help="Use this number for the run; it is unique for --commit-user."
        ),
    ] = None

    @classmethod
    def options(cls) -> Iterator[inspect.Parameter]:
        """Return the options as typer knows them."""
        hints = get_type_hints(cls, include_extras=True)
        for one in fields(cls):
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(one.name, kind, default=one.default, annotation=hints[one.name])

    @classmethod
    def taken_from(cls, arguments: dict[str, Any]) -> RunName:
        """Take the options out of the arguments of a command."""
        return cls(**{one.name: arguments.pop(one.name) for one in fields(cls)})

    @property
    def user(self) -> str:
        """Return the commit user; empty means a fresh one. Raises InvalidInputError when only half of the
        name is given.
        """
        if (self.commit_user is None) != (self.commit_identifier is None):
            raise InvalidInputError("give both --commit-user and --commit-identifier, or neither")
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
