"""This module knows who began the jobs of this process: a process is one command or one task of Airflow."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from typing import Any

from lakecore.errors import mask_secrets, printable

__all__ = ["count_usage", "counted_run", "origin", "set_origin"]

_LONGEST = 300

_declared: dict[str, Any] = {}
_counted: list[str] = []


def set_origin(declared: Mapping[str, Any]) -> None:
    """Set who begins the jobs of this process, in all threads: `command`, or `dag`, `run`, `task`,
    `map_index` and `try`. Texts lose their secrets and are cut.
    """
    _declared.clear()
    _counted.clear()
    _declared.update((name, _clean(value)) for name, value in declared.items())


def count_usage(key: str) -> None:
    """Let the attempts of this process add what they use to the sum of a run, until the next `set_origin`."""
    _counted[:] = [key]


def counted_run() -> str | None:
    """Return the key of the run whose sum the attempts of this process add to, or None."""
    return _counted[0] if _counted else None


def origin() -> dict[str, Any]:
    """Return what was declared, with `host`, `user` (None: it has no name) and `pid` of this process."""
    return {**_declared, "host": socket.gethostname(), "user": _user(), "pid": os.getpid()}


def _clean(value: Any) -> Any:
    return printable(mask_secrets(value), _LONGEST) if isinstance(value, str) else value


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return None
