"""This module decides which units of which tables run next, and which tables may be planned now. No IO, no
threads, no clock.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import field

from lakecore.data_class import dataclass

__all__ = ["UNIT_COST", "Admission", "FairQueue", "QueuedUnit"]

UNIT_COST = 20_000
"""A unit costs so much besides its rows, in rows: opening files, and its way to a worker and back."""
_BUNDLE_COST = 500_000
_BUNDLE_UNITS = 32


@dataclass(frozen=True, slots=True)
class QueuedUnit:
    """This is unit `number` of table `stream`. Its `cost` is in rows. With `alone` it must not share a
    task with others.
    """

    stream: int
    number: int
    cost: int
    alone: bool = False


@dataclass
class FairQueue:
    """Units of many tables are handed out so that each table gets an equal share of the work that is done.

    Of the tables that wait, the one that has been given least comes next, by the cost of its units; one that
    comes late starts level with the others. So a huge table does not hold back a small one, and is not held
    back by many: it has its share from its first unit on. Units of a table keep their order. It costs
    O(tables waiting) a unit.
    """

    _waiting: dict[int, deque[QueuedUnit]] = field(default_factory=dict)
    _assigned: dict[int, int] = field(default_factory=dict)
    _level: int = 0
    _cost: int = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, units: Sequence[QueuedUnit]) -> None:
        """Add units after those of the same table that wait already."""
        for unit in units:
            if unit.stream not in self._waiting:
                self._waiting[unit.stream] = deque()
                self._assigned[unit.stream] = max(self._level, self._assigned.get(unit.stream, 0))
            self._waiting[unit.stream].append(unit)
            self._cost += unit.cost

    def drop(self, stream: int) -> int:
        """Forget a table; how many of its units had not been taken."""
        dropped = self._waiting.pop(stream, deque())
        self._assigned.pop(stream, None)
        self._cost -= sum(unit.cost for unit in dropped)
        return len(dropped)

    def take(self, slots: int) -> tuple[QueuedUnit, ...]:
        """Return the units for one task: a large one, or several small ones; none when nothing waits.

        Small ones are put together as long as that leaves enough for all `slots`.
        """
        share = min(_BUNDLE_COST, -(-self._cost // slots))
        bundle: list[QueuedUnit] = []
        cost = 0
        while self._waiting and len(bundle) < _BUNDLE_UNITS:
            stream = min(self._waiting, key=lambda one: (self._assigned[one], one))
            unit = self._waiting[stream][0]
            apart = unit.alone or bool(bundle and bundle[0].alone)
            if bundle and (apart or cost + unit.cost > share):
                break
            bundle.append(self._pop(stream))
            cost += unit.cost
        return tuple(bundle)

    def _pop(self, stream: int) -> QueuedUnit:
        unit = self._waiting[stream].popleft()
        if not self._waiting[stream]:
            del self._waiting[stream]
        self._level = self._assigned[stream]
        self._assigned[stream] += unit.cost
        self._cost -= unit.cost
        return unit


@dataclass
class Admission:
    """A budget of bytes for plans that are held at once; who asks first is let in first.

    A plan beyond the whole budget is let in when no other is held, so the bound is `limit` or one plan.
    """

    limit: int
    _sizes: dict[int, int] = field(default_factory=dict)
    _waiting: OrderedDict[int, int] = field(default_factory=OrderedDict)

    @property
    def admitted_size(self) -> int:
        """Return the bytes of the plans that are admitted."""
        return sum(self._sizes.values())

    def ask(self, who: int, size: int) -> None:
        """Wait for room for a plan of `size` bytes."""
        self._waiting[who] = size
        self._let_in()

    def leave(self, who: int) -> None:
        """Give back what was held, or leave the line."""
        self._sizes.pop(who, None)
        self._waiting.pop(who, None)
        self._let_in()

    def is_in(self, who: int) -> bool:
        """Return whether a plan is admitted."""
        return who in self._sizes

    def _let_in(self) -> None:
        while self._waiting:
            who, size = next(iter(self._waiting.items()))
            if self._sizes and self.admitted_size + size > self.limit:
                return
            self._sizes[who] = self._waiting.pop(who)
