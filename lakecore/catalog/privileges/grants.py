"""This module decides what a user may do, from the privileges that were granted. It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from lakecore.catalog.names import TableName
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.fs.table_rights import TableRights, no_privilege

__all__ = ["ROOT", "WHOLE_CATALOG", "Grants", "Privilege", "Securable"]

ROOT = "root"
"""This user has every privilege."""
WHOLE_CATALOG = ""
"""This is the identifier of the catalog in the table of privileges."""


class Privilege(StrEnum):
    """These are Paimon's privileges. One on a database or the catalog holds for what is in it."""

    SELECT = "SELECT"
    INSERT = "INSERT"
    ALTER_TABLE = "ALTER_TABLE"
    DROP_TABLE = "DROP_TABLE"
    CREATE_TABLE = "CREATE_TABLE"
    DROP_DATABASE = "DROP_DATABASE"
    ALTER_DATABASE = "ALTER_DATABASE"
    CREATE_DATABASE = "CREATE_DATABASE"
    ADMIN = "ADMIN"

    @classmethod
    def parse(cls, text: str) -> Privilege:
        """Parse a name in any case. Raises InvalidInputError naming the privileges there are."""
        try:
            return cls(text.strip().upper())
        except ValueError as err:
            raise InvalidInputError(f"privilege {text!r} is unknown; use one of {', '.join(cls)}") from err


_OF_DATABASES = (Privilege.CREATE_TABLE, Privilege.DROP_DATABASE, Privilege.ALTER_DATABASE)
_OF_CATALOGS = (Privilege.CREATE_DATABASE, Privilege.ADMIN)


@dataclass(frozen=True, slots=True)
class Securable:
    """This is what a privilege is granted on: the catalog, a database, or a table of one."""

    database: str | None = None
    table: str | None = None

    @property
    def identifier(self) -> str:
        """Return the text by which the table of privileges names it."""
        if self.database is None:
            return WHOLE_CATALOG
        return self.database if self.table is None else f"{self.database}.{self.table}"

    def __str__(self) -> str:
        if self.database is None:
            return "the catalog"
        return f"{'database' if self.table is None else 'table'} {self.identifier}"

    def check_grantable(self, privilege: Privilege) -> None:
        """Raise InvalidInputError for a privilege that exists on wider objects only."""
        if self.database is not None and privilege in _OF_CATALOGS:
            raise InvalidInputError(f"privilege {privilege} is granted on the catalog only, not on {self}")
        if self.table is not None and privilege in _OF_DATABASES:
            raise InvalidInputError(
                f"privilege {privilege} is granted on a database or the catalog, not on {self}"
            )


@dataclass(frozen=True, slots=True)
class Grants:
    """These are the privileges of one user, by identifier. `root` has all of them.

    Java asks for `db.t$branch_b` on a branch and finds no privilege on `db.t`; here a privilege on the table
    holds for its branches, too.
    """

    user: str
    by_identifier: Mapping[str, frozenset[str]]

    def has(self, privilege: Privilege, database: str | None = None, table: str | None = None) -> bool:
        """Return whether the user has the privilege on the table, its database or the catalog."""
        if self.user == ROOT:
            return True
        names = [WHOLE_CATALOG]
        if database is not None:
            names.append(database)
        if database is not None and table is not None:
            names += [f"{database}.{table}", f"{database}.{table.partition('$')[0]}"]
        return any(privilege in self.by_identifier.get(name, ()) for name in names)

    def check(self, privilege: Privilege, database: str | None = None, table: str | None = None) -> None:
        """Raise PrivilegeError for a privilege that the user does not have."""
        if not self.has(privilege, database, table):
            raise no_privilege(self.user, privilege, str(Securable(database, table)))

    def may_change(self, table: str) -> bool:
        """Return whether the user has INSERT on the table of this name."""
        return self.has(Privilege.INSERT, *_parts(table))

    def check_change(self, table: str) -> None:
        """Raise PrivilegeError for a user without INSERT on the table of this name."""
        self.check(Privilege.INSERT, *_parts(table))

    def may_see(self, table: str) -> bool:
        """Return whether the user may see records of the table of this name: with SELECT or INSERT, as for
        its files. Records of no table, the empty name, are visible to all.
        """
        return not table or any(self.has(one, *_parts(table)) for one in (Privilege.SELECT, Privilege.INSERT))

    def on_table(self, name: TableName) -> TableRights:
        """Return what the user may do with the files of a table, or of a branch."""
        names = (name.database, str(TableName("", name.table, name.branch)).removeprefix("."))
        return TableRights(
            user=self.user,
            table=f"{name.database}.{name.table}",
            select=self.has(Privilege.SELECT, *names),
            insert=self.has(Privilege.INSERT, *names),
        )


def _parts(name: str) -> tuple[str, str]:
    """Split the name of a table in a record, which may be forged and one that no table can have."""
    database, _, table = name.partition(".")
    return database, table
