"""This module reads the parameter `submit` of operators: how a job is submitted to Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SUBMIT", "SubmitSettings"]

SUBMIT = "submit"
"""The engine of this name runs a job on a driver elsewhere."""

_HOOK_NAMES = (
    "archives",
    "deploy_mode",
    "driver_memory",
    "env_vars",
    "executor_cores",
    "executor_memory",
    "files",
    "jars",
    "keytab",
    "num_executors",
    "packages",
    "principal",
    "properties_file",
    "proxy_user",
    "py_files",
    "repositories",
    "spark_binary",
    "total_executor_cores",
    "use_krb5ccache",
    "yarn_queue",
)
_OWN_NAMES = ("conn_id", "catalog", "application", "start_timeout", "poke_interval")


@dataclass(frozen=True, kw_only=True)
class SubmitSettings:
    """These are the keys of the parameter `submit`."""

    conn_id: str = "spark_default"
    """This connection of the Spark provider names the master and the deploy mode."""
    catalog: str | None = None
    """The driver opens this catalog of its own `lakecore.toml`; None: that of the connection of the lake."""
    application: str | None = None
    """It is the driver file, if that is not the one of this machine: `local:///…` in an image."""
    start_s: float = 1800.0
    """This is how long the task waits for the driver to begin."""
    poke_interval: float = 5.0
    """These are seconds between two looks of the trigger."""
    hook: Mapping[str, Any] = field(default_factory=dict)
    """These are arguments of the provider's SparkSubmitHook."""

    @classmethod
    def parse(cls, value: Any) -> SubmitSettings:
        """Read the parameter: an object, or its text as a template renders it. Raises InvalidInputError for a
        key that is unknown.
        """
        from lakecore.errors import InvalidInputError
        from lakecore.jobs.definitions.values import is_given
        from lakecore.jobs.runner.moment import parse_span

        raw = _object(value)
        strange = sorted(set(raw) - {*_OWN_NAMES, *_HOOK_NAMES})
        if strange:
            names = ", ".join((*_OWN_NAMES, *_HOOK_NAMES))
            raise InvalidInputError(f"submit has no key {strange[0]!r}; its keys are {names}")
        own = {name: str(raw[name]) for name in _OWN_NAMES[:3] if is_given(raw.get(name))}
        times: dict[str, float] = {}
        if is_given(raw.get("start_timeout")):
            times["start_s"] = parse_span(str(raw["start_timeout"]), "start_timeout") / 1000
        if is_given(raw.get("poke_interval")):
            times["poke_interval"] = _seconds(raw["poke_interval"])
        hook = {name: raw[name] for name in _HOOK_NAMES if is_given(raw.get(name))}
        return cls(**own, **times, hook=hook)  # type: ignore[arg-type]


def _object(value: Any) -> Mapping[str, Any]:
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.definitions.values import is_given
    from lakecore_airflow.airflow_names import yaml

    if not is_given(value):
        return {}
    try:
        raw = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError as err:
        raise InvalidInputError(f"submit={value!r} is no object: {err}") from err
    if not isinstance(raw, Mapping):
        raise InvalidInputError(f"submit={value!r} is no object: write {{'conn_id': 'spark_default'}}")
    return raw


def _seconds(value: Any) -> float:
    from lakecore.errors import InvalidInputError

    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise InvalidInputError(f"poke_interval={value!r}: use seconds, more than 0 and at most 3600")
    return seconds
