"""This module computes what many executors would take from measured CPU seconds of plans, units and the rest. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["EXECUTORS", "SCHEDULED", "makespan", "of_groups", "of_tables", "one_driver"]

EXECUTORS = (1, 8, 64)
SCHEDULED = (100, 1_000, 10_000)


def makespan(units: Sequence[float], executors: int) -> float:
    """Return the end of the last unit, where the executor that is free first takes the next one."""
    free = [0.0] * executors
    for unit in units:
        heapq.heapreplace(free, free[0] + unit)
    return max(free)


def one_driver(tables: int, executors: int, plan: float, unit: float, rest: float) -> float:
    """Return when all tables are done, if a driver with one core plans each and does the rest of it, commits included.

    A unit begins when it is planned and an executor is free. The driver does the rest of the tables whose units have
    ended before it plans the next one.
    """
    free = [0.0] * executors
    ended: list[float] = []
    now, planned = 0.0, 0
    for _ in range(2 * tables):
        can_plan = planned < tables
        if ended and (ended[0] <= now or not can_plan):
            now = max(now, heapq.heappop(ended)) + rest
            continue
        now += plan
        planned += 1
        end = max(now, free[0]) + unit
        heapq.heapreplace(free, end)
        heapq.heappush(ended, end)
    return now


def of_tables(took: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the schedules of small tables. `took`: CPU seconds of the `plan`, the `unit` and the `rest` of one."""
    whole = took["plan"] + took["unit"] + took["rest"]
    return [
        {
            "tables": tables,
            "executors": executors,
            "one_driver": round(one_driver(tables, executors, took["plan"], took["unit"], took["rest"]), 1),
            "a_task_for_each": round(makespan([whole] * tables, executors), 1),
        }
        for tables in SCHEDULED
        for executors in EXECUTORS
    ]


def of_groups(cpu: Sequence[float]) -> list[dict[str, Any]]:
    """Return when the plans of all groups of one table are made. `cpu`: the CPU seconds of each."""
    return [{"executors": count, "seconds": round(makespan(cpu, count), 1)} for count in EXECUTORS]
