"""This module recognizes a warehouse with Paimon's users and privileges, which this release cannot obey."""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.fs.file_io import FileIO

__all__ = ["check_no_privileges"]

_PRIVILEGE_TABLES = ("user.sys", "privilege.sys")


def check_no_privileges(file_io: FileIO, warehouse: str) -> None:
    """Raise UnsupportedError when the warehouse has a table of users or privileges, whatever is in it.

    The names are those of Paimon's FileBasedPrivilegeManager, which obeys privileges once both tables exist.
    One of them is enough here: it is left by a start or an end that is not complete. It costs two looks at
    the storage.
    """
    for name in _PRIVILEGE_TABLES:
        if file_io.stat(f"{warehouse.rstrip('/')}/{name}") is not None:
            raise UnsupportedError(
                f"warehouse {warehouse} has Paimon's users and privileges ({name}), and this release cannot "
                "ask for a password or check a privilege; use an engine that obeys them"
            )
