"""This module finds between which whole numbers a filter leaves a column."""

from __future__ import annotations

from lakecore.predicate.tree import Compare, Comparison, In, Predicate, conjuncts

__all__ = ["bounds_of"]

_FROM = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT})
_TO = frozenset({Comparison.EQ, Comparison.LE, Comparison.LT})


def bounds_of(where: Predicate | None, column: str) -> tuple[int | None, int | None]:
    """Return the least and the greatest value that rows can have in `column`; None where the filter says
    nothing. Only conditions that all rows must fulfil count, and `>` and `<` are taken as `>=` and `<=`.
    """
    least: list[int] = []
    greatest: list[int] = []
    for one in conjuncts(where):
        if isinstance(one, Compare) and one.column == column:
            least += [one.value] if one.op in _FROM else []
            greatest += [one.value] if one.op in _TO else []
        elif isinstance(one, In) and one.column == column and one.values:
            least.append(min(one.values))
            greatest.append(max(one.values))
    return max(least, default=None), min(greatest, default=None)
