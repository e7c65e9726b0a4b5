"""This module has what the views of JDBC and Hive catalogs have in common: both store views beside tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from lakecore.catalog.names import TableName, check_not_system, split_object
from lakecore.catalog.objects.table_page import NamePage, name_page_of
from lakecore.catalog.privileges.grants import Privilege
from lakecore.data_class import dataclass

__all__ = ["StoredViews", "view_name"]


@dataclass(frozen=True, kw_only=True)
class StoredViews(ABC):
    """These are the views of a catalog. A view and a table cannot have one name; a change holds the lock that
    a table of this name would have, if the catalog uses its lock.
    """

    lock_of: Callable[[TableName], AbstractContextManager[None]]
    """It returns what excludes other changes of a name."""
    locks_of: Callable[[TableName, TableName], AbstractContextManager[None]]
    """It does so for two names."""
    check_database: Callable[[TableName], None]
    """It raises NotFoundError for a database that does not exist, InvalidInputError for a name that the
    catalog cannot store.
    """
    check_privilege: Callable[[Privilege, str, str | None], None]

    @abstractmethod
    def list(self, database: str) -> list[str]:
        """List the views of one database, in order. Raises NotFoundError for one that does not exist."""

    def list_page(
        self, database: str, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of at most `limit` views after the name `token`. It costs as much as the list."""
        return name_page_of(self.list(database), limit=limit, token=token, pattern=pattern)

    def rename(self, name: str, new_name: str) -> None:
        """Give a view another name, in its database or another one. Raises AlreadyExistsError for the name of
        a view or a table.
        """
        old, new = view_name(name), view_name(new_name)
        check_not_system(new.database, "changed")
        self.check_privilege(Privilege.ALTER_TABLE, old.database, old.table)
        self._check_renamed(old, new)
        self.check_database(new)
        self._check_free(new)  # a rename to its own name would wait for its own lock
        with self.locks_of(old, new):
            self._move(old, new)

    @abstractmethod
    def _check_renamed(self, old: TableName, new: TableName) -> None:
        """Raise NotFoundError for a view that does not exist, InvalidInputError for a name that none can
        have.
        """

    @abstractmethod
    def _check_free(self, name: TableName) -> None:
        """Raise AlreadyExistsError for the name of a view or a table."""

    @abstractmethod
    def _move(self, old: TableName, new: TableName) -> None:
        """Rename the view while both names are locked. Raises what `_check_renamed` and `_check_free` do for
        what changed meanwhile.
        """


def view_name(name: str) -> TableName:
    """Parse the name of a view. Raises InvalidInputError."""
    return TableName(*split_object(name))
