"""This module has functions: their parameters, and a definition for each engine. It is pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from lakecore.catalog.definition import columns_from_json
from lakecore.catalog.objects.changes import (
    changed_entries,
    changed_options,
    check_change,
    check_keys,
    texts_of,
)
from lakecore.catalog.objects.table_page import NamePage
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.types.datatypes import DataField

__all__ = ["Function", "Functions", "changed_function", "check_function_name"]

_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9._-]+")
_KEYS = ("inputParams", "returnParams", "deterministic", "definitions", "comment", "options")
_CHANGES = {
    "addDefinition": ("name", "definition"),
    "updateDefinition": ("name", "definition"),
    "dropDefinition": ("name",),
}
_DEFINITIONS = {
    "sql": ("type", "definition"),
    "lambda": ("type", "definition", "language"),
    "file": ("type", "fileResources", "language", "className", "functionName"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """This is a function as Paimon has it. No engine runs it here."""

    input_params: tuple[DataField, ...] = ()
    return_params: tuple[DataField, ...] = ()
    deterministic: bool = True
    definitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """These are definitions by engine, in Paimon's JSON: SQL, a lambda, or files with a class."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Function:
        """Parse `{"inputParams": ["x INT"], "returnParams": ["y INT"], "deterministic": true, "definitions":
        {}}`. Raises InvalidInputError naming what is wrong.
        """
        check_keys(raw, (), _KEYS)
        definitions = raw.get("definitions") or {}
        if not isinstance(definitions, Mapping):
            raise InvalidInputError(f"definitions {definitions!r}: write one for each engine, by its name")
        return cls(
            input_params=_params(raw.get("inputParams")),
            return_params=_params(raw.get("returnParams")),
            deterministic=raw.get("deterministic", True) is True,
            definitions={str(name): _definition(one) for name, one in definitions.items()},
            comment=raw.get("comment"),
            options=texts_of(raw.get("options") or {}, "options"),
        )

    def to_json(self) -> dict[str, Any]:
        """Convert the function to Paimon's JSON, without its name."""
        return {
            "inputParams": [one.to_json() for one in self.input_params],
            "returnParams": [one.to_json() for one in self.return_params],
            "deterministic": self.deterministic,
            "definitions": {name: dict(one) for name, one in self.definitions.items()},
            "comment": self.comment,
            "options": dict(self.options),
        }


class Functions(Protocol):
    """These are the functions of a catalog. Names are `db.f`; methods raise NotFoundError for what does not
    exist.
    """

    def list(self, database: str) -> list[str]:
        """List the functions of one database, in order."""

    def list_page(
        self, database: str, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of at most `limit` functions, those whose names are like `pattern` (`f_%`). `token`
        is the `next_token` of the page before, None for the first page.
        """

    def get(self, name: str) -> Function:
        """Return a function."""

    def create(self, name: str, function: Function, *, if_not_exists: bool = False) -> None:
        """Create a function. Raises AlreadyExistsError unless `if_not_exists`."""

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> Function:
        """Make changes in Paimon's JSON, all or none, and return the function."""

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a function."""


def changed_function(function: Function, changes: Sequence[Mapping[str, Any]]) -> Function:
    """Return the function after the changes. Raises InvalidInputError for what is no change,
    AlreadyExistsError and NotFoundError for a definition that is there already, or is not.
    """
    for raw in changes:
        change = check_change(raw, _CHANGES)
        function = replace(function, options=changed_options(function.options, change))
        if change["action"] == "updateComment":
            function = replace(function, comment=change["comment"])
        if change["action"] in _CHANGES:
            new = _definition(change["definition"]) if "definition" in change else None
            definitions = changed_entries(function.definitions, change["action"], str(change["name"]), new)
            function = replace(function, definitions=definitions)
    return function


def check_function_name(name: str) -> str:
    """Return the name of a function. Raises InvalidInputError for one that Paimon refuses."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidInputError(
            f"function {name!r}: a name has letters, digits, '.', '_' and '-', and at least one letter"
        )
    return name


def _params(raw: Any) -> tuple[DataField, ...]:
    return columns_from_json(raw) if raw else ()


def _definition(raw: Any) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping) or raw.get("type") not in _DEFINITIONS:
        raise InvalidInputError(f"definition {raw!r}: its type is none of {', '.join(sorted(_DEFINITIONS))}")
    check_keys(raw, _DEFINITIONS[raw["type"]])
    return raw
