"""This module says how many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["core_count"]

_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def core_count() -> int:
    """Return the number of cores that this process may use, at least one: of its affinity, and of the quota
    of its container (cgroups of version 2).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return max(1, cores if quota is None else min(cores, quota))


def _quota() -> int | None:
    """Return the whole cores of the quota, or None without a quota."""
    try:
        quota, period = _CPU_MAX.read_text().split()
        return None if quota == "max" else int(quota) // int(period)
    except (OSError, ValueError):
        return None
