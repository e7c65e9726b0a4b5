"""This module has the job that replays maintenance with other options on the history of a table."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, ClassVar

from lakecore.compact.engine.strategy import Strategy
from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import Definition, TableOptions

__all__ = ["REPLAYED_CHORES", "WhatIf"]

REPLAYED_CHORES = ("expire-snapshots", "expire-partitions", "compact")
"""These chores can be replayed."""


@dataclass(frozen=True, kw_only=True)
class WhatIf(Definition):
    """This is a question about the history of a table that is still there. The answer says what other options
    would have cost and saved; nothing is changed.
    """

    command: ClassVar[str] = "what-if"
    module: ClassVar[str] = "what_if"

    table: str
    options: TableOptions = field(default_factory=dict)
    """These options are compared with those of the table."""
    policy: Annotated[
        Any,
        Parameter(
            "Take the options of the chores from this policy: a list of rules as JSON, as maintenance by "
            "policy has it.",
            Kind.VALUE,
        ),
    ] = None
    """It is a list of rules, or its text as JSON; `options` come before it."""
    chores: Annotated[
        tuple[str, ...],
        Parameter(
            "Replay only these chores, of expire-snapshots, expire-partitions and compact; by default the "
            "replay takes those that the options concern."
        ),
    ] = ()
    strategy: Annotated[Strategy | None, Parameter("Compact with this strategy; by default `universal`.")] = (
        None
    )
    every_ms: Annotated[
        int | None,
        Parameter(
            "Run so often, at multiples of this time since midnight: '1 d'. By default maintenance runs "
            "after each commit, as a writer runs it.",
            Kind.DURATION,
        ),
    ] = None
    zone: Annotated[
        str,
        Parameter("Partitions were written by the clock of this time zone.", flags=("--time-zone",)),
    ] = "UTC"
    """Partition values and file times were written by the clock of this time zone."""
