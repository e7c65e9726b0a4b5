"""This module makes directories on a local disk that only the user of the process may use."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

__all__ = ["make_private_directory"]


def make_private_directory(path: str) -> None:
    """Make the directory, unless it exists. Raises PermissionError where it belongs to somebody else, or
    others may use it, and OSError where it cannot be made.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    state = os.lstat(path)
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(f"{path}: it is not a directory of this user alone")
