"""This module reads the rules of a policy, as settings and the Airflow variable give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["POLICY_VARIABLE", "is_path", "read_policy"]

POLICY_VARIABLE = "lakecore_policy"
"""This Airflow variable has the policy where neither a run nor the settings name one."""


def is_path(policy: Sequence[Mapping[str, Any]] | str) -> bool:
    """Return whether a policy is the path of a file: any text that is no list in YAML."""
    return isinstance(policy, str) and not policy.lstrip().startswith(("[", "-"))


def read_policy(policy: Sequence[Mapping[str, Any]] | str) -> Any:
    """Return the rules. A text is a list in YAML, or else the path of a file that has one. Raises
    InvalidInputError.
    """
    if not isinstance(policy, str):
        return policy
    from lakecore.errors import InvalidInputError
    from lakecore_airflow.airflow_names import yaml

    try:
        if not is_path(policy):
            return yaml.safe_load(policy)
        with open(policy, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except OSError as err:
        raise InvalidInputError(f"policy {policy!r} cannot be read: {err.strerror}") from err
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise InvalidInputError(f"policy {policy!r} is no YAML: {err}") from err
