"""This module has jobs on functions and views, which are Paimon's procedures of these names."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import Definition

__all__ = ["AlterFunction", "AlterViewDialect", "CreateFunction", "DialectAction", "DropFunction"]


class DialectAction(Enum):
    """This enum says what happens to the dialect of a view."""

    ADD = "add"
    UPDATE = "update"
    DROP = "drop"


@dataclass(frozen=True, kw_only=True)
class _FunctionJob(Definition):
    """This is a request about a function."""

    names_run: ClassVar[bool] = False

    function: Annotated[str, Parameter("Name the function: db.function.", on_command=False)]


@dataclass(frozen=True, kw_only=True)
class CreateFunction(_FunctionJob):
    """Create a function."""

    command: ClassVar[str] = "create-function"
    module: ClassVar[str] = "objects.functions"

    function_definition: Annotated[
        Mapping[str, Any] | str,
        Parameter(
            "Give the function in JSON, as docs/catalogs.md shows it.",
            Kind.VALUE,
        ),
    ] = "{}"
    if_not_exists: Annotated[bool, Parameter("Do nothing if the function exists.")] = False


@dataclass(frozen=True, kw_only=True)
class AlterFunction(_FunctionJob):
    """Change a function."""

    command: ClassVar[str] = "alter-function"
    module: ClassVar[str] = "objects.functions"

    change: Annotated[
        Mapping[str, Any] | str,
        Parameter(
            "Give the change in the JSON of Paimon's FunctionChange, as docs/catalogs.md shows it.",
            Kind.VALUE,
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class DropFunction(_FunctionJob):
    """Drop a function."""

    command: ClassVar[str] = "drop-function"
    module: ClassVar[str] = "objects.functions"

    if_exists: Annotated[bool, Parameter("Do nothing if the function does not exist.")] = False


@dataclass(frozen=True, kw_only=True)
class AlterViewDialect(Definition):
    """Add, update or drop the query of a view for an engine."""

    command: ClassVar[str] = "alter-view-dialect"
    module: ClassVar[str] = "objects.views"
    names_run: ClassVar[bool] = False

    view: Annotated[str, Parameter("Name the view: db.view.", on_command=False)]
    action: Annotated[DialectAction, Parameter("Choose what happens to the dialect.", on_command=False)]
    engine: Annotated[str, Parameter("Name the engine whose dialect it is, such as flink.")] = "spark"
    query: Annotated[str, Parameter("Set the query, which add and update need.")] = ""
