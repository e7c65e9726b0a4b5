"""This module has the kind of accumulator that brings lists from tasks to the driver."""

from __future__ import annotations

from typing import Any

__all__ = ["ListParam"]


class ListParam:
    """It tells Spark how to put lists together (an `AccumulatorParam`): executors start from an empty one,
    and the driver from the list that it made. Spark adds the list of a task once, when the task has ended.
    """

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - of Spark
        value1 += value2
        return value1
