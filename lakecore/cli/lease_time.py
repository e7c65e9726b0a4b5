"""`--lease` and `--wait`: how long the lease of a killed process lasts, how long to wait for another's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from lakecore.jobs.runner.moment import parse_span

__all__ = ["LeaseTimes"]


@dataclass(frozen=True)
class LeaseTimes:
    """Of every command that takes a table's lease."""

    lease: Annotated[
        str,
        typer.Option(
            help="How long the table's lease outlives this process, where nobody can see that it has ended; "
            "0: take none."
        ),
    ] = "60 s"
    wait: Annotated[
        str, typer.Option(help="How long to wait for a table that another chore holds: '10 min'.")
    ] = "0 s"

    @property
    def lease_ms(self) -> int:
        """Raises InvalidInputError for what is no time."""
        return parse_span(self.lease, "--lease")

    @property
    def wait_ms(self) -> int:
        """Raises InvalidInputError for what is no time."""
        return parse_span(self.wait, "--wait")
