"""This module says who may act on which lakes: the rules `rights` in the table `airflow` of `lakecore.toml`.
It imports nothing of Airflow.

A rule allows some users some actions on the tables of some databases of some connections. What no rule
allows is refused. Without rules Airflow alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from lakecore.errors import InvalidInputError

__all__ = ["ActionRequest", "Rights"]

_KEYS = ("users", "connections", "databases", "actions")
_ALL = "*"
_OF_RUNS = frozenset({"undo", "purge"})
"""These actions name a run of the quarantine, whose table is known to the lake alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """This is what somebody asks for."""

    user: str
    action: str
    connection: str
    table: str = ""

    def places(self) -> set[tuple[str, str]]:
        """Return the connections and databases that the request may reach; an empty database is all of them.

        `maintain` takes several tables split by commas; a name of three parts may begin with a connection.
        """
        if self.action in _OF_RUNS:
            return {(self.connection, "")}
        places = set()
        is_list = self.action == "maintain"
        for table in self.table.split(",") if is_list else [self.table]:
            first, _, rest = (table.strip() if is_list else table).partition(".")
            places.add((self.connection, first))
            if "." in rest:
                places.add((first, rest.partition(".")[0]))
        return places


@dataclass(frozen=True, slots=True)
class Rights:
    """These are the rules; None: there are none, and everything is allowed."""

    rules: Sequence[Mapping[str, Sequence[str]]] | None

    @classmethod
    def parse(cls, raw: Any) -> Rights:
        """Return the rules of a file. Raises InvalidInputError that names the rule and what is wrong."""
        if raw is None:
            return cls(None)
        if not isinstance(raw, list) or not raw:
            raise InvalidInputError(f"rights is {raw!r}: write rules [[airflow.rights]], or leave it out")
        return cls([_rule(one, number) for number, one in enumerate(raw, 1)])

    def refusal(self, request: ActionRequest) -> str:
        """Return why a request is refused; empty if it is allowed."""
        if self.rules is None or all(
            any(_fits(rule, request, place) for rule in self.rules) for place in request.places()
        ):
            return ""
        subject = "in all databases" if request.action in _OF_RUNS else f"on {request.table or 'all tables'}"
        return (
            f"{request.user or 'a user without a name'} may not {request.action} {subject} of the connection "
            f"{request.connection}: no rule of [[airflow.rights]] in lakecore.toml allows it"
        )


def _fits(rule: Mapping[str, Sequence[str]], request: ActionRequest, place: tuple[str, str]) -> bool:
    connection, database = place
    return (
        _matches(rule["users"], request.user)
        and _matches(rule["actions"], request.action)
        and _matches(rule["connections"], connection)
        and _matches(rule["databases"], database)
    )


def _matches(patterns: Iterable[str], name: str) -> bool:
    """Return whether a pattern fits; only `*` fits what has no name."""
    return any(pattern == _ALL or (name != "" and fnmatchcase(name, pattern)) for pattern in patterns)


def _rule(raw: Any, number: int) -> Mapping[str, Sequence[str]]:
    where = f"rule {number} of rights"
    if not isinstance(raw, Mapping):
        raise InvalidInputError(f"{where} is {raw!r}; make it a table: [[airflow.rights]]")
    strange = sorted(set(raw) - set(_KEYS))
    if strange:
        raise InvalidInputError(f"{where} has no key {strange[0]!r}; it has {', '.join(_KEYS)}")
    if "users" not in raw:
        raise InvalidInputError(f'{where} names no users: write users = ["anna"], or ["*"] for everybody')
    rule = {key: raw.get(key, [_ALL]) for key in _KEYS}
    for key, patterns in rule.items():
        is_list = isinstance(patterns, list) and patterns
        if not is_list or not all(isinstance(one, str) and one for one in patterns):
            raise InvalidInputError(f"{where}: {key} is {patterns!r}; write a list of patterns")
    return rule
