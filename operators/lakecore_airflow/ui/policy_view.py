"""This module says which chores the policy has for a table, which of its rules says so, and where the policy
is from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakecore_airflow.policy.policy_text import POLICY_VARIABLE, is_path, read_policy
from lakecore_airflow.ui.airflow_data import param_default

__all__ = ["TablePolicy", "policy_of"]


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """These are the chores of a table: name, parameters and the number of the rule that decided."""

    chores: Sequence[tuple[str, str, int]] = ()
    problem: str = ""
    """It says why nothing is known."""
    source: str = ""
    """It says where the policy is from."""


def policy_of(session: Any, dag_id: str, table: str) -> TablePolicy:
    """Return what the policy of a maintenance DAG has for a table: that of the DAG's settings, else that of
    the Airflow variable, as its next scheduled run decides.

    The settings are those with which the DAG processor made the DAG; the API server has no `lakecore.toml`.
    """
    from airflow.models.variable import Variable

    from lakecore.errors import InvalidInputError

    policy = param_default(session, dag_id, "policy")
    source = f"the settings of the DAG {dag_id} (lakecore.toml)"
    if not policy:
        policy = Variable.get(POLICY_VARIABLE, default_var="")
        source = f"the Airflow variable {POLICY_VARIABLE}"
    if not policy:
        return TablePolicy(
            problem="No policy is named, neither in [airflow.maintenance] of lakecore.toml nor by the "
            f"Airflow variable {POLICY_VARIABLE}. Nothing is removed; the DAG {dag_id} only reports."
        )
    if is_path(policy):
        source = f"the file {policy} of this API server, which {source} names"
    try:
        return TablePolicy(_by_rule(table, read_policy(policy)), source=source)
    except InvalidInputError as err:
        where = " The workers read a file of their own." if is_path(policy) else ""
        return TablePolicy(problem=f"The policy of {source} cannot be shown: {err}.{where}", source=source)


def _by_rule(table: str, raw: Any) -> Sequence[tuple[str, str, int]]:
    from lakecore.jobs.policy import chores_of, parse_policy
    from lakecore_airflow.policy.maintain import CHORES

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
