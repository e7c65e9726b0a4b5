"""This module has the user of this process, for records that people read."""

from __future__ import annotations

import getpass
import socket

__all__ = ["this_user"]


def this_user() -> str:
    """Return `user@host`; a user without a name, as in some containers, is unknown."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
