"""A policy: patterns on table names say which chores the tables of a lake get. No IO, no clock.

A policy is a list of rules, written in YAML or JSON:

    - tables: ["shop.*"]
      except: ["shop.tmp_*"]
      chores:
        expire-snapshots: {max-deletes: 500}
        remove-orphan-files: {older-than: 2 d}
    - tables: ["shop.audit"]
      chores:
        expire-snapshots: off

Later rules win, chore by chore: a chore has the parameters of the last rule that names it, and `off` (or
`null`, `false`) removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["Rule", "chores_of", "parse_policy"]

_KEYS = ("tables", "except", "chores")
_OFF = (None, False, "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """This rule gives the chores of the tables that match `tables` and not `excluded`. `chores` has the
    parameters by name; None is off.
    """

    tables: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    chores: Mapping[str, Mapping[str, Any] | None]

    def fits(self, table: str) -> bool:
        matches = any(fnmatchcase(table, pattern) for pattern in self.tables)
        return matches and not any(fnmatchcase(table, pattern) for pattern in self.excluded)


def parse_policy(raw: Any, allowed_chores: Iterable[str]) -> tuple[Rule, ...]:
    """Parse a policy. Raises InvalidInputError that names the rule and what is wrong with it.
    `allowed_chores` are the chores that exist.
    """
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        raise InvalidInputError(f"policy {raw!r}: write a list of rules, each with tables and chores")
    chores = tuple(allowed_chores)
    return tuple(_rule(one, f"rule {number} of the policy", chores) for number, one in enumerate(raw, 1))


def _rule(raw: Any, where: str, allowed_chores: Sequence[str]) -> Rule:
    if not isinstance(raw, Mapping) or not raw.get("tables") or not isinstance(raw.get("chores"), Mapping):
        raise InvalidInputError(f"{where}: {raw!r}: a rule needs tables (patterns) and chores (names)")
    strange = sorted(set(raw) - set(_KEYS))
    if strange:
        raise InvalidInputError(f"{where}: {strange[0]!r} is unknown; a rule has {', '.join(_KEYS)}")
    chores: dict[str, Mapping[str, Any] | None] = {}
    for name, parameters in raw["chores"].items():
        if name not in allowed_chores:
            raise InvalidInputError(
                f"{where}: {name!r} is not a chore; the chores are {', '.join(allowed_chores)}"
            )
        if parameters in _OFF:
            chores[name] = None
        elif parameters is True or isinstance(parameters, Mapping):
            chores[name] = {} if parameters is True else dict(parameters)
        else:
            raise InvalidInputError(f"{where}: {name}: {parameters!r}: write parameters, or off")
    return Rule(tables=_patterns(raw["tables"]), excluded=_patterns(raw.get("except") or ()), chores=chores)


def _patterns(patterns: Sequence[str] | str) -> tuple[str, ...]:
    parts = patterns.split(",") if isinstance(patterns, str) else patterns
    return tuple(str(part).strip() for part in parts)


def chores_of(table: str, rules: Iterable[Rule]) -> dict[str, Mapping[str, Any]]:
    """Return the chores of `table` (`database.table`)."""
    chores: dict[str, Mapping[str, Any] | None] = {}
    for rule in rules:
        if rule.fits(table):
            chores |= rule.chores
    return {name: parameters for name, parameters in chores.items() if parameters is not None}
