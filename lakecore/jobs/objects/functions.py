"""This module has the jobs that create, change and drop a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.objects.function import Function
from lakecore.clock import Clock
from lakecore.errors import InvalidInputError, reason
from lakecore.executor import Executor
from lakecore.jobs.definitions.objects import AlterFunction, CreateFunction, DropFunction
from lakecore.jobs.runner.report import Report
from lakecore.metadata.json_record import json_object

__all__ = ["AlterFunction", "CreateFunction", "DropFunction", "run"]


def run(
    job: CreateFunction | AlterFunction | DropFunction,
    lake: Catalog,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Make the change. Raises UnsupportedError for a catalog without functions, InvalidInputError for JSON
    that defines or changes nothing, AlreadyExistsError and NotFoundError.
    """
    functions = lake.functions
    match job:
        case CreateFunction():
            function = Function.from_json(_object(job.function_definition, "definition"))
            functions.create(job.function, function, if_not_exists=job.if_not_exists)
        case AlterFunction():
            functions.alter(job.function, [_object(job.change, "change")])
        case DropFunction():
            functions.drop(job.function, if_exists=job.if_exists)
    return Report(table="", job=job.command, names=(job.function,))


def _object(value: Mapping[str, Any] | str, what: str) -> Mapping[str, Any]:
    """Return a JSON object, which may be given as its text. Raises InvalidInputError."""
    try:
        return json_object(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as err:
        raise InvalidInputError(f"{what} {value!r}: write a JSON object: {reason(err)}") from err
