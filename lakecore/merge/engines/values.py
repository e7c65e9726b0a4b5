"""This module folds Python values, key by key, for functions that no array operation expresses.

Only keys that really have several values of the column are touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.row_order import Bools
from lakecore.row.values import array_values, values_array
from lakecore.types.datatypes import DataType

__all__ = ["FinishedSteps", "fold_values", "spliced"]

_STEPS = tuple(Step)


@dataclass(frozen=True, slots=True)
class FinishedSteps:
    """It has a step for each value of a group, and what is applied to a result that is not None."""

    step: Callable[[Step, Any, Any], Any]
    finish: Callable[[Any], Any]


def fold_values(
    column: pa.Array,
    data_type: DataType,
    events: Events,
    step: Callable[[Step, Any, Any], Any] | FinishedSteps,
    chosen: Bools,
    others: pa.Array | None = None,
) -> pa.Array:
    """Apply `step(code, kept, value)` to the events of each group that is `chosen`, starting from None.

    Values are internal values (`lakecore.row.values`). `others`: the values of the other groups, else null.
    """
    rule = step if isinstance(step, FinishedSteps) else FinishedSteps(step, lambda value: value)
    picked = events.keep(chosen[events.groups])
    values = array_values(column.take(pa.array(picked.rows)), data_type)
    steps, bounds = picked.steps.tolist(), picked.starts.tolist()
    results = []
    for group in np.flatnonzero(chosen).tolist():
        state = None
        for i in range(bounds[group], bounds[group + 1]):
            state = rule.step(_STEPS[steps[i]], state, values[i])
        results.append(None if state is None else rule.finish(state))
    merged_values = values_array(results, data_type).cast(column.type)
    return spliced(pa.nulls(events.count, column.type) if others is None else others, merged_values, chosen)


def spliced(others: pa.Array, results: pa.Array, chosen: Bools) -> pa.Array:
    """Return `others` (one value per group) with the values of `results`, in turn, for the groups that are
    `chosen`.
    """
    if chosen.all():
        return results
    places = np.arange(len(chosen))
    places[chosen] = len(chosen) + np.arange(len(results))
    return pa.concat_arrays([others, results]).take(pa.array(places))
