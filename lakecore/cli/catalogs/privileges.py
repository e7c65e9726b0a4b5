"""This module has the commands on users and privileges, which have the names of Paimon's procedures."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lakecore.cli.output import print_rows
from lakecore.cli.session import Session, session_of
from lakecore.errors import InvalidInputError

if TYPE_CHECKING:
    from lakecore.catalog.privileges.manager import Privileges

__all__ = [
    "create_privileged_user",
    "drop_privileged_user",
    "grant_privilege_to_user",
    "init_file_based_privilege",
    "privileges",
    "revoke_privilege_from_user",
]

_PASSWORD = "LAKECORE_NEW_PASSWORD"
UserName = Annotated[str, typer.Argument(metavar="USER", help="Name the user.")]
PrivilegeName = Annotated[
    str, typer.Argument(metavar="PRIVILEGE", help="Name the privilege, such as SELECT.")
]
OnDatabase = Annotated[
    str | None,
    typer.Option("--database", help="Name the database; by default the privilege is for the catalog."),
]
OnTable = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="DB.TABLE", help="Name the table; by default the privilege is for the catalog."
    ),
]


def init_file_based_privilege(context: typer.Context) -> None:
    """Make the users `root` and `anonymous` of the warehouse, which opens to users only from then on.

    The password of root is that of LAKECORE_NEW_PASSWORD, or the terminal asks for it. A start that was
    interrupted is completed.
    """
    from lakecore.catalog.privileges.start import privileges_to_initialize  # help needs no tables

    session = session_of(context)
    privileges_to_initialize(session.config()).init(_new_password("root"))
    session.note("users and privileges are in effect; open the catalog with the options user and password")


def create_privileged_user(context: typer.Context, user: UserName) -> None:
    """Create a user without privileges.

    The password is that of LAKECORE_NEW_PASSWORD, or the terminal asks for it.
    """
    _privileges(session_of(context)).create_user(user, _new_password(user))


def drop_privileged_user(context: typer.Context, user: UserName) -> None:
    """Remove a user with all its privileges."""
    _privileges(session_of(context)).drop_user(user)


def grant_privilege_to_user(
    context: typer.Context,
    user: UserName,
    privilege: PrivilegeName,
    database: OnDatabase = None,
    table: OnTable = None,
) -> None:
    """Give a privilege on a table, a database or the whole catalog to a user."""
    from lakecore.catalog.privileges.grants import Privilege  # help needs no tables
    from lakecore.catalog.privileges.named_object import securable_of

    session = session_of(context)
    on = securable_of(session.catalog, database, table, must_exist=True)
    _privileges(session).grant(user, Privilege.parse(privilege), on)


def revoke_privilege_from_user(
    context: typer.Context,
    user: UserName,
    privilege: PrivilegeName,
    database: OnDatabase = None,
    table: OnTable = None,
) -> None:
    """Take a privilege on an object, and on all that is in it, from a user."""
    from lakecore.catalog.privileges.grants import Privilege  # help needs no tables
    from lakecore.catalog.privileges.named_object import securable_of

    session = session_of(context)
    on = securable_of(session.catalog, database, table, must_exist=False)
    count = _privileges(session).revoke(user, Privilege.parse(privilege), on)
    print_rows(
        session, [{"user": user, "privilege": privilege, "revoked": count}], ["user", "privilege", "revoked"]
    )


def privileges(context: typer.Context) -> None:
    """List the privileges of all users; without ADMIN those of the user of the catalog."""
    session = session_of(context)
    rows = [
        {"user": one.user, "privilege": one.privilege, "on": one.identifier or "(catalog)"}
        for one in _privileges(session).list()
    ]
    print_rows(session, rows, ["user", "privilege", "on"])


def _privileges(session: Session) -> Privileges:
    from lakecore.catalog.privileges.named_object import privileges_of  # help needs no tables

    return privileges_of(session.catalog)


def _new_password(user: str) -> str:
    """Return the new password; it is no argument, for others see the arguments of a process."""
    if password := os.environ.get(_PASSWORD):
        return password
    if not sys.stdin.isatty():
        raise InvalidInputError(f"no password for {user}: set {_PASSWORD}, or run this in a terminal")
    return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True))
