"""This module says what the user of a catalog may do with the files of one table. It is pure."""

from __future__ import annotations

import re

from lakecore.data_class import dataclass
from lakecore.errors import PrivilegeError

__all__ = ["TableRights", "no_privilege"]

_CONSUMER = re.compile(r"(?:branch/branch-[^/]+/)?consumer/[^/]+")


def no_privilege(user: str, privilege: str, thing: str) -> PrivilegeError:
    """Return the error for a privilege that a user does not have on a thing."""
    return PrivilegeError(
        f"user {user} does not have the privilege {privilege} on {thing}; an administrator grants it "
        "with `lakecore grant-privilege-to-user`"
    )


@dataclass(frozen=True, slots=True)
class TableRights:
    """These are the privileges of a user on one table, as they were when the table was loaded.

    Files are read with either privilege, for writers read metadata and older rows; `check_select` is for
    whatever returns rows.
    """

    user: str
    table: str
    select: bool
    insert: bool

    def check_select(self) -> None:
        """Raise PrivilegeError unless the user may read rows."""
        if not self.select:
            raise self._refusal("SELECT")

    def check_insert(self) -> None:
        """Raise PrivilegeError unless the user may change the table."""
        if not self.insert:
            raise self._refusal("INSERT")

    def check_read_file(self) -> None:
        """Raise PrivilegeError for a user who may neither read nor write."""
        if not (self.select or self.insert):
            raise self._refusal("SELECT or INSERT")

    def check_change_file(self, path: str, root: str) -> None:
        """Raise PrivilegeError for a user who may not write, unless `path` below the table's directory
        `root` is the position of a consumer, which readers store.
        """
        if self.insert or (self.select and _CONSUMER.fullmatch(path.removeprefix(f"{root}/"))):
            return
        self.check_insert()

    def _refusal(self, privilege: str) -> PrivilegeError:
        return no_privilege(self.user, privilege, f"table {self.table}")
