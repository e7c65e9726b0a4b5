"""This module has the state of a column by its rule: what an aggregate function makes of the rows of many
keys. It is pure.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakecore.verify.recompute.column_states import ColumnState, Places, flat_state
from lakecore.verify.recompute.list_states import LIST_FUNCTIONS, list_state
from lakecore.verify.rules.merge_rules import ColumnRule

__all__ = ["state_of"]


class _RetractsIgnored:
    """A state that no row is taken back from (option `fields.<name>.ignore-retract`)."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def retract(self, keys: Places, rows: Places) -> None:
        """Do nothing, because retractions are ignored."""


def state_of(rule: ColumnRule, column: pa.Array, count: int) -> ColumnState:
    """Return the state of `count` keys. Raises NotRecomputableError for a function that is not implemented
    here.
    """
    if rule.function in LIST_FUNCTIONS:
        state = list_state(column, count, rule)
    else:
        state = flat_state(rule.function, column, count)
    return _RetractsIgnored(state) if rule.ignore_retract else state
