"""This module says which process this is, in words that another process of the same machine can check: is
it still alive?

A process is known by the boot of its machine, its namespaces of pids and times (those of containers differ),
its pid, and when it started, for pids are used again. Where one of them cannot be read, or the machine or a
namespace is another, nothing is known.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lakecore.data_class import dataclass

__all__ = ["ProcessMark", "has_ended", "this_process"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES = ("pid", "time")
_ENDED = ("Z", "X", "x")
"""States of a process that does nothing any more: only its parent has not asked for its end yet."""
_AFTER_NAME = 2
_STATE, _STARTED = 3 - _AFTER_NAME - 1, 22 - _AFTER_NAME - 1
"""These are the fields of `/proc/<pid>/stat`, counted from the one after the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """This is the identity of a process. `boot` is the id of the boot of the machine, `space` the
    namespaces of the process, `started` the clock ticks since the boot.
    """

    host: str
    boot: str
    space: str
    pid: int
    started: int

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: object) -> ProcessMark | None:
        """Parse a mark, or return None for what is no mark: older records have none, and damaged ones prove
        nothing.
        """
        if not isinstance(raw, Mapping):
            return None
        texts = {name: raw.get(name) for name in ("host", "boot", "space")}
        numbers = {name: raw.get(name) for name in ("pid", "started")}
        if not all(isinstance(text, str) and text for text in texts.values()):
            return None
        if not all(type(number) is int and 0 < number < 1 << 63 for number in numbers.values()):
            return None
        return cls(**texts, **numbers)  # type: ignore[arg-type]


def this_process() -> ProcessMark | None:
    """Return the mark of the calling process, or None where the system does not provide it (no `/proc`)."""
    stat = _stat(os.getpid())
    try:
        boot = _BOOT.read_text(encoding="utf-8").strip()
        space = " ".join(os.readlink(f"/proc/self/ns/{kind}") for kind in _NAMESPACES)
    except (OSError, ValueError):
        return None
    if stat is None or not boot:
        return None
    return ProcessMark(
        host=socket.gethostname() or "?", boot=boot, space=space, pid=os.getpid(), started=stat[1]
    )


def has_ended(mark: ProcessMark | None) -> bool:
    """Return whether the process is known to have ended. It is False when nothing is known: the process ran
    on another machine, in another container, or before the last boot of this one.
    """
    here = this_process()
    if mark is None or here is None:
        return False
    if (mark.host, mark.boot, mark.space) != (here.host, here.boot, here.space):
        return False
    try:
        os.kill(mark.pid, 0)  # asks only; processes of other users answer too, even where /proc hides them
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # it may not be asked: it is there
    stat = _stat(mark.pid)
    return stat is not None and (stat[0] in _ENDED or stat[1] != mark.started)


def _stat(pid: int) -> tuple[str, int] | None:
    """Return state and start of a process, or None when it cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("utf-8", "replace")
        fields = text.rpartition(")")[2].split()  # the name may hold spaces and brackets
        return fields[_STATE], int(fields[_STARTED])
    except (OSError, ValueError, IndexError):
        return None
