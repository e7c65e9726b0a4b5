"""This module checks whether a local file to be read is where its path says, in spite of symbolic links on
the way.
"""

from __future__ import annotations

import os
import stat

from lakecore.errors import UnsupportedError

__all__ = ["LinkChecks"]

_MOST = 100_000
"""The number of directories that are remembered before the cache is emptied. Each takes some 150 bytes."""


class LinkChecks:
    """This cache has the directories through which a path does not leave its root. It is pickled without
    its contents.

    A link may lead from one place below the root to another.
    """

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        self._inside: set[tuple[str, str]] = set()

    def __reduce__(self) -> tuple[type[LinkChecks], tuple[()]]:
        return LinkChecks, ()

    def check(self, root: str, path: str) -> None:
        """Raise UnsupportedError if `path`, equal to `root` or below it, leads out of the root.

        The root may be a link itself. It costs one `lstat`, and one for each directory that was not
        checked before.
        """
        if path == root:
            return
        directory = path.rpartition("/")[0]
        if (root, directory) not in self._inside:
            self._look_at_directory(root, directory)
        _check_place(root, path)

    def _look_at_directory(self, root: str, directory: str) -> None:
        place = root.rstrip("/")
        for part in directory[len(place) :].split("/"):
            if not part:
                continue
            place = f"{place}/{part}"
            if (root, place) not in self._inside:
                if not _check_place(root, place):
                    return  # nothing is there yet: it is looked at again next time
                self._remember(root, place)
        self._remember(root, directory)

    def _remember(self, root: str, place: str) -> None:
        if len(self._inside) >= _MOST:
            self._inside.clear()
        self._inside.add((root, place))


def _check_place(root: str, path: str) -> bool:
    """Return whether anything exists at the path. Raises UnsupportedError for a link that leads out of
    `root`.
    """
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False  # storage says what is wrong with it
    if stat.S_ISLNK(status.st_mode):
        base, target = os.path.realpath(root), os.path.realpath(path)
        if target != base and not target.startswith(f"{base.rstrip('/')}/"):
            raise UnsupportedError(
                f"cannot read {path}: it is a symbolic link to {target}, outside {root}, and lakecore "
                "follows no link out of a table; put the file or directory itself there"
            )
    return True
