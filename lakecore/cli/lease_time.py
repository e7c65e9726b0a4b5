"""This module defines the options `--lease` and `--wait`: how long the lease of a killed process lasts, and
how long to wait for a lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from lakecore.jobs.runner.moment import parse_span

__all__ = ["LeaseTimes"]


@dataclass(frozen=True)
class LeaseTimes:
    """The options of every command that takes a table's lease."""

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
        """Return the length of the lease in milliseconds. Raises InvalidInputError for text that is no
        duration.
        """
        return parse_span(self.lease, "--lease")

    @property
    def wait_ms(self) -> int:
        """Return the time to wait in milliseconds. Raises InvalidInputError for text that is no duration."""
        return parse_span(self.wait, "--wait")
