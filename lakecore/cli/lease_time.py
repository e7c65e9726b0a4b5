"""`--lease`: how long a table's lease outlives a killed process."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["LeaseTime"]

LeaseTime = Annotated[
    str, typer.Option("--lease", help="How long the table's lease outlives this process; 0: take none.")
]
