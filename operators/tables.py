"""The operator that lists the tables of a database, to map a maintenance task over them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators.hooks import LakeHook, airflow_errors

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["ListTablesOperator"]


class ListTablesOperator(BaseOperator):
    """Return the names of a database's tables (`database.table`, sorted), to map a maintenance task over
    them.

    :param database: the database. (templated)
    :param include: shell patterns on the table name, as a list or split by commas; a table must match one of
        them. (templated)
    :param exclude: shell patterns; a table must match none of them. (templated)

    Airflow maps over 1024 values by default: raise `[core] max_map_length` for larger databases.
    """

    template_fields: Sequence[str] = ("database", "include", "exclude", "lake_conn_id")

    def __init__(
        self,
        *,
        database: str,
        include: Sequence[str] | str = ("*",),
        exclude: Sequence[str] | str = (),
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.database = database
        self.include = include
        self.exclude = exclude
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> list[str]:
        with airflow_errors():
            names = LakeHook(self.lake_conn_id).catalog().list_tables(self.database)
        chosen = [name for name in names if self._chosen(name)]
        self.log.info("%d of %d tables of %s", len(chosen), len(names), self.database)
        return [f"{self.database}.{name}" for name in sorted(chosen)]

    def _chosen(self, name: str) -> bool:
        wanted = any(fnmatchcase(name, pattern) for pattern in _patterns(self.include))
        return wanted and not any(fnmatchcase(name, pattern) for pattern in _patterns(self.exclude))


def _patterns(given: Sequence[str] | str) -> list[str]:
    if not isinstance(given, str):
        return list(given)
    return [pattern.strip() for pattern in given.split(",") if pattern.strip()]
