"""This module has the job that looks at all tables of a lake."""

from __future__ import annotations

from typing import Annotated, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Parameter
from lakecore.jobs.definitions.table_job import TablePatterns

__all__ = ["SurveyTables"]


@dataclass(frozen=True, kw_only=True)
class SurveyTables(TablePatterns):
    """This is a request to look at the tables that match the patterns, and to store what was found."""

    command: ClassVar[str] = "survey"
    module: ClassVar[str] = "survey"

    history: Annotated[
        bool,
        Parameter("Also add up the bytes that only older snapshots need: two reads for each snapshot."),
    ] = False
    max_concurrent_tables: Annotated[int, Parameter("Examine so many tables concurrently.")] = 8
    dry_run: Annotated[bool, Parameter("Look at the tables, and store nothing.")] = False
