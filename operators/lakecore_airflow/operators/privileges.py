"""This module has operators on the users and privileges of a warehouse, which are those of Paimon.

A new password is that of an Airflow connection, so that it is in no DAG file, rendered field, log or XCom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakecore.catalog.privileges.grants import Privilege
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError, NotFoundError
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.secrets import LakeTask
from lakecore_airflow.tasks.job import check_word, flag

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.catalog.catalog import Catalog
    from lakecore.catalog.privileges.manager import Privileges

__all__ = [
    "CreatePrivilegedUserOperator",
    "DropPrivilegedUserOperator",
    "GrantPrivilegeToUserOperator",
    "InitFileBasedPrivilegeOperator",
    "ListPrivilegesOperator",
    "RevokePrivilegeFromUserOperator",
]


def _new_password(conn_id: str) -> str:
    """Return the password of a connection, which Airflow masks. Raises InvalidInputError without one."""
    password = LakeHook.get_connection(conn_id).password
    if not password:
        raise InvalidInputError(f"connection {conn_id} has no password; put the new password there")
    return str(password)


def _is_done(change: Callable[[], object], unless: type[LakeError] | None) -> bool:
    """Make a change. Returns False instead if it raises `unless`, which is then no error."""
    try:
        change()
    except LakeError as err:
        if unless is None or not isinstance(err, unless):
            raise
        return False
    return True


class InitFileBasedPrivilegeOperator(LakeTask):
    """Make the users `root` and `anonymous` of the warehouse, which opens to users only from then on: give
    the connection `lake_conn_id` the options `user` and `password`, before or after. A start that was
    interrupted is completed.

    :param password_conn_id: the connection whose password root gets. (templated)
    :param if_not_exists: a warehouse that has users is no error; set it if the task is retried. (templated)
    """

    template_fields: Sequence[str] = ("password_conn_id", "if_not_exists", "lake_conn_id")

    def __init__(
        self,
        *,
        password_conn_id: str,
        if_not_exists: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.password_conn_id = password_conn_id
        self.if_not_exists = if_not_exists
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.catalog.config import CatalogConfig
        from lakecore.catalog.privileges.start import privileges_to_initialize

        with airflow_errors():
            hook, existing_is_ok = LakeHook(self.lake_conn_id), flag("if_not_exists", self.if_not_exists)
            manager = privileges_to_initialize(CatalogConfig(hook.warehouse(), hook.options()))
            created = _is_done(
                lambda: manager.init(_new_password(self.password_conn_id)),
                unless=AlreadyExistsError if existing_is_ok else None,
            )
        return {"created": created}


class CreatePrivilegedUserOperator(LakeTask):
    """Create a user without privileges.

    :param user: the name of the user. (templated)
    :param password_conn_id: the connection whose password the user gets. (templated)
    :param if_not_exists: a user who exists is no error, and keeps the password; set it if the task is
        retried. (templated)
    """

    template_fields: Sequence[str] = ("user", "password_conn_id", "if_not_exists", "lake_conn_id")

    def __init__(
        self,
        *,
        user: str,
        password_conn_id: str,
        if_not_exists: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.user = user
        self.password_conn_id = password_conn_id
        self.if_not_exists = if_not_exists
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.catalog.privileges.named_object import privileges_of

        with airflow_errors():
            existing_is_ok = flag("if_not_exists", self.if_not_exists)
            manager = privileges_of(LakeHook(self.lake_conn_id).catalog())
            created = _is_done(
                lambda: manager.create_user(self.user, _new_password(self.password_conn_id)),
                unless=AlreadyExistsError if existing_is_ok else None,
            )
        return {"user": self.user, "created": created}


class DropPrivilegedUserOperator(LakeTask):
    """Remove a user with all its privileges.

    :param user: the name of the user. (templated)
    :param if_exists: a user who does not exist is no error; set it if the task is retried. (templated)
    """

    template_fields: Sequence[str] = ("user", "if_exists", "lake_conn_id")

    def __init__(
        self,
        *,
        user: str,
        if_exists: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.user = user
        self.if_exists = if_exists
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.catalog.privileges.named_object import privileges_of

        with airflow_errors():
            missing_is_ok = flag("if_exists", self.if_exists)
            manager = privileges_of(LakeHook(self.lake_conn_id).catalog())
            dropped = _is_done(
                lambda: manager.drop_user(self.user), unless=NotFoundError if missing_is_ok else None
            )
        return {"user": self.user, "dropped": dropped}


class _PrivilegeTask(LakeTask):
    """An operator on one privilege of a user."""

    def __init__(
        self,
        *,
        user: str,
        privilege: str,
        database: str | None = None,
        table: str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        word = privilege.upper() if isinstance(privilege, str) else privilege
        check_word(self.task_id, "privilege", word, tuple(Privilege))
        if database and table:
            raise InvalidInputError(
                f"task {self.task_id}: database and table exclude each other; give one, or none for the "
                "catalog"
            )
        self.user = user
        self.privilege = privilege
        self.database = database
        self.table = table
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.catalog.privileges.named_object import privileges_of

        with airflow_errors():
            catalog = LakeHook(self.lake_conn_id).catalog()
            privilege = Privilege.parse(self.privilege)
            report = {"user": self.user, "privilege": privilege.value}
            return report | self._change(catalog, privileges_of(catalog), privilege)

    def _change(self, catalog: Catalog, manager: Privileges, privilege: Privilege) -> dict[str, Any]:
        raise NotImplementedError


class GrantPrivilegeToUserOperator(_PrivilegeTask):
    """Give a user a privilege on a table, a database, or the whole catalog. A retry changes nothing more.

    :param user: the name of the user. (templated)
    :param privilege: `SELECT`, `INSERT`, `ALTER_TABLE`, `DROP_TABLE`, `CREATE_TABLE`, `DROP_DATABASE`,
        `ALTER_DATABASE`, `CREATE_DATABASE` or `ADMIN`. (templated)
    :param database: the database that it is for. (templated)
    :param table: the table, `database.table`, that it is for. (templated)
    """

    template_fields: Sequence[str] = ("user", "privilege", "database", "table", "lake_conn_id")

    def _change(self, catalog: Catalog, manager: Privileges, privilege: Privilege) -> dict[str, Any]:
        from lakecore.catalog.privileges.named_object import securable_of

        on = securable_of(catalog, self.database or None, self.table or None, must_exist=True)
        manager.grant(self.user, privilege, on)
        return {"on": on.identifier}


class RevokePrivilegeFromUserOperator(_PrivilegeTask):
    """Take a privilege on an object, and on all that is in it, from a user.

    :param user: the name of the user. (templated)
    :param privilege: the privilege, as for a grant. (templated)
    :param database: the database. (templated)
    :param table: the table, `database.table`. (templated)
    :param if_exists: a privilege or user that does not exist is no error; set it if the task is retried.
        (templated)
    """

    template_fields: Sequence[str] = ("user", "privilege", "database", "table", "if_exists", "lake_conn_id")

    def __init__(
        self,
        *,
        user: str,
        privilege: str,
        database: str | None = None,
        table: str | None = None,
        if_exists: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(user=user, privilege=privilege, database=database, table=table, **kwargs)
        self.if_exists = if_exists

    def _change(self, catalog: Catalog, manager: Privileges, privilege: Privilege) -> dict[str, Any]:
        from lakecore.catalog.privileges.named_object import securable_of

        missing_is_ok, count = flag("if_exists", self.if_exists), 0
        on = securable_of(catalog, self.database or None, self.table or None, must_exist=False)
        try:
            count = manager.revoke(self.user, privilege, on)
        except NotFoundError:
            if not missing_is_ok:
                raise
        return {"on": on.identifier, "revoked": count}


class ListPrivilegesOperator(LakeTask):
    """List the privileges of all users; without `ADMIN` those of the user of the connection. The object of a
    privilege is `on`, which is empty for the whole catalog.
    """

    template_fields: Sequence[str] = ("lake_conn_id",)

    def __init__(self, *, lake_conn_id: str = LakeHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> list[dict[str, str]]:
        from lakecore.catalog.privileges.named_object import privileges_of

        with airflow_errors():
            grants = privileges_of(LakeHook(self.lake_conn_id).catalog()).list()
        return [{"user": one.user, "privilege": str(one.privilege), "on": one.identifier} for one in grants]
