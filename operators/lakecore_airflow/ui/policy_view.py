"""This module says which chores the policy has for a table, and which of its rules says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["TablePolicy", "policy_of"]

_VARIABLE = "lakecore_policy"


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """These are the chores of a table: name, parameters and the number of the rule that decided."""

    chores: Sequence[tuple[str, str, int]] = ()
    problem: str = ""
    """It says why nothing is known."""


def policy_of(table: str) -> TablePolicy:
    """Return what the policy of the Airflow variable has for a table. A policy in `lakecore.toml`, or a file
    on the workers, is not known to the API server.
    """
    from airflow.models.variable import Variable

    from lakecore.errors import InvalidInputError

    text = Variable.get(_VARIABLE, default_var="")
    if not text:
        return TablePolicy(
            problem=f"The Airflow variable {_VARIABLE} names no policy; lakecore.toml is not read here."
        )
    if not text.lstrip().startswith(("[", "-")):
        return TablePolicy(problem="The policy is a file on the workers, which this page does not read.")
    try:
        return TablePolicy(_by_rule(table, text))
    except InvalidInputError as err:
        return TablePolicy(problem=f"The policy cannot be used: {err}")


def _by_rule(table: str, text: str) -> Sequence[tuple[str, str, int]]:
    from airflow.sdk import yaml

    from lakecore.errors import InvalidInputError
    from lakecore.jobs.policy import chores_of, parse_policy
    from lakecore_airflow.policy.maintain import CHORES

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise InvalidInputError(str(err)) from err
    rules = parse_policy(raw, CHORES)
    decided: dict[str, int] = {}
    before: Mapping[str, Any] = {}
    for number in range(1, len(rules) + 1):
        after = chores_of(table, rules[:number])
        decided |= {name: number for name in after if after[name] != before.get(name) or name not in before}
        before = after
    return [(name, _words(values), decided[name]) for name, values in before.items()]


def _words(values: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{key}: {value}" for key, value in (values or {}).items())
