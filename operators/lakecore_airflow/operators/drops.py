"""This module has operators that drop, restore and rename tables, and drop databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.secrets import LakeTask
from lakecore_airflow.tasks.job import flag

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["DropDatabaseOperator", "DropTableOperator", "RenameTableOperator", "RestoreTableOperator"]


class DropTableOperator(LakeTask):
    """Drop a table. Its files are kept until `PurgeQuarantineOperator` deletes them, and
    `RestoreTableOperator` takes the table back: `drop` of the XCom is the id of the drop. A table on hold is
    refused.

    :param table: `database.table`. (templated)
    :param if_exists: a table that does not exist is no error; set it if the task is retried. (templated)
    :param purge: delete the files for good instead of keeping them. (templated)
    """

    template_fields: Sequence[str] = ("table", "if_exists", "purge", "lake_conn_id")

    def __init__(
        self,
        *,
        table: str,
        if_exists: bool | str = False,
        purge: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.if_exists = if_exists
        self.purge = purge
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        with airflow_errors():
            if_exists, purge = flag("if_exists", self.if_exists), flag("purge", self.purge)
            catalog = LakeHook(self.lake_conn_id).catalog()
            record = catalog.drop_table(self.table, if_exists=if_exists, purge=purge)
        if record is None:
            self.log.info("%s does not exist", self.table)
        elif not purge:
            self.log.info("lakecore restore-table %s --drop %s restores it", self.table, record.id)
        drop_id = None if record is None or purge else record.id
        return {"table": self.table, "dropped": record is not None, "drop": drop_id}


class RestoreTableOperator(LakeTask):
    """Restore a table that was dropped and is still kept. A table that exists is an error, so a retry after
    the table was restored fails.

    :param table: `database.table`. (templated)
    :param drop: the id of the drop; None restores the last one. (templated)
    """

    template_fields: Sequence[str] = ("table", "drop", "lake_conn_id")

    def __init__(
        self,
        *,
        table: str,
        drop: str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.drop = drop
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        with airflow_errors():
            restored = LakeHook(self.lake_conn_id).catalog().restore_table(self.table, self.drop or None)
        self.log.info("restored %s at %s", restored.name, restored.path)
        return {"table": restored.name, "path": restored.path}


class RenameTableOperator(LakeTask):
    """Give a table another name, in the same database or another one.

    :param table: `database.table`. (templated)
    :param new_name: the new name, `database.table`. (templated)
    :param if_exists: a table that does not exist is no error; set it if the task is retried. (templated)
    """

    template_fields: Sequence[str] = ("table", "new_name", "if_exists", "lake_conn_id")

    def __init__(
        self,
        *,
        table: str,
        new_name: str,
        if_exists: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.new_name = new_name
        self.if_exists = if_exists
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        with airflow_errors():
            if_exists = flag("if_exists", self.if_exists)
            catalog = LakeHook(self.lake_conn_id).catalog()
            exists = catalog.table_exists(self.table)
            catalog.rename_table(self.table, self.new_name, if_exists=if_exists)
        return {"table": self.table, "new_name": self.new_name, "renamed": exists}


class DropDatabaseOperator(LakeTask):
    """Drop a database. A database that has tables is refused without `cascade`, which drops them as
    `DropTableOperator` does: they can be restored until the quarantine is purged.

    :param database: the name of the database. (templated)
    :param if_exists: a database that does not exist is no error; set it if the task is retried. (templated)
    :param cascade: drop its tables, too. (templated)
    :param purge: with `cascade`, delete the files of the tables for good. (templated)
    """

    template_fields: Sequence[str] = ("database", "if_exists", "cascade", "purge", "lake_conn_id")

    def __init__(
        self,
        *,
        database: str,
        if_exists: bool | str = False,
        cascade: bool | str = False,
        purge: bool | str = False,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.database = database
        self.if_exists = if_exists
        self.cascade = cascade
        self.purge = purge
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        names = ("if_exists", "cascade", "purge")
        with airflow_errors():
            flags = {name: flag(name, getattr(self, name)) for name in names}
            catalog = LakeHook(self.lake_conn_id).catalog()
            exists = self.database in catalog.list_databases()
            catalog.drop_database(self.database, **flags)
        return {"database": self.database, "dropped": exists}
