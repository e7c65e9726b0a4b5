"""This module has the plan of a repair as a value, its JSON, and the check whether a step still applies.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["ActionPreview", "Advice", "Growth", "RepairPlan", "Step", "remaining"]

_VERSION = 1
_MOST_NAMES = 5


class Growth(Enum):
    """It says what changes mean that a plan does not have, but that are to be made when it is applied."""

    STALE = "stale"
    """Others were here since: nobody has agreed to these changes."""
    LEFT = "left"
    """Only the planned ones are made."""
    FOLLOWED = "followed"
    """They are made: what is right follows from what is there, which a step before this one, or a run that
    was killed, may have changed. For changes that lose nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPreview:
    """An action would do this now. `changes` has one line for each, the same for the same change.

    `rows` is the number of rows that would be lost, None if it is not known. `loses` tells what else is lost,
    for people. `undo` tells whether `lakecore undo` reverts it. `paths` are files that fsck reported and that
    this repairs.
    """

    why: str
    changes: tuple[str, ...]
    rows: int | None = 0
    loses: str = ""
    undo: bool = False
    paths: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """This is one action of a plan. `needs` has the numbers of steps that come before it."""

    number: int
    action: str
    branch: str
    why: str
    changes: tuple[str, ...]
    rows_lost: int | None
    loses: str
    undo: bool
    needs: tuple[int, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loses_rows(self) -> bool:
        return self.rows_lost != 0


@dataclass(frozen=True, slots=True)
class Advice:
    """No step repairs this: it is a finding, and what can be done about it."""

    path: str
    problem: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """These are the steps of a repair. `made_ms` is the time at which it was planned. `later` tells what
    can be examined only after other steps.
    """

    table: str
    made_ms: int
    steps: tuple[Step, ...]
    advice: tuple[Advice, ...] = ()
    later: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> RepairPlan:
        """Parse a plan. Raises InvalidInputError."""
        try:
            if raw["version"] != _VERSION:
                raise InvalidInputError(
                    f"the repair plan has version {raw['version']}, which this release cannot apply; "
                    "create a new one with fsck --plan"
                )
            return cls(
                table=str(raw["table"]),
                made_ms=int(raw["made_ms"]),
                steps=tuple(_step(one) for one in raw["steps"]),
                advice=tuple(Advice(**one) for one in raw.get("advice", ())),
                later=tuple(raw.get("later", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise InvalidInputError(
                f"this is not a repair plan: {err!r}; create one with fsck --plan"
            ) from err

    def chosen(self, numbers: Sequence[int]) -> tuple[Step, ...]:
        """Return the steps of these numbers in order, or all steps if there are no numbers. Raises
        InvalidInputError.
        """
        by_number = {step.number: step for step in self.steps}
        unknown = [number for number in numbers if number not in by_number]
        if unknown:
            there = ", ".join(map(str, by_number)) or "none"
            raise InvalidInputError(f"the plan has no step {unknown[0]}; steps: {there}")
        return tuple(step for step in self.steps if not numbers or step.number in numbers)


def remaining(step: Step, now: ActionPreview | None, growth: Growth) -> frozenset[str]:
    """Return the changes of the step that are still to be made; none when it is done.

    Raises InvalidInputError when the plan is stale.
    """
    if now is None:
        return frozenset()
    planned, present = frozenset(step.changes), frozenset(now.changes)
    if growth is Growth.FOLLOWED:
        return present
    fresh = sorted(present - planned)
    if fresh and growth is Growth.STALE:
        more = f" and {len(fresh) - _MOST_NAMES} more" if len(fresh) > _MOST_NAMES else ""
        raise InvalidInputError(
            f"step {step.number} ({step.action} of branch {step.branch}) is stale, because "
            f"the plan lacks {'; '.join(fresh[:_MOST_NAMES])}{more}; it changed nothing: create a "
            "new plan with fsck --plan"
        )
    return planned & present


def _step(raw: Mapping[str, Any]) -> Step:
    values = dict(raw)
    values["changes"] = tuple(str(one) for one in values["changes"])
    values["needs"] = tuple(int(one) for one in values.get("needs", ()))
    return Step(**values)
