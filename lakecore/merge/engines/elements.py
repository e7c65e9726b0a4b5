"""This module folds arrays and maps of a key element by element: it decides which elements stay, in which
order.

Python works on the places of elements, in keys that really have several values; the elements themselves are
taken by Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.values import spliced
from lakecore.merge.row_order import Bools

__all__ = ["Elements", "Places", "StepFunction", "folded_lists"]

Places: TypeAlias = Sequence[int]
"""These are places of elements in `Elements.values`; for a map, those of its entries."""
StepFunction: TypeAlias = Callable[[Step, Places | None, Places | None], Places | None]
StepsOf: TypeAlias = "Callable[[Elements], StepFunction]"
_STEPS = tuple(Step)


@dataclass(frozen=True, slots=True)
class Elements:
    """These are the elements of the arrays that events bring. `bounds[i]`: those of event i, None for a
    null array.

    Of a map `values` are keys and `items` their values.
    """

    values: pa.Array
    items: pa.Array | None
    bounds: tuple[range | None, ...]

    @classmethod
    def of(cls, column: pa.Array, events: Events) -> Elements:
        values = column.take(pa.array(events.rows))
        offsets = values.offsets.to_pylist()
        valid = values.is_valid().to_pylist()
        bounds = (range(offsets[i], offsets[i + 1]) if ok else None for i, ok in enumerate(valid))
        if pa.types.is_map(column.type):
            return cls(values.keys, values.items, tuple(bounds))
        return cls(values.values, None, tuple(bounds))


def _fold(events: Events, elements: Elements, step: StepFunction) -> list[Places | None]:
    """Apply `step(code, kept, places)` to the events of each group, starting from None, and return the last
    result of each.
    """
    steps, starts = events.steps.tolist(), events.starts.tolist()
    results: list[Places | None] = []
    for group in range(events.count):
        value: Places | None = None
        for i in range(starts[group], starts[group + 1]):
            value = step(_STEPS[steps[i]], value, elements.bounds[i])
        results.append(value)
    return results


def _lists(results: Sequence[Places | None], elements: Elements, data_type: pa.DataType) -> pa.Array:
    """Return the arrays (or maps) of type `data_type` that have the elements at these places."""
    offsets: list[int | None] = []
    places: list[int] = []
    for result in results:
        offsets.append(None if result is None else len(places))
        places += result or ()
    ends = pa.array([*offsets, len(places)], pa.int32())
    index = pa.array(places, pa.int64())
    if elements.items is None:
        return pa.ListArray.from_arrays(ends, elements.values.take(index), type=data_type)
    return pa.MapArray.from_arrays(
        ends, elements.values.take(index), elements.items.take(index), type=data_type
    )


def folded_lists(
    column: pa.Array, events: Events, chosen: Bools, others: pa.Array | None, steps: StepsOf
) -> pa.Array:
    """Fold the groups that are `chosen` by the steps that `steps` makes of their elements.

    `others`: the values of the other groups; None: the value of their last event.
    """
    part = events.keep(chosen[events.groups])
    part = Events(part.rows, part.steps, part.starts[np.append(chosen, True)])
    elements = Elements.of(column, part)
    lists = _lists(_fold(part, elements, steps(elements)), elements, column.type)
    if others is None:
        picks = events.picks(events.last_where(np.ones(len(events), bool)))
        others = column.take(pa.array(picks, mask=picks < 0))
    return spliced(others, lists, chosen)
