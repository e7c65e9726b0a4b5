"""This module takes the options of a replay from a policy of maintenance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakecore.compact.engine.strategy import Strategy
from lakecore.errors import InvalidInputError
from lakecore.jobs.definitions.what_if import REPLAYED_CHORES
from lakecore.jobs.definitions.what_if import WhatIf as Job
from lakecore.jobs.policy import chores_of, parse_policy
from lakecore.jobs.runner.moment import parse_span
from lakecore.maintain.retention_options import (
    CHANGELOG_MAX,
    CHANGELOG_MIN,
    CHANGELOG_TIME,
    EXPIRE_LIMIT,
    PARTITION_FORMATTER,
    PARTITION_MAX,
    PARTITION_PATTERN,
    PARTITION_STRATEGY,
    PARTITION_TIME,
    SNAPSHOT_MAX,
    SNAPSHOT_MIN,
    SNAPSHOT_TIME,
)

__all__ = ["with_policy"]


def _time(value: Any) -> str:
    return f"{parse_span(str(value), 'older-than')} ms"


def _expiration(value: Any) -> str:
    return f"{parse_span(str(value), 'expiration')} ms"


_CHANGELOGS = "expire-changelogs"
"""This chore is replayed in the runs of `expire-snapshots`."""
_PARTITIONS = "expire-partitions"
_EXPIRY_KEYS: Mapping[str, Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "expire-snapshots": {
        "retain-max": (SNAPSHOT_MAX.key, str),
        "retain-min": (SNAPSHOT_MIN.key, str),
        "older-than": (SNAPSHOT_TIME.key, _time),
        "max-deletes": (EXPIRE_LIMIT.key, str),
    },
    _CHANGELOGS: {
        "retain-max": (CHANGELOG_MAX.key, str),
        "retain-min": (CHANGELOG_MIN.key, str),
        "older-than": (CHANGELOG_TIME.key, _time),
    },
    _PARTITIONS: {
        "expiration": (PARTITION_TIME.key, _expiration),
        "timestamp-formatter": (PARTITION_FORMATTER.key, str),
        "timestamp-pattern": (PARTITION_PATTERN.key, str),
        "expire-strategy": (PARTITION_STRATEGY.key, str),
        "max-expires": (PARTITION_MAX.key, str),
    },
}
_FIELDS = {"compact": ("strategy",), _PARTITIONS: ("zone",)}
"""These parameters are fields of the question, not options of the table."""
_NEUTRAL = ("quarantine", "wait", "engine", "master", "proof", "copy")
"""These parameters change nothing in a replay."""


def with_policy(job: Job) -> tuple[Job, tuple[str, ...]]:
    """Return the job with the options that its policy gives the table, and what the replay leaves out.
    Raises InvalidInputError for a policy or parameter that cannot be replayed.
    """
    if job.policy in (None, ""):
        return job, ()
    raw = _rules(job.policy)
    chores = chores_of(job.table.partition("$")[0], parse_policy(raw, _chore_names(raw)))
    replayed = tuple(name for name in REPLAYED_CHORES if name in chores)
    beside = (_CHANGELOGS,) if _CHANGELOGS in chores and "expire-snapshots" in replayed else ()
    left_out = sorted(set(chores) - {*REPLAYED_CHORES, *beside})
    if not replayed:
        raise InvalidInputError(f"the policy has no chore for {job.table} that can be replayed")
    options: dict[str, str] = {}
    for name in (*replayed, *beside):
        fields = _FIELDS.get(name, ())
        options |= _options(name, {key: one for key, one in chores[name].items() if key not in fields})
    strategy = chores.get("compact", {}).get("strategy")
    notes = (f"not replayed: {', '.join(left_out)}",) if left_out else ()
    job = replace(job, options=options | dict(job.options), chores=job.chores or replayed)
    if strategy is not None and job.strategy is None:
        job = replace(job, strategy=_strategy(strategy))
    zone = chores.get(_PARTITIONS, {}).get("zone")
    return (job if zone is None else replace(job, zone=str(zone))), notes


def _chore_names(rules: Any) -> set[str]:
    """Return all names of chores: a policy may name any, and the replay says which it leaves out."""
    rows = rules if isinstance(rules, Sequence) and not isinstance(rules, str) else ()
    chores = (rule.get("chores") for rule in rows if isinstance(rule, Mapping))
    return {str(name) for one in chores if isinstance(one, Mapping) for name in one}


def _rules(policy: Any) -> Any:
    if not isinstance(policy, str):
        return policy
    try:
        return json.loads(policy)
    except ValueError as err:
        raise InvalidInputError(f"policy: write a list of rules as JSON: {err}") from err


def _strategy(value: Any) -> Strategy:
    try:
        return Strategy(value)
    except ValueError as err:
        words = ", ".join(one.value for one in Strategy)
        raise InvalidInputError(f"policy: compact: strategy={value!r}: use one of {words}") from err


def _options(chore: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parameters.items():
        key = name.replace("_", "-")
        if key == "options":
            options |= {str(one): str(text) for one, text in dict(value).items()}
        elif key in _EXPIRY_KEYS.get(chore, {}):
            option, text_of = _EXPIRY_KEYS[chore][key]
            options[option] = text_of(value)
        elif key not in _NEUTRAL:
            raise InvalidInputError(f"policy: {chore}: parameter {name!r} cannot be replayed")
    return options
