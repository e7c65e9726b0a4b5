"""The gate that every removal passes: it checks whether the table is on hold."""

from __future__ import annotations

from collections.abc import Sequence

from lakecore.data_class import dataclass
from lakecore.errors import OnHoldError
from lakecore.maintain.holds.plan import HoldEffect, effect_on
from lakecore.maintain.holds.record import EndsWith, Hold
from lakecore.maintain.holds.store import HoldStore

__all__ = ["HoldGate", "how_it_ends", "refusal"]


@dataclass(frozen=True)
class HoldGate:
    """One chore on one table passes this gate."""

    store: HoldStore
    table: str
    chore: str

    @property
    def effect(self) -> HoldEffect:
        """Return what a hold does to the chore."""
        return effect_on(self.chore)

    def holds(self) -> tuple[Hold, ...]:
        """Return the holds of the table now. Cost and errors are those of `HoldStore.of`."""
        return self.store.of(self.table)

    def check(self, *, quarantine: bool) -> None:
        """Check before a removal. Raises OnHoldError when the table is on hold.

        With `quarantine` the files move to the quarantine, which remedies may do.
        """
        remedy = self.effect is HoldEffect.QUARANTINE_ONLY
        if remedy and quarantine:
            return
        if holds := self.holds():
            hint = "; it may run with the quarantine (without --no-quarantine)" if remedy else ""
            raise refusal(self.table, self.chore, holds, hint)


def refusal(table: str, chore: str, holds: Sequence[Hold], hint: str = "") -> OnHoldError:
    """Return the message of a chore that a hold stops: why, since when, and how it ends."""
    text = f"{table} is on hold ({holds[0]}{_more(holds)}), so {chore} removes nothing{hint}. "
    return OnHoldError(text + how_it_ends(table, holds), any(hold.automatic for hold in holds))


def how_it_ends(table: str, holds: Sequence[Hold]) -> str:
    """Return the ways to end the holds, as a sentence."""
    ways = {hold.ends_with for hold in holds}
    if EndsWith.PERSON in ways:
        return f"The hold ends with `lakecore release {table}`"
    check = f"lakecore fsck --deep {table}" if EndsWith.DEEP_FSCK in ways else f"lakecore fsck {table}"
    return f"The hold ends when `{check}` finds no damage, or by `lakecore release {table}`"


def _more(holds: Sequence[Hold]) -> str:
    return "" if len(holds) == 1 else f"; and {len(holds) - 1} more holds, listed by `lakecore holds`"
